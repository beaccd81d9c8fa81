//! Profile Jobs: what to measure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use slipway_vocabulary::{GpuLimit, LatencyMetric, LatencyObjective, ProfilingDriver};

use crate::{Digest, EngineEntry, EngineRef, NoBuildBackend, Row};

/// Asks for the measurements of one engine on one GPU shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileTask {
    /// The Profile's input hash: names the folder of raw records and guards against mixing campaigns.
    pub input_hash: String,
    /// The engine under test.
    pub engine: EngineRef,
    /// Name of the model to query (`agent`, or the entry of an engine of TensorRT-LLM).
    pub model: String,
    /// Entry of the repository of an engine of TensorRT-LLM. It loads models of its own, whose engine gets the
    /// settings.
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine")]
    pub entry: EngineEntry,
    /// Folder of the tokenizer, where the model takes tokens; absent where it takes text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// The backend of an engine without a build, whose tensors the model then has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_build: Option<NoBuildBackend>,
    /// Whether the server loads the model at its start and keeps it. So do vLLM's own server, and Triton's processes of
    /// an engine that is split over GPUs, because Triton's API reaches only one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loaded_at_start: bool,
    /// GPUs that the pod holds, for GPU time; 0 on a CPU.
    pub gpus: u32,
    /// What to run.
    pub campaign: Campaign,
    /// The traffic.
    pub workloads: Vec<Workload>,
    /// The limits on latency that decide feasible or not.
    #[serde(with = "crate::objective")]
    pub objectives: Vec<LatencyObjective>,
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
    /// Engines of the same campaign that were measured before: they show what the search has to beat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_engines: Vec<OtherEngine>,
    /// The throughput that one replica must reach, in requests or runs per 1,000 seconds; absent without a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_per_kilosecond: Option<u64>,
    /// What tells engines of several prices apart; absent where all have one price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// Bounds on what the GPUs do, each figure once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_limits: Vec<GpuLimit>,
    /// What an outside model expects of the engine, level by level, whatever the arm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Expected>,
    /// The point to begin with, where an earlier campaign chose it under another load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Cell>,
}

/// What an outside model expects of an engine at a level. It is trusted for no verdict, and its unit may be off by a
/// factor that all of a campaign's engines share, for its requests are others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expected {
    /// Requests in flight on one replica.
    pub level: u32,
    /// Requests per 1,000 seconds.
    pub per_kilosecond: u64,
    /// Latency of a request.
    pub request_micros: u64,
    /// Time to the first token of a request.
    pub first_token_micros: u64,
    /// Time between two tokens.
    pub inter_token_micros: u64,
}

impl Expected {
    /// What stands for a metric, in microseconds. A run is as long as its requests, up to a factor, and so is the wait
    /// for the first token of its answer.
    pub const fn micros(&self, metric: LatencyMetric) -> u64 {
        match metric {
            LatencyMetric::RequestLatency | LatencyMetric::AgentRunLatency | LatencyMetric::TimeToFirstToken => {
                self.request_micros
            }
            LatencyMetric::RequestTimeToFirstToken => self.first_token_micros,
            LatencyMetric::InterTokenLatency => self.inter_token_micros,
        }
    }
}

/// What a replica costs, and what engines of several prices are held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Costs {
    /// What an hour of a replica costs, in millionths of a US dollar.
    pub microdollars_per_hour: u64,
    /// The throughput that a replica must reach at any price, in requests or runs per 1,000 seconds; absent without
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_per_kilosecond: Option<u64>,
    /// The most that 1,000 requests or runs may cost, in millionths of a US dollar; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_microdollars_per_thousand: Option<u64>,
}

/// An engine of the same campaign that was measured before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherEngine {
    /// Its name, as people see it.
    pub name: String,
    /// GPUs that one replica of it takes; 0 on a CPU.
    pub gpus: u32,
    /// What an hour of a replica costs, in millionths of a US dollar; absent where all have one price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microdollars_per_hour: Option<u64>,
    /// What was measured of it.
    pub rows: Vec<Row>,
    /// What an outside model expects of it, level by level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Expected>,
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
    /// Measures points once more each, in their order, to tell close ones apart.
    Repeat {
        /// Each once, at most 16; arms of one id are the same.
        points: Vec<Cell>,
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

/// A configuration at a level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cell {
    /// The configuration.
    pub arm: Arm,
    /// Requests or runs in flight.
    pub level: u32,
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

impl Driver {
    /// What it is, whatever its settings.
    pub const fn kind(&self) -> ProfilingDriver {
        match self {
            Self::ModelAnalyzer => ProfilingDriver::ModelAnalyzer,
            Self::AgentRun(_) => ProfilingDriver::AgentRun,
        }
    }
}

/// How agent runs are driven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRunSettings {
    /// The sidecar's API, as in `http://127.0.0.1:8080`.
    pub endpoint: String,
    /// The runs.
    pub trace: Runs,
    /// A run that takes longer is an error, in milliseconds.
    pub timeout_millis: u64,
    /// Pods among which recorded arrivals are shared: each one has the runs of one pod. Absent means that runs arrive
    /// at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_replicas: Option<u32>,
}

/// The runs that are made. Recorded ones are written as a file alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Runs {
    /// The questions and the recorded tool results: a [`TraceLine`] a line.
    ///
    /// [`TraceLine`]: slipway_vocabulary::recording::TraceLine
    Recorded(DataFile),
    /// They are made up.
    Synthetic(SyntheticRuns),
    /// They are made up from the lengths of recorded ones.
    #[serde(rename_all = "camelCase")]
    Lengths {
        /// A [`RunLengths`] a line.
        ///
        /// [`RunLengths`]: slipway_vocabulary::recording::RunLengths
        lengths: DataFile,
        /// Makes equal texts of equal lengths.
        seed: u64,
    },
}

/// Lengths from which runs are made up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SyntheticRuns {
    /// Tokens of a question.
    pub input_tokens: Spread,
    /// Tokens that the model writes in a request.
    pub output_tokens: Spread,
    /// Calls of the tool in a run.
    pub tool_calls: u32,
    /// Tokens of its result.
    pub tool_result_tokens: u32,
    /// How long it takes, in microseconds.
    pub tool_latency_micros: u64,
    /// Runs that arrive at the same moment.
    pub burst: u32,
    /// Makes equal runs of equal lengths.
    pub seed: u64,
}

/// A lognormal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spread {
    /// Its median.
    pub median: u32,
    /// Its 95th percentile; the median where it is fixed.
    pub p95: u32,
    /// No length is more.
    pub longest: u32,
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
    /// A [`crate::QualityPrompt`] a line; `{{number}}` and `{{word}}` in a prompt are drawn for each request.
    pub prompts: DataFile,
}

/// Data of the user's as it was when the campaign was planned: what it measures is true of nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataFile {
    /// Where it is mounted.
    pub path: String,
    /// SHA-256 of its text.
    pub digest: Digest,
}

/// What the search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OptimizeFor {
    /// Most requests or runs a second.
    Throughput,
    /// Lowest latency at the first objective's percentile.
    Latency,
    /// Most requests or runs per GPU second, or per dollar where prices differ.
    Cost,
}

/// Spaces of an engine with at most so many cells are walked whole, where the budget allows it. Larger ones are
/// searched.
pub const MOST_WALKED: usize = 24;

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
