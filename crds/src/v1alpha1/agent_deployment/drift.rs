//! Drift of the revision that serves.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the serving pods count, compared with the first day of the same plan. It begins with the first traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// Hash of the plan that is observed. Another plan has a baseline of its own.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// What the comparison shows.
    pub verdict: DriftVerdict,
    /// When the verdict began.
    pub since: Time,
    /// The verdict in words, with the figures of that time.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// What has changed, strongest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 63)))]
    pub signals: Vec<String>,
    /// Start of the baseline.
    pub baseline_from: Time,
    /// End of the baseline. Absent while it is collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_until: Option<Time>,
    /// Why the baseline restarted, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub restarted: Option<String>,
    /// The same as a code: `MemoryMissing`, `MemoryUnreadable`, `Measured/` and the number of a campaign, or
    /// `Incomparable/` and what differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub restarted_by: Option<String>,
    /// Pods that are left out because their images differ from those of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub left_out: Option<String>,
    /// What could make pods incomparable and is not reported by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 63)))]
    pub unknown: Vec<String>,
    /// Objective that is at risk. Absent if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<DriftRisk>,
    /// Proposed campaign, with `onDrift: Reprofile`. Set the annotation `slipway.dev/approve-reprofiling` or
    /// `spec.profiling.approveReprofiling` to this value to start it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub proposal: Option<String>,
    /// Whether counting pauses because a canary has a weight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// End of the last pause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Time>,
}

/// Result of the comparison with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum DriftVerdict {
    /// The baseline is being collected.
    Collecting,
    /// Too little has been counted since.
    NotEnough,
    /// No change is shown.
    NoDrift,
    /// What users ask has changed, so performance cannot be compared.
    WorkloadDrift,
    /// The same workload is served worse.
    BehaviorDrift,
}

/// An objective that is at risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftRisk {
    /// When the risk began.
    pub since: Time,
    /// Which objective it is, and why.
    #[schemars(length(max = 256))]
    pub message: String,
    /// Blocks with traffic that are compared before a campaign may start: a slower tool may be the cause, which no
    /// campaign fixes. Absent once one may start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub blocks_left: Option<i32>,
}
