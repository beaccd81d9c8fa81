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
    validation = Rule::new(
        "!has(self.budget) || !has(self.budget.perMonth) || has(self.schedule) || \
         (has(self.onDrift) && self.onDrift == 'Reprofile')")
        .message("budget.perMonth limits what is measured by schedule or after drift: add schedule, or onDrift: Reprofile, or leave perMonth out")
        .field_path(".budget.perMonth"),
    validation = Rule::new(
        "!has(self.approveReprofiling) || (has(self.onDrift) && self.onDrift == 'Reprofile')")
        .message("approveReprofiling answers a proposal of onDrift: Reprofile: set that, or leave the word out")
        .field_path(".approveReprofiling")
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
    /// What follows from drift of what serves, which is watched and told whatever stands here.
    #[serde(default, skip_serializing_if = "OnDrift::is_default")]
    pub on_drift: OnDrift,
    /// The word in `status.drift.proposal`: what users ask has changed, and what serves may be measured anew. Does nothing to any other
    /// proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub approve_reprofiling: Option<String>,
}

/// What follows from drift.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum OnDrift {
    /// Conditions and events.
    #[default]
    Report,
    /// What serves is also measured anew, as by a schedule: by itself when an objective is at risk, at the earliest seven days after the
    /// last campaign; when what users ask has changed, once `approveReprofiling` says so.
    Reprofile,
}

impl OnDrift {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
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
    /// GPU hours that measuring by schedule and after drift may take in a calendar month (UTC); without it each takes up to `gpuHours`.
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
