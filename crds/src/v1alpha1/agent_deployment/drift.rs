//! What the operator knows of how what serves changes over time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the pods that serve count, against the first day of the same plan. It begins with the first traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// Hash of the plan that is watched; another plan has a baseline of its own.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// What is shown.
    pub verdict: DriftVerdict,
    /// Since when.
    pub since: Time,
    /// The same in words, with the figures of the time at which it was shown.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// What has changed, the strongest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 63)))]
    pub signals: Vec<String>,
    /// The beginning of the baseline.
    pub baseline_from: Time,
    /// Its end; absent while it collects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_until: Option<Time>,
    /// Why the baseline began again, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub restarted: Option<String>,
    /// Pods that are left out because something else runs in them than in those of the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub left_out: Option<String>,
    /// What would make pods incomparable and is not reported by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(max = 63)))]
    pub unknown: Vec<String>,
    /// The objective that is at risk; absent where none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<DriftRisk>,
    /// With `onDrift: Reprofile`, the word that `spec.profiling.approveReprofiling` must have for what serves to be measured anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub proposal: Option<String>,
    /// Whether a canary has a share of the traffic: what is counted meanwhile is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The end of the last such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Time>,
}

/// What is shown of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum DriftVerdict {
    /// The baseline is being counted.
    Collecting,
    /// Too little has been counted since.
    NotEnough,
    /// Nothing is shown.
    NoDrift,
    /// What users ask has changed; how it is served cannot be compared.
    WorkloadDrift,
    /// The same workload is served worse.
    BehaviorDrift,
}

/// An objective that is at risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftRisk {
    /// Since when.
    pub since: Time,
    /// Which, and why.
    #[schemars(length(max = 256))]
    pub message: String,
}
