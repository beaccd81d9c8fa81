//! What no pod can have counted. Pure.
//!
//! Evidence comes from pods of tenants. A reader that adds up counts of many pods over an hour must be able to rely on
//! their size, and a pod that reports nonsense must not decide anything. The bounds are generous: a pod that meets one
//! of them is broken or forged.

use std::{error::Error, fmt};

use crate::{
    evidence::{Evidence, MetricWindow, RING_WINDOWS, Window, wire::VERSION},
    telemetry::{GpuWindow, MOST_GPUS, MOST_XIDS},
};

/// Most metrics of one window: every metric in every unit, in a hundred strata.
pub const MOST_METRICS: usize = 4_096;
/// Most units of any kind in one window: a hundred million per second.
pub const MOST_UNITS: u64 = 1_000_000_000;
/// Largest sum in one window, in the metric's unit of value: in microseconds a billion seconds.
pub const LARGEST_SUM: u64 = 1_000_000_000_000_000;
/// Latest window: ten billion windows are some three thousand years.
pub const LATEST_WINDOW: u64 = 10_000_000_000;

/// Why evidence cannot be what a pod counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Implausible {
    /// The form is of a version that this program does not know.
    Version {
        /// The version that the pod writes.
        version: u32,
    },
    /// More windows than a pod keeps.
    Windows {
        /// How many there are.
        windows: usize,
    },
    /// A window that does not come after the one before it, or lies beyond any clock.
    Order {
        /// Id of the window.
        id: u64,
    },
    /// More metrics in a window than exist.
    Metrics {
        /// Id of the window.
        id: u64,
        /// How many there are.
        metrics: usize,
    },
    /// A count or a sum that nothing could have reached within ten seconds.
    Value {
        /// Id of the window.
        id: u64,
        /// Name of the field.
        field: &'static str,
        /// What the pod reports.
        value: u64,
    },
    /// Ages of more units than are in flight.
    Ages {
        /// Id of the window.
        id: u64,
        /// Units in flight.
        in_flight: u64,
        /// Units that have an age.
        ages: u64,
    },
    /// More errors, or more values, than units that finished.
    Parts {
        /// Id of the window.
        id: u64,
        /// Units that finished.
        count: u64,
        /// Errors and values together.
        parts: u64,
    },
}

impl fmt::Display for Implausible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version } => write!(
                f,
                "version {version} of the evidence is later than {VERSION}, the latest that is known here: upgrade the \
                 operator and kubectl-slipway"
            ),
            Self::Windows { windows } => write!(f, "{windows} windows: a pod keeps {RING_WINDOWS}"),
            Self::Order { id } => write!(f, "window {id} is out of order"),
            Self::Metrics { id, metrics } => {
                write!(f, "window {id} has {metrics} metrics: {MOST_METRICS} are possible")
            }
            Self::Value { id, field, value } => {
                write!(f, "window {id} reports {field} {value}: too large for ten seconds")
            }
            Self::Ages { id, in_flight, ages } => {
                write!(f, "window {id} reports ages of {ages} units of {in_flight} in flight")
            }
            Self::Parts { id, count, parts } => {
                write!(f, "window {id} reports {parts} errors and values of {count} finished units")
            }
        }
    }
}

impl Error for Implausible {}

impl Evidence {
    /// Whether a pod can have counted this. What passes can be added up over a thousand pods and an hour in 64 bits,
    /// sums excepted: those saturate.
    ///
    /// # Errors
    /// With the first value that is out of its bounds.
    pub fn check(&self) -> Result<(), Implausible> {
        if self.version > VERSION {
            return Err(Implausible::Version { version: self.version });
        }
        if self.windows.len() > RING_WINDOWS {
            return Err(Implausible::Windows { windows: self.windows.len() });
        }
        let mut previous = None;
        for window in &self.windows {
            if window.id > LATEST_WINDOW || previous.is_some_and(|previous| previous >= window.id) {
                return Err(Implausible::Order { id: window.id });
            }
            previous = Some(window.id);
            check_window(window)?;
        }
        Ok(())
    }
}

fn check_window(window: &Window) -> Result<(), Implausible> {
    let id = window.id;
    if window.metrics.len() > MOST_METRICS {
        return Err(Implausible::Metrics { id, metrics: window.metrics.len() });
    }
    if let Some(load) = &window.load {
        at_most(id, "runMicroseconds", load.run_microseconds, LARGEST_SUM)?;
        at_most(id, "modelRequestMicroseconds", load.model_request_microseconds, LARGEST_SUM)?;
    }
    at_most(id, "gpus", window.gpus.len() as u64, MOST_GPUS as u64)?;
    window.gpus.iter().try_for_each(|gpu| check_gpu(id, gpu))?;
    window.metrics.iter().try_for_each(|metric| check_metric(id, metric))
}

/// Figures of a GPU are shown, and never added up; their number is what matters.
fn check_gpu(id: u64, gpu: &GpuWindow) -> Result<(), Implausible> {
    at_most(id, "xids", gpu.xids.len() as u64, MOST_XIDS as u64)?;
    at_most(id, "slowed", gpu.slowed.len() as u64, MOST_XIDS as u64)?;
    let samples = gpu.slowed.iter().map(|(_, samples)| *samples).max().unwrap_or(0);
    at_most(id, "slowedSamples", samples.into(), gpu.samples.into())
}

fn check_metric(id: u64, window: &MetricWindow) -> Result<(), Implausible> {
    // No `..`: a new field needs a bound.
    let MetricWindow {
        metric: _,
        unit: _,
        stratum: _,
        started,
        new_sessions,
        in_flight,
        oldest_in_flight_microseconds,
        in_flight_ages,
        count,
        errors,
        sum_microseconds,
        buckets,
    } = window;
    let units = [
        ("started", *started),
        ("newSessions", *new_sessions),
        ("inFlight", *in_flight),
        ("count", *count),
        ("errors", *errors),
        ("buckets", buckets.count()),
    ];
    units.into_iter().try_for_each(|(field, value)| at_most(id, field, value, MOST_UNITS))?;
    at_most(id, "sumMicroseconds", *sum_microseconds, LARGEST_SUM)?;
    at_most(id, "oldestInFlightMicroseconds", *oldest_in_flight_microseconds, LARGEST_SUM)?;
    let old = in_flight_ages.iter().flatten().fold(0_u64, |sum, (_, units)| sum.saturating_add(*units));
    if old > *in_flight {
        return Err(Implausible::Ages { id, in_flight: *in_flight, ages: old });
    }
    let parts = errors + buckets.count();
    if parts > *count { Err(Implausible::Parts { id, count: *count, parts }) } else { Ok(()) }
}

fn at_most(id: u64, field: &'static str, value: u64, bound: u64) -> Result<(), Implausible> {
    if value > bound { Err(Implausible::Value { id, field, value }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
