//! Whose fault a failed model call is. Pure.
//!
//! What the client did wrong is answered with 400, and no verdict and no budget has it. So a refusal counts as the
//! client's only where the server names what the client sent. It has to come in the first step. Later ones have what
//! the agent wrote and what its tools gave, and a server that took the client's part once takes it again.
//!
//! - A message is the client's, unless it is the one with the agent's own instructions.
//! - A tool is the client's if its number or its name is that of one. A server that names none means the client's where
//!   the agent has no tools of its own.
//! - How tokens are chosen is the client's as far as the request said so.
//! - What a filter of contents stops is the client's. One that stops the agent's instructions stops every run.
//! - Whatever else is refused is the agent's.
//!
//! A prompt beyond the context is the client's in the first step, and later where its conversation left no room.

use crate::{
    agent::{
        chat::Talk,
        state::{Failure, ModelError, Opening, State},
    },
    backend::{EngineFault, RequestPart},
};

/// The end of a run whose model call failed.
pub(super) fn model_failure(state: &State, step: u32, error: ModelError) -> Failure {
    let is_first = step == 1;
    match error.fault {
        // The first prompt is the client's conversation; a later one may be too long by what the agent has added.
        EngineFault::ContextLength if is_first || state.is_filled_by_client() => Failure::ContextLength { error },
        EngineFault::Wish => Failure::Refused { error },
        EngineFault::Request(part) if is_first && is_clients(state, part, &error.message) => Failure::Refused { error },
        EngineFault::ContextLength | EngineFault::Request(_) | EngineFault::Engine => Failure::Model { step, error },
    }
}

fn is_clients(state: &State, part: RequestPart, words: &str) -> bool {
    let talk = match &state.opening {
        Opening::Chat(talk) => Some(talk.as_ref()),
        Opening::Transcript(_) => None,
    };
    let has_client = |has: &dyn Fn(&Talk) -> bool| talk.is_some_and(has);
    match part {
        RequestPart::Contents | RequestPart::Messages(None) => true,
        RequestPart::Messages(Some(number)) => !has_client(&|talk| talk.is_own_message(number)),
        RequestPart::Tools(Some(number)) => has_client(&|talk| talk.offer().is_clients(number)),
        RequestPart::Tools(None) => {
            has_client(&|talk| talk.offer().is_of_client_alone() || names_clients_tool(talk, words))
        }
        RequestPart::Sampling(field) => field.is_in(state.sent.sampling),
        RequestPart::Unnamed => has_client(&|talk| names_clients_tool(talk, words)),
    }
}

/// Whether a server's words name a tool of the client's, as OpenAI's and DeepSeek's do: "Invalid schema for function
/// 'weather': ..."
fn names_clients_tool(talk: &Talk, words: &str) -> bool {
    let is_named = |name: &str| {
        ["function", "tool"]
            .iter()
            .any(|kind| ['\'', '"', '`'].iter().any(|quote| words.contains(&format!("{kind} {quote}{name}{quote}"))))
    };
    talk.wishes().offered().any(|tool| is_named(&tool.name))
}
