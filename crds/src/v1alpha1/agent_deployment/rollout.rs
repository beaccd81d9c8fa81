//! How a changed plan takes over from stable.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::OnInconclusive;
use slipway_vocabulary::evidence::Metric;

use super::{Guardrail, baseline::Baseline};
use crate::values::{DurationText, Percent};

/// How a changed plan takes over: how traffic moves, in which steps, and how the canary is judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "(has(self.traffic) && has(self.traffic.type) && self.traffic.type != 'BlueGreen') || \
         !(has(self.steps) || has(self.judge) || has(self.guardrails) || has(self.onInconclusive))")
        .message("steps, judge, guardrails and onInconclusive need traffic that can be split: set traffic.type to \
                  GatewayAPI or ReplicaRatio"),
    validation = Rule::new(
        "!(has(self.baseline) && self.baseline == 'MirrorBaseline') || \
         (has(self.traffic) && has(self.traffic.type) && self.traffic.type == 'GatewayAPI')")
        .message("baseline MirrorBaseline requires a route that can give its pods a weight: set traffic.type to \
                  GatewayAPI, or baseline to Stable")
        .field_path(".baseline"),
    validation = Rule::new(
        "!(has(self.baseline) && self.baseline == 'MirrorBaseline') || !(has(self.capacity) && self.capacity == 'InPlace')")
        .message("baseline MirrorBaseline needs capacity beside stable, but capacity InPlace drains stable: set \
                  capacity to SurgeIfPossible or RequireSurge, or baseline to Stable")
        .field_path(".baseline")
)]
pub struct Rollout {
    /// How traffic moves to the canary.
    #[serde(default, skip_serializing_if = "Traffic::is_default")]
    pub traffic: Traffic,
    /// Weights that the canary gets in turn. After the last one it takes over. The default is 5, 20 and 50 percent,
    /// for ten minutes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(validation = Rule::new(
        "(size(self) < 2 || self[0].weight < self[1].weight) && (size(self) < 3 || self[1].weight < self[2].weight) && \
         (size(self) < 4 || self[2].weight < self[3].weight) && (size(self) < 5 || self[3].weight < self[4].weight) && \
         (size(self) < 6 || self[4].weight < self[5].weight) && (size(self) < 7 || self[5].weight < self[6].weight) && \
         (size(self) < 8 || self[6].weight < self[7].weight)")
        .message("weights of steps must increase: sort the steps and remove repeated ones"))]
    pub steps: Vec<RolloutStep>,
    /// How the canary is judged.
    #[serde(default, skip_serializing_if = "JudgeSettings::is_default")]
    pub judge: JudgeSettings,
    /// What the canary is compared with. Stable, the default, compares with the pods of stable. MirrorBaseline starts
    /// fresh pods of stable's plan together with the canary's, as many and with the same weight, so that new pods are
    /// not compared with warm ones. It needs capacity for these pods too, and no weight is above 33 percent. Beyond
    /// that stable would have less than either of the two.
    #[serde(default, skip_serializing_if = "Baseline::is_default")]
    pub baseline: Baseline,
    /// Your own guardrails, queried from Prometheus once a minute. One that is exceeded three times in a row rolls
    /// the canary back. While one is exceeded or has no value, the rollout stays at its step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub guardrails: Vec<Guardrail>,
    /// What to do when `maxSoak` of a step passes without a verdict: Pause by default.
    #[serde(default, skip_serializing_if = "OnInconclusive::is_default")]
    pub on_inconclusive: OnInconclusive,
    /// What to do when the cluster lacks capacity for the canary's pods beside those of stable. The operator probes
    /// capacity by creating a pod, and reads the scheduler's answer. SurgeIfPossible, the default, continues with the
    /// pods that fit, at a weight that they can carry, and waits if none fits. RequireSurge waits unless all fit.
    /// Either leaves stable all its pods. InPlace drains stable pods one at a time where it would otherwise wait.
    /// Capacity is then one pod short. With one replica nothing serves until the new pod, or after a failure the old
    /// one, is ready.
    #[serde(default, skip_serializing_if = "Capacity::is_default")]
    pub capacity: Capacity,
    /// How long a pod of the canary may wait for a node before `capacity` applies. Make it longer than the cluster
    /// takes to add a node. If the cluster never adds one, `0s` saves the wait.
    #[serde(default = "default_capacity_deadline")]
    pub capacity_deadline: DurationText,
    /// Keeps the rollout at its step, and drains no stable pod. A canary that does harm is still rolled back. The
    /// annotation `slipway.dev/pause` does the same for the one plan that it names.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Hash of the plan to promote without further judgement. It has no effect on any other plan. The annotation
    /// `slipway.dev/promote` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub promote: Option<String>,
    /// Hash of the plan to roll back. It has no effect on any other plan. The annotation `slipway.dev/abort` does the
    /// same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub abort: Option<String>,
    /// Hash of the rejected plan to retry. Append `/2`, `/3` for further retries. It has no effect on any other plan.
    /// The annotation `slipway.dev/retry` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub retry: Option<String>,
    /// Hash of the plan in `status.rollout.proposed` to approve, where `spec.profiling.approval` is Manual. It has no
    /// effect on any other plan. The annotation `slipway.dev/approve` does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub approve: Option<String>,
    /// Number of superseded revisions to retain, so that reverting to one needs no Job.
    #[serde(default = "default_revision_history_limit")]
    #[schemars(range(min = 0, max = 20))]
    pub revision_history_limit: i32,
}

impl Default for Rollout {
    fn default() -> Self {
        Self {
            traffic: Traffic::default(),
            steps: Vec::new(),
            judge: JudgeSettings::default(),
            baseline: Baseline::default(),
            guardrails: Vec::new(),
            on_inconclusive: OnInconclusive::default(),
            capacity: Capacity::default(),
            capacity_deadline: default_capacity_deadline(),
            paused: false,
            promote: None,
            abort: None,
            retry: None,
            approve: None,
            revision_history_limit: default_revision_history_limit(),
        }
    }
}

/// How traffic moves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.type) && self.type == 'GatewayAPI') == has(self.gatewayAPI)")
        .message("gatewayAPI is required for type GatewayAPI and allowed for no other: add or remove it, or change \
                  type")
)]
pub struct Traffic {
    /// Method by which traffic moves.
    #[serde(default)]
    pub r#type: TrafficType,
    /// The gateway, for type GatewayAPI.
    #[serde(default, rename = "gatewayAPI", skip_serializing_if = "Option::is_none")]
    pub gateway_api: Option<GatewayTraffic>,
}

impl Traffic {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Methods by which traffic moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum TrafficType {
    /// All at once, when every pod of the new revision is ready. Nothing is judged.
    #[default]
    BlueGreen,
    /// Weights of an HTTPRoute of the Gateway API.
    GatewayAPI,
    /// Numbers of pods behind the Service. Weights are rounded to whole pods.
    ReplicaRatio,
}

/// The gateway that traffic comes through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayTraffic {
    /// Gateways that the HTTPRoute attaches to.
    #[schemars(length(min = 1, max = 4))]
    pub parent_refs: Vec<GatewayReference>,
    /// Host names that the HTTPRoute matches. Empty means all of the Gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253)))]
    pub hostnames: Vec<String>,
    /// Makes an InferencePool for each live revision, to which the HTTPRoute sends the revision's weight instead of
    /// to its Service. A gateway with the Gateway API Inference Extension then picks the pod by its load. `{}`
    /// suffices. The operator's chart must allow it (gateway.inferencePools).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference_pool: Option<InferencePoolBackend>,
}

/// The InferencePools of an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InferencePoolBackend {
    /// Endpoint picker for the pools of all live revisions. Absent means that the gateway itself picks, which
    /// requires version 1.5 or later of the Gateway API Inference Extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_picker: Option<EndpointPicker>,
}

/// A Service of the namespace with the endpoint picker's protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPicker {
    /// Name of the Service.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Port of the Service.
    #[serde(default = "default_picker_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// What the gateway does when the picker does not answer.
    #[serde(default)]
    pub failure_mode: PickerFailureMode,
}

/// What a gateway does when an endpoint picker does not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum PickerFailureMode {
    /// It refuses requests.
    #[default]
    FailClose,
    /// It picks a pod itself.
    FailOpen,
}

/// A Gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayReference {
    /// Name of the Gateway.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Namespace of the Gateway. Absent means that of the AgentDeployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// One of its listeners. Absent means all that accept the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub section_name: Option<String>,
}

/// A weight, and how long it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    // Days are no duration of CEL's; of those the operator says it.
    validation = Rule::new(
        "!has(self.minSoak) || !has(self.maxSoak) || self.minSoak.endsWith('d') || self.maxSoak.endsWith('d') || \
         duration(self.minSoak) <= duration(self.maxSoak)")
        .message("maxSoak must not be below minSoak: raise maxSoak or lower minSoak")
        .field_path(".maxSoak")
)]
pub struct RolloutStep {
    /// Share of traffic that goes to the canary, in percent.
    #[schemars(range(min = 1, max = 100))]
    pub weight: i32,
    /// Minimum time at this step.
    #[serde(default = "default_min_soak")]
    pub min_soak: DurationText,
    /// Maximum time at this step without a verdict.
    #[serde(default = "default_max_soak")]
    pub max_soak: DurationText,
}

/// How the canary is judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeSettings {
    /// Tolerated slowdown against stable, or against what profiling predicts. Less than 9.05% counts as 9.05%: below
    /// that a slightly slower pod looks like a slower revision. A promotion needs evidence that no guarded latency is
    /// slower by as much, over the whole distribution and its tail. Where objectives bound a latency, it needs that at
    /// the highest of their percentiles too (p99 stands for p99.9). There, among like runs, the canary's must exceed
    /// stable's percentile plus this less often than stable's exceed the percentile. Where that is false, a promotion
    /// has a probability of at most 5%, as long as pods of a revision are alike.
    #[serde(default = "default_max_regression")]
    pub max_regression: Percent,
    /// Probability of rolling back a harmless revision, at most `10%`. Beyond that a rollback says little about the
    /// revision.
    #[serde(default = "default_false_rollback")]
    #[x_kube(validation = Rule::new("self.matches('^([0-9]([.][0-9]+)?|10([.]0+)?)%$')")
        .message("falseRollback must be at most 10%: lower it, because it is the probability of rolling back a \
                  harmless revision"))]
    pub false_rollback: Percent,
    /// Time for which the counts of a new pod are ignored.
    #[serde(default = "default_warm_up")]
    pub warm_up: DurationText,
    /// What runs of the canary may cost, compared with those of stable. Each is judged like a latency, with a margin of
    /// its own. A canary whose runs cost more by the margin is rolled back, and a promotion needs evidence that they do
    /// not. Absent means that costs only tell why a canary is slower.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    #[x_kube(validation = Rule::new("self.all(a, self.exists_one(b, b.metric == a.metric))")
        .message("costs bounds the same metric twice: keep one of them"))]
    pub costs: Vec<CostGuard>,
    /// How much more often tasks of the canary may fail than those of stable, as clients say. Beyond it the canary is
    /// rolled back, and a promotion needs evidence that it is not. Absent means that any shown increase rolls back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_failures: Option<TaskFailureGuard>,
}

/// A bound on tasks that fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskFailureGuard {
    /// Tolerated increase against stable, of the odds of a failure: at 50%, 10 of 100 may become 14. Less than 10%
    /// counts as 10%.
    pub max_increase: Percent,
}

/// A bound on what a run costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostGuard {
    /// What is bounded.
    pub metric: RunCost,
    /// Tolerated increase against stable. Less than 9.05% counts as 9.05%. The distributions of both revisions are
    /// compared, not their means. Calls are whole numbers: for runs with three calls each, a fourth call is an increase
    /// of 33%.
    pub max_increase: Percent,
}

/// What a run costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum RunCost {
    /// Calls of the model that a run makes.
    ModelCallsPerRun,
    /// Tokens that the model writes in a run.
    OutputTokensPerRun,
    /// Money: the tokens of a run, at what a token costs by the predictions of both revisions.
    CostPerRun,
}

impl RunCost {
    /// Gives what pods count of it.
    const fn counted(self) -> Metric {
        match self {
            Self::ModelCallsPerRun => Metric::ModelCallsPerRun,
            Self::OutputTokensPerRun | Self::CostPerRun => Metric::OutputTokensPerRun,
        }
    }
}

/// Least increase of failing tasks that is tolerated: beyond it nobody has enough tasks judged.
const LEAST_TASK_FAILURES: f64 = 0.1;

impl JudgeSettings {
    /// Gives by which share more pods may count of what a run costs, each metric once, if a token of the canary costs
    /// `token_cost_ratio` times that of stable.
    pub fn cost_margins(&self, token_cost_ratio: f64) -> Vec<(Metric, f64)> {
        let mut margins: Vec<(Metric, f64)> = Vec::new();
        for CostGuard { metric, max_increase } in &self.costs {
            let margin = match metric {
                RunCost::ModelCallsPerRun | RunCost::OutputTokensPerRun => max_increase.ratio(),
                RunCost::CostPerRun => ((1.0 + max_increase.ratio()) / token_cost_ratio - 1.0).max(0.0),
            };
            match margins.iter_mut().find(|(of, _)| *of == metric.counted()) {
                Some((_, known)) => *known = known.min(margin),
                None => margins.push((metric.counted(), margin)),
            }
        }
        margins
    }

    /// Gives how much more a run may cost in money, where that is bounded.
    pub fn max_cost_increase(&self) -> Option<f64> {
        let guard = self.costs.iter().find(|guard| guard.metric == RunCost::CostPerRun)?;
        Some(guard.max_increase.ratio())
    }

    /// Gives the factor by which the odds of failing tasks may exceed stable's, where that is bounded.
    pub fn task_failures_max(&self) -> Option<f64> {
        self.task_failures.as_ref().map(|guard| 1.0 + guard.max_increase.ratio().max(LEAST_TASK_FAILURES))
    }

    /// Gives the probability of rolling back a harmless revision that the judge works with: at least one in a million.
    pub fn false_rollback_probability(&self) -> f64 {
        self.false_rollback.ratio().max(1e-6)
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            max_regression: default_max_regression(),
            false_rollback: default_false_rollback(),
            warm_up: default_warm_up(),
            costs: Vec::new(),
            task_failures: None,
        }
    }
}

/// What happens when the cluster lacks capacity for the canary's pods beside those of stable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Capacity {
    /// The rollout continues with the pods that fit, and waits if none fits.
    #[default]
    SurgeIfPossible,
    /// Stable pods are drained one at a time where the rollout would otherwise wait.
    InPlace,
    /// The rollout waits unless all pods fit.
    RequireSurge,
}

impl Capacity {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn duration(text: &str) -> DurationText {
    text.parse().expect("a constant is a duration")
}

fn percent(text: &str) -> Percent {
    text.parse().expect("a constant is a percentage")
}

fn default_picker_port() -> i32 {
    9002
}

fn default_min_soak() -> DurationText {
    duration("10m")
}

fn default_max_soak() -> DurationText {
    duration("2h")
}

/// What a node with a GPU takes to be added and made ready, with some to spare.
fn default_capacity_deadline() -> DurationText {
    duration("10m")
}

fn default_warm_up() -> DurationText {
    duration("30s")
}

fn default_max_regression() -> Percent {
    percent("10%")
}

fn default_false_rollback() -> Percent {
    percent("1%")
}

fn default_revision_history_limit() -> i32 {
    5
}

impl RolloutStep {
    /// Makes a step of the default schedule.
    pub fn with_weight(weight: i32) -> Self {
        Self { weight, min_soak: default_min_soak(), max_soak: default_max_soak() }
    }
}
