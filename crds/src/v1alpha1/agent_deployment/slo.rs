//! The service-level objectives: one object that selection, rollout verdicts, alerts and status all read.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::{DurationText, Percentile};

/// What the agent must achieve.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLevelObjectives {
    /// Latency objectives. Each (metric, percentile) may be bounded once.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = Rule::new(
        "self.all(a, self.exists_one(b, b.metric == a.metric && b.percentile == a.percentile))")
        .message("two objectives bound the same metric and percentile: keep one of them"))]
    pub objectives: Vec<LatencyObjective>,
}

/// A bound on one percentile of one latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LatencyObjective {
    /// Name by which status and metrics speak of the objective.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The latency that is bounded.
    pub metric: LatencyMetric,
    /// The percentile of it that is bounded.
    pub percentile: Percentile,
    /// The bound, with a unit: `500ms`, `2s`.
    pub max: DurationText,
}

/// The latencies that an objective may bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum LatencyMetric {
    /// One request to the model, from sending to the last token.
    RequestLatency,
    /// One request to the model, from sending to the first token.
    TimeToFirstToken,
    /// The mean time between two tokens of one request.
    InterTokenLatency,
    /// One run of the agent, from the question to the answer, tools included.
    AgentRunLatency,
}

impl LatencyMetric {
    /// The name in the API and in the evidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestLatency => "RequestLatency",
            Self::TimeToFirstToken => "TimeToFirstToken",
            Self::InterTokenLatency => "InterTokenLatency",
            Self::AgentRunLatency => "AgentRunLatency",
        }
    }
}
