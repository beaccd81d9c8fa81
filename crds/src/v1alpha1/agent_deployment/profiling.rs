//! How configurations are measured before one of them serves.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{v1alpha1::shared::ConfigMapKeyReference, values::PositiveDecimal};

/// How the configurations of the search space are measured. Without it nothing is measured, and the first engine that passes the
/// quality gate serves as its repository configures it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.driver != 'ModelAnalyzer' || self.workloads.exists(w, has(w.prompts))")
        .message("driver ModelAnalyzer sends prompts: add a workload with prompts, or set driver: AgentRun")
        .field_path(".workloads"),
    validation = Rule::new("self.driver != 'AgentRun' || self.workloads.exists(w, has(w.agentTrace))")
        .message("driver AgentRun replays whole runs: add a workload with agentTrace").field_path(".workloads"),
    validation = Rule::new("self.workloads.filter(w, has(w.agentTrace)).size() <= 1")
        .message("only one workload may have an agentTrace: put the runs into one trace").field_path(".workloads"),
    validation = Rule::new("!has(self.budget) || !has(self.budget.perMonth) || has(self.schedule)")
        .message("budget.perMonth limits what is measured by schedule: add schedule, or leave perMonth out")
        .field_path(".budget.perMonth")
)]
pub struct Profiling {
    /// What generates the load while configurations are compared. ModelAnalyzer measures RequestLatency and throughput of
    /// requests; AgentRun measures whole runs. With an agentTrace, the chosen configuration is confirmed by AgentRun either way.
    #[serde(default)]
    pub driver: ProfilingDriver,
    /// The traffic to measure with.
    #[schemars(
        length(min = 1, max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub workloads: Vec<ProfilingWorkload>,
    /// What a campaign may cost.
    #[serde(default)]
    pub budget: ProfilingBudget,
    /// Whether what a campaign chose takes over by itself. It concerns choices that differ from the one that serves: the first revision
    /// takes over whatever stands here, and so does a plan that was approved before.
    #[serde(default, skip_serializing_if = "Approval::is_default")]
    pub approval: Approval,
    /// When everything is measured anew, beside what serves. A choice that meets the objectives stays unless another is better by 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ProfilingSchedule>,
}

/// Times at which everything is measured anew. However many of them pass while it cannot be, it is measured once when it can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(r"self.cron.matches('^[^ ]+( +[^ ]+){4}$')")
        .message("write minute, hour, day of month, month and day of week, such as 0 3 * * 1; the zone goes into timeZone")
        .field_path(".cron"),
    validation = Rule::new(
        r"!self.cron.matches('^[^ ]+ +[^ ]+ +((30|31|30,31|31,30|30-31) +(0?2|(?i:feb))|31 +(0?[2469]|11|(?i:feb|apr|jun|sep|nov))(,(0?[2469]|11|(?i:feb|apr|jun|sep|nov)))*) +[*]$')")
        .message("no such month has such a day, so that it would never come up: choose another day or month")
        .field_path(".cron")
)]
pub struct ProfilingSchedule {
    /// Minute, hour, day of month, month and day of week: `0 3 * * 1` is every Monday at three.
    #[schemars(length(min = 9, max = 100))]
    pub cron: String,
    /// The zone whose clock is meant, by its name in the IANA database, such as `Europe/Berlin`. UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_+/-]+$"))]
    pub time_zone: Option<String>,
}

/// Whether a new choice takes over by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Approval {
    /// It is rolled out.
    #[default]
    Automatic,
    /// It stands in `status.rollout.proposed`, with what it would change, until `spec.rollout.approve` names it.
    Manual,
}

impl Approval {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What generates load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ProfilingDriver {
    /// NVIDIA Model Analyzer in remote mode, with perf_analyzer's record of every request.
    #[default]
    ModelAnalyzer,
    /// Runs of the agent through the agent runtime, with replayed tool results.
    AgentRun,
}

/// One kind of traffic: prompts, or recorded runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.prompts) != has(self.agentTrace)")
    .message("a workload has either prompts or an agentTrace"))]
pub struct ProfilingWorkload {
    /// Name by which reports speak of the workload.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Share of the requests, relative to the other workloads with prompts.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: i32,
    /// Prompts, one JSON object a line: `id`, `prompt`, `maxTokens`, `stopWords`. `{{number}}` and `{{word}}` in a prompt are drawn
    /// anew for each request, so that no two requests are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ConfigMapSource>,
    /// Recorded runs, one JSON object a line: `input`, and `calls` with `tool`, `arguments`, `result` and `latencyMicros`. Tools are
    /// answered from the record with the recorded latencies; no call leaves the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_trace: Option<ConfigMapSource>,
}

/// Where lines lie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// A ConfigMap of the same namespace, up to 1 MiB.
    pub config_map: ConfigMapKeyReference,
}

/// What a campaign may cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfilingBudget {
    /// GPU hours that measuring may take; hours of the pod where it has no GPU.
    #[serde(default = "default_gpu_hours")]
    pub gpu_hours: PositiveDecimal,
    /// Most measurements of a configuration at a level.
    #[serde(default = "default_measurements")]
    #[schemars(range(min = 1, max = 300))]
    pub measurements: i32,
    /// GPU hours that measuring by schedule may take in a calendar month (UTC); without it each takes up to `gpuHours`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_month: Option<PositiveDecimal>,
}

impl Default for ProfilingBudget {
    fn default() -> Self {
        Self { gpu_hours: default_gpu_hours(), measurements: default_measurements(), per_month: None }
    }
}

fn default_weight() -> i32 {
    1
}

fn default_gpu_hours() -> PositiveDecimal {
    "8".parse().expect("8 is a positive number")
}

fn default_measurements() -> i32 {
    100
}
