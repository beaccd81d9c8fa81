//! Observed state of an AgentDeployment. Only the operator writes it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    autoscaling::AutoscalingStatus,
    defaults::TakenDefaults,
    drift::DriftStatus,
    figures::{CostFigures, ErrorRateFigures, LatencyFigures, ThroughputFigures},
    model::Precision,
    notified::{ToldFact, UndeliveredNotification},
    reprofiling::ReprofilingStatus,
    rollout_status::RolloutStatus,
    self_check::SelfCheckStatus,
    slo::ThroughputUnit,
};
use crate::v1alpha1::shared::{self, ServingConfiguration};

/// Observed state of an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeploymentStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary of the state for people. Programs read the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Ready, Reconciling and Stalled as kstatus defines them, and further conditions.
    #[serde(default)]
    #[schemars(schema_with = "shared::conditions")]
    pub conditions: Vec<Condition>,
    /// The resolved model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ResolvedModel>,
    /// Values of fields that the spec leaves out.
    #[serde(default, skip_serializing_if = "TakenDefaults::is_empty")]
    pub defaults: TakenDefaults,
    /// Images of `spec.engine`, by content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["reference"]))]
    pub images: Vec<ResolvedImage>,
    /// Engines under consideration, in order of preference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub engines: Vec<EngineChoice>,
    /// Configuration that serves or is about to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected: Option<SelectedConfiguration>,
    /// Profile whose choice serves or is about to, or which is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub profile: Option<String>,
    /// Objectives, each with its target, its predicted and its observed value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub slo: Vec<ObjectiveStatus>,
    /// Objectives that are met, of those that are observed: `2/2`. Absent while none is observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub objectives_met: Option<String>,
    /// Number of objectives that are observed: the second number of `objectivesMet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_objectives: Option<i32>,
    /// Number of observed objectives that are met: the first number of `objectivesMet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met_objectives: Option<i32>,
    /// Names of the objectives that were missed when traffic last judged them. An objective without traffic keeps its
    /// state. Receivers are notified of changes to this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(max = 63)))]
    pub missed_objectives: Vec<String>,
    /// The revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// Drift of the revision that serves. Absent before the first traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<DriftStatus>,
    /// What the judge says of stable's own pods, which are alike. Absent where nothing is judged, and before the first
    /// check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheckStatus>,
    /// Campaigns by schedule and after drift. Absent if there never was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reprofiling: Option<ReprofilingStatus>,
    /// Attempts of the Jobs of this AgentDeployment, recorded before each Job is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "inputHash"])
    )]
    pub jobs: Vec<JobAttempt>,
    /// What events and receivers were notified of. They are notified again when a fact changes, not when its message
    /// does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 24), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["about"]))]
    pub told: Vec<ToldFact>,
    /// Notifications that receivers may lack. Each stays until all of its receivers have it, have refused it, or were
    /// given up. An operator that takes over sends what is left here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub undelivered: Vec<UndeliveredNotification>,
    /// Number of pods of stable.
    #[serde(default)]
    pub replicas: i32,
    /// Ready pods of the wanted ones: `2/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ready_replicas: Option<String>,
    /// Number of ready pods: the first number of `readyReplicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<i32>,
    /// Number of wanted pods: the second number of `readyReplicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_pods: Option<i32>,
    /// State of autoscaling, with `spec.serving.autoscaling`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AutoscalingStatus>,
    /// Label selector of the serving pods, for /scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
}

/// Stage of an AgentDeployment, as a summary for people. Programs read the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Stage {
    /// The spec cannot be carried out.
    Refused,
    /// Resolving the model reference.
    Resolving,
    /// Copying the checkpoint into the artifact store.
    Fetching,
    /// Building engines.
    Building,
    /// Measuring configurations.
    Profiling,
    /// Starting the selected revision, or moving traffic to it step by step.
    RollingOut,
    /// A rollout waits for a person, or for capacity in the cluster.
    Paused,
    /// A revision serves; a new choice waits for approval.
    AwaitingApproval,
    /// A revision serves; the selected one did harm and was rolled back.
    RolledBack,
    /// A revision serves, and nothing is left to do.
    Serving,
    /// A revision serves; a step towards the spec failed permanently. The condition Stalled says which and why.
    Stalled,
    /// A step failed permanently, and no revision serves.
    Failed,
}

/// The model behind a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedModel {
    /// Reference that was resolved.
    #[schemars(length(max = 1024))]
    pub uri: String,
    /// Reference with its revision pinned.
    #[schemars(length(max = 1024))]
    pub pinned_uri: String,
    /// Commit of the reference, if the source has commits.
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
    /// Number of parameters, counted from the checkpoint's headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<i64>,
    /// Figures of the checkpoint's config.json, for backends that plan engines by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ResolvedShape>,
    /// Whether the checkpoint is in the artifact store.
    #[serde(default)]
    pub fetched: bool,
}

/// The shape of a transformer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedShape {
    /// First entry of `architectures`.
    #[schemars(length(max = 128))]
    pub architecture: String,
    /// Number of transformer layers.
    pub layers: i64,
    /// Number of attention heads.
    pub heads: i64,
    /// Number of key-value heads.
    pub key_value_heads: i64,
    /// Size of a head.
    pub head_dim: i64,
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Width of the MLP, or of one expert's.
    pub intermediate_size: i64,
    /// Number of experts per layer; 1 without a mixture of experts.
    pub experts: i64,
    /// Number of experts that process a token.
    pub experts_per_token: i64,
    /// Number of layers of a mixture that have one MLP in place of experts. Absent means none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dense_layers: i64,
    /// Width of the MLP of these layers.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dense_intermediate_size: i64,
    /// Width of the experts that process every token, together. Absent means none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shared_intermediate_size: i64,
    /// Numbers that latent attention keeps of a token in a layer. Absent means heads of keys and values.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latent_size: i64,
    /// Number of tokens in the vocabulary.
    pub vocabulary: i64,
    /// Whether the output layer shares the embedding's weights.
    pub tied_embeddings: bool,
    /// Maximum length of a sequence that the positions allow.
    pub max_positions: i64,
    /// Data type of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub dtype: Option<String>,
    /// Quantization of the weights: a value of `search.precision`, or the name of another method. Absent if they are
    /// not quantized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub quantization: Option<String>,
    /// Method that quantized the weights, where `quantization` is a value of `search.precision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub quantization_method: Option<String>,
    /// Bytes of the weights that are loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter_bytes: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// An image reference and its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedImage {
    /// Reference in the spec.
    #[schemars(length(max = 512))]
    pub reference: String,
    /// Digest of the content.
    #[schemars(length(max = 512))]
    pub digest: String,
    /// The same image by digest, as it can be pulled. New plans name it so. Absent where the image was imported into
    /// its node, which has no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub pinned: Option<String>,
}

/// One engine under consideration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineChoice {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Display name of the engine: `int8`, or `int8-small` for a variant.
    #[serde(default)]
    #[schemars(length(max = 63))]
    pub display_name: String,
    /// Numeric format of its weights.
    pub precision: Precision,
    /// State of the engine, in words.
    #[schemars(length(max = 256))]
    pub state: String,
    /// Measured quality, where `spec.slo.quality` asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<MeasuredQuality>,
    /// What a campaign that asked for the engine may do, with `profiling.engines: WhenAsked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<EngineOffer>,
}

/// Answer to a campaign that asked for an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineOffer {
    /// Digest of the manifest of the artifact that may be measured. Absent if the engine failed or was refused: the
    /// state says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 80))]
    pub manifest_digest: Option<String>,
}

/// Quality of an engine's answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MeasuredQuality {
    /// Digest of the artifact's manifest.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
    /// Digest of the data set.
    #[schemars(length(max = 80))]
    pub dataset_digest: String,
    /// Number of samples scored.
    pub samples: i32,
    /// Mean score, in parts per million.
    pub score_parts_per_million: i32,
    /// Mean score of the reference minus that of the engine, in parts per million. Absent for the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_parts_per_million: Option<i32>,
    /// 95 % upper bound of that drop, in parts per million.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_upper_bound_parts_per_million: Option<i32>,
    /// Whether the engine passes the quality gate.
    pub accepted: bool,
}

/// The configuration that serves or is about to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedConfiguration {
    /// Display name of the engine: `fp32`. Of an upstream its model and host.
    #[schemars(length(max = 63))]
    pub display_name: String,
    /// The engine. Absent with an upstream.
    #[serde(flatten)]
    pub artifact: Option<SelectedArtifact>,
    /// Chosen level: the maximum number of agent runs in flight on one replica.
    pub max_in_flight: i32,
    /// Settings of the model's configuration. Absent means as the repository has it.
    #[serde(default, skip_serializing_if = "ServingConfiguration::is_default")]
    pub configuration: ServingConfiguration,
    /// What serving it is predicted to cost. Absent if the operator's configuration has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<SelectedCost>,
    /// Why it was selected.
    #[schemars(length(max = 512))]
    pub why: String,
}

/// The engine of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedArtifact {
    /// Name of the Engine object.
    #[schemars(length(max = 63))]
    pub engine: String,
    /// Digest of the artifact's manifest.
    #[schemars(length(max = 80))]
    pub manifest_digest: String,
}

impl SelectedConfiguration {
    /// Name of the Engine object; `None` with an upstream.
    pub fn engine(&self) -> Option<&String> {
        self.artifact.as_ref().map(|artifact| &artifact.engine)
    }
}

/// What the chosen configuration costs at its predicted throughput, in millionths of a US dollar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectedCost {
    /// The figures in words: `$0.42 for 1,000 runs, $1.1 for a million output tokens`.
    #[schemars(length(max = 128))]
    pub text: String,
    /// What is counted.
    pub unit: ThroughputUnit,
    /// For 1,000 runs or requests.
    pub microdollars_per_thousand: i64,
    /// For a million output tokens. Absent where the driver does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microdollars_per_million_tokens: Option<i64>,
    /// For one replica, an hour.
    pub microdollars_per_replica_hour: i64,
}

/// State of one objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectiveStatus {
    /// Name of the objective. Those without one are `slo.throughput`, `slo.cost` and `slo.errorRate`.
    #[schemars(length(max = 63))]
    pub name: String,
    /// What is bounded: `AgentRunLatency p95`.
    #[schemars(length(max = 63))]
    pub objective: String,
    /// The bound: `≤ 500ms`.
    #[schemars(length(max = 32))]
    pub target: String,
    /// Value that profiling predicts. Absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub predicted: Option<String>,
    /// Value that the serving pods observed, with two significant digits. Absent without traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub observed: Option<String>,
    /// Difference of the observed latency from the predicted one: `+12%`. It triggers nothing: profiling measures
    /// with the given workloads, at the chosen level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub prediction_error: Option<String>,
    /// When `observed` was last updated. That happens after five minutes, or when `met` changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Time>,
    /// Time that the observations really span: `12m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub window: Option<String>,
    /// The same time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<i64>,
    /// The same figures as numbers, of a latency objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyFigures>,
    /// The same figures as numbers, of `slo.errorRate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<ErrorRateFigures>,
    /// The same figures as numbers, of `slo.throughput`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputFigures>,
    /// The same figures as numbers, of `slo.cost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostFigures>,
    /// Whether the observed value meets the target. Absent without traffic, and for throughput and cost, which only
    /// profiling judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
    /// What is left of the error budget of 30 days. Absent if the operator's configuration names no Prometheus, and
    /// for throughput and cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<ErrorBudget>,
}

/// An error budget: the share of bad runs that an objective allows, and how much of it is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBudget {
    /// What is left, rounded down: `83%`. Below zero it is overspent, and the objective is missed over the window.
    #[schemars(length(max = 8))]
    pub left: String,
    /// What is left, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_percent: Option<i32>,
    /// Time for which Prometheus really has counters, at most 30 days: `12d`.
    #[schemars(length(max = 16))]
    pub window: String,
    /// The same time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<i64>,
    /// When Prometheus was queried.
    pub at: Time,
}

/// Latest attempt of one kind of Job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobAttempt {
    /// Kind of Job: resolve, fetch or quality; profile in a campaign.
    #[schemars(length(max = 16))]
    pub kind: String,
    /// Hash of the Job's inputs.
    #[schemars(length(max = 64))]
    pub input_hash: String,
    /// Number of the attempt, from 1.
    pub attempt: i32,
}
