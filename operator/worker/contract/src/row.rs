//! Profile Jobs: the rows that come back, and the progress on the way.

use std::fmt;

use serde::{Deserialize, Serialize};

use slipway_vocabulary::MissedSide;

use crate::{
    Digest, EngineRef, FailureClass, GpuFigure, GpuLimit, LatencyMetric, LatencyObjective, MeasurementVerdict,
    Percentile,
};

/// Most bytes of a row's compact JSON. Six percentiles with their bounds take 330, other figures 200; the reason has
/// the rest.
pub const MAX_ROW_BYTES: usize = 768;
/// Most entries of [`Progress::not_measured`].
pub const MAX_NOT_MEASURED: usize = 64;
/// Most bytes of [`NotMeasured::reason`].
pub const MAX_NOT_MEASURED_REASON_BYTES: usize = 160;

/// One finished level: what a Profile's status records.
///
/// # Invariants
/// Compact JSON of at most [`MAX_ROW_BYTES`]; [`Row::fitted`] shortens the reason until it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// [`crate::Arm::id`].
    pub arm: String,
    /// Requests or runs in flight.
    pub level: u32,
    /// What was concluded.
    pub verdict: MeasurementVerdict,
    /// Requests or runs that succeeded.
    pub count: u32,
    /// Requests or runs that failed.
    pub errors: u32,
    /// Measured time in milliseconds.
    pub millis: u64,
    /// Successes per 1,000 seconds.
    pub per_kilosecond: u64,
    /// Standard error of `per_kilosecond`, as the run itself shows it; absent of one too short for that, and of an open
    /// loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_kilosecond_error: Option<u64>,
    /// Percentiles with their bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<Latency>,
    /// Tokens that the model wrote in those that succeeded, where all were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// The GPU while the level ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Gpu>,
    /// GPU time that this row cost, load and warm-up included, in milliseconds.
    pub gpu_millis: u64,
    /// Model Analyzer's own row, for comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_analyzer: Option<ModelAnalyzerRow>,
    /// SHA-256 of the raw records in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Digest>,
    /// Arrivals per 1,000 seconds that were sent, of a confirm run; absent of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals_per_kilosecond: Option<u64>,
    /// In words, for people: why failed, why stopped early, what disagrees.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A percentile with its confidence bounds, in microseconds; `[metric, percentile, value, lower, upper]` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LatencyTuple", into = "LatencyTuple")]
pub struct Latency {
    /// What is measured.
    pub metric: LatencyMetric,
    /// Which percentile.
    pub percentile: Percentile,
    /// The sample percentile.
    pub micros: u64,
    /// Lower bound.
    pub lower_micros: u64,
    /// Upper bound; absent if there are too few requests for one.
    pub upper_micros: Option<u64>,
}

type LatencyTuple = (MetricWord, Percentile, u64, u64, Option<u64>);

/// A latency's word in a row. Rows of earlier workers are read, and tasks keep their text: a word never changes its
/// meaning. `TimeToFirstToken` is that of a model request, as the first workers wrote it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum MetricWord {
    RequestLatency,
    #[serde(rename = "TimeToFirstToken")]
    RequestTimeToFirstToken,
    InterTokenLatency,
    AgentRunLatency,
    #[serde(rename = "UserTimeToFirstToken")]
    TimeToFirstToken,
}

impl From<MetricWord> for LatencyMetric {
    fn from(word: MetricWord) -> Self {
        match word {
            MetricWord::RequestLatency => Self::RequestLatency,
            MetricWord::RequestTimeToFirstToken => Self::RequestTimeToFirstToken,
            MetricWord::InterTokenLatency => Self::InterTokenLatency,
            MetricWord::AgentRunLatency => Self::AgentRunLatency,
            MetricWord::TimeToFirstToken => Self::TimeToFirstToken,
        }
    }
}

impl From<LatencyMetric> for MetricWord {
    fn from(metric: LatencyMetric) -> Self {
        match metric {
            LatencyMetric::RequestLatency => Self::RequestLatency,
            LatencyMetric::RequestTimeToFirstToken => Self::RequestTimeToFirstToken,
            LatencyMetric::InterTokenLatency => Self::InterTokenLatency,
            LatencyMetric::AgentRunLatency => Self::AgentRunLatency,
            LatencyMetric::TimeToFirstToken => Self::TimeToFirstToken,
        }
    }
}

/// The GPU while a level ran. What Triton did not say is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// Most memory used, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Mean utilization, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u8>,
    /// Mean power, watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<u32>,
}

impl Gpu {
    /// The same without the figures that nobody limits.
    pub fn limited_by(self, limits: &[GpuLimit]) -> Self {
        let is_limited = |figure| limits.iter().any(|limit| limit.figure == figure);
        Self {
            memory_mib: self.memory_mib.filter(|_| is_limited(GpuFigure::Memory)),
            utilization_percent: self.utilization_percent.filter(|_| is_limited(GpuFigure::Utilization)),
            power_watts: self.power_watts.filter(|_| is_limited(GpuFigure::Power)),
        }
    }

    /// A figure of it, if it is known.
    pub fn figure(&self, figure: GpuFigure) -> Option<u32> {
        match figure {
            GpuFigure::Utilization => self.utilization_percent.map(u32::from),
            GpuFigure::Power => self.power_watts,
            GpuFigure::Memory => self.memory_mib,
        }
    }
}

/// Measured milliseconds from which a row without a figure says that Triton does not have it. Triton has new ones every
/// two seconds.
const LEAST_SAMPLED_MILLIS: u64 = 5_000;

/// The words for a limited figure that Triton does not have: no further row can be judged by the limit. Two rows were
/// long enough to have it, and no row has.
pub fn unknown_figure<'a>(rows: impl Iterator<Item = &'a Row>, limits: &[GpuLimit]) -> Option<String> {
    let is_measured = |row: &&Row| row.verdict != MeasurementVerdict::Failed;
    let rows: Vec<&Row> = rows.filter(is_measured).collect();
    let lacks = |row: &Row, figure| row.gpu.and_then(|gpu| gpu.figure(figure)).is_none();
    let long = rows.iter().filter(|row| row.millis >= LEAST_SAMPLED_MILLIS).count();
    let unknown = limits.iter().find(|limit| rows.iter().all(|row| lacks(row, limit.figure)))?;
    (long > 1).then(|| {
        let figure = unknown.figure;
        format!(
            "{figure} is limited, and Triton's metrics do not have it: remove the limit, or use GPUs that report it"
        )
    })
}

/// What a row was judged by.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// The objectives that its driver can measure.
    pub objectives: &'a [LatencyObjective],
    /// Most errors in parts per million, where there is a limit.
    pub error_rate_max_ppm: Option<u32>,
    /// Bounds on what the GPUs did.
    pub gpu_limits: &'a [GpuLimit],
}

/// Whether so many errors are too many. The share counts as it was seen: a proof of a small share would take more runs
/// than any campaign has.
pub fn has_too_many_errors(errors: u32, successes: usize, max_ppm: Option<u32>) -> bool {
    let total = u64::from(errors) + successes as u64;
    let ppm = u64::from(errors) * 1_000_000 / total.max(1);
    successes == 0 && errors > 0 || max_ppm.is_some_and(|max| ppm > u64::from(max))
}

/// What an infeasible row was ruled out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuledOutBy {
    /// The confidence bounds of a latency or of its throughput.
    Bounds,
    /// Its share of errors, as it was seen.
    Errors,
    /// A sampled figure of a GPU, which has no bounds.
    GpuFigure,
}

impl Row {
    /// The standard error of ln throughput that the run itself shows.
    pub fn shown_throughput_error(&self) -> Option<f64> {
        Some(self.per_kilosecond_error? as f64 / self.per_kilosecond.max(1) as f64)
    }

    /// Whether more in flight may meet all that it misses: a least value of a GPU's figure, or a utilization. No early
    /// verdict on an objective ended it then. Utilization need not grow with the load: an engine for torch behind
    /// Triton had 47, 34 and 20 % of an H200 at 2, 8 and 32 in flight.
    pub fn leaves_higher_levels_open(&self, by: Judged<'_>) -> bool {
        if self.ruled_out_by(by) != Some(RuledOutBy::GpuFigure) {
            return false;
        }
        let missed = |limit: &GpuLimit| Some((limit.figure, limit.missed_by(self.gpu?.figure(limit.figure)?)?));
        let is_open = |missed: (GpuFigure, MissedSide)| match missed {
            (_, MissedSide::Below(_)) | (GpuFigure::Utilization, MissedSide::Above(_)) => true,
            (GpuFigure::Power | GpuFigure::Memory, MissedSide::Above(_)) => false,
        };
        by.gpu_limits.iter().filter_map(missed).all(is_open)
    }

    /// What an infeasible row was ruled out by. Errors come first, and a sampled figure last, as in a verdict. A row
    /// with another verdict was not.
    pub fn ruled_out_by(&self, by: Judged<'_>) -> Option<RuledOutBy> {
        if self.verdict != MeasurementVerdict::Infeasible {
            return None;
        }
        let is_missed = |limit: &GpuLimit| self.gpu?.figure(limit.figure).and_then(|figure| limit.missed_by(figure));
        let misses_a_figure = by.gpu_limits.iter().any(|limit| is_missed(limit).is_some());
        Some(match has_too_many_errors(self.errors, self.count as usize, by.error_rate_max_ppm) {
            true => RuledOutBy::Errors,
            false if misses_a_figure && !self.is_slow(by.objectives) => RuledOutBy::GpuFigure,
            false => RuledOutBy::Bounds,
        })
    }

    /// Whether the bounds of a latency lie above its limit. A latency that the row had no room for may.
    fn is_slow(&self, objectives: &[LatencyObjective]) -> bool {
        objectives.iter().any(|objective| {
            let of = |l: &&Latency| (l.metric, l.percentile) == (objective.metric, objective.percentile);
            self.latencies.iter().find(of).is_none_or(|l| l.lower_micros > objective.max_microseconds)
        })
    }
}

/// Model Analyzer's own figures of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelAnalyzerRow {
    /// Inferences per 1,000 seconds.
    pub per_kilosecond: u64,
    /// p99 in microseconds.
    pub p99_micros: u64,
}

/// What `GET /progress` returns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// [`crate::ProfileTask::input_hash`].
    pub input_hash: String,
    /// [`crate::ProfileTask::engine`].
    pub engine: EngineRef,
    /// Where the Job is.
    pub phase: Phase,
    /// Rows finished by this Job, in the order they finished; each (arm, level) once.
    pub rows: Vec<Row>,
    /// GPU time used by this Job so far, in milliseconds.
    pub gpu_millis: u64,
    /// What is not measured, and why; complete once the Job is finished, at most [`MAX_NOT_MEASURED`] entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<NotMeasured>,
}

/// An arm, or some levels of one, that a finished campaign did not measure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotMeasured {
    /// [`crate::Arm::id`].
    pub arm: String,
    /// The lowest and the highest of the levels; absent where no level of the arm was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<(u32, u32)>,
    /// Why.
    pub why: WhyNotMeasured,
    /// The same in words, with numbers; at most [`MAX_NOT_MEASURED_REASON_BYTES`].
    pub reason: String,
}

/// Why something was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WhyNotMeasured {
    /// It is not likely to meet the objectives.
    Infeasible,
    /// What it may gain is not worth a measurement.
    Dominated,
    /// It was worth a measurement that the budget did not allow.
    Budget,
    /// A measurement of the arm failed.
    Failed,
    /// The Job was asked to end before it reached this.
    Interrupted,
}

/// Where a Profile Job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all_fields = "camelCase")]
pub enum Phase {
    /// Waiting for Triton, or loading an arm.
    Loading {
        /// [`crate::Arm::id`], once one is chosen.
        arm: Option<String>,
    },
    /// Measuring a level.
    Measuring {
        /// [`crate::Arm::id`].
        arm: String,
        /// Requests or runs in flight.
        level: u32,
        /// Records so far.
        count: u32,
    },
    /// No more rows will come; the Job ends once this is acknowledged.
    Finished {
        /// What ended the campaign.
        end: ProfileEnd,
        /// The same in words.
        reason: String,
    },
    /// The Job could not go on; the rows stand.
    Failed {
        /// Whether another attempt can help.
        class: FailureClass,
        /// In words.
        text: String,
    },
}

/// What ended a Profile Job that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfileEnd {
    /// Nothing more is to be measured.
    Complete,
    /// The measurements or the GPU time of the task are used; there was more to measure.
    BudgetUsed,
    /// The pod was asked to end; another Job goes on from the rows.
    Interrupted,
}

/// Says that a row has more data than fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTooLarge {
    arm: String,
    level: u32,
    bytes: usize,
}

impl Row {
    /// Returns the row with its reason shortened so that it fits [`MAX_ROW_BYTES`].
    ///
    /// # Errors
    /// [`RowTooLarge`] if the data alone does not fit.
    pub fn fitted(mut self) -> Result<Self, RowTooLarge> {
        loop {
            let bytes = self.json_bytes();
            let Some(over) = bytes.checked_sub(MAX_ROW_BYTES).filter(|over| *over > 0) else { return Ok(self) };
            if self.reason.is_empty() {
                return Err(RowTooLarge { arm: self.arm, level: self.level, bytes });
            }
            crate::message::shorten(&mut self.reason, over);
        }
    }

    fn json_bytes(&self) -> usize {
        serde_json::to_vec(self).expect("a row is plain data").len()
    }
}

impl NotMeasured {
    /// Returns the entry with its reason cut to [`MAX_NOT_MEASURED_REASON_BYTES`].
    #[must_use]
    pub fn fitted(mut self) -> Self {
        if let Some(over) = self.reason.len().checked_sub(MAX_NOT_MEASURED_REASON_BYTES).filter(|over| *over > 0) {
            crate::message::shorten(&mut self.reason, over);
        }
        self
    }
}

impl From<LatencyTuple> for Latency {
    fn from((metric, percentile, micros, lower_micros, upper_micros): LatencyTuple) -> Self {
        Self { metric: metric.into(), percentile, micros, lower_micros, upper_micros }
    }
}

impl From<Latency> for LatencyTuple {
    fn from(latency: Latency) -> Self {
        let Latency { metric, percentile, micros, lower_micros, upper_micros } = latency;
        (metric.into(), percentile, micros, lower_micros, upper_micros)
    }
}

impl fmt::Display for RowTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, level, bytes } = self;
        write!(f, "the row of arm {arm:?} at level {level} has {bytes} bytes without its reason; {MAX_ROW_BYTES} fit")
    }
}

impl std::error::Error for RowTooLarge {}

#[cfg(test)]
mod tests;
