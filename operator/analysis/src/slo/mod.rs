//! Service-level objectives: limits, percentiles, and what a finite sample says about them. Pure.
//!
//! An objective "p95 of X at most L" is the statement that at most 5 % of units exceed L. Every test here works on that
//! exceedance rate, so that a percentile, an error rate and an agent's success rate are one kind of thing.

mod bounds;
mod nearest;
mod sequential;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::bounds::{QuantileBounds, Verdict, judge_counts, quantile, quantile_bounds, rate_bounds};
pub use self::nearest::{Nearest, Shortfall, nearest};
pub use self::sequential::{RateTest, Side};

/// One-sided confidence of bounds unless a caller asks otherwise.
pub const CONFIDENCE: f64 = 0.95;

/// Why an SLO quantity was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SloError {
    /// A percentile outside 0.1 % to 99.9 %.
    #[error("percentile of {per_mille} per mille is not between 1 and 999; write 950 for p95")]
    PerMille {
        /// What was given, in thousandths.
        per_mille: u16,
    },
    /// Text that names no percentile.
    #[error("{text:?} is not a percentile; write p50, p90, p95, p99 or p99.9")]
    Percentile {
        /// What was given.
        text: String,
    },
}

/// A percentile in thousandths: 950 is p95. Between 1 and 999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Percentile(u16);

impl Percentile {
    /// The median.
    pub const P50: Self = Self(500);
    /// 90 % of units are at most this.
    pub const P90: Self = Self(900);
    /// 95 % of units are at most this.
    pub const P95: Self = Self(950);
    /// 99 % of units are at most this.
    pub const P99: Self = Self(990);
    /// 99.9 % of units are at most this.
    pub const P999: Self = Self(999);

    /// Makes a percentile from thousandths.
    ///
    /// # Errors
    /// [`SloError::PerMille`] outside 1 to 999.
    pub const fn from_per_mille(per_mille: u16) -> Result<Self, SloError> {
        match per_mille {
            1..=999 => Ok(Self(per_mille)),
            _ => Err(SloError::PerMille { per_mille }),
        }
    }

    /// The share of units that may lie at or below the percentile's value, 0.95 for p95.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1000.0
    }

    /// The share of units that may exceed the objective, 0.05 for p95. Exact to the last bit of its decimal.
    #[must_use]
    pub fn exceedance(self) -> f64 {
        f64::from(1000 - self.0) / 1000.0
    }

    /// The least sample in which the largest value bounds the percentile from above with the given one-sided
    /// `confidence`: the smallest n with share^n <= 1 - confidence. 59, 299 and 2,995 for p95, p99 and p99.9 at 95 %.
    /// With fewer the percentile is unbounded and must not decide anything.
    #[must_use]
    pub fn least_sample(self, confidence: f64) -> u64 {
        let n = ((1.0 - confidence).ln() / self.share().ln()).ceil();
        // Truncation is safe: the largest value, for p99.9 and any confidence below 1, is far below 2^53.
        n.max(1.0) as u64
    }
}

impl TryFrom<u16> for Percentile {
    type Error = SloError;

    fn try_from(per_mille: u16) -> Result<Self, SloError> {
        Self::from_per_mille(per_mille)
    }
}

impl From<Percentile> for u16 {
    fn from(percentile: Percentile) -> Self {
        percentile.0
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 10, self.0 % 10) {
            (whole, 0) => write!(f, "p{whole}"),
            (whole, tenth) => write!(f, "p{whole}.{tenth}"),
        }
    }
}

impl FromStr for Percentile {
    type Err = SloError;

    fn from_str(text: &str) -> Result<Self, SloError> {
        let refuse = || SloError::Percentile { text: text.to_owned() };
        let digits = text.strip_prefix('p').ok_or_else(refuse)?;
        let (whole, tenth) = digits.split_once('.').unwrap_or((digits, "0"));
        if tenth.len() != 1 || whole.is_empty() || whole.len() > 2 {
            return Err(refuse());
        }
        let (whole, tenth): (u16, u16) = (whole.parse().map_err(|_| refuse())?, tenth.parse().map_err(|_| refuse())?);
        Self::from_per_mille(whole * 10 + tenth).map_err(|_| refuse())
    }
}

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
