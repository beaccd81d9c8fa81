//! What a campaign may still cost. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{Measurement, MeasurementPurpose, ProfileInputs},
};
use slipway_selection::cost::gpus;
use slipway_worker_contract::MeasureSettings;

use crate::profile::rows::{natural, unsigned};

const MILLISECONDS_PER_HOUR: f64 = 3_600_000.0;

/// What is left of a campaign's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Measurements.
    pub measurements: u32,
    /// GPU time in milliseconds; time of the pod where it has no GPU.
    pub gpu_millis: u64,
    least_millis: u64,
    is_gpu_time: bool,
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
        let is_counted = |m: &&Measurement| match m.purpose {
            MeasurementPurpose::Explore | MeasurementPurpose::Repeat => m.measured_in.is_none(),
            MeasurementPurpose::Confirm => false,
        };
        let explored = || status.measurements.iter().filter(is_counted);
        let limits = Limits {
            measurements: inputs.budget.measurements,
            gpu_millis: (inputs.budget.gpu_hours.value() * MILLISECONDS_PER_HOUR).round() as u64,
        };
        let used = u32::try_from(explored().count()).unwrap_or(u32::MAX);
        let used_millis: u64 = explored().map(|m| natural(m.gpu_milliseconds)).sum();
        let gpu_millis = limits.gpu_millis.saturating_sub(used_millis);
        let least_millis = MeasureSettings::default().min_chunk_millis * u64::from(gpus(inputs).max(1));
        Self {
            measurements: unsigned(limits.measurements).saturating_sub(used),
            gpu_millis,
            least_millis,
            is_gpu_time: gpu_millis < least_millis,
            limits,
        }
    }

    /// What one Job of several at once gets: an equal share of the whole, so that all of them together spend no more.
    /// The last engine gets what is left.
    pub fn of_job(self, inputs: &ProfileInputs, status: &ProfileStatus, most_at_once: usize) -> Self {
        let engines = inputs.engines.len();
        if most_at_once <= 1 || engines <= status.engines.len() + 1 {
            return self;
        }
        let jobs = u32::try_from(engines).unwrap_or(u32::MAX);
        let Limits { measurements, gpu_millis } = self.limits;
        let (measurements, gpu_millis) = ((unsigned(measurements) / jobs).max(1), gpu_millis / u64::from(jobs));
        Self { measurements: self.measurements.min(measurements), gpu_millis: self.gpu_millis.min(gpu_millis), ..self }
    }

    /// In words, if not even one more measurement can be made.
    pub fn used_up(&self) -> Option<String> {
        if self.is_gpu_time {
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

fn before_a_first(words: &str) -> String {
    format!("{words} before a first measurement has finished: raise it")
}
