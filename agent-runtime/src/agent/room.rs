//! Makes room in a run's transcript: what tools gave long ago is left out first. Pure.
//!
//! What the model writes is bounded by the limits on steps and tokens, what tools give by [`MAX_RESULT_BYTES`]. Where
//! the prompt's tokens are counted and the model's context is known, the prompt leaves room for its answer. The record
//! of the run says what was left out, and when.

use super::{
    chat::Vocabulary,
    grammar::Observation,
    state::{Call, CallEnd, CallId, CallResult, Opening, State},
};

/// Bytes of all that tools gave in one run: more fits no model's context.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// A prompt leaves a quarter of the context to its answer, or what the answer may have if that is less.
const PART_FOR_ANSWER: u32 = 4;
/// Where a prompt is too long, an eighth of what it may have is freed beyond the need. The engine's cache is lost from
/// the first change on, so the next steps should need none.
const PART_TO_SPARE: u32 = 8;

/// What was left out of a prompt to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The step whose prompt it was.
    pub step: u32,
    /// The calls whose results were left out, the oldest first.
    pub left_out: Vec<CallId>,
    /// Tokens of the prompt before and after, where they are counted.
    pub tokens: Option<(u32, u32)>,
}

/// The most tokens of a prompt with an answer of so many, where results can be left out of it.
pub fn most_of_prompt(context: u32, max_tokens: u32) -> u32 {
    context.saturating_sub(max_tokens.min(context / PART_FOR_ANSWER))
}

/// How many tokens to free in a prompt of so many; nothing if it has no more than it may.
pub fn excess(tokens: u32, most: u32) -> Option<u32> {
    (tokens > most).then(|| tokens - most + most / PART_TO_SPARE)
}

impl State {
    /// Characters of the first prompt.
    pub fn opening_characters(&self) -> u64 {
        let prompt = match &self.opening {
            Opening::Transcript(opening) => opening.text(),
            Opening::Chat(talk) => talk.first(),
        };
        characters(prompt)
    }

    /// Whether the client sent so much that nothing of the agent's has room behind it. The first prompt alone has more
    /// than one may that leaves room for an answer, and most of it is the client's.
    pub(super) fn is_filled_by_client(&self) -> bool {
        let first = self.steps.first();
        let counted = first.and_then(|step| step.prompt.map(|kept| kept.tokens).or(step.prompt_tokens));
        let (Some(context), Some(tokens)) = (self.context, counted) else { return false };
        let is_most = self.sent.characters > self.opening_characters() / 2;
        is_most && tokens > most_of_prompt(context, self.limits.max_tokens_per_step)
    }

    /// Bytes of what tools gave and the transcript still has.
    pub(super) fn result_bytes(&self) -> usize {
        self.steps.iter().flat_map(|step| &step.calls).map(|call| answer(call).map_or(0, str::len)).sum()
    }

    /// Leaves the oldest results out until no more than so many bytes are left. Gives the calls.
    pub(super) fn leave_out_until(&mut self, bytes: usize) -> Vec<CallId> {
        let excess = self.result_bytes().saturating_sub(bytes);
        self.leave_out_of(excess, str::len)
    }

    /// Leaves the oldest results out until so many tokens are freed. Gives the calls.
    pub(super) fn leave_out_tokens(&mut self, tokens: u32, vocabulary: &Vocabulary) -> Vec<CallId> {
        let count = |text: &str| usize::try_from(vocabulary.count(text)).unwrap_or(usize::MAX);
        self.leave_out_of(usize::try_from(tokens).unwrap_or(usize::MAX), count)
    }

    fn leave_out_of(&mut self, mut excess: usize, size: impl Fn(&str) -> usize) -> Vec<CallId> {
        let mut left_out = Vec::new();
        for step in &mut self.steps {
            for (index, call) in step.calls.iter_mut().enumerate() {
                if excess == 0 {
                    return left_out;
                }
                let freed = leave_out(call, &size);
                excess = excess.saturating_sub(freed);
                left_out.extend((freed > 0).then_some(CallId { step: step.number, index }));
            }
        }
        left_out
    }
}

impl Call {
    /// Characters of what it gave, with those that were left out since; none while it runs, or of one that was
    /// cancelled.
    pub fn observed_characters(&self) -> u64 {
        self.left_out.unwrap_or_else(|| answer(self).map_or(0, characters))
    }
}

fn characters(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

fn answer(call: &Call) -> Option<&str> {
    match &call.end {
        Some(CallEnd { result: CallResult::Answered(observation), .. }) => Some(match observation {
            Observation::Result(text) | Observation::Error { message: text, .. } => text,
        }),
        Some(CallEnd { result: CallResult::Cancelled, .. }) | None => None,
    }
}

/// Says in place of a result how long it was, where that is shorter. Returns what this frees.
fn leave_out(call: &mut Call, size: impl Fn(&str) -> usize) -> usize {
    if call.left_out.is_some() {
        return 0;
    }
    let Some(text) = answer(call) else { return 0 };
    let all = characters(text);
    let note = format!("(left out: {all} characters)");
    let freed = size(text).saturating_sub(size(&note));
    if freed > 0 && note.len() < text.len() {
        replace(call, note);
        call.left_out = Some(all);
        return freed;
    }
    0
}

fn replace(call: &mut Call, note: String) {
    if let Some(CallEnd { result: CallResult::Answered(observation), .. }) = &mut call.end {
        match observation {
            Observation::Result(text) | Observation::Error { message: text, .. } => *text = note,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::all_that_it_may_have(1_000, 100, 900)]
    #[case::a_quarter_at_most(1_000, 900, 750)]
    #[case::of_nothing(0, 100, 0)]
    fn a_prompt_leaves_room_for_its_answer(#[case] context: u32, #[case] max_tokens: u32, #[case] most: u32) {
        assert_eq!(most_of_prompt(context, max_tokens), most);
    }

    #[test]
    fn more_is_freed_than_the_next_prompt_needs() {
        assert_eq!((excess(800, 800), excess(810, 800), excess(1, 0)), (None, Some(110), Some(1)));
    }
}
