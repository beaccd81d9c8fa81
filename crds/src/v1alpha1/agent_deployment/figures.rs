//! The numbers of an objective, beside its texts in the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slo::{LatencyMetric, ThroughputUnit};
use crate::values::Percentile;

/// Figures of a latency objective as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyFigures {
    /// Latency that is bounded.
    pub metric: LatencyMetric,
    /// Percentile that is bounded.
    pub percentile: Percentile,
    /// The bound.
    pub target_microseconds: i64,
    /// Value that profiling predicts. Absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_microseconds: Option<i64>,
    /// Value that the serving pods observed. Absent without traffic, and if the percentile is a failed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_microseconds: Option<i64>,
    /// Difference of the observed value from the predicted one, in percent of the latter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction_error_percent: Option<i64>,
}

/// Figures of `slo.errorRate` as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRateFigures {
    /// The bound.
    pub target_parts_per_million: i64,
    /// Share that failed when profiling measured. Absent if nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_parts_per_million: Option<i64>,
    /// Share that failed on the serving pods. Absent without traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_parts_per_million: Option<i64>,
}

/// Figures of `slo.throughput` as numbers, over all replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputFigures {
    /// What is counted.
    pub unit: ThroughputUnit,
    /// The bound, per 1,000 seconds.
    pub target_per_kilosecond: i64,
    /// What profiling predicts, per 1,000 seconds. Absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_per_kilosecond: Option<i64>,
}

/// Figures of `slo.cost` as numbers, in millionths of a US dollar for 1,000 runs or requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostFigures {
    /// What is counted.
    pub unit: ThroughputUnit,
    /// The bound.
    pub target_microdollars_per_thousand: i64,
    /// What profiling predicts. Absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_microdollars_per_thousand: Option<i64>,
}
