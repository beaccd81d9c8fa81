//! What the operator knows of measurements by schedule, and after drift.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::PositiveDecimal;

/// Measurements of what serves, by `spec.profiling.schedule` and after drift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReprofilingStatus {
    /// The schedule that `nextAt` was reckoned by, with its zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 180))]
    pub schedule: Option<String>,
    /// When everything is measured next; a time that has passed is made up for once nothing else is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Why it is measured then.
    #[serde(default, skip_serializing_if = "ReprofilingCause::is_default")]
    pub because: ReprofilingCause,
    /// The latest measurement: under way, or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<ReprofilingRun>,
    /// The measurement whose choice was taken for a spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptedCampaign>,
    /// What `profiling.budget.perMonth` is held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month: Option<MonthlyUse>,
}

/// One measurement of what serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReprofilingRun {
    /// Its number, from 1.
    pub number: i32,
    /// Why it was begun.
    #[serde(default, skip_serializing_if = "ReprofilingCause::is_default")]
    pub because: ReprofilingCause,
    /// Hash of the part of the spec that it measures for.
    #[schemars(length(max = 64))]
    pub input_hash: String,
    /// Name of its Profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub profile: Option<String>,
    /// What it may cost: `profiling.budget.gpuHours`, or what the month left when it began.
    pub gpu_hours: PositiveDecimal,
    /// When it began.
    pub started_at: Time,
    /// When it ended; absent while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ReprofilingResult>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
    /// GPU time that it took, in milliseconds; time of the pods where they have no GPU.
    #[serde(default)]
    pub gpu_milliseconds: i64,
}

/// Why what serves is measured anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReprofilingCause {
    /// Its time has come.
    #[default]
    Schedule,
    /// It has changed, or what users ask has.
    Drift,
}

impl ReprofilingCause {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What came of a measurement of what serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReprofilingResult {
    /// Another choice takes its place.
    Changed,
    /// What serves stays.
    Unchanged,
    /// Nothing meets the objectives; what serves stays.
    Infeasible,
    /// It could not be carried out; what serves stays.
    Failed,
    /// The spec was edited meanwhile.
    Superseded,
    /// A person declined its choice.
    Declined,
}

/// A measurement whose choice was taken for a spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptedCampaign {
    /// Hash of the part of the spec that it was taken for.
    #[schemars(length(max = 64))]
    pub input_hash: String,
    /// Its number.
    pub number: i32,
    /// Name of its Profile.
    #[schemars(length(max = 63))]
    pub profile: String,
}

/// What was used in a calendar month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonthlyUse {
    /// The month in UTC: `2026-01`.
    #[schemars(length(max = 7))]
    pub month: String,
    /// GPU time of the measurements that ended in it, in milliseconds.
    pub gpu_milliseconds: i64,
}
