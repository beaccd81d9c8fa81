//! Wire types and bucket arithmetic of the evidence that pods report.
//!
//! A pod counts what finished in each UTC-aligned window of ten seconds and keeps an hour of windows. The operator
//! reads them with `GET /slipway/v1/evidence?after=ID` and judges a rollout by them. Both ends share the types of
//! [`wire`], the bucket table of [`bucket`] and the sparse [`Histogram`], so that counts per bucket are exact and add
//! up across pods.

mod bounded;
pub mod bucket;
mod histogram;
mod plausible;
mod stratum;
pub mod wire;

pub use histogram::{CountBounds, Histogram, HistogramError, InvalidQuantile, Quantile, ValueBounds};
pub use plausible::{Implausible, LATEST_WINDOW, MOST_UNITS};
pub use stratum::{CacheState, Stratum, StratumError};
pub use wire::{Evidence, Load, Metric, MetricWindow, Unit, Window};

/// Path of the evidence on a pod's admin port.
pub const PATH: &str = "/slipway/v1/evidence";

/// Length of a window in seconds; windows are aligned to multiples of it since the Unix epoch.
pub const WINDOW_SECONDS: u64 = 10;

/// How many finished windows a pod keeps: one hour.
pub const RING_WINDOWS: usize = 360;

/// Returns the id of the window that contains the given second since the Unix epoch.
///
/// Window `id` covers `[id * 10 s, (id + 1) * 10 s)`. A pod answers `?after=ID` with the finished windows whose id is
/// greater, so that a reader that remembers the last id reads each window once.
#[must_use]
pub const fn window_id(unix_seconds: u64) -> u64 {
    unix_seconds / WINDOW_SECONDS
}

/// Returns the second since the Unix epoch at which a window ends.
#[must_use]
pub const fn window_end(id: u64) -> u64 {
    id.saturating_add(1).saturating_mul(WINDOW_SECONDS)
}
