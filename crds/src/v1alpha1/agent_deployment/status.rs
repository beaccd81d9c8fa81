//! What the operator knows about an AgentDeployment. Only the operator writes it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    autoscaling::AutoscalingStatus, drift::DriftStatus, model::Precision, reprofiling::ReprofilingStatus,
    rollout_status::RolloutStatus,
};
use crate::v1alpha1::shared::{self, ServingConfiguration};

/// Observed state of an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeploymentStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the AgentDeployment stands, in one word for people; programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Ready, Reconciling and Stalled as kstatus defines them.
    #[serde(default)]
    #[schemars(schema_with = "shared::conditions")]
    pub conditions: Vec<Condition>,
    /// What the model reference stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ResolvedModel>,
    /// The images behind `spec.engine`, by content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reference"]))]
    pub images: Vec<ResolvedImage>,
    /// The engines under consideration, in the order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub engines: Vec<EngineChoice>,
    /// The configuration that is served or about to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<SelectedConfiguration>,
    /// The Profile whose choice is served or about to be, or which is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub profile: Option<String>,
    /// Every objective: its target, what profiling predicted, and what is observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub slo: Vec<ObjectiveStatus>,
    /// Objectives that are met against those that are observed, as `2/2`; absent as long as none is observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub objectives_met: Option<String>,
    /// Names of the objectives that were missed when traffic last judged them. An objective without traffic stays as it was; what
    /// enters or leaves this list is what receivers are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 63)))]
    pub missed_objectives: Vec<String>,
    /// The revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Whether what serves, or what users ask, has changed; absent before the first traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// Measurements of what serves, by schedule and after drift; absent where there never was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reprofiling: Option<ReprofilingStatus>,
    /// Attempts of the Jobs of this AgentDeployment, written before each Job is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "inputHash"])
    )]
    pub jobs: Vec<JobAttempt>,
    /// Pods that serve the stable revision.
    #[serde(default)]
    pub replicas: i32,
    /// Ready pods against wanted pods, as `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ready_replicas: Option<String>,
    /// How many pods the load needs, with `spec.serving.autoscaling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingStatus>,
    /// Label selector of the serving pods, for /scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
}

/// Where an AgentDeployment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Stage {
    /// The spec cannot be carried out.
    Refused,
    /// Finding out what the model reference stands for.
    Resolving,
    /// Bringing the checkpoint into the artifact store.
    Fetching,
    /// Building engines.
    Building,
    /// Measuring configurations.
    Profiling,
    /// Bringing up the selected revision, or giving it traffic step by step.
    RollingOut,
    /// A rollout that waits for a person, or for room in the cluster.
    Paused,
    /// A revision serves; a new choice waits for approval.
    AwaitingApproval,
    /// A revision serves; the selected one did harm and was rolled back.
    RolledBack,
    /// A revision serves and nothing is left to do.
    Serving,
    /// A revision serves; a step towards what the spec asks for failed for good. Condition Stalled says which and why.
    Stalled,
    /// A step failed for good, and no revision serves.
    Failed,
}

/// What a model reference stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedModel {
    /// The reference that was resolved.
    #[schemars(length(max = 1024))]
    pub uri: String,
    /// The reference with its revision pinned.
    #[schemars(length(max = 1024))]
    pub pinned_uri: String,
    /// Commit behind the reference, where the source has commits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,
    /// Digest over all files of the source.
    #[schemars(length(max = 80))]
    pub source_digest: String,
    /// Digest over the files of the tokenizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub tokenizer_digest: Option<String>,
    /// Bytes of all files.
    pub size_bytes: i64,
    /// Parameters of the model, counted from the checkpoint's headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<i64>,
    /// What the checkpoint's config.json says, for backends whose engines are planned by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ResolvedShape>,
    /// Whether the checkpoint lies in the artifact store.
    #[serde(default)]
    pub fetched: bool,
}

/// The shape of a transformer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedShape {
    /// The first of `architectures`.
    #[schemars(length(max = 128))]
    pub architecture: String,
    /// Transformer layers.
    pub layers: i64,
    /// Attention heads.
    pub heads: i64,
    /// Key-value heads.
    pub key_value_heads: i64,
    /// Size of a head.
    pub head_dim: i64,
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Width of an expert's or the only MLP.
    pub intermediate_size: i64,
    /// Experts of a layer; 1 without a mixture.
    pub experts: i64,
    /// Experts that a token visits.
    pub experts_per_token: i64,
    /// Tokens of the vocabulary.
    pub vocabulary: i64,
    /// Whether the output layer is the embedding.
    pub tied_embeddings: bool,
    /// Longest sequence that the positions allow.
    pub max_positions: i64,
    /// Data type of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub dtype: Option<String>,
    /// How the weights are quantized: a value of `search.precision`, or the name of another method. Absent where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub quantization: Option<String>,
}

/// An image reference and the content behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedImage {
    /// The reference in the spec.
    #[schemars(length(max = 512))]
    pub reference: String,
    /// Digest of the content.
    #[schemars(length(max = 512))]
    pub digest: String,
}

/// One engine under consideration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineChoice {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub name: String,
    /// The engine as people call it: `int8`, or `int8-small` for a variant.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub display_name: String,
    /// Its numeric format.
    pub precision: Precision,
    /// Its state, in words.
    #[schemars(length(max = 256))]
    pub state: String,
    /// How well it answers, where `spec.slo.quality` asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<MeasuredQuality>,
}

/// How well an engine answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredQuality {
    /// Digest of the artifact's manifest.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// Digest of the data set.
    #[schemars(length(max = 80))]
    pub dataset_digest: String,
    /// Samples scored.
    pub samples: i32,
    /// Mean score, in parts per million.
    pub score_parts_per_million: i32,
    /// Mean score of the reference less that of the engine, in parts per million; absent for the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_parts_per_million: Option<i32>,
    /// The 95 % upper bound of that drop, in parts per million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_upper_bound_parts_per_million: Option<i32>,
    /// Whether the gate lets the engine through.
    pub accepted: bool,
}

/// The configuration that is served or about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedConfiguration {
    /// The engine as people call it: `fp32`.
    #[schemars(length(max = 63))]
    pub display_name: String,
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Digest of the manifest of the artifact.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// Agent runs in flight on one replica, at most.
    pub max_in_flight: i32,
    /// What is set in the model's configuration; absent means as the repository has it.
    #[serde(default, skip_serializing_if = "ServingConfiguration::is_default")]
    pub configuration: ServingConfiguration,
    /// Why this one.
    #[schemars(length(max = 512))]
    pub why: String,
}

/// One objective as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveStatus {
    /// Name of the objective; `slo.throughput` and `slo.errorRate` for those without one.
    #[schemars(length(max = 63))]
    pub name: String,
    /// What is bounded: `AgentRunLatency p95`.
    #[schemars(length(max = 63))]
    pub objective: String,
    /// The bound: `≤ 500ms`.
    #[schemars(length(max = 32))]
    pub target: String,
    /// What profiling predicts; absent where it did not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub predicted: Option<String>,
    /// What the serving pods observed, with two significant digits; absent without traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub observed: Option<String>,
    /// By how much a latency that is observed is above what profiling predicts, or below it: `+12%`. It starts nothing: profiling measures
    /// with the workloads that it was given, at the load that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub prediction_error: Option<String>,
    /// When `observed` was last taken; it is taken anew after five minutes, or when `met` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
    /// The time that the observations really span: `12m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub window: Option<String>,
    /// Whether what is observed meets the target; absent without traffic, and for capacity, which only profiling judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// What is left of the error budget of 30 days; absent where the operator's configuration names no Prometheus, and for capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ErrorBudget>,
}

/// An error budget: the share of runs that an objective lets be bad, and what of it is not spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBudget {
    /// What is left, rounded down: `83%`; below zero it is overspent, and the objective is missed over the window.
    #[schemars(length(max = 8))]
    pub left: String,
    /// The time that Prometheus really has counters of, at most 30 days: `12d`.
    #[schemars(length(max = 16))]
    pub window: String,
    /// When it was asked.
    pub at: Time,
}

/// The latest attempt of one kind of Job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobAttempt {
    /// The kind of Job: resolve, fetch or quality.
    #[schemars(length(max = 16))]
    pub kind: String,
    /// Hash of what the Job works on.
    #[schemars(length(max = 64))]
    pub input_hash: String,
    /// Number of the attempt, from 1.
    pub attempt: i32,
}
