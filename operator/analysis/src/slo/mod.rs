//! Service-level objectives: limits, percentiles, and what a finite sample says about them. Pure.
//!
//! An objective "p95 of X at most L" is the statement that at most 5 % of units exceed L. Every test here works on that
//! exceedance rate, so that a percentile, an error rate and an agent's success rate are one kind of thing.

mod batch_means;
mod bounds;
mod clustered;
mod nearest;
mod sequential;
mod spread;

use serde::{Deserialize, Serialize};

pub use self::batch_means::throughput_error_by_batches;
pub use self::bounds::{
    QuantileBounds, SampleVerdict, judge_counts, least_sample, quantile, quantile_bounds, rate_bounds,
};
pub use self::clustered::{Group, design_effect, groups, judge_groups};
pub use self::nearest::{Nearest, Shortfall, nearest};
pub use self::sequential::{RateTest, Side};
pub use self::spread::{
    Bounded, ERRORS_TO_BOUND, SAMPLED_LOG_ERROR, factor_to_bound, latency_log_error, throughput_log_error,
};

/// One-sided confidence of bounds unless a caller asks otherwise.
pub const CONFIDENCE: f64 = 0.95;

/// What a measured value may be, in the value's own unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    /// At most this: latencies, error rates, memory, cost.
    AtMost(f64),
    /// At least this: throughput, utilization.
    AtLeast(f64),
}

/// A named bound on one measured quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    name: String,
    bound: Bound,
}

impl Limit {
    /// Names a bound.
    #[must_use]
    pub fn new(name: impl Into<String>, bound: Bound) -> Self {
        Self { name: name.into(), bound }
    }

    /// The quantity it bounds.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bound.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Whether a value meets the bound; the limit itself does.
    #[must_use]
    pub fn is_met(&self, value: f64) -> bool {
        match self.bound {
            Bound::AtMost(limit) => value <= limit,
            Bound::AtLeast(limit) => value >= limit,
        }
    }

    /// By what factor a value misses the bound: value / limit, or limit / value for a least value. At most 1 when met,
    /// infinite when no factor would bridge it. Values and limits are non-negative quantities.
    #[must_use]
    pub fn excess(&self, value: f64) -> f64 {
        let (over, under) = match self.bound {
            Bound::AtMost(limit) => (value, limit),
            Bound::AtLeast(limit) => (limit, value),
        };
        if over <= under && under <= 0.0 {
            return 1.0;
        }
        if under <= 0.0 { f64::INFINITY } else { over / under }
    }
}

#[cfg(test)]
mod tests;
