//! The judge's check of itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the judge says of stable's own pods, split at random into two groups again and again. All serve the same plan,
/// so whatever it would have rolled back would have been rolled back falsely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelfCheckStatus {
    /// Hash of the plan whose pods were checked. Another plan is checked again.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// `spec.rollout.judge.falseRollback` of these checks. Another one is checked again.
    pub promised_parts_per_million: i64,
    /// Time of the last check. The next one follows an hour later, or ten minutes after one that lacked pods or runs.
    pub checked_at: Time,
    /// Pods of stable with counts at that time, at most 16.
    pub pods: i32,
    /// Why nothing could be checked at that time. Absent if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UncheckedJudge>,
    /// Runs of the last hour that had finished, where they were too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_runs: Option<i64>,
    /// Runs that the check needs, where they were too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed_runs: Option<i64>,
    /// The last 24 checks, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 24))]
    pub checks: Vec<JudgeCheck>,
}

/// Why nothing could be checked at the last time. Absent if it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum UncheckedJudge {
    /// Stable has fewer than four pods.
    TooFewPods,
    /// Stable has finished fewer than 50 runs for each of its pods.
    TooFewRuns,
}

/// One check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeCheck {
    /// Random splits of the pods into two groups, each judged once.
    pub shuffles: i32,
    /// Splits that would have been rolled back.
    pub rolled_back: i32,
    /// Seconds of evidence.
    pub seconds: i32,
}
