//! State of a rollout.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::RolloutVerdict;

use super::baseline::RolloutBaseline;

/// The revisions of an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Hash of the plan that serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub stable: Option<String>,
    /// Hash of the plan that is being rolled out, while it differs from `stable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub canary: Option<String>,
    /// Weight of the canary, for people: `20%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub canary_share: Option<String>,
    /// Step of `spec.rollout.steps` that the canary is at, from 1. After the last step, it is one more than their
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i32>,
    /// Share of traffic that goes to the canary, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// When the current weights of the canary and its baseline were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_since: Option<Time>,
    /// Fresh pods of stable's plan that the canary is compared with, where `spec.rollout.baseline` is MirrorBaseline.
    /// Absent before they start, and once the canary has passed its last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<RolloutBaseline>,
    /// Last verdict of the judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<RolloutVerdict>,
    /// Reason for the verdict, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub reason: Option<String>,
    /// Reason for the verdict, with figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
    /// When the judge's figures were last written. It evaluates every ten seconds, and writes once a minute or when
    /// the verdict changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_at: Option<Time>,
    /// Expected duration of the whole rollout of a revision that equals stable, at stable's traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub expected_verdict: Option<String>,
    /// The same duration in seconds. Absent if it is unknown, or longer than a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_verdict_seconds: Option<i64>,
    /// Evidence of harm for each guard. The canary is rolled back when the logarithm of the weighted mean reaches
    /// that of one over `judge.falseRollback`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["guard"]))]
    pub evidence: Vec<LogEvidence>,
    /// Last values of the guardrails of `spec.rollout.guardrails`, since the canary has its weight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub guardrails: Vec<GuardrailStatus>,
    /// The judge's state. It is opaque, and a new version of the judge starts from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 12288))]
    pub judge_state: Option<String>,
    /// Available capacity, if it is less than the canary needs. Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RolloutCapacity>,
    /// Revisions that lost their traffic just now. Their pods stay a little longer, because gateways adopt new
    /// weights one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub leaving: Vec<LeavingRevision>,
    /// Plans that were rolled back, latest last. They are not tried again unless `spec.rollout.retry` or the
    /// annotation `slipway.dev/retry` names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["plan"]))]
    pub rejected: Vec<RejectedPlan>,
    /// Plan that waits for approval. Absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed: Option<ProposedPlan>,
    /// Other writer that has lately written the HTTPRoute. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_contest: Option<RouteContest>,
    /// Since when no gateway has served the HTTPRoute. Absent while one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_unavailable_since: Option<Time>,
}

/// Another writer of an AgentDeployment's HTTPRoute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteContest {
    /// Field manager, as the API server names it.
    #[schemars(length(max = 128))]
    pub manager: String,
    /// Fields of the route that it wrote: `spec.rules`.
    #[schemars(length(max = 128))]
    pub fields: String,
    /// When that was last observed, to the minute.
    pub at: Time,
}

/// A plan that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedPlan {
    /// Hash of the plan. Set `spec.rollout.approve` or the annotation `slipway.dev/approve` to it to approve the plan.
    #[schemars(length(max = 63))]
    pub plan_hash: String,
    /// When it began to wait.
    pub since: Time,
    /// Why it was chosen.
    #[schemars(length(max = 512))]
    pub why: String,
    /// What it would change, as `field: from -> to`: the choice, what profiling predicts for it, and everything else
    /// that the plan changes.
    #[schemars(length(max = 24), inner(length(max = 256)))]
    pub changes: Vec<String>,
}

/// Last state of a guardrail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailStatus {
    /// Name of the guardrail.
    #[schemars(length(max = 40))]
    pub name: String,
    /// Value of the canary. Absent if the query returned none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub value: Option<String>,
    /// The same value in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_millionths: Option<i64>,
    /// Maximum value. Absent if it is a multiple of a value that stable does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub limit: Option<String>,
    /// The same maximum in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_millionths: Option<i64>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub problem: Option<String>,
    /// Number of consecutive evaluations at which it was exceeded.
    #[serde(default)]
    pub exceeded: i32,
    /// When it was evaluated.
    pub at: Time,
}

/// Progress of a canary in a cluster that lacks capacity for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCapacity {
    /// What is done about it.
    pub phase: CapacityPhase,
    /// Number of pods that did not all fit at the last probe.
    pub wanted: i32,
    /// Number of pods that the canary continues with.
    pub pods: i32,
    /// Number of stable pods that were drained for it.
    pub drained: i32,
    /// When these numbers were set.
    pub since: Time,
    /// Message of the scheduler.
    #[schemars(length(max = 512))]
    pub message: String,
    /// When capacity for all pods is probed again. A changed spec probes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// Number of consecutive probes that failed.
    #[serde(default)]
    pub attempts: i32,
    /// Generation of the spec at the last probe.
    #[serde(default)]
    pub generation: i64,
    /// Why the canary will be rolled back once stable has its pods again. Absent if it will not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
    /// Value of `spec.rollout.retry` when stable pods were drained and the canary still did not fit. No pod is
    /// drained for this plan again until that value changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub drained_in_vain: Option<String>,
    /// Value of the annotation `slipway.dev/retry` at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub drained_in_vain_annotation: Option<String>,
    /// Value of the annotation `slipway.dev/retry` at the last probe. Another one for this plan probes at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub retry_annotation: Option<String>,
}

/// Phases of a canary that lacks capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum CapacityPhase {
    /// It has no pods, and capacity is probed from time to time.
    Waiting,
    /// It continues with fewer pods, at a weight that these can carry.
    Limited,
    /// Its pods replace stable pods, one at a time.
    InPlace,
    /// Stable gets its pods back, one at a time.
    Restoring,
}

/// The evidence of one guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEvidence {
    /// Name of the guard: `RequestLatency/relative`.
    #[schemars(length(max = 63))]
    pub guard: String,
    /// Natural logarithm of its e-value.
    #[schemars(length(max = 16))]
    pub log_evidence: String,
    /// The same logarithm in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_evidence_thousandths: Option<i64>,
}

/// A revision whose pods will be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeavingRevision {
    /// Name of the revision.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// When its pods will be removed.
    pub until: Time,
}

/// A plan that was rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedPlan {
    /// Hash of the plan.
    #[schemars(length(max = 63))]
    pub plan: String,
    /// When it was rolled back.
    pub at: Time,
    /// Why it was rolled back, with figures.
    #[schemars(length(max = 512))]
    pub reason: String,
    /// Value of `spec.rollout.retry` at that time, which does not count again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub retry: Option<String>,
    /// Value of the annotation `slipway.dev/retry` at that time, which does not count again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub retry_annotation: Option<String>,
}
