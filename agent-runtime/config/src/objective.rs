//! Latency objectives as the sidecar counts them.

use serde::{Deserialize, Serialize};
use slipway_vocabulary::Percentile;

/// One latency objective: `percentile` of `metric` stays at or below `maxMicroseconds`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Objective {
    /// Name of the objective; the label `objective` of `slipway_slo_events_total`.
    pub name: String,
    /// What is measured.
    pub metric: ObjectiveMetric,
    /// The share of events that must be good; exported as `slipway_slo_target_ratio`.
    pub percentile: Percentile,
    /// The bound of a good event, in microseconds.
    pub max_microseconds: u64,
}

/// The latencies an objective can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectiveMetric {
    /// A whole run, tools included.
    AgentRunLatency,
    /// The slowest model request of a run.
    RequestLatency,
    /// The longest wait for a first token in a run.
    TimeToFirstToken,
    /// The worst mean gap between tokens of a run's requests.
    InterTokenLatency,
}

impl ObjectiveMetric {
    /// The name as it is written in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentRunLatency => "AgentRunLatency",
            Self::RequestLatency => "RequestLatency",
            Self::TimeToFirstToken => "TimeToFirstToken",
            Self::InterTokenLatency => "InterTokenLatency",
        }
    }
}
