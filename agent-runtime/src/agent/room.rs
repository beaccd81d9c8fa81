//! Makes room in a run's transcript: what tools gave long ago is left out first. Pure.
//!
//! What the model writes is bounded by the limits on steps and tokens, what tools give by [`MAX_RESULT_BYTES`]. The
//! record of the run says of each call whether its result was left out.

use super::{
    grammar::Observation,
    state::{Call, CallEnd, CallResult, Opening, State},
};

/// Bytes of all that tools gave in one run: more fits no model's context.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

impl State {
    /// Characters of the first prompt.
    pub fn opening_characters(&self) -> u64 {
        let prompt = match &self.opening {
            Opening::Transcript(prompt) => prompt,
            Opening::Chat(talk) => talk.first(),
        };
        u64::try_from(prompt.chars().count()).unwrap_or(u64::MAX)
    }

    /// Bytes of what tools gave and the transcript still has.
    pub(super) fn result_bytes(&self) -> usize {
        self.steps.iter().flat_map(|step| &step.calls).map(result_bytes).sum()
    }

    /// Leaves the oldest results out until no more than so many bytes are left. Tells whether any was left out.
    pub(super) fn leave_out_until(&mut self, bytes: usize) -> bool {
        let mut left = self.result_bytes();
        let mut is_any = false;
        for call in self.steps.iter_mut().flat_map(|step| &mut step.calls) {
            if left <= bytes {
                break;
            }
            let freed = leave_out(call);
            left -= freed;
            is_any |= freed > 0;
        }
        is_any
    }
}

fn answer(call: &mut Call) -> Option<&mut String> {
    match &mut call.end {
        Some(CallEnd { result: CallResult::Answered(observation), .. }) => Some(match observation {
            Observation::Result(text) | Observation::Error { message: text, .. } => text,
        }),
        Some(CallEnd { result: CallResult::Cancelled, .. }) | None => None,
    }
}

fn result_bytes(call: &Call) -> usize {
    match &call.end {
        Some(CallEnd { result: CallResult::Answered(observation), .. }) => match observation {
            Observation::Result(text) | Observation::Error { message: text, .. } => text.len(),
        },
        Some(CallEnd { result: CallResult::Cancelled, .. }) | None => 0,
    }
}

/// Says in place of a result how long it was, where that is shorter. Returns the bytes that this frees.
fn leave_out(call: &mut Call) -> usize {
    if call.is_left_out {
        return 0;
    }
    let Some(text) = answer(call) else { return 0 };
    let note = format!("(left out: {} characters)", text.chars().count());
    let freed = text.len().saturating_sub(note.len());
    if freed > 0 {
        *text = note;
        call.is_left_out = true;
    }
    freed
}
