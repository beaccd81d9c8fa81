//! The evidence that a canary is not slower than stable by the margin: what a promotion rests on. Pure.
//!
//! Two sequential t over blocks of a minute look at the whole distribution and at its tail; an objective's own
//! percentile has a sequence of its own ([`AtPercentile`]). None is restarted: a promotion rests on all evidence. It
//! compares units that were admitted under like load, or under more load on the canary, which can only hide that it is
//! fast.

use std::borrow::Cow;

use slipway_vocabulary::evidence::Metric;

use super::{
    at_percentile::AtPercentile,
    config::Config,
    guard::{CHAIN_SHARES, SMALLEST_VARIANCE, add, ln_mean},
    process::{Direction, ln_sequential_t},
    split::Split,
    strata::Stratum,
};

/// What a guard keeps of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NonInferior {
    /// The whole distribution, and the tail.
    pub chains: [Blocks; 2],
    /// The objective's percentile, or p95.
    pub at: AtPercentile,
}

/// A sequential t of block differences.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Blocks {
    pub blocks: u16,
    pub sum: f32,
    pub squares: f32,
    /// Excess and variance of the current block.
    pub block: [f32; 2],
}

impl NonInferior {
    /// Takes in the split of one stratum at the margin.
    pub fn add(&mut self, split: &Split, level: usize, has_objective: bool) {
        for (chain, blocks) in self.chains.iter_mut().enumerate() {
            add(&mut blocks.block, split.excess(chain));
        }
        let table = split.table_at(level);
        self.at.add(table);
        if has_objective {
            self.at.bet(table);
        }
    }

    /// Ends a block; one with too little information goes on.
    pub fn close_block(&mut self) {
        for of in &mut self.chains {
            if of.block[1] >= SMALLEST_VARIANCE {
                let [excess, variance] = of.block.map(f64::from);
                let z = excess / variance.sqrt();
                of.blocks = of.blocks.saturating_add(1);
                of.sum = (f64::from(of.sum) + z) as f32;
                of.squares = (f64::from(of.squares) + z * z) as f32;
                of.block = [0.0; 2];
            }
        }
    }

    /// Forgets the current block: its windows and the next ones have different weights.
    pub fn drop_block(&mut self) {
        self.chains.iter_mut().for_each(|of| of.block = [0.0; 2]);
    }

    /// The log e-value over the whole distribution and the tail.
    pub fn ln_whole(&self) -> f64 {
        let [whole, tail] = self.chains.map(|Blocks { blocks, sum, squares, .. }| {
            ln_sequential_t(blocks, sum.into(), squares.into(), Direction::Below)
        });
        ln_mean(&[(CHAIN_SHARES[0], whole), (CHAIN_SHARES[1], tail)])
    }
}

/// The thresholds at which non-inferiority is looked for. Calls and tokens are whole numbers. Where nearly all runs of
/// stable have the same, none lies above the quantile, and nothing could be compared there. So the quantile itself
/// counts as above it, in both arms alike.
pub(super) fn compared_at<'a>(config: &Config, metric: Metric, stratum: &'a Stratum) -> Cow<'a, Stratum> {
    match config.cost_guard(metric) {
        Some(_) => Cow::Owned(stratum.one_bucket_lower()),
        None => Cow::Borrowed(stratum),
    }
}
