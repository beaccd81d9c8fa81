//! The comparison at one percentile. Pure.

use super::{
    guard::add,
    process::{Direction, ln_sequential_t},
};

/// The comparison at one percentile: of the objective, or p95. Half of a distribution's evidence comes from below its
/// median, where a harm of the tail alone does not show; this lane looks nowhere else.
///
/// A sequential t of block differences, of the canary's share above the percentile of stable and the margin. It holds
/// at all times at once, and takes its variance from the blocks, so that noise of the pods enters it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AtPercentile {
    /// Since the rollout opened.
    pub excess: f32,
    /// Excess and variance of the current block.
    pub block: [f32; 2],
    pub blocks: u16,
    pub sum: f32,
    pub squares: f32,
}

/// Information that a block at a percentile needs. Few units are above it: with less, the share is too skewed for a t.
const SMALLEST_VARIANCE_AT_PERCENTILE: f32 = 3.0;

impl AtPercentile {
    pub fn add(&mut self, (excess, variance): (f64, f64)) {
        self.excess = (f64::from(self.excess) + excess) as f32;
        add(&mut self.block, (excess, variance));
    }

    /// Ends a block; one with too little information goes on.
    pub fn close_block(&mut self) {
        let [excess, variance] = self.block;
        if variance >= SMALLEST_VARIANCE_AT_PERCENTILE {
            let z = f64::from(excess) / f64::from(variance).sqrt();
            self.blocks = self.blocks.saturating_add(1);
            self.sum = (f64::from(self.sum) + z) as f32;
            self.squares = (f64::from(self.squares) + z * z) as f32;
            self.block = [0.0; 2];
        }
    }

    /// The log e-value of a share below stable's.
    pub fn ln_below(&self) -> f64 {
        ln_sequential_t(self.blocks, self.sum.into(), self.squares.into(), Direction::Below)
    }
}
