//! Profile: the auditable record of one campaign.

mod definitions;
mod engines;
mod inputs;
mod phase;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::MeasurementVerdict;

pub use self::{
    definitions::DEFINITIONS,
    engines::{AskedEngine, EngineAxes, ExpectedLevel, MeasuredEngine, ProfiledEngine, WarmStart},
    phase::ProfilePhase,
};

use super::{
    agent_deployment::{
        Agent, CostObjective, ErrorRateObjective, GpuFigure, JobAttempt, LatencyMetric, OptimizeFor, ProfilingBudget,
        ProfilingDriver, SyntheticRuns, ThroughputObjective, WrittenGpuLimit, WrittenObjective,
    },
    shared::{self, ConfigMapKeyReference, ContainerResources, ServingConfiguration, Toleration},
};
use crate::values::{Percentile, PositiveDecimal};

/// Frozen inputs of a campaign. The object's name ends in their hash, so a spec never changes: other inputs are
/// another Profile.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "slipway.dev",
    version = "v1alpha1",
    kind = "Profile",
    plural = "profiles",
    shortname = "prof",
    category = "slipway",
    namespaced,
    status = "ProfileStatus",
    derive = "PartialEq",
    doc = "One measurement campaign over engines and their serving configurations.",
    printcolumn(name = "Agent", type_ = "string", json_path = ".spec.agentDeployment"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Choice", type_ = "string", json_path = ".status.choice.configuration"),
    printcolumn(name = "Rows", type_ = "integer", json_path = ".status.rows"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Message", type_ = "string", priority = 1, json_path = ".status.message")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf")
    .message("inputs is immutable: create another Profile for other inputs"))]
pub struct ProfileSpec {
    /// AgentDeployment that the campaign is for.
    #[schemars(length(min = 1, max = 63))]
    pub agent_deployment: String,
    /// Hash of `inputs`.
    #[schemars(length(min = 1, max = 64))]
    pub input_hash: String,
    /// What is measured, and how it is judged.
    pub inputs: ProfileInputs,
}

/// Everything that determines what a campaign measures and chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileInputs {
    /// Engines, in order of preference.
    #[schemars(length(min = 1, max = 16))]
    pub engines: Vec<ProfiledEngine>,
    /// Configurations of each engine.
    #[schemars(length(min = 1, max = 64))]
    pub configurations: Vec<NamedConfiguration>,
    /// Levels, ascending: requests or runs in flight.
    #[schemars(length(min = 1, max = 16), inner(range(min = 1, max = 1024)))]
    pub levels: Vec<i32>,
    /// What sends the load.
    pub driver: ProfilingDriver,
    /// Prompts of the workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub prompts: Vec<FrozenPrompts>,
    /// Recorded runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_trace: Option<FrozenData>,
    /// Lengths of recorded runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_lengths: Option<FrozenData>,
    /// Recorded runs that arrived in a second over all replicas. Absent where their times say nothing of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_runs_per_second: Option<PositiveDecimal>,
    /// Number of replicas that share recorded runs, as it was when the campaign began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_replicas: Option<i32>,
    /// Runs that are made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<SyntheticRuns>,
    /// Table that the expectations of the engines are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<FrozenData>,
    /// Size of the language model that is served, as it was known when the campaign began. The search expects larger
    /// models to answer more slowly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ProfiledModel>,
    /// Latency objectives.
    #[schemars(length(max = 16))]
    pub objectives: Vec<WrittenObjective>,
    /// Tolerated failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<ErrorRateObjective>,
    /// Minimum throughput over all replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputObjective>,
    /// Maximum cost of 1,000 runs or requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostObjective>,
    /// Bounds on what the GPUs do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub gpu: Vec<WrittenGpuLimit>,
    /// Hash of the quality gate and its samples, which decide what may be measured. Absent where all engines are built
    /// and judged beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub quality: Option<String>,
    /// Price by which costs are compared, as it was when the campaign began. Absent if the choice does not depend on
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<HourlyPrice>,
    /// Prices by which costs are compared where engines are for several GPU models: one for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub prices: Vec<HourlyPrice>,
    /// Number of replicas that share the throughput.
    pub replicas: i32,
    /// How to rank the configurations that meet the objectives.
    pub optimize_for: OptimizeFor,
    /// Limits on the cost of the campaign.
    pub budget: ProfilingBudget,
    /// Number of the campaign, for one by schedule or after drift. Such a campaign reuses no rows of earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<i32>,
    /// Agent whose runs are replayed.
    pub agent: Agent,
    /// Where the campaign's pods run.
    pub placement: ProfilePlacement,
}

/// The size of a language model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfiledModel {
    /// Number of parameters.
    #[schemars(range(min = 1))]
    pub parameters: i64,
    /// Number of parameters that compute a token: fewer in a mixture of experts.
    #[schemars(range(min = 1))]
    pub active_parameters: i64,
}

/// A configuration with its name in the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedConfiguration {
    /// Unique name in the campaign: `default`, or what it sets, such as `instances-2`.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// Settings of the configuration.
    pub settings: ServingConfiguration,
}

/// Prompts as they were when the campaign began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrozenPrompts {
    /// Name of the workload.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Share of the requests, relative to the other workloads.
    pub weight: i32,
    /// Source of the lines.
    pub data: FrozenData,
}

/// A key of a ConfigMap with the digest of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrozenData {
    /// Source of the text.
    pub config_map: ConfigMapKeyReference,
    /// SHA-256 of the text.
    #[schemars(length(max = 80))]
    pub digest: String,
}

/// Price of what a pod holds, as the operator's configuration has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HourlyPrice {
    /// GPU model, by the label `nvidia.com/gpu.product`. Absent for pods without a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub gpu_product: Option<String>,
    /// Whether it is the price of spot nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spot: bool,
    /// US dollars an hour for one GPU, or for a pod without a GPU: `2.5`.
    pub per_hour: PositiveDecimal,
}

/// Where the pods of a campaign run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfilePlacement {
    /// Image with tritonserver.
    #[schemars(length(min = 1, max = 512))]
    pub triton_image: String,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::label_values")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
    /// Resources of Triton's container, as when it serves.
    #[serde(default)]
    pub triton_resources: ContainerResources,
    /// Resources of the agent runtime's container, as when it serves.
    #[serde(default)]
    pub agent_resources: ContainerResources,
}

/// State and findings of a campaign.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Phase of the campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProfilePhase>,
    /// The phase in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Ready, Reconciling and Stalled as kstatus defines them. Ready means that the campaign has ended, with a choice
    /// or with the finding that no configuration meets the objectives.
    #[serde(default)]
    #[schemars(schema_with = "shared::conditions")]
    pub conditions: Vec<Condition>,
    /// Number of finished measurements.
    #[serde(default)]
    pub rows: i32,
    /// Finished measurements, in the order in which they finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(deserialize_with = "definitions::read")]
    #[schemars(length(max = 320), extend("x-kubernetes-list-type" = "atomic"))]
    pub measurements: Vec<Measurement>,
    /// Point that a search begins with, where an earlier campaign of the same model chose it under another load and
    /// `spec.inputs.prior` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_start: Option<WarmStart>,
    /// Engines that the search asked for, in the order of asking. Empty where all were built beforehand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["engine"]))]
    pub asked: Vec<AskedEngine>,
    /// Engines whose measurements have ended, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["engine"]))]
    pub engines: Vec<MeasuredEngine>,
    /// What was not measured, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub not_measured: Vec<NotMeasured>,
    /// Positions in `measurements` of the Pareto front: points that no other beats in latency and throughput, and in
    /// cost where the choice depends on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub front: Vec<i32>,
    /// Price by which the costs of the measurements were calculated. Absent if the operator's configuration had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<HourlyPrice>,
    /// Prices by which the costs of the measurements were calculated where engines are for several GPU models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub prices: Vec<HourlyPrice>,
    /// Configuration that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ProfileChoice>,
    /// Why nothing was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
    /// GPU time used, in milliseconds. Time of the pods counts if they have no GPU.
    #[serde(default)]
    pub gpu_milliseconds: i64,
    /// Attempts of the campaign's Jobs, recorded before each Job is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "inputHash"])
    )]
    pub jobs: Vec<JobAttempt>,
}

/// Purposes of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum MeasurementPurpose {
    /// To compare configurations, with a fixed number in flight.
    Explore,
    /// To tell close configurations apart: measured again in turn, until what they are compared by is known.
    Repeat,
    /// To predict serving: arrivals at the target rate, at full length.
    Confirm,
}

/// Measurement of one configuration at one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration.
    #[schemars(length(max = 40))]
    pub configuration: String,
    /// Level: requests or runs in flight.
    pub level: i32,
    /// Purpose of the measurement.
    pub purpose: MeasurementPurpose,
    /// Round of a repeated measurement, from 1. Absent for other purposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub round: Option<i32>,
    /// Whether the objectives are met.
    pub verdict: MeasurementVerdict,
    /// Number of requests or runs that succeeded.
    pub count: i32,
    /// Number of requests or runs that failed.
    pub errors: i32,
    /// Measured time in milliseconds.
    pub milliseconds: i64,
    /// Successes per 1,000 seconds.
    pub per_kilosecond: i64,
    /// Standard error of `perKilosecond`. Absent of a measurement too short to show it, and of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_kilosecond_error: Option<i64>,
    /// Percentiles with their 95 % bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub latencies: Vec<MeasuredLatency>,
    /// Number of tokens that the model wrote in the runs that succeeded. Absent where the driver does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<i64>,
    /// What the GPUs did meanwhile. Absent where Triton did not say it, or was not asked: runs have it with `slo.gpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<MeasuredGpu>,
    /// What serving at this throughput costs, by `price`. Absent without a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MeasuredCost>,
    /// GPU time used, in milliseconds.
    pub gpu_milliseconds: i64,
    /// SHA-256 of the raw records in the artifact store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub records: Option<String>,
    /// Earlier Profile that measured it. Absent if this one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub measured_in: Option<String>,
    /// Remarks for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub reason: String,
    /// Version of the definitions of metrics by which it was measured. Absent means 1: there `TimeToFirstToken` is the
    /// longest wait for the first token of any of a run's model requests, now `RequestTimeToFirstToken`.
    #[serde(default = "definitions::first")]
    #[schemars(range(min = 1))]
    pub definitions: i32,
}

/// A percentile with its bounds, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredLatency {
    /// Latency that was measured.
    pub metric: LatencyMetric,
    /// Percentile that was measured.
    pub percentile: Percentile,
    /// Percentile of the sample.
    pub microseconds: i64,
    /// Lower 95 % bound.
    pub lower: i64,
    /// Upper 95 % bound. Absent with too few requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<i64>,
}

/// What the GPUs of a replica did, as Triton sampled it. A figure that it did not have is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredGpu {
    /// Mean utilization in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<i32>,
    /// Mean power of a GPU in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<i32>,
    /// Most memory used on a GPU in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mebibytes: Option<i32>,
}

impl MeasuredGpu {
    /// A figure of it, if it is known.
    pub fn figure(&self, figure: GpuFigure) -> Option<i32> {
        match figure {
            GpuFigure::Utilization => self.utilization_percent,
            GpuFigure::Power => self.power_watts,
            GpuFigure::Memory => self.memory_mebibytes,
        }
    }
}

/// What serving at a measured throughput costs, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredCost {
    /// For 1,000 requests or runs.
    pub microdollars_per_thousand: i64,
    /// For a million output tokens. Absent where the driver does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microdollars_per_million_tokens: Option<i64>,
}

/// Something that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotMeasured {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration. Absent means all of the engine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub configuration: Option<String>,
    /// Lowest of the levels that were not measured. Absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_level: Option<i32>,
    /// Highest of the levels that were not measured. Absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_level: Option<i32>,
    /// Why it was not measured.
    #[schemars(length(max = 256))]
    pub reason: String,
}

/// Configuration that a campaign chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileChoice {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration.
    #[schemars(length(max = 40))]
    pub configuration: String,
    /// Level: requests or runs in flight.
    pub level: i32,
    /// Position in `measurements` of the row that predicts serving.
    pub predicted_by: i32,
    /// Why it was chosen.
    #[schemars(length(max = 512))]
    pub why: String,
}

/// Why no configuration was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Infeasible {
    /// Name of the objective that binds at the nearest point.
    #[schemars(length(max = 63))]
    pub binding_objective: String,
    /// Position in `measurements` of the nearest point, which misses its worst objective by the smallest factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<i32>,
    /// What it would take, with figures.
    #[schemars(length(max = 512))]
    pub what_it_would_take: String,
}
