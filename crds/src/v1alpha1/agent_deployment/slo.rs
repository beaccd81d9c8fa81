//! The service-level objectives: one object that selection, rollout verdicts, alerts and status all read.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    v1alpha1::shared::ConfigMapKeyReference,
    values::{DurationText, Percent, Percentile, PositiveDecimal},
};

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
    /// How much worse than the reference an engine may answer. An engine that may be worse by more is refused before any of its
    /// configurations is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityObjective>,
    /// Throughput that all replicas together must reach, judged when configurations are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputObjective>,
    /// Failures that are put up with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<ErrorRateObjective>,
    /// What is looked for among the configurations that meet every objective.
    #[serde(default, skip_serializing_if = "OptimizeFor::is_default")]
    pub optimize_for: OptimizeFor,
    /// What happens when no configuration meets every objective.
    #[serde(default, skip_serializing_if = "OnInfeasible::is_default")]
    pub on_infeasible: OnInfeasible,
}

/// A throughput that must be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputObjective {
    /// Least number a second, over all replicas: `1.5`.
    pub min: PositiveDecimal,
    /// What is counted.
    pub unit: ThroughputUnit,
}

/// What a throughput counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ThroughputUnit {
    /// Runs of the agent, from question to answer.
    Runs,
    /// Requests to the model.
    Requests,
}

/// Failures that are put up with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRateObjective {
    /// Largest share of failed requests or runs: `1%`.
    pub max: Percent,
}

/// What is looked for among the configurations that meet every objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum OptimizeFor {
    /// Most requests or runs a second.
    #[default]
    Throughput,
    /// Lowest latency at the percentile of the first objective.
    Latency,
}

impl OptimizeFor {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens when no configuration meets every objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum OnInfeasible {
    /// What serves goes on serving; where nothing serves, nothing is started.
    #[default]
    KeepRunning,
    /// The configuration that misses its worst objective by the least factor serves.
    ServeNearest,
}

impl OnInfeasible {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A bound on the loss of quality. The reference is the first engine of the search space: the most exact precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QualityObjective {
    /// Largest drop of the mean score below the reference. What is held against it is the 95 % upper bound of the drop, so a data
    /// set that is too small refuses engines that may be good: without any disagreement, 400 samples show a drop of at most 1.2 %.
    pub max_drop: Percent,
    /// How one answer is scored.
    #[serde(default)]
    pub evaluator: QualityEvaluator,
    /// Samples, one JSON object a line: `id`, `prompt`, `expected`, `maxTokens`, `stopWords`.
    pub dataset: QualityDataset,
}

/// How an answer is scored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum QualityEvaluator {
    /// 1 if the answer is the expected text, but for white space at both ends; else 0.
    #[default]
    ExactMatch,
    /// The share of the expected words that the answer has in the same order (ROUGE-L's F1).
    RougeL,
}

/// Where samples lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QualityDataset {
    /// A ConfigMap of the same namespace, up to 1 MiB.
    pub config_map: ConfigMapKeyReference,
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
