//! The prompt of a model call: in tokens where the engine takes these, and with room for its answer. Pure.

use crate::{
    agent::{
        room::{Compaction, excess, most_of_prompt},
        state::{CallId, Failure, Limits, ModelError, Opening, State},
        transcript::{GeneratedTurn, Kept},
    },
    backend::EngineFault,
};

use super::blame::model_failure;

/// What a model call is asked with.
pub(super) struct Asked {
    /// The text to continue.
    pub(super) text: String,
    /// The same as tokens, and how many of these were there before.
    pub(super) tokens: Option<(Vec<u32>, Kept)>,
}

impl Asked {
    fn count(&self) -> Option<u32> {
        self.tokens.as_ref().map(|(_, kept)| kept.tokens)
    }
}

/// The prompt of the next step, which goes on from the turn before it.
pub(super) fn next(state: &mut State, step: u32) -> Result<Asked, Failure> {
    fit(state, step, Behind::Turn)
}

/// The prompt of the same step once more.
pub(super) fn again(state: &mut State, step: u32) -> Result<Asked, Failure> {
    fit(state, step, Behind::SamePrompt)
}

/// What a prompt goes on from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// The turn that answered the prompt before.
    Turn,
    /// The prompt before, which nothing has answered.
    SamePrompt,
}

/// Tokens that the present model call may generate, whatever its prompt has.
pub(super) fn max_tokens(state: &State) -> u32 {
    let Limits { max_steps: _, max_tokens_per_step, max_tokens } = state.limits;
    let left = max_tokens.map(|max_tokens| max_tokens.saturating_sub(state.output_tokens()));
    left.map_or(max_tokens_per_step, |left| left.min(max_tokens_per_step))
}

/// Leaves the oldest results out of a prompt that is too long, as far as there are any.
fn fit(state: &mut State, step: u32, behind: Behind) -> Result<Asked, Failure> {
    let mut asked = write(state, step, behind)?;
    let (Some(context), Some(before)) = (state.context, asked.count()) else { return Ok(asked) };
    let most = most_of_prompt(context, max_tokens(state));
    let mut left_out = Vec::new();
    while let Some(excess) = asked.count().and_then(|count| excess(count, most)) {
        let calls = leave_out(state, excess);
        if calls.is_empty() {
            break;
        }
        left_out.extend(calls);
        asked = write(state, step, behind)?;
    }
    let after = asked.count().unwrap_or(before);
    if !left_out.is_empty() {
        state.compactions.push(Compaction { step, left_out, tokens: Some((before, after)) });
    }
    if after >= context { Err(does_not_fit(state, step, (after, context))) } else { Ok(asked) }
}

fn leave_out(state: &mut State, tokens: u32) -> Vec<CallId> {
    let vocabulary = match &state.opening {
        Opening::Chat(talk) => talk.format().vocabulary().cloned(),
        Opening::Transcript(opening) => opening.vocabulary().cloned(),
    };
    vocabulary.map(|vocabulary| state.leave_out_tokens(tokens, &vocabulary)).unwrap_or_default()
}

fn write(state: &mut State, step: u32, behind: Behind) -> Result<Asked, Failure> {
    let failed = |problem: String| Failure::Prompt { step, problem };
    let prompt = state.prompt().map_err(|problem| failed(problem.to_string()))?;
    let State { opening, transcript, steps, .. } = state;
    let vocabulary = match &*opening {
        Opening::Chat(talk) => talk.format().vocabulary(),
        Opening::Transcript(opening) => opening.vocabulary(),
    };
    let tokens = vocabulary.map(|vocabulary| {
        let turn = match (behind, &*opening) {
            (Behind::SamePrompt, _) => GeneratedTurn::default(),
            (Behind::Turn, Opening::Chat(talk)) => talk.generated(steps, transcript.split(&prompt)),
            (Behind::Turn, Opening::Transcript(opening)) => {
                let generated = steps.last().map_or(&[][..], |step| &step.generated);
                opening.generated(generated, transcript.split(&prompt).map(|(_, rest)| rest))
            }
        };
        transcript.go_on(vocabulary.tokenizer(), &prompt, &turn).map_err(|problem| failed(problem.to_string()))
    });
    Ok(Asked { text: prompt.text, tokens: tokens.transpose()? })
}

/// What an engine would say of such a prompt.
fn does_not_fit(state: &State, step: u32, (tokens, context): (u32, u32)) -> Failure {
    let message = format!("the prompt has {tokens} tokens, and the model's context holds {context}");
    let fault = EngineFault::ContextLength;
    model_failure(state, step, ModelError { message, kind: "context_length", is_unavailable: false, fault })
}
