//! Turns of a chat: what is text goes to the client as it comes, calls with mistakes are told to the model once. Pure.

use crate::{
    agent::{
        chat::ChatTurn,
        dialect::{self, Finished},
        grammar::{MalformedTurn, ToolCall},
        state::{Opening, Outcome, Phase, Reader, State},
    },
    backend::FinishReason,
    clock::Timestamp,
};

use super::{Action, call_model, call_tools, end_model, fail_turn, finish_run};

/// What stands between the texts of two turns.
const BETWEEN_TURNS: &str = "\n\n";

/// Takes the new text of a turn, and ends it where the engine did.
pub(super) fn go_on(
    state: &mut State,
    mut turn: dialect::Turn,
    new: Option<String>,
    finish: Option<FinishReason>,
    at: Timestamp,
) -> Vec<Action> {
    let mut actions: Vec<_> = new.and_then(|text| say(state, text)).into_iter().collect();
    match finish {
        None => state.phase = Phase::Model(Box::new(Reader::Chat(turn))),
        Some(finish) => {
            let (rest, finished) = turn.finish();
            actions.extend(rest.and_then(|text| say(state, text)));
            if let Some(step) = state.steps.last_mut() {
                let kept = step.chat.get_or_insert_default();
                turn.thoughts().clone_into(&mut kept.thoughts);
            }
            actions.extend(end(state, finished, finish, at));
        }
    }
    actions
}

/// Hands text out. What a turn says before its calls is part of the answer: it was read when it came.
fn say(state: &mut State, text: String) -> Option<Action> {
    let ChatTurn { content, .. } = state.steps.last_mut()?.chat.get_or_insert_default();
    let is_new_turn = content.is_empty() && !state.said.is_empty();
    content.push_str(&text);
    let text = if is_new_turn { format!("{BETWEEN_TURNS}{text}") } else { text };
    state.said.push_str(&text);
    Some(Action::EmitAnswer(text))
}

fn end(state: &mut State, finished: Finished, finish: FinishReason, at: Timestamp) -> Vec<Action> {
    let step = end_model(state, at);
    let Finished { calls, has_text, has_thoughts, problem } = finished;
    let wants_tools = !calls.is_empty() || problem.is_some();
    match finish {
        FinishReason::Length if wants_tools => return fail_turn(state, step, MalformedTurn::CutOff, finish, at),
        FinishReason::Length if !has_text && has_thoughts => {
            return fail_turn(state, step, MalformedTurn::ThoughtsCutOff, finish, at);
        }
        FinishReason::Length | FinishReason::Stop => {}
    }
    if !wants_tools {
        return match has_text {
            true => finish_run(state, Outcome::Answered { text: state.said.clone(), finish }, at),
            false => fail_turn(state, step, MalformedTurn::Empty, finish, at),
        };
    }
    match problem.map_or_else(|| check(state, calls), Err) {
        Ok(calls) => call_tools(state, calls, at),
        Err(problem) => repair(state, step, problem, at),
    }
}

fn check(state: &State, calls: Vec<dialect::WrittenCall>) -> Result<Vec<ToolCall>, String> {
    match &state.opening {
        Opening::Chat(talk) => talk.format().check(calls),
        Opening::Transcript(_) => Ok(Vec::new()),
    }
}

/// Tells the model its mistakes, and makes none of the turn's calls. A second turn with mistakes in a row ends the run.
fn repair(state: &mut State, step: u32, problem: String, at: Timestamp) -> Vec<Action> {
    let was_told = |chat: &ChatTurn| chat.repair.is_some();
    let before = state.steps.len().checked_sub(2).and_then(|index| state.steps.get(index));
    let is_second = before.and_then(|step| step.chat.as_ref()).is_some_and(was_told);
    if is_second || step >= state.limits.max_steps {
        return fail_turn(state, step, MalformedTurn::BadCalls { problem }, FinishReason::Stop, at);
    }
    if let Some(step) = state.steps.last_mut() {
        let told = format!("Your call was not made: {problem}. Correct it, or answer without a tool.");
        step.chat.get_or_insert_default().repair = Some(told);
    }
    call_model(state, at)
}
