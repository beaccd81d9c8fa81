//! The agent loop as a function of events. Pure: what happens next is decided here, and done by the driver.

mod blame;
mod chat;
mod prompt;
mod stops;

use crate::{
    backend::{EngineFault, FinishReason, Piece, tokens::Passed},
    clock::Timestamp,
};

use super::{
    dialect,
    grammar::{self, IsCutOff, MalformedTurn, Observation, ToolCall, Turn, TurnReader},
    room::{Compaction, MAX_RESULT_BYTES},
    state::{
        Call, CallEnd, CallId, CallResult, Failure, FirstToken, Limits, ModelError, Opening, Outcome, Phase, Reader,
        State, Step,
    },
};
use blame::model_failure;
use prompt::Asked;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
}

/// What happened to a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The run may begin.
    Admitted,
    /// The model wrote something.
    Piece(Piece),
    /// The model call failed.
    ModelFailed(ModelError),
    /// A tool answered.
    ToolFinished {
        /// Which call.
        call: CallId,
        /// What it gave.
        observation: Observation,
    },
    /// The run's time is up.
    DeadlinePassed {
        /// The time it had.
        milliseconds: u64,
    },
    /// The pod is shutting down and cannot wait any longer.
    ShutDown,
    /// The client wants no answer any more.
    Cancelled,
}

/// Something to be done for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a generation.
    CallModel {
        /// The step, from one.
        step: u32,
        /// The text to continue.
        prompt: String,
        /// The same as tokens, where the engine takes these.
        tokens: Option<Vec<u32>>,
        /// The most tokens.
        max_tokens: u32,
    },
    /// Stop the generation.
    CancelModel,
    /// Start a tool. Calls of one turn are started together.
    CallTool {
        /// Names the call.
        id: CallId,
        /// The call.
        call: ToolCall,
    },
    /// Stop a tool.
    CancelTool(CallId),
    /// Hand the next part of the model's thoughts to the client.
    EmitThoughts(String),
    /// Hand the next part of the answer to the client.
    EmitAnswer(String),
    /// The run is over.
    Finish,
}

/// Advances a run by one event.
///
/// # Invariants
/// - There are at most `max_steps` steps. A step asks the model again only after results were left out for it.
/// - Every `CallTool` is followed by its `ToolFinished` or one `CancelTool`.
/// - After `Finish` no event has an effect.
/// - The order in which the tools of a turn finish does not change the transcript.
/// - Events that do not belong to the current phase (a late piece, a second answer of a tool) have no effect.
pub fn step(state: &mut State, event: Event) -> Vec<Action> {
    let Event { at, kind } = event;
    let actions = match (&mut state.phase, kind) {
        (Phase::New, EventKind::Admitted) => {
            state.started_at = at;
            call_model(state, at)
        }
        (phase @ Phase::Model(_), EventKind::Piece(piece)) => match std::mem::replace(phase, Phase::Tools) {
            Phase::Model(reader) => take_piece(state, reader, piece, at),
            Phase::New | Phase::Tools | Phase::Finished { .. } => Vec::new(),
        },
        (Phase::Model(_), EventKind::ModelFailed(error)) => fail_model(state, error, at),
        (Phase::Tools, EventKind::ToolFinished { call, observation }) => take_observation(state, call, observation, at),
        (Phase::New | Phase::Model(_) | Phase::Tools, EventKind::DeadlinePassed { milliseconds }) => {
            stop(state, Failure::Timeout { milliseconds }, at)
        }
        (Phase::New | Phase::Model(_) | Phase::Tools, EventKind::ShutDown) => stop(state, Failure::CutByShutdown, at),
        (Phase::New | Phase::Model(_) | Phase::Tools, EventKind::Cancelled) => stop(state, Failure::Cancelled, at),
        (
            Phase::New | Phase::Model(_) | Phase::Tools | Phase::Finished { .. },
            EventKind::Admitted
            | EventKind::Piece(_)
            | EventKind::ModelFailed(_)
            | EventKind::ToolFinished { .. }
            | EventKind::DeadlinePassed { .. }
            | EventKind::ShutDown
            | EventKind::Cancelled,
        ) => Vec::new(),
    };
    note_answer(state, &actions, at);
    actions
}

/// Notes when the answer began: with its first part, or with the end of a run whose answer came in one piece. Of a turn
/// that the engine sent as one, nobody knows.
fn note_answer(state: &mut State, actions: &[Action], at: Timestamp) {
    let is_part = |action: &Action| matches!(action, Action::EmitAnswer(text) if !text.is_empty());
    let is_answered =
        matches!(&state.phase, Phase::Finished { outcome: Outcome::Answered { .. } | Outcome::Called { .. }, .. });
    let has_first_token = state.steps.last().is_some_and(|step| step.first_token.is_some());
    if state.answer_began_at.is_none() && has_first_token && (is_answered || actions.iter().any(is_part)) {
        state.answer_began_at = Some(at);
    }
}

fn call_model(state: &mut State, at: Timestamp) -> Vec<Action> {
    let number = u32::try_from(state.steps.len()).unwrap_or(u32::MAX).saturating_add(1);
    let Limits { max_steps, max_tokens_per_step: _, max_tokens } = state.limits;
    if number > max_steps {
        return fail(state, Failure::MaxSteps { max_steps }, at);
    }
    if let Some(max_tokens) = max_tokens.filter(|max_tokens| state.output_tokens() >= *max_tokens) {
        return fail(state, Failure::TokenBudget { max_tokens }, at);
    }
    // Before the step exists: its prompt is what came before it.
    match prompt::next(state, number) {
        Ok(asked) => {
            state.steps.push(Step::new(number, at));
            vec![ask_model(state, number, asked)]
        }
        Err(failure) => fail(state, failure, at),
    }
}

fn ask_model(state: &mut State, step: u32, Asked { text: prompt, tokens }: Asked) -> Action {
    let reader = match &state.opening {
        Opening::Transcript(_) => Reader::Transcript(TurnReader::default()),
        Opening::Chat(talk) => Reader::Chat(dialect::Turn::new(talk.format().dialect(), &prompt, talk.offer().names())),
    };
    state.guide = chat::guide(state, &prompt);
    state.phase = Phase::Model(Box::new(reader));
    let (tokens, kept) = tokens.unzip();
    let room = state.context.zip(kept).map(|(context, kept)| context.saturating_sub(kept.tokens));
    let max_tokens = prompt::max_tokens(state).min(room.unwrap_or(u32::MAX));
    if let Some(step) = state.steps.last_mut() {
        step.prompt = kept;
    }
    tokens.iter().for_each(|tokens| state.transcript.note_sent(tokens));
    Action::CallModel { step, prompt, tokens, max_tokens }
}

/// Ends the run with its model call, unless there is less to ask with.
fn fail_model(state: &mut State, error: ModelError, at: Timestamp) -> Vec<Action> {
    if let Some(again) = ask_with_less(state, &error) {
        return vec![again];
    }
    let step = end_model(state, at);
    let failure = model_failure(state, step, error);
    fail(state, failure, at)
}

/// The step's model call once more, where tool results made its prompt too long: without the oldest half of them.
fn ask_with_less(state: &mut State, error: &ModelError) -> Option<Action> {
    let step = state.steps.last().filter(|step| step.first_token.is_none())?.number;
    let is_ours = error.fault == EngineFault::ContextLength && step > 1;
    if !is_ours {
        return None;
    }
    let left_out = state.leave_out_until(state.result_bytes() / 2);
    if left_out.is_empty() {
        return None;
    }
    state.compactions.push(Compaction { step, left_out, tokens: None });
    let asked = prompt::again(state, step).ok()?;
    Some(ask_model(state, step, asked))
}

fn take_piece(state: &mut State, mut reader: Box<Reader>, piece: Piece, at: Timestamp) -> Vec<Action> {
    let Piece { text, prompt_tokens, cached_tokens, output_tokens, tokens, logprobs, is_whole, finish } = piece;
    let (new, thoughts, thought_bytes) = match reader.as_mut() {
        Reader::Transcript(reader) => (reader.push(&text), None, 0),
        Reader::Chat(turn) => {
            let before = turn.thought_bytes();
            (turn.push(&text), turn.new_thoughts(), turn.thought_bytes() - before)
        }
    };
    if let Some(step) = state.steps.last_mut() {
        step.prompt_tokens = prompt_tokens.or(step.prompt_tokens);
        step.cached_tokens = cached_tokens.or(step.cached_tokens);
        step.logprobs.extend(logprobs);
        step.generated.extend(tokens);
        if is_whole {
            step.reasoning_tokens = share(output_tokens, thought_bytes, text.len());
        } else if thought_bytes > 0 && new.is_none() {
            step.reasoning_tokens += output_tokens.saturating_sub(step.output_tokens);
        }
        step.output_tokens = step.output_tokens.max(output_tokens);
        if step.first_token.is_none() && !is_whole && (output_tokens > 0 || !text.is_empty()) {
            step.first_token = Some(FirstToken { at, tokens: output_tokens });
        }
        match reader.as_ref() {
            // It only grows.
            Reader::Transcript(reader) => step.text.push_str(reader.text().get(step.text.len()..).unwrap_or_default()),
            Reader::Chat(_) => step.text.push_str(&text),
        }
    }
    match *reader {
        Reader::Transcript(reader) => go_on_with_transcript(state, reader, new, finish, at),
        Reader::Chat(turn) => chat::go_on(state, turn, chat::New { text: new, thoughts }, finish, at),
    }
}

/// As many of all tokens as a part has of the text's bytes: nobody says which tokens a part of a whole answer has.
fn share(tokens: u32, part: usize, all: usize) -> u32 {
    let (part, all) = (part.min(all) as u64, all.max(1) as u64);
    u32::try_from((u64::from(tokens) * part).div_ceil(all)).unwrap_or(tokens)
}

fn go_on_with_transcript(
    state: &mut State,
    reader: TurnReader,
    answer: Option<String>,
    finish: Option<FinishReason>,
    at: Timestamp,
) -> Vec<Action> {
    let mut actions = Vec::new();
    match answer.map(|text| stops::pass(state, text)) {
        None => {}
        Some(Passed::Text(text)) => actions.extend(stops::emit(text)),
        Some(Passed::Stopped(text)) => return stops::end(state, text, finish, at),
    }
    // An engine without stop words writes on; what follows the empty line is of no use.
    let finish = match (finish, reader.is_ended()) {
        (_, true) => {
            actions.extend(finish.is_none().then_some(Action::CancelModel));
            Some(FinishReason::Stop)
        }
        (finish, false) => finish,
    };
    match finish {
        None => state.phase = Phase::Model(Box::new(Reader::Transcript(reader))),
        Some(finish) => {
            let held = stops::rest(state);
            actions.extend(stops::emit(held));
            actions.extend(end_turn(state, &reader, finish, at));
        }
    }
    actions
}

fn end_turn(state: &mut State, reader: &TurnReader, finish: FinishReason, at: Timestamp) -> Vec<Action> {
    let step = end_model(state, at);
    let is_cut_off = match finish {
        FinishReason::Length => IsCutOff::Yes,
        FinishReason::Stop => IsCutOff::No,
    };
    match reader.finish(is_cut_off) {
        Ok(Turn::Answer(text)) => finish_run(state, Outcome::Answered { text, finish }, at),
        Ok(Turn::Calls(calls)) => call_tools(state, calls, at),
        // What the limit on tokens cut is no mistake of the model's.
        Err(reason) => match grammar::repair(&reason).filter(|_| finish == FinishReason::Stop && may_repair(state)) {
            Some(repair) => ask_for_repair(state, repair, at),
            None => fail_turn(state, step, reason, finish, at),
        },
    }
}

/// Whether the model may correct its turn: not twice in a row, and not without a step to do it in.
fn may_repair(state: &State) -> bool {
    let before = state.steps.iter().nth_back(1);
    state.steps.len() < state.limits.max_steps as usize && before.is_none_or(|step| step.repair.is_none())
}

/// Asks the model to correct its turn. None of the turn's calls is made.
fn ask_for_repair(state: &mut State, repair: String, at: Timestamp) -> Vec<Action> {
    if let Some(step) = state.steps.last_mut() {
        step.repair = Some(repair);
    }
    call_model(state, at)
}

/// Ends the run with a turn that cannot be read, or with the client's limit on tokens where that cut it.
fn fail_turn(state: &mut State, step: u32, reason: MalformedTurn, finish: FinishReason, at: Timestamp) -> Vec<Action> {
    match state.limits.max_tokens {
        Some(max_tokens) if finish == FinishReason::Length && state.output_tokens() >= max_tokens => {
            fail(state, Failure::TokenBudget { max_tokens }, at)
        }
        Some(_) | None => fail(state, Failure::MalformedOutput { step, reason }, at),
    }
}

fn call_tools(state: &mut State, calls: Vec<ToolCall>, at: Timestamp) -> Vec<Action> {
    let max_steps = state.limits.max_steps;
    let Some(step) = state.steps.last_mut() else { return Vec::new() };
    if step.number >= max_steps {
        // No model call is left that could read the results, so the tools are not bothered.
        return fail(state, Failure::MaxSteps { max_steps }, at);
    }
    let started = |call: &ToolCall| Call { call: call.clone(), started_at: at, end: None, left_out: None };
    step.calls = calls.iter().map(started).collect();
    let number = step.number;
    state.phase = Phase::Tools;
    let action = |(index, call)| Action::CallTool { id: CallId { step: number, index }, call };
    calls.into_iter().enumerate().map(action).collect()
}

fn take_observation(state: &mut State, id: CallId, observation: Observation, at: Timestamp) -> Vec<Action> {
    let Some(step) = state.steps.last_mut().filter(|step| step.number == id.step) else { return Vec::new() };
    let Some(call) = step.calls.get_mut(id.index).filter(|call| call.end.is_none()) else { return Vec::new() };
    call.end = Some(CallEnd { at, result: CallResult::Answered(observation) });
    if step.running().next().is_some() {
        return Vec::new();
    }
    let left_out = state.leave_out_until(MAX_RESULT_BYTES);
    if !left_out.is_empty() {
        // For the prompt of the next step.
        state.compactions.push(Compaction { step: id.step.saturating_add(1), left_out, tokens: None });
    }
    call_model(state, at)
}

/// Ends a run from outside, cancelling whatever it waits for.
fn stop(state: &mut State, failure: Failure, at: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    if matches!(state.phase, Phase::Model(_)) {
        end_model(state, at);
        actions.push(Action::CancelModel);
    }
    if let Some(step) = state.steps.last_mut() {
        actions.extend(step.running().map(Action::CancelTool).collect::<Vec<_>>());
        for call in step.calls.iter_mut().filter(|call| call.end.is_none()) {
            call.end = Some(CallEnd { at, result: CallResult::Cancelled });
        }
    }
    actions.extend(fail(state, failure, at));
    actions
}

/// Notes the end of the present model call and returns its step.
fn end_model(state: &mut State, at: Timestamp) -> u32 {
    let Some(step) = state.steps.last_mut() else { return 0 };
    step.model_finished_at = Some(at);
    step.number
}

fn fail(state: &mut State, failure: Failure, at: Timestamp) -> Vec<Action> {
    finish_run(state, Outcome::Failed(failure), at)
}

fn finish_run(state: &mut State, outcome: Outcome, at: Timestamp) -> Vec<Action> {
    state.phase = Phase::Finished { outcome, at };
    // No prompt follows, and runs are kept for a while.
    state.transcript.clear();
    state.steps.iter_mut().for_each(|step| step.generated = Vec::new());
    vec![Action::Finish]
}

#[cfg(test)]
mod tests;
