//! Where the time of a run went, and its latencies. Pure.

use crate::{
    clock::Timestamp,
    telemetry::{Progress, Waiting},
};

use super::state::{Call, State, Step};

/// Where the time of a run went, in microseconds. Model and tools never overlap, so the parts add up to the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// From admission to the end.
    pub total: u64,
    /// Waiting for the model.
    pub model: u64,
    /// Waiting for tools: of calls that ran at the same time, the longest counts.
    pub tools: u64,
    /// The sidecar itself.
    pub other: u64,
}

/// The latencies of a run's model requests: the worst of each kind, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestLatencies {
    /// The longest request; nothing when no request finished.
    pub request: Option<u64>,
    /// The longest wait for the first token of a request; nothing when no token came.
    pub first_token: Option<u64>,
    /// The worst mean gap between tokens; nothing when no request had two pieces.
    pub inter_token: Option<u64>,
}

/// Adds up where the time of a run went until `now` (its end, if it is over).
pub fn timings(state: &State, now: Timestamp) -> Timings {
    let now = state.finished().map_or(now, |(_, at)| at);
    let total = now.micros_since(state.started_at());
    let model = state.steps().iter().map(|step| model_time(step, now)).sum();
    let tools = state.steps().iter().map(|step| tool_time(step, now)).sum();
    Timings { total, model, tools, other: total.saturating_sub(model).saturating_sub(tools) }
}

/// The worst latencies of a run's model requests.
pub fn request_latencies(state: &State) -> RequestLatencies {
    let finished = |step: &Step| step.model_finished_at.map(|at| at.micros_since(step.sent_at));
    let first_token = |step: &Step| step.first_token.map(|first| first.at.micros_since(step.sent_at));
    RequestLatencies {
        request: state.steps().iter().filter_map(finished).max(),
        first_token: state.steps().iter().filter_map(first_token).max(),
        inter_token: state.steps().iter().filter_map(inter_token).max(),
    }
}

/// From admission to the first token of the answer: what the client waits for. Nothing before it has come.
pub fn first_token(state: &State) -> Option<u64> {
    state.answer_began_at.map(|at| at.micros_since(state.started_at()))
}

/// Time the model took in a step.
pub fn model_time(step: &Step, now: Timestamp) -> u64 {
    step.model_finished_at.unwrap_or(now).micros_since(step.sent_at)
}

/// Time from the start of a step's tools to the end of the last one.
pub fn tool_time(step: &Step, now: Timestamp) -> u64 {
    let took = |call: &Call| call.end.as_ref().map_or(now, |end| end.at).micros_since(call.started_at);
    step.calls.iter().map(took).max().unwrap_or(0)
}

/// The mean gap between a request's tokens after those of its first piece.
pub fn inter_token(step: &Step) -> Option<u64> {
    let first = step.first_token?;
    let gaps = step.output_tokens.checked_sub(first.tokens).filter(|gaps| *gaps > 0)?;
    Some(step.model_finished_at?.micros_since(first.at) / u64::from(gaps))
}

/// What is already certain of a run's latencies and what it waits for, so that a slow run shows before it ends.
pub fn progress(state: &State) -> Progress {
    let latencies = request_latencies(state);
    let waiting = match (state.finished(), state.steps().last()) {
        (Some(_), _) | (None, None) => Waiting::Nothing,
        (None, Some(step)) if step.model_finished_at.is_none() => {
            Waiting::Model { since: step.sent_at, has_first_token: step.first_token.is_some() }
        }
        (None, Some(step)) => match step.calls.first() {
            Some(call) => Waiting::Tools { since: call.started_at },
            None => Waiting::Nothing,
        },
    };
    let finished = state.steps().iter().filter_map(|step| step.model_finished_at.zip(Some(step)));
    let earlier = state.steps().split_last().map_or(&[][..], |(_, earlier)| earlier);
    Progress {
        model_micros: finished.map(|(at, step)| model_time(step, at)).sum(),
        tool_micros: earlier.iter().map(|step| tool_time(step, state.started_at())).sum(),
        worst_request_micros: latencies.request.unwrap_or(0),
        first_token_micros: first_token(state),
        worst_request_first_token_micros: latencies.first_token.unwrap_or(0),
        waiting,
    }
}
