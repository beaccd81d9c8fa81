//! Ends an answer where the client wants it to end. Pure.

use crate::{
    agent::state::{Outcome, State},
    backend::{FinishReason, tokens::Passed},
    clock::Timestamp,
};

use super::{Action, end_model, finish_run};

/// Passes a part of the answer on, up to a stop.
pub(super) fn pass(state: &mut State, text: String) -> Passed {
    let Some(stops) = &mut state.stops else { return Passed::Text(text) };
    let passed = stops.push(&text);
    let (Passed::Text(text) | Passed::Stopped(text)) = &passed;
    state.said.push_str(text);
    passed
}

/// What may have become a stop and did not.
pub(super) fn rest(state: &mut State) -> String {
    let rest = state.stops.as_mut().map(|stops| stops.rest()).unwrap_or_default();
    state.said.push_str(&rest);
    rest
}

/// Hands text out, if there is any.
pub(super) fn emit(text: String) -> Option<Action> {
    (!text.is_empty()).then_some(Action::EmitAnswer(text))
}

/// Ends the run at a stop, with the text before it.
pub(super) fn end(state: &mut State, text: String, finish: Option<FinishReason>, at: Timestamp) -> Vec<Action> {
    let mut actions: Vec<_> = emit(text).into_iter().collect();
    actions.extend(finish.is_none().then_some(Action::CancelModel));
    end_model(state, at);
    let outcome = Outcome::Answered { text: state.said.clone(), finish: FinishReason::Stop };
    actions.extend(finish_run(state, outcome, at));
    actions
}
