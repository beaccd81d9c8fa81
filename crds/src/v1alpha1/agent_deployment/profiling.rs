//! How configurations are measured before one of them serves.

use kube::{KubeSchema, core::Rule};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::ProfilingDriver;
use slipway_vocabulary::ThroughputUnit;

use crate::{
    v1alpha1::shared::ConfigMapKeyReference,
    values::{DurationText, PositiveDecimal},
};

/// How the configurations of the search space are measured. Without it nothing is measured, and the first engine that
/// passes the quality gate serves as its repository configures it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.driver) || self.driver != 'ModelAnalyzer' || self.workloads.exists(w, has(w.prompts))")
        .message("driver ModelAnalyzer requires prompts: add a workload with prompts, or set driver to AgentRun")
        .field_path(".workloads"),
    validation = Rule::new(
        "!has(self.driver) || self.driver != 'AgentRun' || \
         self.workloads.exists(w, has(w.agentTrace) || has(w.recordedLengths) || has(w.synthetic))")
        .message("driver AgentRun requires runs: add a workload with agentTrace, recordedLengths or synthetic")
        .field_path(".workloads"),
    validation = Rule::new(
        "self.workloads.filter(w, has(w.agentTrace) || has(w.recordedLengths) || has(w.synthetic)).size() <= 1")
        .message("only one workload may have runs, by agentTrace, recordedLengths or synthetic: keep one of them")
        .field_path(".workloads"),
    validation = Rule::new(
        "!has(self.budget) || !has(self.budget.perMonth) || has(self.schedule) || \
         (has(self.onDrift) && self.onDrift == 'Reprofile')")
        .message("budget.perMonth limits campaigns by schedule or after drift: add schedule, set onDrift to \
                  Reprofile, or remove perMonth")
        .field_path(".budget.perMonth"),
    validation = Rule::new(
        "!has(self.approveReprofiling) || (has(self.onDrift) && self.onDrift == 'Reprofile')")
        .message("approveReprofiling approves a proposal of onDrift: Reprofile: set onDrift to Reprofile, or remove \
                  approveReprofiling")
        .field_path(".approveReprofiling")
)]
pub struct Profiling {
    /// What sends the load while configurations are compared. ModelAnalyzer sends requests: it measures their
    /// throughput, RequestLatency and, of streamed answers, RequestTimeToFirstToken. AgentRun replays whole runs, and
    /// measures every metric. With an agentTrace, AgentRun confirms the chosen configuration in either case. Absent
    /// means ModelAnalyzer where there are prompts, it measures what serves and an objective, and no objective bounds
    /// TimeToFirstToken or InterTokenLatency; else AgentRun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "named_driver")]
    pub driver: Option<ProfilingDriver>,
    /// Traffic to measure with.
    #[schemars(
        length(min = 1, max = 8),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub workloads: Vec<ProfilingWorkload>,
    /// What AIConfigurator expects of the model: its `pareto.csv` or `best_config_topn.csv` of aggregated serving. The
    /// search begins where these rows are best. What is chosen is measured, with or without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior: Option<ConfigMapSource>,
    /// Limits on the cost of a campaign.
    #[serde(default)]
    pub budget: ProfilingBudget,
    /// Which engines are built: All before the campaign begins, as by default, or each only when the search asks for
    /// it. Then the campaign begins with the first, and the others that it does not ask for are never built.
    #[serde(default, skip_serializing_if = "EngineBuilds::is_default")]
    pub engines: EngineBuilds,
    /// Maximum number of engines that are measured at once, each in a Job that holds the GPUs of a replica: 1 by
    /// default. Jobs for which no GPU is free wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub parallel_jobs: Option<i32>,
    /// Whether the choice of a campaign is rolled out automatically, as by default. This concerns choices that differ
    /// from the current one. The first revision, and a plan that was approved before, always take over.
    #[serde(default, skip_serializing_if = "Approval::is_default")]
    pub approval: Approval,
    /// When to measure everything again, beside the revision that serves. A choice that meets the objectives stays
    /// unless another is better by 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ProfilingSchedule>,
    /// What to do after drift: Report by default. Drift is always observed and reported.
    #[serde(default, skip_serializing_if = "OnDrift::is_default")]
    pub on_drift: OnDrift,
    /// Approves the proposal in `status.drift.proposal` with this value: what users ask has changed, and a new
    /// campaign may start. It has no effect on any other proposal. The annotation `slipway.dev/approve-reprofiling`
    /// does the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub approve_reprofiling: Option<String>,
}

/// The drivers, where the spec may name none. The schema of an optional enum would have the words of the enum.
fn named_driver(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ProfilingDriver::ALL.map(ProfilingDriver::as_str), "nullable": true})
}

/// Which engines are built for a campaign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum EngineBuilds {
    /// Every engine of the search space, before the campaign begins.
    #[default]
    All,
    /// The first one, and then those that the search asks for.
    WhenAsked,
}

impl EngineBuilds {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What follows from drift.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum OnDrift {
    /// Conditions and events.
    #[default]
    Report,
    /// A new campaign also starts, as with a schedule. If an objective is at risk, it starts automatically, at the
    /// earliest seven days after the last campaign. If what users ask has changed, it starts once a person approves
    /// it.
    Reprofile,
}

impl OnDrift {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Times at which everything is measured again. Missed times are made up for by one campaign, as soon as it can
/// start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(r"self.cron.matches('^[^ ]+( +[^ ]+){4}$')")
        .message("cron must have minute, hour, day of month, month and day of week, such as 0 3 * * 1: write these, \
                  and put the zone into timeZone")
        .field_path(".cron"),
    validation = Rule::new(
        r"!self.cron.matches('^[^ ]+ +[^ ]+ +((30|31|30,31|31,30|30-31) +(0?2|(?i:feb))|31 +(0?[2469]|11|(?i:feb|apr|jun|sep|nov))(,(0?[2469]|11|(?i:feb|apr|jun|sep|nov)))*) +[*]$')")
        .message("cron names a day that its month never has: choose another day or month")
        .field_path(".cron")
)]
pub struct ProfilingSchedule {
    /// Minute, hour, day of month, month and day of week: `0 3 * * 1` is every Monday at three.
    #[schemars(length(min = 9, max = 100))]
    pub cron: String,
    /// Time zone by its name in the IANA database, such as `Europe/Berlin`. UTC by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[A-Za-z0-9_+/-]+$"))]
    pub time_zone: Option<String>,
}

/// Whether a new choice is rolled out automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Approval {
    /// It is rolled out.
    #[default]
    Automatic,
    /// It waits in `status.rollout.proposed`, with what it would change, until `spec.rollout.approve` names it.
    Manual,
}

impl Approval {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One kind of traffic: prompts, recorded runs, or runs that are made up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "[has(self.prompts), has(self.agentTrace), has(self.recordedLengths), has(self.synthetic)]\
     .filter(is, is).size() == 1")
    .message("a workload needs prompts, agentTrace, recordedLengths or synthetic: set exactly one of them"))]
pub struct ProfilingWorkload {
    /// Name of the workload in reports.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Share of the requests, relative to the other workloads with prompts.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: i32,
    /// Prompts, one JSON object per line: `id`, `prompt`, `maxTokens`, `stopWords`. Each request draws `{{number}}`
    /// and `{{word}}` in a prompt, so that no two requests are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<ConfigMapSource>,
    /// Recorded runs, one JSON object per line: `input`, and `calls` with `tool`, `arguments`, `result` and
    /// `latencyMicros`. The record answers tool calls with its latencies, and no call leaves the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_trace: Option<ConfigMapSource>,
    /// Lengths of recorded runs, as `kubectl slipway record` writes them: runs are made up that have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_lengths: Option<ConfigMapSource>,
    /// Runs that are made up from lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<SyntheticRuns>,
}

impl ProfilingWorkload {
    /// Whether it is whole runs, recorded or made up.
    pub fn has_runs(&self) -> bool {
        self.agent_trace.is_some() || self.recorded_lengths.is_some() || self.synthetic.is_some()
    }
}

/// Runs that are made up from lengths. Their texts have no meaning, and the model's are replaced by what a run does
/// next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.inputTokensP95) || self.inputTokensP95 >= self.inputTokens")
        .message("inputTokens is the median, and inputTokensP95 is below it: raise inputTokensP95, or remove it")
        .field_path(".inputTokensP95"),
    validation = Rule::new("!has(self.outputTokensP95) || self.outputTokensP95 >= self.outputTokens")
        .message("outputTokens is the median, and outputTokensP95 is below it: raise outputTokensP95, or remove it")
        .field_path(".outputTokensP95")
)]
pub struct SyntheticRuns {
    /// Tokens of a question, about. With `inputTokensP95` their median.
    #[schemars(range(min = 1, max = 100_000))]
    pub input_tokens: i32,
    /// 95th percentile of the lognormal lengths of questions. Absent means that all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub input_tokens_p95: Option<i32>,
    /// Tokens that the model writes in each of a run's requests. With `outputTokensP95` their median.
    #[schemars(range(min = 1, max = 32_768))]
    pub output_tokens: i32,
    /// 95th percentile of the lognormal lengths of what it writes. Absent means that all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32_768))]
    pub output_tokens_p95: Option<i32>,
    /// Number of tool calls of a run, one after the other. Each is followed by a request.
    #[serde(default)]
    #[schemars(range(min = 0, max = 32))]
    pub tool_calls: i32,
    /// Tokens of a tool's result, about.
    #[serde(default = "default_tool_result_tokens")]
    #[schemars(range(min = 1, max = 100_000))]
    pub tool_result_tokens: i32,
    /// Time that a tool takes.
    #[serde(default = "default_tool_latency")]
    pub tool_latency: DurationText,
    /// How runs arrive while the chosen configuration is confirmed.
    #[serde(default, skip_serializing_if = "Arrival::is_default")]
    pub arrival: Arrival,
}

impl SyntheticRuns {
    /// Tokens of the longest run, with all that its tools give. No length is more than [`LONGEST`] times its
    /// percentile.
    pub fn most_tokens(&self, max_output_tokens: i32) -> i64 {
        let longest = |median: i32, p95: Option<i32>| p95.map_or(i64::from(median), |p95| LONGEST * i64::from(p95));
        let output = longest(self.output_tokens, self.output_tokens_p95).min(i64::from(max_output_tokens));
        let calls = i64::from(self.tool_calls);
        longest(self.input_tokens, self.input_tokens_p95)
            + (calls + 1) * output
            + calls * i64::from(self.tool_result_tokens)
    }
}

/// How many times its 95th percentile a length is at most: the tail of the distribution has no end.
pub const LONGEST: i64 = 2;

/// How runs arrive. By default each arrives by itself, at random.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Arrival {
    /// Runs a second over all replicas. Absent means `slo.throughput.min`, or what the measurements allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_per_second: Option<PositiveDecimal>,
    /// Runs that arrive at the same moment. Such moments are random.
    #[serde(default = "default_burst")]
    #[schemars(range(min = 1, max = 64))]
    pub burst: i32,
}

impl Default for Arrival {
    fn default() -> Self {
        Self { runs_per_second: None, burst: default_burst() }
    }
}

impl Arrival {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Source of the lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// A ConfigMap of the same namespace, up to 1 MiB.
    pub config_map: ConfigMapKeyReference,
}

/// Limits on the cost of a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfilingBudget {
    /// Maximum GPU hours of a campaign. Hours of the pod count if it has no GPU.
    #[serde(default = "default_gpu_hours")]
    pub gpu_hours: PositiveDecimal,
    /// Maximum number of measurements in a campaign. Each is one configuration at one level.
    #[serde(default = "default_measurements")]
    #[schemars(range(min = 1, max = 300))]
    pub measurements: i32,
    /// Maximum GPU hours in a calendar month (UTC) of campaigns by schedule and after drift. Without it each may take
    /// up to `gpuHours`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_month: Option<PositiveDecimal>,
}

impl Default for ProfilingBudget {
    fn default() -> Self {
        Self { gpu_hours: default_gpu_hours(), measurements: default_measurements(), per_month: None }
    }
}

fn default_tool_result_tokens() -> i32 {
    100
}

fn default_tool_latency() -> DurationText {
    "100ms".parse().expect("a constant that is a duration")
}

fn default_burst() -> i32 {
    1
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

/// Says in CEL that the driver is one of those of which something holds, or that something else holds where the spec
/// names none.
fn is_driver(holds: impl Fn(&ProfilingDriver) -> bool, unnamed: &str) -> String {
    let drivers = ProfilingDriver::ALL.iter().filter(|driver| holds(driver));
    let names: Vec<_> = drivers.map(|driver| format!("'{}'", driver.as_str())).collect();
    format!(
        "(has(self.profiling.driver) && self.profiling.driver in [{}]) || (!has(self.profiling.driver) && {unnamed})",
        names.join(", ")
    )
}

/// Says in CEL that there is traffic which every driver of runs can send.
const HAS_RUNS: &str =
    "self.profiling.workloads.exists(w, has(w.agentTrace) || has(w.recordedLengths) || has(w.synthetic))";

/// Says in CEL that Model Analyzer has traffic, and measures what serves.
const IS_FOR_MODEL_ANALYZER: &str = "self.profiling.workloads.exists(w, has(w.prompts)) && \
     self.engine.backend != 'SGLang' && \
     (!has(self.engine.vllm) || !has(self.engine.vllm.server) || self.engine.vllm.server != 'OpenAI') && \
     (!has(self.engine.tensorRTLLMPyTorch) || !has(self.engine.tensorRTLLMPyTorch.server) || \
     self.engine.tensorRTLLMPyTorch.server != 'OpenAI') && \
     (!has(self.engine.tensorRTLLM) || !has(self.engine.tensorRTLLM.entry) || \
     self.engine.tensorRTLLM.entry != 'Ensemble')";

/// Objectives that count requests or runs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counted {
    Throughput,
    Cost,
}

/// The rule of a spec that an objective in requests needs a driver that counts them.
pub(super) fn counts_requests(counted: Counted) -> Rule {
    let (field, called) = match counted {
        Counted::Throughput => ("throughput", "slo.throughput in Requests"),
        Counted::Cost => ("cost", "slo.cost of Requests"),
    };
    let counts = is_driver(|driver| driver.unit() == ThroughputUnit::Requests, IS_FOR_MODEL_ANALYZER);
    let message =
        format!("{called} requires driver ModelAnalyzer: set profiling.driver to ModelAnalyzer, or unit to Runs");
    Rule::new(format!(
        "!has(self.engine) || !has(self.profiling) || !has(self.slo) || !has(self.slo.{field}) || \
         self.slo.{field}.unit != 'Requests' || \
         {counts}"
    ))
    .message(message.as_str())
    .field_path(format!(".slo.{field}.unit"))
}

/// The rule of a spec that the own server of an engine, where its block chooses that, needs a driver that measures it.
pub(super) fn measures_chosen_server_of(block: &str) -> Rule {
    let measures = is_driver(|driver| !driver.requires_triton(), HAS_RUNS);
    let rule = format!(
        "!has(self.engine) || !has(self.profiling) || !has(self.engine.{block}) || !has(self.engine.{block}.server) || \
         self.engine.{block}.server != 'OpenAI' || {measures}"
    );
    let message = format!(
        "Model Analyzer supports only Triton: set profiling.driver to AgentRun, or engine.{block}.server to Triton"
    );
    Rule::new(rule).message(message.as_str()).field_path(".profiling.driver")
}

/// The rule of a spec that a backend with a server of its own needs a driver that measures it.
pub(super) fn measures_own_server_of(backend: &str) -> Rule {
    let measures = is_driver(|driver| !driver.requires_triton(), HAS_RUNS);
    let rule = format!("!has(self.engine) || !has(self.profiling) || self.engine.backend != '{backend}' || {measures}");
    let message = format!(
        "Model Analyzer supports only Triton, and {backend} has a server of its own: set profiling.driver to AgentRun"
    );
    Rule::new(rule).message(message.as_str()).field_path(".profiling.driver")
}

/// The rule of a spec that expectations are of engines which their author knows.
pub(super) fn expects_no_custom_engine() -> Rule {
    Rule::new(
        "!has(self.engine) || !has(self.profiling) || !has(self.profiling.prior) || self.engine.backend != 'Custom'",
    )
    .message("AIConfigurator expects nothing of Custom engines: remove profiling.prior, or use another backend")
    .field_path(".profiling.prior")
}

/// The rule of a spec that an ensemble needs a driver that measures it.
pub(super) fn measures_ensembles() -> Rule {
    let measures = is_driver(|driver| driver.measures_ensembles(), HAS_RUNS);
    Rule::new(format!(
        "!has(self.engine) || !has(self.engine.tensorRTLLM) || !has(self.engine.tensorRTLLM.entry) || \
         self.engine.tensorRTLLM.entry != 'Ensemble' || !has(self.profiling) || {measures}"
    ))
    .message(
        "Model Analyzer chooses levels and configurations of an ensemble itself: set profiling.driver to AgentRun, or \
         engine.tensorRTLLM.entry to Engine or BLS",
    )
    .field_path(".profiling.driver")
}
