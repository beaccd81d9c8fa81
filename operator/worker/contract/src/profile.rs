//! Profile Jobs: what to measure, and the rows that come back.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{Digest, EngineRef, FailureClass};

/// Most bytes of a row's compact JSON.
pub const MAX_ROW_BYTES: usize = 512;

/// Asks for the measurements of one engine on one GPU shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileTask {
    /// The Profile's input hash: names the folder of raw records and guards against mixing campaigns.
    pub input_hash: String,
    /// The engine under test.
    pub engine: EngineRef,
    /// The model's name in the repository (`agent`).
    pub model: String,
    /// GPUs that the pod holds, for GPU time; 0 on a CPU.
    pub gpus: u32,
    /// What to run.
    pub campaign: Campaign,
    /// The traffic.
    pub workloads: Vec<Workload>,
    /// The limits on latency that decide feasible or not.
    pub objectives: Vec<Objective>,
    /// Most failed requests in parts per million, where the spec has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate_max_ppm: Option<u32>,
    /// What the search looks for among feasible points.
    pub optimize_for: OptimizeFor,
    /// How long a level runs.
    #[serde(default)]
    pub measure: MeasureSettings,
    /// Rows already recorded: they are not measured again.
    #[serde(default)]
    pub measured: Vec<Row>,
}

/// Says which points are measured, and by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Campaign {
    /// Searches arms x levels for the best feasible points.
    Explore {
        /// The engine's serving configurations.
        arms: Vec<Arm>,
        /// Requests in flight to choose from, ascending.
        levels: Vec<u32>,
        /// Most rows that may still be measured.
        max_measurements: u32,
        /// GPU time that may still be used, in milliseconds; the pod's wall time where it has no GPU.
        max_gpu_millis: u64,
        /// What generates the load.
        driver: Driver,
    },
    /// Runs one point open-loop at the target rate, full length.
    Confirm {
        /// The chosen configuration.
        arm: Arm,
        /// Most requests or runs in flight: the sidecar's limit.
        level: u32,
        /// Arrivals per 1,000 seconds (a Poisson process).
        arrivals_per_kilosecond: u64,
        /// Length of the run in milliseconds.
        run_millis: u64,
        /// What generates the load.
        driver: Driver,
    },
}

/// Generates the load of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Driver {
    /// Model Analyzer in remote mode, with perf_analyzer's per-request records.
    ModelAnalyzer,
    /// Whole agent runs through the sidecar, tool results replayed.
    AgentRun(AgentRunSettings),
}

/// How agent runs are driven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRunSettings {
    /// The sidecar's API, as in `http://127.0.0.1:8080`.
    pub endpoint: String,
    /// File with the questions and the recorded tool results, one run a line.
    pub trace_file: String,
    /// A run that takes longer is an error, in milliseconds.
    pub timeout_millis: u64,
}

/// One serving configuration of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arm {
    /// Unique in the campaign, at most 40 characters.
    pub id: String,
    /// What differs from the repository's own config.pbtxt.
    pub config: ServeConfig,
}

/// Overrides of a model's configuration that need no new engine; absent fields stay as the repository has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServeConfig {
    /// `instance_group.count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// `max_batch_size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_batch_size: Option<u32>,
    /// `dynamic_batching.max_queue_delay_microseconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_delay_micros: Option<u64>,
    /// `parameters`, key to string value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

/// One kind of traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    /// Its name in the spec.
    pub name: String,
    /// Its share, relative to the other workloads' weights.
    pub weight: u32,
    /// A file of [`crate::QualityPrompt`] lines; `{{number}}` and `{{word}}` in a prompt are drawn anew for each request.
    pub prompts_file: String,
}

/// A percentile that SLOs may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Percentile {
    /// The median.
    #[serde(rename = "p50")]
    P50,
    /// 90 %.
    #[serde(rename = "p90")]
    P90,
    /// 95 %.
    #[serde(rename = "p95")]
    P95,
    /// 99 %.
    #[serde(rename = "p99")]
    P99,
    /// 99.9 %.
    #[serde(rename = "p99.9")]
    P999,
}

/// A latency that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Metric {
    /// From sending a model request to its last response.
    RequestLatency,
    /// From sending a model request to its first token.
    TimeToFirstToken,
    /// A request's mean time between tokens.
    InterTokenLatency,
    /// From a question to the agent's answer.
    AgentRunLatency,
}

/// A limit on one percentile of one latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Objective {
    /// Its name in the spec.
    pub name: String,
    /// What is measured.
    pub metric: Metric,
    /// Which percentile.
    pub percentile: Percentile,
    /// The limit in microseconds.
    pub max_micros: u64,
}

/// What the search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OptimizeFor {
    /// Most requests or runs a second.
    Throughput,
    /// Lowest latency at the first objective's percentile.
    Latency,
    /// Most requests or runs per GPU second.
    Cost,
}

/// How long a level runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasureSettings {
    /// Requests of the first chunk; each next chunk has twice as many.
    pub first_chunk: u32,
    /// Most requests of a level over all chunks.
    pub max_requests: u32,
    /// Least duration of a chunk in milliseconds.
    pub min_chunk_millis: u64,
    /// No further chunk begins once a level has run so long, in milliseconds.
    pub max_level_millis: u64,
    /// Requests sent before the first chunk of an arm, not recorded.
    pub warm_up: u32,
}

impl Default for MeasureSettings {
    /// 60 requests first: one more than a p95 needs for a bound. At most 4,000, enough for p99.9's 2,995.
    fn default() -> Self {
        Self { first_chunk: 60, max_requests: 4_000, min_chunk_millis: 3_000, max_level_millis: 120_000, warm_up: 8 }
    }
}

/// One finished level: what a Profile's status records.
///
/// # Invariants
/// Compact JSON of at most [`MAX_ROW_BYTES`]; [`Row::fitted`] shortens the reason until it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// [`Arm::id`].
    pub arm: String,
    /// Requests or runs in flight.
    pub level: u32,
    /// What was concluded.
    pub verdict: Verdict,
    /// Requests or runs that succeeded.
    pub count: u32,
    /// Requests or runs that failed.
    pub errors: u32,
    /// Measured time in milliseconds.
    pub millis: u64,
    /// Successes per 1,000 seconds.
    pub per_kilosecond: u64,
    /// Percentiles with their bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<Latency>,
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
    /// In words, for people: why failed, why stopped early, what disagrees.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What was concluded from a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Every objective is met, by its bound.
    Feasible,
    /// An objective is missed, by its bound.
    Infeasible,
    /// Some objective has too few requests to be decided; never chosen.
    Unbounded,
    /// The measurement did not come about.
    Failed,
    /// The measurement measures something else than the workload (bodies repeated under KV reuse, client saturated).
    Invalid,
}

/// A percentile with its confidence bounds, in microseconds; `[metric, percentile, value, lower, upper]` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "LatencyTuple", into = "LatencyTuple")]
pub struct Latency {
    /// What is measured.
    pub metric: Metric,
    /// Which percentile.
    pub percentile: Percentile,
    /// The sample percentile.
    pub micros: u64,
    /// Lower bound.
    pub lower_micros: u64,
    /// Upper bound; absent if there are too few requests for one.
    pub upper_micros: Option<u64>,
}

type LatencyTuple = (Metric, Percentile, u64, u64, Option<u64>);

/// The GPU while a level ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gpu {
    /// Most memory used, MiB.
    pub memory_mib: u32,
    /// Mean utilization, percent.
    pub utilization_percent: u8,
    /// Mean power, watts.
    pub power_watts: u32,
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
    /// [`ProfileTask::input_hash`].
    pub input_hash: String,
    /// [`ProfileTask::engine`].
    pub engine: EngineRef,
    /// Where the Job is.
    pub phase: Phase,
    /// Rows finished by this Job, in the order they finished; each (arm, level) once.
    pub rows: Vec<Row>,
    /// GPU time used by this Job so far, in milliseconds.
    pub gpu_millis: u64,
}

/// Where a Profile Job is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all_fields = "camelCase")]
pub enum Phase {
    /// Waiting for Triton, or loading an arm.
    Loading {
        /// [`Arm::id`], once one is chosen.
        arm: Option<String>,
    },
    /// Measuring a level.
    Measuring {
        /// [`Arm::id`].
        arm: String,
        /// Requests or runs in flight.
        level: u32,
        /// Records so far.
        count: u32,
    },
    /// No more rows will come; the Job ends once this is acknowledged.
    Finished {
        /// Why the search ended.
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

/// Says that a row has more data than fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTooLarge {
    arm: String,
    level: u32,
    bytes: usize,
}

impl Percentile {
    /// Returns the share of values at or below it, in parts per million.
    pub fn ppm(self) -> u32 {
        match self {
            Self::P50 => 500_000,
            Self::P90 => 900_000,
            Self::P95 => 950_000,
            Self::P99 => 990_000,
            Self::P999 => 999_000,
        }
    }
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

impl From<LatencyTuple> for Latency {
    fn from((metric, percentile, micros, lower_micros, upper_micros): LatencyTuple) -> Self {
        Self { metric, percentile, micros, lower_micros, upper_micros }
    }
}

impl From<Latency> for LatencyTuple {
    fn from(latency: Latency) -> Self {
        let Latency { metric, percentile, micros, lower_micros, upper_micros } = latency;
        (metric, percentile, micros, lower_micros, upper_micros)
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
