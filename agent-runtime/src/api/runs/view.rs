//! What a client sees of a run. Pure.

use serde::Serialize;

use crate::{
    agent::{
        CallId, Failure, Observation, Outcome, State,
        room::Compaction,
        state::{Call, CallResult, Step},
        timings,
        transcript::Kept,
    },
    backend::FinishReason,
    clock::Timestamp,
};

use super::super::error::{ApiError, ErrorBody};

/// Names the run in everything that is shown of it.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    pub(super) id: String,
    pub(super) agent: String,
    pub(super) revision: String,
}

/// A finished run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunView {
    id: String,
    object: &'static str,
    agent: String,
    revision: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorBody>,
    steps: Vec<StepView>,
    /// What was left out of prompts to make room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compactions: Vec<CompactionView>,
    usage: UsageView,
    timings: TimingsView,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StepView {
    step: u32,
    /// What the model wrote.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptView>,
    output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_first_token_microseconds: Option<u64>,
    model_microseconds: u64,
    tool_calls: Vec<CallView>,
}

/// The prompt of a step, where it was put as tokens.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PromptView {
    tokens: u32,
    /// Those at its beginning that the model has read and written before.
    kept_tokens: u32,
    /// Whether something that the model has read or written is not among them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rewritten: bool,
}

/// Results that were left out of a step's prompt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CompactionView {
    step: u32,
    left_out: Vec<LeftOutView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_before: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u32>,
}

/// A call, by its step and its place in `toolCalls` of that.
#[derive(Debug, Serialize)]
struct LeftOutView {
    step: u32,
    index: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CallView {
    name: String,
    input: String,
    /// `ok`, `error` or `cancelled`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    observation: Option<String>,
    /// Whether the model no longer saw the result in its last call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    left_out: bool,
    microseconds: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageView {
    model_calls: usize,
    tool_calls: usize,
    tool_errors: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u32>,
    output_tokens: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TimingsView {
    total_microseconds: u64,
    /// Until the first token of the answer; absent without an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_first_token_microseconds: Option<u64>,
    model_microseconds: u64,
    tool_microseconds: u64,
    other_microseconds: u64,
}

impl Viewer {
    /// A finished run.
    pub(super) fn run(&self, state: &State) -> RunView {
        let end = state.finished().map_or(state.started_at(), |(_, at)| at);
        let (status, answer, finish_reason, error) = match state.finished() {
            Some((Outcome::Answered { text, finish }, _)) => {
                ("succeeded", Some(text.clone()), Some(name_of(*finish)), None)
            }
            Some((Outcome::Called { text, .. }, _)) => ("succeeded", Some(text.clone()), Some("tool_calls"), None),
            Some((Outcome::Failed(Failure::Cancelled), _)) => ("cancelled", None, None, None),
            Some((Outcome::Failed(failure), _)) => {
                ("failed", None, None, Some(ApiError::of_run(failure, state.side_effects()).body))
            }
            None => ("running", None, None, None),
        };
        let times = timings::timings(state, end);
        RunView {
            id: self.id.clone(),
            object: "agent.run",
            agent: self.agent.clone(),
            revision: self.revision.clone(),
            status,
            answer,
            finish_reason,
            error,
            steps: state.steps().iter().map(|step| step_view(step, end)).collect(),
            compactions: state.compactions().iter().map(compaction_view).collect(),
            usage: usage(state),
            timings: TimingsView {
                total_microseconds: times.total,
                time_to_first_token_microseconds: timings::first_token(state),
                model_microseconds: times.model,
                tool_microseconds: times.tools,
                other_microseconds: times.other,
            },
        }
    }
}

fn step_view(step: &Step, end: Timestamp) -> StepView {
    StepView {
        step: step.number,
        text: step.text.clone(),
        prompt: step.prompt.map(|Kept { tokens, kept, is_continued }| PromptView {
            tokens,
            kept_tokens: kept,
            rewritten: !is_continued,
        }),
        output_tokens: step.output_tokens,
        time_to_first_token_microseconds: step.first_token.map(|first| first.at.micros_since(step.sent_at)),
        model_microseconds: timings::model_time(step, end),
        tool_calls: step.calls.iter().map(|call| call_view(call, end)).collect(),
    }
}

/// What was left out of a step's prompt.
pub(super) fn compaction_view(Compaction { step, left_out, tokens }: &Compaction) -> CompactionView {
    let (before, after) = tokens.unzip();
    CompactionView {
        step: *step,
        left_out: left_out.iter().map(|CallId { step, index }| LeftOutView { step: *step, index: *index }).collect(),
        prompt_tokens_before: before,
        prompt_tokens: after,
    }
}

fn call_view(call: &Call, end: Timestamp) -> CallView {
    let status = match call.end.as_ref().map(|end| &end.result) {
        Some(CallResult::Answered(Observation::Result(_))) => "ok",
        Some(CallResult::Answered(Observation::Error { .. })) => "error",
        Some(CallResult::Cancelled) | None => "cancelled",
    };
    let observation = call_result(call);
    let end = call.end.as_ref().map_or(end, |end| end.at);
    CallView {
        name: call.call.name.clone(),
        input: call.call.input.clone(),
        status,
        observation,
        left_out: call.left_out.is_some(),
        microseconds: end.micros_since(call.started_at),
    }
}

/// What a call gave.
pub(super) fn call_result(call: &Call) -> Option<String> {
    match call.end.as_ref().map(|end| &end.result) {
        Some(CallResult::Answered(observation)) => Some(observation.to_string()),
        Some(CallResult::Cancelled) | None => None,
    }
}

fn usage(state: &State) -> UsageView {
    let calls = || state.steps().iter().flat_map(|step| &step.calls);
    let failed = |call: &&Call| {
        let result = call.end.as_ref().map(|end| &end.result);
        matches!(result, Some(CallResult::Answered(Observation::Error { .. })))
    };
    UsageView {
        model_calls: state.steps().len(),
        tool_calls: calls().count(),
        tool_errors: calls().filter(failed).count(),
        input_tokens: state.prompt_tokens(),
        output_tokens: state.output_tokens(),
    }
}

fn name_of(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}
