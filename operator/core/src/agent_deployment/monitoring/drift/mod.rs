//! The memory by which drift of the serving revision is detected. Pure: the statistics are those of slipway-analysis.
//!
//! Windows of the pods are counted in blocks of ten minutes: first into the baseline, and once that is frozen into the
//! test that compares later windows with it. The memory between two blocks is in a ConfigMap ([`Memory`]), so that
//! another operator continues with the same bits. A block without traffic is not remembered.

mod advance;
pub mod config_map;
mod counts;
pub mod decide;
mod memory;
mod restart;
mod risk;
mod verdict;

use std::collections::BTreeMap;

use slipway_vocabulary::evidence::Evidence;

pub use advance::{Advanced, Look, MAX_PODS, advance, block_end};
pub use memory::{MAX_BYTES, Memory, MemoryError};
pub use restart::Restart;
pub use verdict::{begun_again, conditions, follow, shown};

/// Fewest finished units of a baseline: with fewer, percentiles differ from each other by more than the margins.
pub const MIN_UNITS: u64 = 1_000;
/// The probability of a false alarm, for the workload and for behaviour each, over the whole life of a plan.
pub const ALPHA: f64 = 0.01;
/// Containers whose images make pods comparable.
pub const CONTAINERS: [&str; 2] = ["agent-runtime", ENGINE_CONTAINER];
/// The one of an engine.
const ENGINE_CONTAINER: &str = "triton";

/// A pod that serves, and what it counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivePod {
    /// What it counted.
    pub evidence: Evidence,
    /// Digests of the images that run in it, by container, as far as the kubelet reports them.
    pub images: BTreeMap<String, String>,
}

/// What is seen of the memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum MemoryView {
    /// There is none.
    #[default]
    Absent,
    /// It cannot be read.
    Unreadable {
        /// Why.
        problem: String,
    },
    /// It is as it was written.
    Read(Box<Memory>),
}

#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;
