//! Turns of a chat: what is text goes to the client as it comes, calls with mistakes are told to the model once. Pure.

use crate::{
    agent::{
        chat::{ChatTurn, Mistake, Talk},
        dialect::{self, Finished},
        grammar::{MalformedTurn, ToolCall},
        state::{Failure, Opening, Outcome, Phase, Reader, State},
        wishes::ClientCall,
    },
    backend::{FinishReason, Guide, tokens::Passed},
    clock::Timestamp,
};

use super::{Action, ask_for_repair, call_tools, end_model, fail, fail_turn, finish_run, may_repair, stops};

/// What stands between the texts of two turns.
const BETWEEN_TURNS: &str = "\n\n";

/// What is new of a turn.
#[derive(Default)]
pub(super) struct New {
    pub(super) text: Option<String>,
    pub(super) thoughts: Option<String>,
}

/// What the engine holds the turn behind this prompt to.
pub(super) fn guide(state: &State, prompt: &str) -> Option<Guide> {
    let is_again = state.steps.iter().nth_back(1).is_some_and(|step| step.repair.is_some());
    talk(state)?.guide(prompt, is_again)
}

/// Takes the new text of a turn, and ends it where the engine did.
pub(super) fn go_on(
    state: &mut State,
    mut turn: dialect::Turn,
    new: New,
    finish: Option<FinishReason>,
    at: Timestamp,
) -> Vec<Action> {
    let mut actions = Vec::new();
    if let Some(end) = hand_out(state, new, finish, &mut actions, at) {
        return end;
    }
    match finish {
        None => state.phase = Phase::Model(Box::new(Reader::Chat(turn))),
        Some(reason) => {
            let (text, finished) = turn.finish();
            let new = New { text, thoughts: turn.new_thoughts() };
            if let Some(step) = state.steps.last_mut() {
                let kept = step.chat.get_or_insert_default();
                turn.thoughts().clone_into(&mut kept.thoughts);
            }
            if let Some(end) = hand_out(state, new, finish, &mut actions, at) {
                return end;
            }
            let held = stops::rest(state);
            actions.extend(stops::emit(held));
            actions.extend(end(state, finished, reason, at));
        }
    }
    actions
}

/// Hands out what is new. At a stop of the client's it gives all that is left to do.
fn hand_out(
    state: &mut State,
    new: New,
    finish: Option<FinishReason>,
    actions: &mut Vec<Action>,
    at: Timestamp,
) -> Option<Vec<Action>> {
    let New { text, thoughts } = new;
    actions.extend(thoughts.map(|thoughts| think(state, thoughts)));
    match text.and_then(|text| say(state, text))? {
        Passed::Text(text) => {
            actions.extend(stops::emit(text));
            None
        }
        Passed::Stopped(text) => {
            let mut all = std::mem::take(actions);
            all.extend(stops::end(state, text, finish, at));
            Some(all)
        }
    }
}

/// Hands thoughts out. Those of two turns stand apart.
fn think(state: &mut State, thoughts: String) -> Action {
    let has_thoughts = |chat: &ChatTurn| !chat.thoughts.is_empty();
    let (earlier, is_first) = match state.steps.split_last_mut() {
        Some((step, earlier)) => {
            let kept = step.chat.get_or_insert_default();
            let is_first = kept.thoughts.is_empty();
            kept.thoughts.push_str(&thoughts);
            (earlier.iter().filter_map(|step| step.chat.as_ref()).any(has_thoughts), is_first)
        }
        None => (false, false),
    };
    Action::EmitThoughts(if is_first && earlier { format!("{BETWEEN_TURNS}{thoughts}") } else { thoughts })
}

/// Takes text, and passes it on unless it has to wait for the turn's end. What a turn says before its calls is part of
/// the answer: it was read when it came.
fn say(state: &mut State, text: String) -> Option<Passed> {
    let waits = state.guide.is_none() && talk(state).is_some_and(Talk::holds_text);
    let ChatTurn { content, .. } = state.steps.last_mut()?.chat.get_or_insert_default();
    let is_new_turn = content.is_empty() && !state.said.is_empty();
    content.push_str(&text);
    if waits {
        return None;
    }
    Some(pass_on(state, if is_new_turn { format!("{BETWEEN_TURNS}{text}") } else { text }))
}

fn pass_on(state: &mut State, text: String) -> Passed {
    if state.stops.is_none() {
        state.said.push_str(&text);
    }
    stops::pass(state, text)
}

fn end(state: &mut State, finished: Finished, finish: FinishReason, at: Timestamp) -> Vec<Action> {
    let step = end_model(state, at);
    let Finished { calls, has_text, has_thoughts, problem } = finished;
    if let Some(step) = state.steps.last_mut() {
        step.chat.get_or_insert_default().calls = calls.len();
    }
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
            true => answer(state, step, finish, at),
            false => fail_turn(state, step, MalformedTurn::Empty, finish, at),
        };
    }
    let checked = problem.map_or_else(|| talk(state).map(|talk| talk.offer().check(calls)).transpose(), Err);
    match checked {
        Ok(None) => fail_turn(state, step, MalformedTurn::NoAction, finish, at),
        // The agent's own come first. What they give may change what the model asks of the client.
        Ok(Some(calls)) if !calls.own.is_empty() => call_tools(state, calls.own, at),
        Ok(Some(calls)) => hand_back(state, calls.clients, at),
        Err(problem) => repair(state, step, Mistake::of_calls(problem), at),
    }
}

/// Ends the run with an answer that is what the client wants. What waited is handed out now.
fn answer(state: &mut State, step: u32, finish: FinishReason, at: Timestamp) -> Vec<Action> {
    let content = state.steps.last().and_then(|step| step.chat.as_ref()).map(|chat| chat.content.clone());
    let content = content.unwrap_or_default();
    let Some(talk) = talk(state).filter(|talk| talk.holds_text()) else {
        return finish_run(state, Outcome::Answered { text: state.said.clone(), finish }, at);
    };
    match talk.accept(&content, finish) {
        // The parts have left as the engine wrote them.
        Ok(_) if state.guide.is_some() => finish_run(state, Outcome::Answered { text: state.said.clone(), finish }, at),
        Ok(text) => {
            let passed = pass_on(state, text);
            let (Passed::Text(text) | Passed::Stopped(text)) = passed;
            let mut actions: Vec<_> = stops::emit(text + &stops::rest(state)).into_iter().collect();
            actions.extend(finish_run(state, Outcome::Answered { text: state.said.clone(), finish }, at));
            actions
        }
        // What was handed out cannot be written again.
        Err(Mistake { reason, .. }) if state.guide.is_some() => fail(state, Failure::Unmet { step, reason }, at),
        Err(mistake) => repair(state, step, mistake, at),
    }
}

/// Ends the run with calls of the client's tools.
fn hand_back(state: &mut State, calls: Vec<ToolCall>, at: Timestamp) -> Vec<Action> {
    let most = talk(state).map_or(1, |talk| if talk.wishes().is_one_call { 1 } else { calls.len() });
    let call = |ToolCall { name, input }| ClientCall { id: String::new(), name, arguments: input };
    let calls = calls.into_iter().take(most).map(call).collect();
    finish_run(state, Outcome::Called { text: state.said.clone(), calls }, at)
}

fn talk(state: &State) -> Option<&Talk> {
    match &state.opening {
        Opening::Chat(talk) => Some(talk.as_ref()),
        Opening::Transcript(_) => None,
    }
}

/// Tells the model its mistakes, and makes none of the turn's calls.
fn repair(state: &mut State, step: u32, mistake: Mistake, at: Timestamp) -> Vec<Action> {
    let Mistake { told, reason } = mistake;
    if !may_repair(state) {
        return match reason {
            MalformedTurn::NoCall | MalformedTurn::BadFormat { .. } => fail(state, Failure::Unmet { step, reason }, at),
            reason => fail_turn(state, step, reason, FinishReason::Stop, at),
        };
    }
    ask_for_repair(state, told, at)
}
