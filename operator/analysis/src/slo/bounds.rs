//! Bounds on percentiles and rates from a sample of fixed size. Pure.
//!
//! For a sample looked at once. Where it is looked at while it grows, use [`super::RateTest`] and
//! [`super::rate_sequence`]: these bounds do not hold under peeking.

use serde::{Deserialize, Serialize};
use slipway_vocabulary::evidence::Quantile;
use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF};

/// A percentile's estimate and its one-sided bounds, in the unit of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuantileBounds {
    /// The sample percentile, linearly interpolated and moved inside the bounds.
    pub point: f64,
    /// Below this the true percentile lies with at most 1 - confidence; absent when the sample is too small to tell.
    pub lower: Option<f64>,
    /// Above this the true percentile lies with at most 1 - confidence; absent (unbounded) when the sample is too
    /// small.
    pub upper: Option<f64>,
    /// Size of the sample.
    pub samples: u64,
}

/// What a sample says about one objective. A measurement's verdict follows from those on all its objectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SampleVerdict {
    /// Shown to be met.
    Feasible,
    /// Shown to be missed.
    Infeasible,
    /// Large enough to be judged, and not shown either way.
    Undecided,
    /// Too small to bound the percentile at all; it must not decide anything.
    Unbounded,
}

/// Estimates a percentile by linear interpolation between order statistics at (n - 1) p (type 7 of Hyndman and Fan,
/// "Sample quantiles in statistical packages", Am. Stat. 50, 1996; numpy's default). `sorted` is ascending; `None` when
/// it is empty.
#[must_use]
pub fn quantile(sorted: &[f64], quantile: Quantile) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = last as f64 * quantile.probability();
    let below = position.floor();
    let fraction = position - below;
    // Truncation is exact: `below` is an integer between 0 and `last`.
    let index = below as usize;
    let (low, high) = (sorted[index], sorted[(index + 1).min(last)]);
    Some(low + (high - low) * fraction)
}

/// Bounds a percentile by order statistics, without assuming a distribution. The upper bound is the r-th smallest value
/// with the least r such that P(Bin(n, p) < r) >= confidence. The lower bound is the r-th with the greatest r such that
/// P(Bin(n, p) >= r) >= confidence (David and Nagaraja, "Order Statistics", 7.1). `sorted` is ascending; `None` when it
/// is empty.
#[must_use]
pub fn quantile_bounds(sorted: &[f64], of: Quantile, confidence: f64) -> Option<QuantileBounds> {
    let point = quantile(sorted, of)?;
    let samples = sorted.len() as u64;
    let below = Binomial::new(of.probability(), samples).ok()?;
    let upper = least(samples, |r| r >= 1 && below.cdf(r - 1) >= confidence);
    // 1 - cdf(r - 1) falls with r: the first r that fails is one above the greatest that holds.
    let first_failing = least(samples + 1, |r| r >= 1 && below.sf(r - 1) < confidence).unwrap_or(samples + 1);
    let lower = (first_failing >= 2).then(|| first_failing - 1);
    let value = |rank: u64| sorted[(rank - 1) as usize];
    let (lower, upper) = (lower.map(value), upper.map(value));
    // In a small sample even its greatest value may bound a high percentile from below. The estimate gives way, not the
    // bound: the bounds stay those that `judge_counts` decides by.
    let point = point.max(lower.unwrap_or(point)).min(upper.unwrap_or(f64::INFINITY));
    Some(QuantileBounds { point, lower, upper, samples })
}

/// The least r in 0..=n for which a monotone predicate holds.
fn least(n: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, n + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    (low <= n).then_some(low)
}

/// Bounds a rate from `hits` in `samples`, each side with `confidence` (Clopper and Pearson, Biometrika 26, 1934):
/// the quantiles of Beta(hits, samples - hits + 1) and Beta(hits + 1, samples - hits). (0, 1) without samples.
#[must_use]
pub fn rate_bounds(hits: u64, samples: u64, confidence: f64) -> (f64, f64) {
    let (hits, misses) = (hits.min(samples) as f64, samples.saturating_sub(hits) as f64);
    let lower = Beta::new(hits, misses + 1.0).map_or(0.0, |beta| beta.inverse_cdf(1.0 - confidence));
    let upper = Beta::new(hits + 1.0, misses).map_or(1.0, |beta| beta.inverse_cdf(confidence));
    (lower, upper)
}

/// The least sample in which the largest value bounds the quantile from above with the given one-sided `confidence`:
/// the smallest n with probability^n <= 1 - confidence. 59, 299 and 2,995 for p95, p99 and p99.9 at 95 %. With fewer
/// the quantile is unbounded and must not decide anything.
#[must_use]
pub fn least_sample(quantile: Quantile, confidence: f64) -> u64 {
    let n = ((1.0 - confidence).ln() / quantile.probability().ln()).ceil();
    // Truncation is safe: the largest value, for p99.99 and any confidence below 1, is far below 2^53.
    n.max(1.0) as u64
}

/// Judges "at most 1 - p of units exceed the limit" from counts, each side with `confidence`. It is Feasible exactly
/// when the upper order-statistic bound of the percentile meets the limit, and Infeasible exactly when the lower one
/// misses it.
#[must_use]
pub fn judge_counts(exceeding: u64, samples: u64, quantile: Quantile, confidence: f64) -> SampleVerdict {
    let Ok(below) = Binomial::new(quantile.probability(), samples) else { return SampleVerdict::Unbounded };
    let meeting = samples.saturating_sub(exceeding);
    // The ranks of `quantile_bounds`, in the same arithmetic: the two never differ by a rounding.
    if exceeding > 0 && below.sf(meeting) >= confidence {
        return SampleVerdict::Infeasible;
    }
    if meeting > 0 && below.cdf(meeting - 1) >= confidence {
        return SampleVerdict::Feasible;
    }
    if samples < least_sample(quantile, confidence) { SampleVerdict::Unbounded } else { SampleVerdict::Undecided }
}
