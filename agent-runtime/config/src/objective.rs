//! Latency objectives as the sidecar counts them.

use serde::{Deserialize, Serialize};
use slipway_vocabulary::{LatencyMetric, Percentile};

/// One latency objective: `percentile` of `metric` stays at or below `maxMicroseconds`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Objective {
    /// Name of the objective; the label `objective` of `slipway_slo_events_total`.
    pub name: String,
    /// What is measured.
    pub metric: LatencyMetric,
    /// The share of events that must be good; exported as `slipway_slo_target_ratio`.
    pub percentile: Percentile,
    /// The bound of a good event, in microseconds.
    pub max_microseconds: u64,
}
