//! Profile: one measurement campaign, the record that people audit.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    agent_deployment::{
        Agent, EngineEntry, ErrorRateObjective, JobAttempt, LatencyMetric, LatencyObjective, NoBuildBackend,
        OptimizeFor, ProfilingBudget, ProfilingDriver, ThroughputObjective,
    },
    shared::{self, ConfigMapKeyReference, ContainerResources, ServingConfiguration, Toleration},
};
use crate::values::Percentile;

/// The frozen inputs of a campaign. Its name ends in the hash of them, so a spec never changes: other inputs are another Profile.
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
    .message("a Profile's inputs cannot change: other inputs are another Profile"))]
pub struct ProfileSpec {
    /// The AgentDeployment that asked.
    #[schemars(length(min = 1, max = 63))]
    pub agent_deployment: String,
    /// Hash of everything below.
    #[schemars(length(min = 1, max = 64))]
    pub input_hash: String,
    /// What is measured, and by what it is judged.
    pub inputs: ProfileInputs,
}

/// Everything that decides what a campaign measures and chooses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileInputs {
    /// The engines, in the order of preference.
    #[schemars(length(min = 1, max = 16))]
    pub engines: Vec<ProfiledEngine>,
    /// The serving configurations of each engine.
    #[schemars(length(min = 1, max = 64))]
    pub configurations: Vec<NamedConfiguration>,
    /// Requests or runs in flight, ascending.
    #[schemars(length(min = 1, max = 16), inner(range(min = 1, max = 1024)))]
    pub levels: Vec<i32>,
    /// What generates the load.
    pub driver: ProfilingDriver,
    /// The prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub prompts: Vec<FrozenPrompts>,
    /// The recorded runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_trace: Option<FrozenData>,
    /// Bounds on latencies.
    #[schemars(length(max = 16))]
    pub objectives: Vec<LatencyObjective>,
    /// Most failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<ErrorRateObjective>,
    /// Least throughput over all replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputObjective>,
    /// Replicas that share the throughput.
    pub replicas: i32,
    /// What is looked for among the configurations that meet the objectives.
    pub optimize_for: OptimizeFor,
    /// What the campaign may cost.
    pub budget: ProfilingBudget,
    /// Number of the repetition, where what serves is measured anew: it takes no rows over from earlier campaigns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<i32>,
    /// The agent whose runs are replayed.
    pub agent: Agent,
    /// Where Triton runs.
    pub placement: ProfilePlacement,
}

/// An engine of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfiledEngine {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Digest of the artifact's manifest.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// The engine as people call it.
    #[schemars(length(max = 63))]
    pub display_name: String,
    /// Processes that serve an engine of TensorRT-LLM, each with a GPU; absent with other backends.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "tensorRTLLMRanks")]
    #[schemars(range(min = 1))]
    pub tensorrt_llm_ranks: Option<i32>,
    /// What of the repository of an engine of TensorRT-LLM is asked; absent means the engine itself.
    #[serde(default, skip_serializing_if = "EngineEntry::is_engine", rename = "tensorRTLLMEntry")]
    pub tensorrt_llm_entry: EngineEntry,
    /// The backend of an engine without a build; absent with other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_build: Option<NoBuildBackend>,
}

/// A serving configuration with the name that rows give it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedConfiguration {
    /// Unique in the campaign: `default`, or what it sets, as `instances-2`.
    #[schemars(length(min = 1, max = 40))]
    pub name: String,
    /// What it sets.
    pub settings: ServingConfiguration,
}

/// Prompts as they were when the campaign began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrozenPrompts {
    /// Name of the workload.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Share of the requests.
    pub weight: i32,
    /// The lines.
    pub data: FrozenData,
}

/// A key of a ConfigMap with the digest of its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrozenData {
    /// Where the text lies.
    pub config_map: ConfigMapKeyReference,
    /// SHA-256 of the text.
    #[schemars(length(max = 80))]
    pub digest: String,
}

/// Where the pods of a campaign run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfilePlacement {
    /// Image with tritonserver.
    #[schemars(length(min = 1, max = 512))]
    pub triton_image: String,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::label_values")]
    pub node_selector: std::collections::BTreeMap<String, String>,
    /// Taints to put up with.
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

/// What a campaign found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the campaign is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProfilePhase>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Ready, Reconciling and Stalled as kstatus defines them. Ready: the campaign has ended with a choice or with the finding that
    /// no configuration meets the objectives.
    #[serde(default)]
    #[schemars(schema_with = "shared::conditions")]
    pub conditions: Vec<Condition>,
    /// Finished measurements.
    #[serde(default)]
    pub rows: i32,
    /// Every finished measurement, in the order in which they finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 320), extend("x-kubernetes-list-type" = "atomic"))]
    pub measurements: Vec<Measurement>,
    /// Engines whose measuring has ended, with what ended it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["engine"]))]
    pub engines: Vec<MeasuredEngine>,
    /// What was not measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub not_measured: Vec<NotMeasured>,
    /// Positions in `measurements` of the points that no other beats in both latency and throughput.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
    pub front: Vec<i32>,
    /// What was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<ProfileChoice>,
    /// Why nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infeasible: Option<Infeasible>,
    /// GPU time used, in milliseconds; time of the pods where they have no GPU.
    #[serde(default)]
    pub gpu_milliseconds: i64,
    /// Attempts of the campaign's Jobs, written before each Job is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "inputHash"])
    )]
    pub jobs: Vec<JobAttempt>,
}

/// Where a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ProfilePhase {
    /// Configurations are compared.
    Exploring,
    /// The best is run at its target load.
    Confirming,
    /// A configuration was chosen.
    Chosen,
    /// No configuration meets the objectives.
    Infeasible,
    /// The campaign could not be carried out.
    Failed,
}

/// What a row was measured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum MeasurementPurpose {
    /// To compare configurations: a fixed number in flight.
    Explore,
    /// To predict what serving will be: arrivals at the target rate, in full length.
    Confirm,
}

/// What a row says of the objectives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum MeasurementVerdict {
    /// Every objective that was measured is met, by its bound.
    Feasible,
    /// An objective is missed, by its bound.
    Infeasible,
    /// Some objective has too few requests to be decided; never chosen.
    Unbounded,
    /// The measurement did not come about.
    Failed,
}

/// One configuration at one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration.
    #[schemars(length(max = 40))]
    pub configuration: String,
    /// Requests or runs in flight.
    pub level: i32,
    /// What it was measured for.
    pub purpose: MeasurementPurpose,
    /// What it says of the objectives.
    pub verdict: MeasurementVerdict,
    /// Requests or runs that succeeded.
    pub count: i32,
    /// Requests or runs that failed.
    pub errors: i32,
    /// Measured time in milliseconds.
    pub milliseconds: i64,
    /// Successes per 1,000 seconds.
    pub per_kilosecond: i64,
    /// Percentiles with their 95 % bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub latencies: Vec<MeasuredLatency>,
    /// GPU time that it cost, in milliseconds.
    pub gpu_milliseconds: i64,
    /// SHA-256 of the raw records in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub records: Option<String>,
    /// The earlier Profile that measured it; absent if this one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub measured_in: Option<String>,
    /// In words, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub reason: String,
}

/// A percentile with its bounds, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredLatency {
    /// The latency.
    pub metric: LatencyMetric,
    /// The percentile.
    pub percentile: Percentile,
    /// The sample's percentile.
    pub microseconds: i64,
    /// Lower bound.
    pub lower: i64,
    /// Upper bound; absent if there are too few requests for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<i64>,
}

/// An engine whose measuring has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredEngine {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// What ended it, in words.
    #[schemars(length(max = 512))]
    pub end: String,
}

/// What was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotMeasured {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration; absent means all of the engine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub configuration: Option<String>,
    /// Why.
    #[schemars(length(max = 256))]
    pub reason: String,
}

/// The configuration that a campaign chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileChoice {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Name of the configuration.
    #[schemars(length(max = 40))]
    pub configuration: String,
    /// Requests or runs in flight.
    pub level: i32,
    /// Position in `measurements` of the row that predicts what serving will be.
    pub predicted_by: i32,
    /// Why this one.
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
    /// Position in `measurements` of the point that misses its worst objective by the least factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<i32>,
    /// What it would take, in words with numbers.
    #[schemars(length(max = 512))]
    pub what_it_would_take: String,
}
