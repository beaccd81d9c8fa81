//! The service-level objectives. Selection, rollout verdicts, alerts and status all read this one object.

use kube::{KubeSchema, core::Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::{GpuFigure, LatencyMetric, ThroughputUnit};
use slipway_vocabulary::{GpuLimit, LatencyObjective};

use crate::{
    v1alpha1::shared::ConfigMapKeyReference,
    values::{DurationText, Percent, Percentile, PositiveDecimal},
};

/// Objectives that the agent must meet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceLevelObjectives {
    /// Latency objectives. Each pair of metric and percentile may be bounded once.
    #[serde(default)]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = Rule::new(
        "self.all(a, self.exists_one(b, b.metric == a.metric && b.percentile == a.percentile))")
        .message("two objectives bound the same metric and percentile: keep one of them"))]
    pub objectives: Vec<WrittenObjective>,
    /// How much worse than the reference an engine may answer. An engine that may be worse by more is refused before
    /// its configurations are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityObjective>,
    /// Throughput that all replicas together must reach. It is judged when configurations are measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputObjective>,
    /// What serving may cost. It is judged when configurations are measured, by the prices in the operator's
    /// configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostObjective>,
    /// Bounds on what the GPUs do while configurations are measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["figure"]))]
    pub gpu: Vec<WrittenGpuLimit>,
    /// Tolerated failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<ErrorRateObjective>,
    /// How to rank the configurations that meet every objective: by Throughput by default.
    #[serde(default, skip_serializing_if = "OptimizeFor::is_default")]
    pub optimize_for: OptimizeFor,
    /// What to do when no configuration meets every objective: KeepRunning by default.
    #[serde(default, skip_serializing_if = "OnInfeasible::is_default")]
    pub on_infeasible: OnInfeasible,
}

impl ServiceLevelObjectives {
    /// Whether throughput or cost is bounded in requests.
    pub fn counts_requests(&self) -> bool {
        let throughput = self.throughput.iter().map(|wanted| wanted.unit);
        let mut units = throughput.chain(self.cost.iter().map(|wanted| wanted.unit));
        units.any(|unit| unit == ThroughputUnit::Requests)
    }
}

/// A throughput that must be reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputObjective {
    /// Minimum per second, over all replicas: `1.5`.
    pub min: PositiveDecimal,
    /// What to count.
    pub unit: ThroughputUnit,
}

/// A bound on what serving costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostObjective {
    /// Maximum in US dollars for 1,000 runs or requests, at the measured throughput: `0.4`.
    pub max: PositiveDecimal,
    /// What to count.
    pub unit: ThroughputUnit,
}

/// Tolerated failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorRateObjective {
    /// Maximum share of failed requests or runs: `1%`.
    pub max: Percent,
}

/// How configurations that meet every objective are ranked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum OptimizeFor {
    /// Highest number of requests or runs per second first.
    #[default]
    Throughput,
    /// Lowest latency first, at the percentile of the first objective.
    Latency,
    /// Lowest price of 1,000 requests or runs first, by the prices in the operator's configuration.
    Cost,
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
    /// The current revision keeps serving. If none serves, none is started.
    #[default]
    KeepRunning,
    /// Serves the configuration that misses its worst objective by the smallest factor.
    ServeNearest,
}

impl OnInfeasible {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A bound on the loss of quality. The reference is the first engine of the search space, which has the most exact
/// precision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QualityObjective {
    /// Maximum drop of the mean score below the reference. The 95 % upper bound of the drop is compared with it, so a
    /// small data set refuses engines that may be good. Without any disagreement, 400 samples show a drop of at most
    /// 1.2 %.
    pub max_drop: Percent,
    /// How to score an answer.
    #[serde(default)]
    pub evaluator: QualityEvaluator,
    /// Samples, one JSON object per line: `id`, `prompt`, `expected`, `maxTokens`, `stopWords`.
    pub dataset: QualityDataset,
}

/// How an answer is scored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum QualityEvaluator {
    /// 1 if the answer equals the expected text, ignoring white space at both ends; otherwise 0.
    #[default]
    ExactMatch,
    /// ROUGE-L's F1: the longest common subsequence of words of the answer and the expected text.
    RougeL,
}

/// Source of the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QualityDataset {
    /// A ConfigMap of the same namespace, up to 1 MiB.
    pub config_map: ConfigMapKeyReference,
}

/// A bound on what the GPUs of a replica do, as Triton samples it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.min) || has(self.max)")
        .message("a limit of slo.gpu needs min or max: add one of them"),
    validation = Rule::new("!has(self.min) || !has(self.max) || self.min <= self.max")
        .message("min of a limit of slo.gpu is above its max: lower min, or raise max"),
    validation = Rule::new(
        "self.figure != 'Utilization' || ((!has(self.min) || self.min <= 100) && (!has(self.max) || self.max <= 100))")
        .message("a limit on Utilization is above 100 %: write min and max in percent")
)]
pub struct WrittenGpuLimit {
    /// What is bounded.
    pub figure: GpuFigure,
    /// Minimum: percent, watts or MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub min: Option<i32>,
    /// Maximum: percent, watts or MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max: Option<i32>,
}

impl From<&WrittenGpuLimit> for GpuLimit {
    fn from(WrittenGpuLimit { figure, min, max }: &WrittenGpuLimit) -> Self {
        let bound = |value: &Option<i32>| value.map(i32::unsigned_abs);
        Self { figure: *figure, min: bound(min), max: bound(max) }
    }
}

/// The rule of a spec that limits on GPUs need a Triton that has some, and measurements.
pub(super) fn limits_of_gpus_can_be_measured() -> Rule {
    Rule::new(
        "!has(self.slo) || !has(self.slo.gpu) || size(self.slo.gpu) == 0 || (has(self.profiling) && has(self.serving) && \
         has(self.serving.tritonResources) && has(self.serving.tritonResources.limits) && \
         'nvidia.com/gpu' in self.serving.tritonResources.limits && \
         self.serving.tritonResources.limits['nvidia.com/gpu'].matches('[1-9]') && self.engine.backend != 'SGLang' && \
         (!has(self.engine.vllm) || !has(self.engine.vllm.server) || self.engine.vllm.server != 'OpenAI') && \
         (!has(self.engine.tensorRTLLMPyTorch) || !has(self.engine.tensorRTLLMPyTorch.server) || \
         self.engine.tensorRTLLMPyTorch.server != 'OpenAI'))",
    )
    .message(
        "slo.gpu bounds what Triton samples of its GPUs in a campaign: add profiling, nvidia.com/gpu to \
         serving.tritonResources.limits and a server of Triton, or remove slo.gpu",
    )
    .field_path(".slo.gpu")
}

/// A bound on one percentile of one latency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WrittenObjective {
    /// Name of the objective in status and metrics.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Latency that is bounded.
    pub metric: LatencyMetric,
    /// Percentile that is bounded.
    pub percentile: Percentile,
    /// Maximum, with a unit: `500ms`, `2s`.
    pub max: DurationText,
}

impl From<&WrittenObjective> for LatencyObjective {
    fn from(WrittenObjective { name, metric, percentile, max }: &WrittenObjective) -> Self {
        Self { name: name.clone(), metric: *metric, percentile: *percentile, max_microseconds: max.microseconds() }
    }
}
