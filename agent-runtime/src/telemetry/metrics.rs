//! Metrics for Prometheus. Names of the OpenTelemetry GenAI conventions in Prometheus form where they exist.
//! <https://github.com/open-telemetry/semantic-conventions-genai>

use std::{collections::BTreeMap, fmt::Debug, hash::Hash, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};
use slipway_runtime_config::{
    LatencyObjective,
    metrics::{RUNS_TOTAL, RunOutcome, SLO_EVENTS_TOTAL},
};
use slipway_vocabulary::telemetry::GpuWindow;

use super::{engine_load::EngineFigures, gpu_metrics::GpuMetrics, spans::SpanMetrics, tenants::TenantMetrics};

/// Bounds in seconds that the conventions recommend for durations.
const DURATION_BOUNDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Bounds in seconds that the conventions recommend for the time to a first token.
const FIRST_TOKEN_BOUNDS: [f64; 15] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0];
/// Bounds in seconds for the time between tokens.
const INTER_TOKEN_BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.3, 0.5, 1.0];
/// Bounds in tokens that the conventions recommend, up to what one call can read.
const TOKEN_BOUNDS: [f64; 11] =
    [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0];

type ObjectiveGauges = Family<ObjectiveLabels, Gauge<f64, AtomicU64>>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Values of the labels `good` and `success`.
const GOOD: [&str; 2] = ["true", "false"];

/// Every metric of the process and the registry that encodes them.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// What says how loaded the pod is, once more: for those who pick a pod.
    load: Registry,
    in_flight_ratio: Gauge<f64, AtomicU64>,
    max_in_flight: u32,
    runs: Family<OutcomeLabel, Counter>,
    shed: Counter,
    refused: Family<RefusalLabel, Counter>,
    tasks: Family<TaskLabels, Counter>,
    in_flight: Gauge,
    model_requests: Gauge,
    ready: Gauge,
    slo_events: Family<SloLabels, Counter>,
    slo_targets: ObjectiveGauges,
    slo_thresholds: ObjectiveGauges,
    invoke_agent: Histograms<AgentLabels>,
    answer_began: Histogram,
    model_call: Histograms<ModelLabels>,
    first_token: Histograms<ModelLabels>,
    inter_token: Histograms<ModelLabels>,
    tokens: Histograms<TokenLabels>,
    execute_tool: Histograms<ToolLabels>,
    /// Where clients name a tenant.
    tenants: Option<TenantMetrics>,
    /// Where a program beside the engine counts what the GPUs do.
    gpus: Option<GpuMetrics>,
    agent: String,
    model: String,
}

/// One model call, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCallMetrics {
    /// From send to end, microseconds.
    pub micros: u64,
    /// From send to first token.
    pub first_token_micros: Option<u64>,
    /// The mean gap between tokens.
    pub inter_token_micros: Option<u64>,
    /// Tokens read; `None` where the engine does not count them.
    pub input_tokens: Option<u32>,
    /// Tokens written.
    pub output_tokens: u32,
    /// The label of the error; empty for none.
    pub error: &'static str,
}

/// Why a pod refuses runs although it has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// Its engine is not ready.
    NotReady,
    /// It is shutting down.
    Draining,
}

impl RefusalReason {
    const ALL: [Self; 2] = [Self::NotReady, Self::Draining];

    const fn as_str(self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::Draining => "draining",
        }
    }
}

/// One tool call, as it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallMetrics {
    /// The tool, or `unknown` for a name that the model made up: labels must be bounded.
    pub tool: String,
    /// From start to answer, microseconds.
    pub micros: u64,
    /// The label of the error; empty for none.
    pub error: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    success: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SloLabels {
    objective: String,
    good: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectiveLabels {
    objective: String,
    metric: &'static str,
    percentile: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AgentLabels {
    gen_ai_agent_name: String,
    error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    gen_ai_operation_name: &'static str,
    gen_ai_request_model: String,
    error_type: &'static str,
}

/// Those of OTel's `gen_ai.client.token.usage`, with the error of the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    gen_ai_operation_name: &'static str,
    gen_ai_request_model: String,
    gen_ai_token_type: &'static str,
    error_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    gen_ai_tool_name: String,
    error_type: &'static str,
}

impl Metrics {
    /// Registers every metric. Objectives and outcomes start at zero, so that rates exist from the first scrape and
    /// include the first event.
    pub fn new(identity: MetricsIdentity<'_>, objectives: &[LatencyObjective]) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let metrics = Self {
            runs: register(r, counter_name(RUNS_TOTAL), "Runs that ended, by outcome", Family::default()),
            shed: register(r, "slipway_runs_shed", "Runs refused because maxInFlight was reached", Counter::default()),
            refused: register(
                r,
                "slipway_runs_refused",
                "Runs refused because the pod does not serve",
                Family::default(),
            ),
            tasks: register(r, "slipway_tasks_judged", "Runs that clients have judged", Family::default()),
            in_flight: register(r, "slipway_runs_in_flight", "Runs being served", Gauge::default()),
            model_requests: register(
                r,
                "slipway_model_requests_in_flight",
                "Model requests that runs wait for",
                Gauge::default(),
            ),
            ready: register(r, "slipway_ready", "1 when the pod serves", Gauge::default()),
            slo_events: register(r, counter_name(SLO_EVENTS_TOTAL), "Runs judged by an objective", Family::default()),
            slo_targets: register(
                r,
                "slipway_slo_target_ratio",
                "Share of events that must be good",
                Family::default(),
            ),
            slo_thresholds: register(
                r,
                "slipway_slo_threshold_seconds",
                "Longest latency of a good event",
                Family::default(),
            ),
            invoke_agent: histograms(r, "gen_ai_invoke_agent_duration_seconds", "Duration of agent runs", || {
                Histogram::new(DURATION_BOUNDS)
            }),
            answer_began: register(
                r,
                "slipway_run_time_to_first_token_seconds",
                "Time from the admission of an answered run to the first token of its answer",
                Histogram::new(DURATION_BOUNDS),
            ),
            model_call: histograms(r, "gen_ai_client_operation_duration_seconds", "Duration of model calls", || {
                Histogram::new(DURATION_BOUNDS)
            }),
            first_token: histograms(
                r,
                "gen_ai_client_operation_time_to_first_chunk_seconds",
                "Time from a model call to its first token",
                || Histogram::new(FIRST_TOKEN_BOUNDS),
            ),
            inter_token: histograms(
                r,
                "gen_ai_client_operation_time_per_output_chunk_seconds",
                "Mean time between the tokens of a model call",
                || Histogram::new(INTER_TOKEN_BOUNDS),
            ),
            tokens: histograms(r, "gen_ai_client_token_usage", "Tokens of model calls, by what they are", || {
                Histogram::new(TOKEN_BOUNDS)
            }),
            execute_tool: histograms(r, "gen_ai_execute_tool_duration_seconds", "Duration of tool calls", || {
                Histogram::new(DURATION_BOUNDS)
            }),
            in_flight_ratio: register(
                r,
                "slipway_runs_in_flight_ratio",
                "Runs being served, of those that may be",
                Gauge::default(),
            ),
            max_in_flight: identity.max_in_flight,
            agent: identity.agent.into(),
            model: identity.model.into(),
            load: Registry::default(),
            tenants: None,
            gpus: None,
            registry,
        };
        metrics.set_objectives(&[], objectives);
        metrics.with_constants(&identity)
    }

    fn with_constants(mut self, identity: &MetricsIdentity<'_>) -> Self {
        let r = &mut self.registry;
        let labels = [("agent", identity.agent), ("revision", identity.revision), ("version", identity.version)];
        let info = Info::new(labels.map(|(name, value)| (name, value.to_owned())).to_vec());
        r.register("slipway_agent", "What this pod serves", info);
        let limit: Gauge = register(r, "slipway_runs_in_flight_limit", "Runs served at once at most", Gauge::default());
        limit.set(identity.max_in_flight.into());
        let load = &mut self.load;
        load.register("slipway_runs_in_flight", "Runs being served", self.in_flight.clone());
        load.register("slipway_runs_in_flight_limit", "Runs served at once at most", limit);
        let (ratio, requests) = (self.in_flight_ratio.clone(), self.model_requests.clone());
        load.register("slipway_runs_in_flight_ratio", "Runs being served, of those that may be", ratio);
        load.register("slipway_model_requests_in_flight", "Model requests that runs wait for", requests);
        load.register("slipway_ready", "1 when the pod serves", self.ready.clone());
        for outcome in RunOutcome::ALL {
            drop(self.runs.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }));
        }
        for success in GOOD {
            drop(self.tasks.get_or_create(&TaskLabels { success }));
        }
        for reason in RefusalReason::ALL {
            drop(self.refused.get_or_create(&RefusalLabel { reason: reason.as_str() }));
        }
        self
    }

    /// Counts by tenant too, and those who are not let in, by these reasons.
    #[must_use]
    pub fn with_tenants(mut self, reasons: &[&'static str]) -> Self {
        self.tenants = Some(TenantMetrics::new(&mut self.registry, reasons));
        self
    }

    /// Shows what the pod's GPUs do too.
    #[must_use]
    pub fn with_gpus(mut self) -> Self {
        self.gpus = Some(GpuMetrics::new(&mut self.registry));
        self
    }

    /// Takes what the pod's GPUs did in the windows of the last hour.
    pub fn show_gpus(&self, windows: &BTreeMap<u64, Vec<GpuWindow>>) {
        if let Some(gpus) = &self.gpus {
            gpus.show(windows);
        }
    }

    /// Counts the spans that are handed to a receiver of traces.
    pub fn count_spans(&mut self) -> SpanMetrics {
        SpanMetrics::new(&mut self.registry)
    }

    /// Exports these objectives instead of the previous ones. An objective that keeps its name keeps its events; its
    /// target and threshold are those that judge it now.
    pub fn set_objectives(&self, before: &[LatencyObjective], objectives: &[LatencyObjective]) {
        let is_gone = |known: &&LatencyObjective| objectives.iter().all(|objective| objective.name != known.name);
        for name in before.iter().filter(is_gone).map(|objective| &objective.name) {
            for good in GOOD {
                self.slo_events.remove(&SloLabels { objective: name.clone(), good });
            }
        }
        self.slo_targets.clear();
        self.slo_thresholds.clear();
        for objective in objectives {
            let labels = ObjectiveLabels {
                objective: objective.name.clone(),
                metric: objective.metric.as_str(),
                percentile: objective.percentile.as_str(),
            };
            self.slo_targets.get_or_create(&labels).set(f64::from(objective.percentile.per_mille()) / 1_000.0);
            self.slo_thresholds.get_or_create(&labels).set(seconds(objective.max_microseconds));
            for good in GOOD {
                drop(self.slo_events.get_or_create(&SloLabels { objective: objective.name.clone(), good }));
            }
        }
    }

    /// Counts a run's end.
    pub fn run_ended(&self, outcome: RunOutcome, micros: u64, judged: &[(String, bool)]) {
        self.runs.get_or_create(&OutcomeLabel { outcome: outcome.as_str() }).inc();
        let error_type = if outcome == RunOutcome::Answered { "" } else { outcome.as_str() };
        let labels = AgentLabels { gen_ai_agent_name: self.agent.clone(), error_type };
        self.invoke_agent.get_or_create(&labels).observe(seconds(micros));
        for (objective, is_good) in judged {
            let [yes, no] = GOOD;
            let good = if *is_good { yes } else { no };
            self.slo_events.get_or_create(&SloLabels { objective: objective.clone(), good }).inc();
        }
    }

    /// Counts the wait for the first token of an answer, in microseconds.
    pub fn answer_began(&self, micros: u64) {
        self.answer_began.observe(seconds(micros));
    }

    /// Counts a model call.
    pub fn model_called(&self, call: ModelCallMetrics) {
        let labels = ModelLabels {
            gen_ai_operation_name: "text_completion",
            gen_ai_request_model: self.model.clone(),
            error_type: call.error,
        };
        self.model_call.get_or_create(&labels).observe(seconds(call.micros));
        let tokens = [("input", call.input_tokens), ("output", Some(call.output_tokens))];
        for (gen_ai_token_type, tokens) in tokens.into_iter().filter_map(|(kind, tokens)| Some((kind, tokens?))) {
            let ModelLabels { gen_ai_operation_name, gen_ai_request_model, error_type } = labels.clone();
            let labels = TokenLabels { gen_ai_operation_name, gen_ai_request_model, gen_ai_token_type, error_type };
            self.tokens.get_or_create(&labels).observe(f64::from(tokens));
        }
        if let Some(micros) = call.first_token_micros {
            self.first_token.get_or_create(&labels).observe(seconds(micros));
        }
        if let Some(micros) = call.inter_token_micros {
            self.inter_token.get_or_create(&labels).observe(seconds(micros));
        }
    }

    /// Counts a tool call.
    pub fn tool_called(&self, call: ToolCallMetrics) {
        let labels = ToolLabels { gen_ai_tool_name: call.tool, error_type: call.error };
        self.execute_tool.get_or_create(&labels).observe(seconds(call.micros));
    }

    /// Counts a run refused for load.
    pub fn run_shed(&self) {
        self.shed.inc();
    }

    /// Counts a run refused because the pod does not serve.
    pub fn run_refused(&self, reason: RefusalReason) {
        self.refused.get_or_create(&RefusalLabel { reason: reason.as_str() }).inc();
    }

    /// Counts a run of a tenant.
    pub fn tenant_run_admitted(&self, tenant: &str) {
        self.tenants.iter().for_each(|tenants| tenants.run_admitted(tenant));
    }

    /// Counts the tokens of a tenant's run.
    pub fn tenant_charged(&self, tenant: &str, tokens: u64) {
        self.tenants.iter().for_each(|tenants| tenants.charged(tenant, tokens));
    }

    /// Counts a request refused because of a tenant's rate.
    pub fn tenant_limited(&self, tenant: &str, limit: &'static str) {
        self.tenants.iter().for_each(|tenants| tenants.limited(tenant, limit));
    }

    /// Counts a request that was not let in.
    pub fn request_denied(&self, reason: &'static str) {
        self.tenants.iter().for_each(|tenants| tenants.denied(reason));
    }

    /// Counts a client's feedback on a run.
    pub fn task_judged(&self, is_success: bool) {
        let [yes, no] = GOOD;
        self.tasks.get_or_create(&TaskLabels { success: if is_success { yes } else { no } }).inc();
    }

    /// Notes how many runs are being served.
    pub fn set_in_flight(&self, runs: usize) {
        self.in_flight.set(i64::try_from(runs).unwrap_or(i64::MAX));
        // Exact: runs are far fewer than 2^53.
        self.in_flight_ratio.set(runs as f64 / f64::from(self.max_in_flight.max(1)));
    }

    /// Notes how many model requests are in flight.
    pub fn set_model_requests_in_flight(&self, requests: u64) {
        self.model_requests.set(i64::try_from(requests).unwrap_or(i64::MAX));
    }

    /// Notes whether the pod serves.
    pub fn set_ready(&self, is_ready: bool) {
        self.ready.set(i64::from(is_ready));
    }

    /// The OpenMetrics text of everything.
    ///
    /// # Errors
    /// Never in practice: writing to a `String` does not fail.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        encode(&self.registry)
    }

    /// The OpenMetrics text of the load alone, the pod's and its engine's.
    ///
    /// # Errors
    /// As [`Metrics::encode`].
    pub fn encode_load(&self, engine: EngineFigures) -> Result<String, std::fmt::Error> {
        engine.encode_behind(&self.load)
    }
}

/// What is constant in the labels of a process.
#[derive(Clone, Copy, Debug)]
pub struct MetricsIdentity<'a> {
    /// The agent's name.
    pub agent: &'a str,
    /// The revision.
    pub revision: &'a str,
    /// The model's name at the engine.
    pub model: &'a str,
    /// The sidecar's version.
    pub version: &'a str,
    /// The limit on runs served at once.
    pub max_in_flight: u32,
}

fn encode(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// The encoder adds the suffix of counters itself.
fn counter_name(exported: &'static str) -> &'static str {
    exported.strip_suffix("_total").unwrap_or(exported)
}

fn register<M: prometheus_client::registry::Metric + Clone>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    metric: M,
) -> M {
    registry.register(name, help, metric.clone());
    metric
}

fn histograms<L>(registry: &mut Registry, name: &str, help: &str, make: fn() -> Histogram) -> Histograms<L>
where
    L: Clone + Debug + Eq + Hash + EncodeLabelSet + Send + Sync + 'static,
{
    register(registry, name, help, Family::new_with_constructor(make))
}

/// Microseconds as Prometheus' base unit; exact below 2^53 microseconds, which is 285 years.
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
