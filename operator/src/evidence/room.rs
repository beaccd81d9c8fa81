//! Room in memory for what pods say.

use crate::turns::{Shared, Turn};

/// Looks with a canary that hold windows at once; in all, and of a namespace.
pub(super) const ROOMS_OF_CANARIES: [usize; 2] = [8, 6];
/// The same of other looks.
pub(super) const ROOMS: [usize; 2] = [4, 3];
/// Bytes of memory that a byte of an answer may take until it is counted: its own, and what it becomes when it is read.
/// The least metric has some 57 bytes, and takes 136 to 272.
const MEMORY_OF_A_BYTE: usize = 6;
/// KiB of memory for answers that are read, and for windows that are kept, of pods with a canary; in all, and of a
/// namespace. As much again is for the others. The largest answer has room.
const MEMORY: [usize; 2] = [112 * 1024, 96 * 1024];

/// Room in memory for the windows of a look.
#[derive(Debug)]
pub struct Room {
    _of_look: Turn,
    _of_answers: Vec<Turn>,
}

impl Room {
    /// That of a look, and of each answer whose windows it keeps.
    pub(super) fn new(of_look: Turn, of_answers: Vec<Turn>) -> Self {
        Self { _of_look: of_look, _of_answers: of_answers }
    }
}

/// What canaries share, and what all others do.
pub(super) struct Pools {
    of_canaries: Shared,
    others: Shared,
}

impl Pools {
    /// Looks that hold windows at once: an hour of a busy pod takes megabytes.
    pub(super) fn of_looks() -> Self {
        Self { of_canaries: Shared::new(ROOMS_OF_CANARIES), others: Shared::new(ROOMS) }
    }

    /// KiB for answers.
    pub(super) fn of_memory() -> Self {
        Self { of_canaries: Shared::new(MEMORY), others: Shared::new(MEMORY) }
    }

    /// Of either.
    pub(super) fn of(&self, has_canary: bool) -> &Shared {
        if has_canary { &self.of_canaries } else { &self.others }
    }
}

/// KiB of memory that an answer of so many bytes may take.
pub(super) fn kibibytes(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_mul(MEMORY_OF_A_BYTE).div_ceil(1024).max(1)).unwrap_or(u32::MAX)
}
