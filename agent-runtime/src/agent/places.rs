//! Numbers of the places in a run where something is asked for, by which their spans are found. Pure.

use super::state::CallId;

/// Far more calls than a step has, so that no two places share a number.
const PLACES_OF_A_STEP: u64 = 1 << 32;

/// The place of a step's model call.
pub fn of_step(step: u32) -> u64 {
    u64::from(step) * PLACES_OF_A_STEP
}

/// The place of a tool call.
pub fn of_call(CallId { step, index }: CallId) -> u64 {
    let index = u64::try_from(index).unwrap_or(u64::MAX);
    of_step(step).saturating_add(index).saturating_add(1)
}
