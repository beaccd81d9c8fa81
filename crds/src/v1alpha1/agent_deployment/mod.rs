//! AgentDeployment: the model, the agent and the objectives that a team declares.

mod agent;
mod alerts;
mod authentication;
mod autoscaling;
mod baseline;
mod defaults;
mod drift;
mod figures;
mod gpu_products;
mod guardrail;
mod model;
mod no_build;
mod notified;
mod preflight;
mod profiling;
mod reprofiling;
mod rollout;
mod rollout_status;
mod self_check;
mod serving;
mod slo;
mod status;
mod tensorrt_llm;
mod tracing;
mod upstream;
mod vllm_features;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::serving::{EngineEntry, NoBuildBackend, ServedBy};

pub use agent::{Agent, CircuitBreaker, HttpMethod, HttpTool, McpServer, Sampling, StdioServer, Tool, ToolType};
pub use alerts::Alerts;
pub use authentication::{Authentication, IssuerKeys, JsonWebTokens, NamedTenantRate, TenantRate, TenantRates};
pub use autoscaling::{Autoscaling, AutoscalingStatus, UnknownLoad};
pub use baseline::{Baseline, RolloutBaseline};
pub use defaults::{TakenDefaults, TakenVersion, VersionedBackend};
pub use drift::{DriftRisk, DriftStatus, DriftVerdict};
pub use figures::{CostFigures, ErrorRateFigures, LatencyFigures, ThroughputFigures};
pub(in crate::v1alpha1) use gpu_products::selected as selected_nodes;
pub use guardrail::Guardrail;
pub use model::{
    Backend, Build, CustomEngine, EngineConfiguration, EngineVariant, ModelSource, Precision, SearchSpace,
    ServeParameter,
};
pub(in crate::v1alpha1) use no_build::no_build_backend;
pub use no_build::{
    EngineServer, NoBuildBlock, NoBuildOptions, NoBuildSettings, SglangEngine, TensorRtLlmPyTorchEngine, VllmEngine,
    backend_and_server,
};
pub use notified::{ToldFact, UndeliveredNotification};
pub use preflight::Preflight;
pub use profiling::{
    Approval, Arrival, ConfigMapSource, EngineBuilds, LONGEST, OnDrift, Profiling, ProfilingBudget, ProfilingDriver,
    ProfilingSchedule, ProfilingWorkload, SyntheticRuns,
};
pub use reprofiling::{
    AdoptedCampaign, MonthlyUse, ReprofilingCause, ReprofilingResult, ReprofilingRun, ReprofilingStatus,
};
pub use rollout::{
    Capacity, CostGuard, EndpointPicker, GatewayReference, GatewayTraffic, InferencePoolBackend, JudgeSettings,
    OnInconclusive, PickerFailureMode, Rollout, RolloutStep, RunCost, TaskFailureGuard, Traffic, TrafficType,
};
pub use rollout_status::{
    CapacityPhase, GuardrailStatus, LeavingRevision, LogEvidence, ProposedPlan, RejectedPlan, RolloutCapacity,
    RolloutStatus, RolloutVerdict, RouteContest,
};
pub use self_check::{JudgeCheck, SelfCheckStatus, UncheckedJudge};
pub use serving::{Hardware, Recording, RecordingLevel, Serving};
pub use slo::{
    CostObjective, ErrorRateObjective, GpuFigure, LatencyMetric, OnInfeasible, OptimizeFor, QualityDataset,
    QualityEvaluator, QualityObjective, ServiceLevelObjectives, ThroughputObjective, ThroughputUnit, WrittenGpuLimit,
    WrittenObjective,
};
pub use status::{
    AgentDeploymentStatus, EngineChoice, EngineOffer, ErrorBudget, JobAttempt, MeasuredQuality, ObjectiveStatus,
    ResolvedImage, ResolvedModel, ResolvedShape, SelectedArtifact, SelectedConfiguration, SelectedCost, Stage,
};
pub use tensorrt_llm::{
    EngineCalibration, EngineDtype, EngineExtraArgs, EngineGemmPlugin, KvCachePrecision, TensorRtLlmBlock,
    TensorRtLlmEngine, TensorRtLlmOptions, TensorRtLlmSettings,
};
pub use tracing::Tracing;
pub use upstream::{Checkpoint, Origin, Upstream, UpstreamApi};
pub use vllm_features::{
    KvOffload, LoraAdapter, NgramSpeculation, StructuredOutputs, StructuredOutputsBackend, VllmFeatures,
};

/// Declares an agent: its model, how its engines are built, the objectives it must meet, and how it is served.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "slipway.dev",
    version = "v1alpha1",
    kind = "AgentDeployment",
    plural = "agentdeployments",
    shortname = "agd",
    category = "slipway",
    namespaced,
    status = "AgentDeploymentStatus",
    derive = "PartialEq",
    doc = "An agent on a model, which is built, served and judged by its objectives.",
    scale(
        spec_replicas_path = ".spec.serving.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Stage", type_ = "string", json_path = ".status.stage"),
    printcolumn(name = "Engine", type_ = "string", json_path = ".status.selected.displayName"),
    printcolumn(name = "SLOs", type_ = "string", json_path = ".status.objectivesMet"),
    printcolumn(name = "Replicas", type_ = "string", json_path = ".status.readyReplicas"),
    printcolumn(name = "Canary", type_ = "string", json_path = ".status.rollout.canaryShare"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Reason", type_ = "string", priority = 1,
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    validation = Rule::new("self.metadata.name.size() <= 40")
        .message("metadata.name must have at most 40 characters, so that the names of its objects fit"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')")
        .message("metadata.name must be a DNS label that begins with a letter: it names Services")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.model.upstream) || !has(self.slo) || !has(self.slo.throughput) || has(self.profiling)")
        .message("slo.throughput requires measurements: add profiling with a workload").field_path(".slo.throughput"),
    validation = Rule::new(
        "!has(self.profiling) || !has(self.slo) || !has(self.slo.objectives) || \
         self.slo.objectives.all(o, o.metric == 'RequestLatency') || \
         self.profiling.workloads.exists(w, has(w.agentTrace) || has(w.recordedLengths) || has(w.synthetic))")
        .message("objectives other than RequestLatency require runs: add a workload with agentTrace, recordedLengths or \
                  synthetic")
        .field_path(".profiling.workloads"),
    validation = Rule::new(
        "!has(self.profiling) || !has(self.slo) || !has(self.slo.objectives) || \
         !self.slo.objectives.exists(o, o.metric == 'InterTokenLatency') || \
         !self.profiling.workloads.exists(w, has(w.synthetic)) || \
         self.profiling.workloads.exists(w, has(w.agentTrace) || has(w.recordedLengths) || \
         (has(w.synthetic) && (w.synthetic.outputTokens > 1 || has(w.synthetic.outputTokensP95))))")
        .message("InterTokenLatency requires requests that write two tokens or more: raise synthetic.outputTokens, or \
                  remove the objective")
        .field_path(".profiling.workloads"),
    validation = Rule::new(
        "!has(self.profiling) || !has(self.slo) || !has(self.slo.throughput) || \
         self.slo.throughput.unit != 'Runs' || \
         self.profiling.workloads.exists(w, has(w.agentTrace) || has(w.recordedLengths) || has(w.synthetic))")
        .message("slo.throughput in Runs requires runs: add a workload with agentTrace, recordedLengths or synthetic")
        .field_path(".profiling.workloads"),
    validation = Rule::new(
        "has(self.model.upstream) || !has(self.slo) || !has(self.slo.cost) || has(self.profiling)")
        .message("slo.cost requires measurements: add profiling with a workload").field_path(".slo.cost"),
    validation = Rule::new(
        "has(self.model.upstream) || !has(self.slo) || !has(self.slo.optimizeFor) || \
         self.slo.optimizeFor != 'Cost' || has(self.profiling)")
        .message("slo.optimizeFor Cost requires measurements: add profiling with a workload")
        .field_path(".slo.optimizeFor"),
    validation = Rule::new(
        "!has(self.profiling) || !has(self.slo) || !has(self.slo.cost) || \
         self.slo.cost.unit != 'Runs' || \
         self.profiling.workloads.exists(w, has(w.agentTrace) || has(w.recordedLengths) || has(w.synthetic))")
        .message("slo.cost of Runs requires runs: add a workload with agentTrace, recordedLengths or synthetic")
        .field_path(".profiling.workloads"),
    validation = profiling::counts_requests(profiling::Counted::Throughput),
    validation = profiling::counts_requests(profiling::Counted::Cost),
    validation = profiling::measures_chosen_server_of("vllm"),
    validation = profiling::measures_chosen_server_of("tensorRTLLMPyTorch"),
    validation = profiling::measures_own_server_of("SGLang"),
    validation = Rule::new(
        "!has(self.alerts) || !self.alerts.burnRate || (has(self.slo) && (has(self.slo.errorRate) || \
         (has(self.slo.objectives) && size(self.slo.objectives) > 0)))")
        .message("alerts.burnRate requires objectives: add slo.objectives or slo.errorRate, or set alerts.burnRate \
                  to false")
        .field_path(".alerts"),
    validation = Rule::new(
        "!has(self.profiling) || !has(self.agent.tools) || \
         !self.profiling.workloads.exists(w, has(w.agentTrace)) || !self.agent.tools.exists(t, t.type == 'MCP')")
        .message("runs with tools of MCP servers cannot be replayed: write recordedLengths or synthetic in place of \
                  agentTrace, or use tools of type HTTP")
        .field_path(".profiling.workloads"),
    validation = Rule::new(
        "!has(self.profiling) || self.profiling.workloads.all(w, !has(w.synthetic) || \
         w.synthetic.outputTokens <= self.agent.maxOutputTokens)")
        .message("synthetic.outputTokens is more than agent.maxOutputTokens: lower it, or raise maxOutputTokens")
        .field_path(".profiling.workloads"),
    validation = Rule::new(
        "!has(self.profiling) || !has(self.slo) || !has(self.slo.throughput) || \
         self.slo.throughput.unit != 'Runs' || self.profiling.workloads.all(w, !has(w.synthetic) || \
         !has(w.synthetic.arrival) || !has(w.synthetic.arrival.runsPerSecond))")
        .message("slo.throughput says how many runs arrive: remove synthetic.arrival.runsPerSecond, or slo.throughput")
        .field_path(".profiling.workloads"),
    validation = Rule::new(
        "!has(self.engine) || self.engine.backend != 'Custom' || !has(self.agent.toolCallDialect) || self.agent.toolCallDialect == 'ReAct'")
        .message("a Custom engine comes without its checkpoint's chat template: remove agent.toolCallDialect")
        .field_path(".agent.toolCallDialect"),
    validation = Rule::new(
        "!has(self.engine) || self.engine.backend != 'Custom' || !has(self.search) || \
         !(has(self.search.kvCachePrecision) || has(self.search.tensorParallel) || has(self.search.pipelineParallel) || \
         has(self.search.maxBatchSize) || has(self.search.maxNumTokens))")
        .message("backend Custom does not support the axes kvCachePrecision, tensorParallel, pipelineParallel, \
                  maxBatchSize and maxNumTokens: remove them, or use engine.custom.options")
        .field_path(".search"),
    validation = Rule::new(
        "!has(self.engine) || self.engine.backend == 'Custom' || !has(self.search) || !has(self.search.precision) || \
         !self.search.precision.exists(p, p == 'FP32' || p == 'INT8')")
        .message("search.precision of backends other than Custom must be FP16, BF16, FP8, INT8WeightOnly, INT4WeightOnly, \
                  INT8SmoothQuant, INT4AWQ, W4A8AWQ, NVFP4 or MXFP4: name one or more of them")
        .field_path(".search.precision"),
    validation = Rule::new(
        "!has(self.engine) || self.engine.backend == 'Custom' || !has(self.search) || !has(self.search.instances)")
        .message("engines of backends other than Custom are one instance that batches in flight: remove search.instances, \
                  or use search.maxBatchSize")
        .field_path(".search.instances"),
    validation = Rule::new(
        "self.engine.backend == 'TensorRTLLM' || !has(self.search) || !has(self.search.queueDelayMicroseconds)")
        .message("only Triton's model of an engine of TensorRT-LLM waits for a batch: remove \
                  search.queueDelayMicroseconds, or use backend TensorRTLLM")
        .field_path(".search.queueDelayMicroseconds"),
    validation = slo::limits_of_gpus_can_be_measured(),
    validation = preflight::has_gpus(),
    validation = profiling::measures_ensembles(),
    validation = profiling::expects_no_custom_engine(),
    validation = Rule::new(
        "!has(self.engine) || !has(self.engine.tensorRTLLM) || !has(self.engine.tensorRTLLM.entry) || \
         self.engine.tensorRTLLM.entry != 'BLS' || !has(self.search) || !has(self.search.maxBatchSize) || \
         self.search.maxBatchSize.all(n, n <= 128)")
        .message("entry BLS runs a Python process for each sequence: set search.maxBatchSize to 128 or less, or \
                  engine.tensorRTLLM.entry to Engine or Ensemble")
        .field_path(".search.maxBatchSize"),
    validation = Rule::new(
        "!has(self.engine) || self.engine.backend in ['Custom', 'TensorRTLLM'] || !has(self.search) || !has(self.search.parameters)")
        .message("backends without a build read no parameters of config.pbtxt: remove search.parameters, or use \
                  extraArgs")
        .field_path(".search.parameters"),
    validation = gpu_products::are_named(),
    validation = gpu_products::are_named_once(),
    validation = gpu_products::are_measured(),
    validation = gpu_products::have_engines(),
    validation = upstream::has_engine(),
    validation = upstream::ENGINE.rule(),
    validation = upstream::PROFILING.rule(),
    validation = upstream::SEARCH.rule(),
    validation = upstream::QUALITY.rule(),
    validation = upstream::MEASURED.rule(),
    validation = upstream::PREFLIGHT.rule(),
    validation = upstream::RESOURCES.rule(),
    validation = upstream::DIALECT.rule(),
    validation = upstream::TOP_K.rule(),
    validation = upstream::writes_no_prompt_of_a_chat()
)]
pub struct AgentDeploymentSpec {
    /// Model that the agent runs on.
    pub model: ModelSource,
    /// How engines are built and served. Required with `model.uri`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineConfiguration>,
    /// Configurations to choose from.
    #[serde(default)]
    pub search: SearchSpace,
    /// Nodes to build, measure and serve on.
    #[serde(default)]
    pub hardware: Hardware,
    /// Objectives that the agent must meet.
    #[serde(default)]
    pub slo: ServiceLevelObjectives,
    /// How configurations are measured before one of them serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiling: Option<Profiling>,
    /// The agent itself.
    pub agent: Agent,
    /// The serving pods.
    #[serde(default)]
    pub serving: Serving,
    /// How a changed plan takes over.
    #[serde(default)]
    pub rollout: Rollout,
    /// Alerting rules and receivers of notifications. None by default.
    #[serde(default, skip_serializing_if = "Alerts::is_default")]
    pub alerts: Alerts,
}
