//! What a campaign may still cost. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{Measurement, MeasurementPurpose, ProfileInputs},
};
use slipway_selection::cost::gpus;
use slipway_worker_contract::MeasureSettings;

use crate::{
    jobs::view::Grant,
    profile::rows::{natural, unsigned},
};

const MILLISECONDS_PER_HOUR: f64 = 3_600_000.0;

/// What is left of a campaign's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Measurements.
    pub measurements: u32,
    /// GPU time in milliseconds; time of the pod where it has no GPU.
    pub gpu_millis: u64,
    least_millis: u64,
    limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    measurements: i32,
    gpu_millis: u64,
}

impl Budget {
    /// What the rows of the status leave. Confirm runs are not counted, for without them nothing could be chosen, and
    /// rows of earlier campaigns have been paid for.
    pub fn left(inputs: &ProfileInputs, status: &ProfileStatus) -> Self {
        let limits = Limits {
            measurements: inputs.budget.measurements,
            gpu_millis: (inputs.budget.gpu_hours.value() * MILLISECONDS_PER_HOUR).round() as u64,
        };
        let used = used(status, |_| true);
        Self {
            measurements: unsigned(limits.measurements),
            gpu_millis: limits.gpu_millis,
            least_millis: MeasureSettings::default().min_chunk_millis * u64::from(gpus(inputs).max(1)),
            limits,
        }
        .without(used)
    }

    /// What is left of it without something.
    pub(super) fn without(self, spent: Grant) -> Self {
        Self {
            measurements: self.measurements.saturating_sub(spent.measurements),
            gpu_millis: self.gpu_millis.saturating_sub(spent.gpu_millis),
            ..self
        }
    }

    /// An equal share for each of some Jobs, rounded up. One that could not measure anything gets more.
    pub(super) fn shared_by(self, jobs: usize) -> Self {
        let jobs = u32::try_from(jobs.max(1)).unwrap_or(u32::MAX);
        let gpu_millis = self.gpu_millis.div_ceil(u64::from(jobs)).max(self.least_millis);
        Self { measurements: self.measurements.div_ceil(jobs), gpu_millis: gpu_millis.min(self.gpu_millis), ..self }
    }

    fn lacks_gpu_time(&self) -> bool {
        self.gpu_millis < self.least_millis
    }

    /// In words, if not even one more measurement can be made.
    pub fn used_up(&self) -> Option<String> {
        if self.lacks_gpu_time() {
            let hours = self.limits.gpu_millis as f64 / MILLISECONDS_PER_HOUR;
            let words = format!("spec.profiling.budget.gpuHours {hours} is used up");
            return Some(if self.gpu_millis == self.limits.gpu_millis {
                before_a_first(&words)
            } else {
                format!("{words}: raise it to measure more")
            });
        }
        let measurements = self.limits.measurements;
        (self.measurements == 0)
            .then(|| format!("spec.profiling.budget.measurements {measurements} is used up: raise it to measure more"))
    }

    /// In words, for a campaign whose first measurement took longer than it may.
    pub fn too_small(inputs: &ProfileInputs) -> String {
        let hours = String::from(inputs.budget.gpu_hours.clone());
        before_a_first(&format!("spec.profiling.budget.gpuHours {hours} is used up"))
    }
}

/// What the rows of some engines have used.
pub(super) fn used(status: &ProfileStatus, is_of: impl Fn(&str) -> bool) -> Grant {
    let is_counted = |m: &&Measurement| match m.purpose {
        MeasurementPurpose::Explore | MeasurementPurpose::Repeat => m.measured_in.is_none() && is_of(&m.engine),
        MeasurementPurpose::Confirm => false,
    };
    let counted = || status.measurements.iter().filter(is_counted);
    Grant {
        measurements: u32::try_from(counted().count()).unwrap_or(u32::MAX),
        gpu_millis: counted().map(|m| natural(m.gpu_milliseconds)).sum(),
    }
}

fn before_a_first(words: &str) -> String {
    format!("{words} before a first measurement has finished: raise it")
}
