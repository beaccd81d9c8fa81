//! The lines of a recorded workload, as many as it holds. Pure.

use serde::Serialize;
use slipway_vocabulary::recording::{MOST_TOKENS, RunLengths, TraceLine, per_kilosecond};

/// Most bytes of a file: a ConfigMap holds 1 MiB, with all that is written around it.
const MOST_BYTES: usize = 1_000_000;

/// A file.
pub(super) struct File {
    /// A run a line, in the order of their arrivals, which count from the first. They come as fast as all runs did.
    pub(super) text: String,
    /// When the first run arrived, in microseconds of Unix time.
    pub(super) first: u64,
    /// When the last one did.
    pub(super) last: u64,
    /// How many runs there are.
    pub(super) kept: u64,
    /// How many there was no room for.
    pub(super) left_out: u64,
    /// What a campaign reads of them: runs in 1,000 seconds.
    pub(super) per_kilosecond: Option<u64>,
}

/// A line of a file.
pub(super) trait Line: Serialize {
    /// When its run arrived.
    fn arrived(&self) -> u64;
    /// Says when it did.
    fn set_arrived(&mut self, micros: u64);
    /// Tokens that a campaign makes up for it.
    fn tokens(&self) -> u64;
}

impl Line for RunLengths {
    fn arrived(&self) -> u64 {
        self.arrived_micros.unwrap_or(0)
    }

    fn set_arrived(&mut self, micros: u64) {
        self.arrived_micros = Some(micros);
    }

    fn tokens(&self) -> u64 {
        RunLengths::tokens(self)
    }
}

impl Line for TraceLine {
    fn arrived(&self) -> u64 {
        self.arrived_micros.unwrap_or(0)
    }

    fn set_arrived(&mut self, micros: u64) {
        self.arrived_micros = Some(micros);
    }

    /// Its texts are in the file.
    fn tokens(&self) -> u64 {
        0
    }
}

/// The latest runs that a workload holds, of some that arrived among so many in all. The others have no line, but
/// were load too: the times of the lines are as much closer.
pub(super) fn file<L: Line>(mut runs: Vec<L>, in_all: u64) -> File {
    runs.sort_by_key(L::arrived);
    let last = runs.last().map_or(0, L::arrived);
    let lines = number(runs.len());
    let (mut bytes, mut tokens) = (0, 0);
    let fits = runs.iter().rev().take_while(|run| {
        // Times become shorter.
        bytes += serde_json::to_string(run).map_or(0, |text| text.len()) + 1;
        tokens += run.tokens();
        bytes <= MOST_BYTES && tokens <= MOST_TOKENS
    });
    let left_out = runs.len() - fits.count();
    let mut kept = runs.split_off(left_out);
    let first = kept.first().map_or(last, L::arrived);
    let closer = |micros: u64| {
        let micros = u128::from(micros) * u128::from(lines) / u128::from(in_all.max(lines).max(1));
        u64::try_from(micros).unwrap_or(u64::MAX)
    };
    kept.iter_mut().for_each(|run| run.set_arrived(closer(run.arrived().saturating_sub(first))));
    let text: String = kept.iter().map(|run| serde_json::to_string(run).unwrap_or_default() + "\n").collect();
    let per_kilosecond = per_kilosecond(kept.iter().map(|run| Some(run.arrived())));
    File { text, first, last, kept: number(kept.len()), left_out: number(left_out), per_kilosecond }
}

pub(super) fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
