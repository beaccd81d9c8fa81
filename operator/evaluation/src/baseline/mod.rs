//! The searches that the product's is compared with, re-stated from their documented behaviour. Pure.
//!
//! Each is written as straight-line code that asks a [`Memo`] for runs; a run that is not there yet leaves the code
//! with the proposal to make it. The code runs again at every step, so each baseline resumes from any prefix as well.

mod bisection;
mod brute;
mod memo;
mod quick;
mod random;
mod tpe;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use slipway_analysis::search::{Cell, Progress, SearchStrategy, Skipped, Space, Step, WhyNot};

use self::memo::{Memo, Need};

/// Which baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Every cell.
    Brute,
    /// Every arm up its ladder until throughput stops growing, as Model Analyzer's brute search.
    BruteEarlyExit,
    /// Model Analyzer's quick search and its concurrency sweep over the three best.
    MaQuickSweep,
    /// A tenth of the cells, at random.
    Random,
    /// A tree-structured Parzen estimator that ranks feasible runs first.
    Tpe,
    /// The highest feasible level of every arm by bisection, as AIPerf's monotonic search.
    Bisection,
}

/// A baseline on a space.
#[derive(Debug, Clone)]
pub struct Baseline {
    space: Space,
    method: Method,
    seed: u64,
}

impl Baseline {
    /// Prepares a baseline; the seed matters to the random ones only.
    #[must_use]
    pub fn new(space: Space, method: Method, seed: u64) -> Self {
        Self { space, method, seed }
    }

    fn plan(&self, memo: &mut Memo<'_>) -> Result<(), Need> {
        match self.method {
            Method::Brute => brute::every_cell(memo),
            Method::BruteEarlyExit => brute::early_exit(memo),
            Method::MaQuickSweep => quick::quick_and_sweep(memo),
            Method::Random => random::tenth(memo, self.seed),
            Method::Tpe => tpe::tpe(memo, self.seed),
            Method::Bisection => bisection::per_arm(memo),
        }
    }
}

impl SearchStrategy for Baseline {
    fn next(&self, progress: Progress<'_>) -> Step {
        if !progress.pending.is_empty() {
            return Step::Wait;
        }
        let mut memo = Memo::new(&self.space, progress.measurements);
        match self.plan(&mut memo) {
            Err(Need(proposal)) => Step::Measure { proposals: vec![proposal] },
            Ok(()) => {
                let is_open = |cell: &Cell| !progress.measurements.iter().any(|m| m.cell == *cell);
                let open: BTreeSet<usize> = self.space.cells().filter(is_open).map(|cell| cell.arm).collect();
                let skipped = open.into_iter().map(|arm| Skipped { arm, why: WhyNot::NotVisited }).collect();
                Step::Done { conclusion: memo.conclusion(), skipped }
            }
        }
    }
}
