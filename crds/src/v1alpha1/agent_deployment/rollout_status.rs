//! What the operator knows of a rollout.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::baseline::RolloutBaseline;

/// The revisions of an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Hash of the plan that takes traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub stable: Option<String>,
    /// Hash of the plan that is being brought up, while it differs from `stable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub canary: Option<String>,
    /// Share of traffic that goes to the canary, for people: `20%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    pub canary_share: Option<String>,
    /// Step of `spec.rollout.steps` that the canary is at, from 1; one more than there are steps once it is about to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i32>,
    /// Share of traffic that goes to the canary, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Since when the canary, and its baseline, have the shares that they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_since: Option<Time>,
    /// Fresh pods of the stable plan that the canary is compared with, where `spec.rollout.baseline` is MirrorBaseline; absent before it
    /// starts and once the canary has passed its last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<RolloutBaseline>,
    /// What the judge said last: Hold, Advance, Rollback or Promote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub verdict: Option<String>,
    /// Why it said so, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub reason: Option<String>,
    /// Why it said so, with numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub message: Option<String>,
    /// When the figures of the judge were last written; it looks every ten seconds, and writes once a minute or when the verdict
    /// changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_at: Option<Time>,
    /// How long the whole rollout of a revision that equals the stable one is expected to take, at the traffic of the stable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub expected_verdict: Option<String>,
    /// Evidence of harm, guard by guard; the canary is rolled back when the logarithm of the weighted mean reaches that of one over
    /// `judge.falseRollback`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["guard"]))]
    pub evidence: Vec<LogEvidence>,
    /// What the guardrails of `spec.rollout.guardrails` were found at, since the canary has its share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub guardrails: Vec<GuardrailStatus>,
    /// The judge's memory. Opaque; a new version of the judge starts anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8192))]
    pub judge_state: Option<String>,
    /// What the cluster has room for, where that is less than the canary needs; absent while nothing is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<RolloutCapacity>,
    /// Revisions that had traffic until just now. Their pods stay a little longer, for gateways take new shares in one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub leaving: Vec<LeavingRevision>,
    /// Plans that were rolled back, the latest last. They are not tried again without a word in `spec.rollout.retry`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["plan"]))]
    pub rejected: Vec<RejectedPlan>,
    /// The plan that waits for `spec.rollout.approve`; absent while none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed: Option<ProposedPlan>,
    /// Who else has lately written the HTTPRoute; absent while nobody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_contest: Option<RouteContest>,
}

/// Somebody else who writes the HTTPRoute of an AgentDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RouteContest {
    /// The field manager, as the API server names it.
    #[schemars(length(max = 128))]
    pub manager: String,
    /// What of the route it wrote: `spec.rules`.
    #[schemars(length(max = 128))]
    pub fields: String,
    /// When that was seen last, to the minute.
    pub at: Time,
}

/// A plan that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedPlan {
    /// Hash of the plan: the word that approves it.
    #[schemars(length(max = 63))]
    pub plan_hash: String,
    /// Since when it waits.
    pub since: Time,
    /// Why it was chosen.
    #[schemars(length(max = 512))]
    pub why: String,
    /// What it would change, as `field: from -> to`: the choice, what profiling predicts of it, and whatever else the plan changes.
    #[schemars(length(max = 24), inner(length(max = 256)))]
    pub changes: Vec<String>,
}

/// A guardrail of the user's as it was found last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuardrailStatus {
    /// Its name.
    #[schemars(length(max = 40))]
    pub name: String,
    /// The canary's value; absent where the expression had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub value: Option<String>,
    /// The largest that it may be; absent where it is a multiple of a value that stable does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub limit: Option<String>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub problem: Option<String>,
    /// How often in a row it was exceeded.
    #[serde(default)]
    pub exceeded: i32,
    /// When it was looked at.
    pub at: Time,
}

/// How a canary goes about a cluster that has no room for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCapacity {
    /// What is done about it.
    pub phase: CapacityPhase,
    /// Pods that the canary lacked room for when it last asked: this many in all.
    pub wanted: i32,
    /// Pods that it goes on with.
    pub pods: i32,
    /// Pods of the stable revision that made room for it.
    pub drained: i32,
    /// Since when these numbers hold.
    pub since: Time,
    /// What the scheduler said.
    #[schemars(length(max = 512))]
    pub message: String,
    /// When room for all pods is asked for again; a changed spec asks at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Time>,
    /// Times in a row that room was asked for in vain.
    #[serde(default)]
    pub attempts: i32,
    /// Generation of the spec that asked last.
    #[serde(default)]
    pub generation: i64,
    /// Why the canary is rolled back once the stable revision has its pods again; absent if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
    /// Set when pods made room and the canary found none all the same: what stood in `spec.rollout.retry` then. Nothing is drained
    /// for this plan until another word stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub drained_in_vain: Option<String>,
}

/// What a canary does that lacks room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum CapacityPhase {
    /// It has no pods, and asks again from time to time.
    Waiting,
    /// It goes on with fewer pods, and a share of the traffic that these can carry.
    Limited,
    /// It takes the place of pods of the stable revision, one at a time.
    InPlace,
    /// The stable revision gets its pods back, one at a time.
    Restoring,
}

/// The evidence of one guard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEvidence {
    /// The guard: `RequestLatency/relative`.
    #[schemars(length(max = 63))]
    pub guard: String,
    /// Natural logarithm of its e-value.
    #[schemars(length(max = 16))]
    pub log_evidence: String,
}

/// A revision whose pods go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeavingRevision {
    /// Name of the revision.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// When its pods go.
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
    /// Why, with numbers.
    #[schemars(length(max = 512))]
    pub reason: String,
    /// What stood in `spec.rollout.retry` then; it does not count again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub retry: Option<String>,
}
