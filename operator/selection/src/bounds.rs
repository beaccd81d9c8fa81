//! Figures of a row with their bounds. Pure.

use serde::Serialize;
use slipway_analysis::slo;
use slipway_crds::{
    v1alpha1::profile::{MeasuredLatency, Measurement},
    values::Percentile,
};

use crate::natural;

/// A figure with its one-sided bounds of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Interval {
    /// The figure.
    pub value: i64,
    /// Its lower bound.
    pub lower: i64,
    /// Its upper bound.
    pub upper: i64,
}

impl Interval {
    pub(crate) fn map(self, of: impl Fn(i64) -> Option<i64>) -> Option<Self> {
        let (a, b) = (of(self.lower)?, of(self.upper)?);
        Some(Self { value: of(self.value)?, lower: a.min(b), upper: a.max(b) })
    }

    /// Whether both may be the same.
    pub(crate) const fn overlaps(self, other: Self) -> bool {
        self.lower <= other.upper && other.lower <= self.upper
    }
}

/// The standard error of a row's throughput in ln.
pub fn throughput_error(row: &Measurement) -> f64 {
    let bounded = |latency: &MeasuredLatency| slo::Bounded {
        value: latency.microseconds as f64,
        lower: latency.lower as f64,
        upper: latency.upper.map(|upper| upper as f64),
    };
    let medians = row.latencies.iter().filter(|latency| latency.percentile == Percentile::P50);
    let slowest = medians.max_by_key(|latency| latency.microseconds).map(bounded);
    let shown = row.per_kilosecond_error.map(|error| error as f64 / row.per_kilosecond.max(1) as f64);
    slo::throughput_log_error(shown, natural(i64::from(row.count)), slowest)
}

/// The throughput of a row, per 1,000 seconds.
pub fn throughput(row: &Measurement) -> Interval {
    let (value, factor) = (row.per_kilosecond as f64, slo::factor_to_bound(throughput_error(row)));
    Interval {
        value: row.per_kilosecond,
        lower: (value / factor).floor() as i64,
        upper: (value * factor).ceil() as i64,
    }
}
