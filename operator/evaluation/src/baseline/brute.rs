//! Exhaustive search, whole and with Model Analyzer's early exit. Pure.

use slipway_analysis::search::Cell;

use super::memo::{Memo, Need, Seen};

/// Model Analyzer's `THROUGHPUT_MINIMUM_GAIN`.
const LEAST_GAIN: f64 = 0.05;
/// Model Analyzer's `THROUGHPUT_MINIMUM_CONSECUTIVE_CONCURRENCY_TRIES`.
const TRIES: usize = 4;

pub(super) fn every_cell(memo: &Memo<'_>) -> Result<(), Need> {
    memo.space.cells().try_for_each(|cell| memo.run(cell, "every cell").map(drop))
}

pub(super) fn early_exit(memo: &Memo<'_>) -> Result<(), Need> {
    (0..memo.space.arms.len()).try_for_each(|arm| sweep(memo, arm))
}

/// Walks an arm up its ladder until the best of the last tries gains at most 5 % over the first of them.
pub(super) fn sweep(memo: &Memo<'_>, arm: usize) -> Result<(), Need> {
    let mut walked: Vec<Seen> = Vec::new();
    for cell in ladder(memo, arm) {
        walked.push(memo.run(cell, "concurrency sweep")?);
        if stalled(&walked) {
            break;
        }
    }
    Ok(())
}

pub(super) fn ladder(memo: &Memo<'_>, arm: usize) -> Vec<Cell> {
    (0..memo.space.levels.len()).map(|level| Cell { arm, level }).filter(|cell| memo.space.has(*cell)).collect()
}

fn stalled(walked: &[Seen]) -> bool {
    let Some(last) = walked.len().checked_sub(TRIES).map(|from| &walked[from..]) else { return false };
    let Some(first) = last[0].throughput else { return false };
    let best = last[1..].iter().filter_map(|seen| seen.throughput).reduce(f64::max);
    best.is_some_and(|best| best - first <= LEAST_GAIN * first)
}
