//! Uniform random search. Pure.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;

use super::memo::{Memo, Need};

/// Least number of runs.
const LEAST: usize = 10;

pub(super) fn tenth(memo: &Memo<'_>, seed: u64) -> Result<(), Need> {
    let mut cells: Vec<_> = memo.space.cells().collect();
    let runs = (cells.len() / 10).max(LEAST).min(cells.len());
    cells.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    cells.into_iter().take(runs).try_for_each(|cell| memo.run(cell, "random").map(drop))
}
