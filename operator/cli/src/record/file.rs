//! The lines of a recorded workload, as many as it holds. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use slipway_vocabulary::recording::{MOST_TOKENS, RunLengths, TraceLine};

/// Most bytes of a file: a ConfigMap holds 1 MiB, with all that is written around it.
const MOST_BYTES: usize = 1_000_000;

/// A file.
pub(super) struct File {
    /// A run a line, in the order of their arrivals, which count from the first.
    pub(super) text: String,
    /// When the first run arrived, in microseconds of Unix time.
    pub(super) first: u64,
    /// When the last one did.
    pub(super) last: u64,
    /// How many runs there are.
    pub(super) kept: u64,
    /// How many there was no room for.
    pub(super) left_out: u64,
}

/// A line of a file.
pub(super) trait Line: Serialize {
    /// When its run arrived.
    fn arrived(&mut self) -> &mut Option<u64>;
    /// Tokens that a campaign makes up for it.
    fn tokens(&self) -> u64;
}

impl Line for RunLengths {
    fn arrived(&mut self) -> &mut Option<u64> {
        &mut self.arrived_micros
    }

    fn tokens(&self) -> u64 {
        RunLengths::tokens(self)
    }
}

impl Line for TraceLine {
    fn arrived(&mut self) -> &mut Option<u64> {
        &mut self.arrived_micros
    }

    /// Its texts are in the file.
    fn tokens(&self) -> u64 {
        0
    }
}

/// The latest runs that a workload holds, of runs in the order of their arrivals.
pub(super) fn file<L: Line>(mut runs: Vec<L>) -> File {
    let arrived = |run: &mut L| run.arrived().unwrap_or(0);
    let last = runs.last_mut().map_or(0, arrived);
    let (mut bytes, mut tokens) = (0, 0);
    let fits = runs.iter().rev().take_while(|run| {
        // Times become shorter.
        bytes += serde_json::to_string(run).map_or(0, |text| text.len()) + 1;
        tokens += run.tokens();
        bytes <= MOST_BYTES && tokens <= MOST_TOKENS
    });
    let left_out = runs.len() - fits.count();
    let mut kept = runs.split_off(left_out);
    let first = kept.first_mut().map_or(last, arrived);
    let lines = kept.iter_mut().map(|run| {
        *run.arrived() = run.arrived().map(|arrived| arrived.saturating_sub(first));
        serde_json::to_string(run).unwrap_or_default() + "\n"
    });
    let text: String = lines.collect();
    File { text, first, last, kept: number(kept.len()), left_out: number(left_out) }
}

/// The runs whose calls have one result each: a replay gives equal calls the same.
pub(super) fn without_contradictions(runs: Vec<TraceLine>) -> Vec<TraceLine> {
    let mut known: BTreeMap<(String, BTreeMap<String, String>), String> = BTreeMap::new();
    let mut fits = |run: &TraceLine| {
        let mut own = BTreeMap::new();
        for call in &run.calls {
            let key = (call.tool.clone(), call.arguments.clone());
            let is_other = |result: &String| *result != call.result;
            if known.get(&key).is_some_and(is_other) || own.get(&key).is_some_and(is_other) {
                return false;
            }
            own.insert(key, call.result.clone());
        }
        known.extend(own);
        true
    };
    runs.into_iter().filter(|run| fits(run)).collect()
}

pub(super) fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
