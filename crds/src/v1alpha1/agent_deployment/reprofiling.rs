//! Campaigns by schedule, and after drift.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::PositiveDecimal;

/// Campaigns by `spec.profiling.schedule` and after drift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReprofilingStatus {
    /// Schedule from which `nextAt` was computed, with its time zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 180))]
    pub schedule: Option<String>,
    /// Start of the next campaign. If that time has passed, the campaign starts once nothing else is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Cause of the next campaign.
    #[serde(default, skip_serializing_if = "ReprofilingCause::is_default")]
    pub because: ReprofilingCause,
    /// Latest campaign, in progress or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<ReprofilingRun>,
    /// Campaign whose choice was adopted for a spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<AdoptedCampaign>,
    /// GPU time that counts against `profiling.budget.perMonth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub month: Option<MonthlyUse>,
}

/// One campaign beside the revision that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReprofilingRun {
    /// Number of the campaign, from 1.
    pub number: i32,
    /// Cause of the campaign.
    #[serde(default, skip_serializing_if = "ReprofilingCause::is_default")]
    pub because: ReprofilingCause,
    /// Hash of the part of the spec that it measures for.
    #[schemars(length(max = 64))]
    pub input_hash: String,
    /// Name of its Profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub profile: Option<String>,
    /// GPU hours that it may take: `profiling.budget.gpuHours`, or what was left of the month when it began.
    pub gpu_hours: PositiveDecimal,
    /// When it began.
    pub started_at: Time,
    /// When it ended. Absent while it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Result of the campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ReprofilingResult>,
    /// The result in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
    /// GPU time that it took, in milliseconds. Time of the pods counts if they have no GPU.
    #[serde(default)]
    pub gpu_milliseconds: i64,
}

/// Causes of campaigns beside the revision that serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReprofilingCause {
    /// The scheduled time.
    #[default]
    Schedule,
    /// Drift of the revision that serves, or of what users ask.
    Drift,
}

impl ReprofilingCause {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Result of a campaign beside the revision that serves. Absent while it is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReprofilingResult {
    /// Another choice replaces the current one.
    Changed,
    /// The current choice stays.
    Unchanged,
    /// No configuration meets the objectives; the current choice stays.
    Infeasible,
    /// The campaign failed; the current choice stays.
    Failed,
    /// The spec was edited meanwhile.
    Superseded,
    /// A person declined its choice.
    Declined,
}

/// A campaign whose choice was adopted for a spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptedCampaign {
    /// Hash of the part of the spec that it was adopted for.
    #[schemars(length(max = 64))]
    pub input_hash: String,
    /// Number of the campaign.
    pub number: i32,
    /// Name of its Profile.
    #[schemars(length(max = 63))]
    pub profile: String,
}

/// GPU time used in a calendar month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonthlyUse {
    /// Month in UTC: `2026-01`.
    #[schemars(length(max = 7))]
    pub month: String,
    /// GPU time of the campaigns that ended in it, in milliseconds.
    pub gpu_milliseconds: i64,
}
