//! What a spec may leave out, and what was taken in its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slipway_vocabulary::serving::NoBuildBackend;

use super::{
    AgentDeploymentSpec,
    model::{Backend, EngineConfiguration, Precision},
    no_build::{EngineServer, backend_and_server, no_build_backend},
    profiling::{Profiling, ProfilingDriver},
    slo::WrittenObjective,
};

/// A backend with versions. Behind Triton, an engine has those of NVIDIA's images; its own server has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionedBackend {
    /// TensorRT-LLM's tools.
    TensorRtLlm,
    /// A backend that serves the checkpoint as it is.
    NoBuild(NoBuildBackend),
}

impl VersionedBackend {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::TensorRtLlm).chain(NoBuildBackend::ALL.map(Self::NoBuild))
    }

    /// What an engine needs a version of; `None` with Custom.
    pub fn of(engine: &EngineConfiguration) -> Option<Self> {
        match engine.backend {
            Backend::TensorRTLLM => Some(Self::TensorRtLlm),
            other => no_build_backend(other, engine.server()).map(Self::NoBuild),
        }
    }

    /// How a status names it.
    const fn backend_and_server(self) -> (Backend, EngineServer) {
        match self {
            Self::TensorRtLlm => (Backend::TensorRTLLM, EngineServer::Triton),
            Self::NoBuild(backend) => backend_and_server(backend),
        }
    }

    /// How the operator's configuration names it: as its block, with its server where that is not Triton by choice.
    pub fn setting(self) -> String {
        let (backend, server) = self.backend_and_server();
        let path = backend.block();
        let block = path.rsplit('.').next().unwrap_or(path);
        match server {
            EngineServer::Triton => block.to_owned(),
            EngineServer::OpenAI => format!("{block}OpenAI"),
        }
    }
}

/// Values that were taken for fields that the spec leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenDefaults {
    /// Versions of backends. Each stays until the platform team pins another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 6))]
    pub versions: Vec<TakenVersion>,
    /// Numeric format of the checkpoint, for `search.precision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 16))]
    pub precision: Option<Precision>,
    /// Positions of the checkpoint, for `maxSeqLen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_seq_len: Option<i32>,
    /// What sends the load, for `profiling.driver`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 16))]
    pub driver: Option<ProfilingDriver>,
}

impl TakenDefaults {
    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The version that was taken for a backend.
    pub fn version(&self, of: VersionedBackend) -> Option<&str> {
        self.versions.iter().find(|taken| taken.is_of(of)).map(|taken| taken.version.as_str())
    }
}

/// A version that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TakenVersion {
    /// Backend.
    #[schemars(with = "String", length(max = 20))]
    pub backend: Backend,
    /// What takes requests.
    #[serde(default, skip_serializing_if = "EngineServer::is_default")]
    #[schemars(with = "String", length(max = 16))]
    pub server: EngineServer,
    /// Version.
    #[schemars(length(max = 20))]
    pub version: String,
}

impl TakenVersion {
    /// A version of a backend.
    pub fn new(of: VersionedBackend, version: String) -> Self {
        let (backend, server) = of.backend_and_server();
        Self { backend, server, version }
    }

    /// Whether it is that of a backend.
    pub fn is_of(&self, of: VersionedBackend) -> bool {
        (self.backend, self.server) == of.backend_and_server()
    }
}

impl AgentDeploymentSpec {
    /// What sends the load; `None` without `profiling`. Where the spec leaves it out, it is Model Analyzer if that has
    /// prompts to send and measures what serves. It must also be asked to count requests, or measure an objective and
    /// compare candidates by all of them. Else whole runs are replayed.
    pub fn driver(&self) -> Option<ProfilingDriver> {
        let compares_by = |objective: &WrittenObjective| ANALYZER.compares_by(objective.metric);
        self.named_driver_or(|objectives| measures_one_of(objectives) && objectives.iter().all(compares_by))
    }

    /// The same as earlier releases took it: they asked only that Model Analyzer measure an objective.
    pub fn former_driver(&self) -> Option<ProfilingDriver> {
        self.named_driver_or(measures_one_of)
    }

    fn named_driver_or(&self, is_measured: impl Fn(&[WrittenObjective]) -> bool) -> Option<ProfilingDriver> {
        let profiling = self.profiling.as_ref()?;
        Some(profiling.driver.unwrap_or_else(|| match self.is_for_model_analyzer(profiling, is_measured) {
            true => ANALYZER,
            false => ProfilingDriver::AgentRun,
        }))
    }

    fn is_for_model_analyzer(&self, profiling: &Profiling, is_measured: impl Fn(&[WrittenObjective]) -> bool) -> bool {
        let is_possible = profiling.workloads.iter().any(|workload| workload.prompts.is_some())
            && self.engine.as_ref().is_some_and(|engine| engine.served_by().is_measured_by(ANALYZER));
        let has_runs = profiling.workloads.iter().any(|workload| workload.has_runs());
        is_possible && (self.slo.counts_requests() || is_measured(&self.slo.objectives) || !has_runs)
    }
}

/// The driver that is taken where it suffices.
const ANALYZER: ProfilingDriver = ProfilingDriver::ModelAnalyzer;

/// Whether Model Analyzer measures one of the objectives, or there is none.
fn measures_one_of(objectives: &[WrittenObjective]) -> bool {
    objectives.is_empty() || objectives.iter().any(|objective| ANALYZER.measures().contains(&objective.metric))
}
