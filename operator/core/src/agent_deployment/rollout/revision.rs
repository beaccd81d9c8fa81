//! A revision: the resolved plan that pods run, and the inputs that it was made from. Pure.

use std::fmt;

use k8s_openapi::api::apps::v1::ControllerRevision;
use serde::{Deserialize, Serialize};
use slipway_crds::{
    identity::{ContentHash, IdentityError, content_hash},
    v1alpha1::{
        AgentDeploymentSpec,
        agent_deployment::{
            Agent, Approval, Authentication, EngineConfiguration, Hardware, ModelSource, OnDrift, Preflight, Profiling,
            ProfilingBudget, RecordingLevel, SearchSpace, ServedBy, ServiceLevelObjectives, Tracing, Upstream,
        },
        shared::{ContainerResources, ServingConfiguration},
    },
};
use slipway_worker_contract::Digest;
use thiserror::Error;

use super::layout::Layout;

/// Annotation with the hash of the inputs that a plan was made from.
pub const INPUT_HASH: &str = "slipway.dev/plan-input-hash";

/// Why a ControllerRevision cannot be read.
#[derive(Debug, Error)]
pub enum RevisionError {
    /// It holds no plan.
    #[error("ControllerRevision {name} holds no plan")]
    Empty {
        /// Name of the ControllerRevision.
        name: String,
    },
    /// Its plan has another shape.
    #[error("failed to read the plan of ControllerRevision {name}")]
    Parse {
        /// Name of the ControllerRevision.
        name: String,
        /// What the parser said.
        #[source]
        source: serde_json::Error,
    },
}

/// Everything that determines the pods of a revision. Objectives do not: running pods reload edited ones. Slipway's own
/// images are pinned here, so that another version of the operator changes no running pod. Later members are optional
/// and absent where they do nothing: the hash of a plan never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionPlan {
    /// How the pods are made.
    #[serde(default, skip_serializing_if = "Layout::is_first")]
    pub layout: Layout,
    /// What serves the model.
    #[serde(flatten)]
    pub served: Served,
    /// Agent runs in flight on one replica, at most.
    pub max_in_flight: i32,
    /// Image of the agent runtime.
    pub agent_runtime_image: String,
    /// The agent.
    pub agent: Agent,
    /// Where the pods run.
    pub hardware: Hardware,
    /// Resources of the agent runtime's container.
    pub agent_resources: ContainerResources,
    /// Resources of containers that copy programs and engines; absent in plans from before they had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_resources: Option<ContainerResources>,
    /// Who may call. Rates are left out: running pods reload edited ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Where the traces of runs are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// What its pods remember of runs.
    #[serde(default, skip_serializing_if = "RecordingLevel::is_default")]
    pub recording: RecordingLevel,
}

/// What serves the model of a plan. It is written as members of the plan, so that plans from before there was a second
/// kind keep their hashes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Served {
    /// An engine in the same pod, from its artifact in the store.
    Artifact(ServedArtifact),
    /// A server elsewhere.
    Upstream(ServedUpstream),
}

/// An engine that pods serve, and all that only such pods have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServedArtifact {
    /// The engine.
    pub engine: PlannedEngine,
    /// What is set in the model's configuration.
    #[serde(default, skip_serializing_if = "ServingConfiguration::is_default")]
    pub configuration: ServingConfiguration,
    /// Image with tritonserver.
    pub triton_image: String,
    /// Image of the worker, which checks the engine before Triton starts.
    pub worker_image: String,
    /// Resources of Triton's container.
    pub triton_resources: ContainerResources,
    /// What checks the pods' GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PlannedPreflight>,
}

/// A server elsewhere that pods ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedUpstream {
    /// As the spec has it.
    pub upstream: Upstream,
}

impl Served {
    /// The engine, if one is in the pods.
    pub fn artifact(&self) -> Option<&ServedArtifact> {
        match self {
            Self::Artifact(artifact) => Some(artifact),
            Self::Upstream(_) => None,
        }
    }

    /// The upstream, if pods ask one.
    pub fn upstream(&self) -> Option<&Upstream> {
        match self {
            Self::Artifact(_) => None,
            Self::Upstream(served) => Some(&served.upstream),
        }
    }

    /// What distinguishes it from others: the digest of an artifact. Of an upstream only its name is known; what is
    /// behind the name may change unseen, and that is drift.
    pub fn identity(&self) -> String {
        match self {
            Self::Artifact(artifact) => artifact.engine.manifest_digest.to_string(),
            Self::Upstream(served) => served.upstream.display_name(),
        }
    }

    /// Whether the model is another one, as far as names tell. That is another agent too: it calls other tools, and
    /// more or fewer of them. Engines of two checkpoints are compared as engines.
    pub fn thinks_otherwise(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Artifact(_), Self::Artifact(_)) => false,
            (Self::Upstream(one), Self::Upstream(other)) => one.upstream.model != other.upstream.model,
            (Self::Artifact(_), Self::Upstream(_)) | (Self::Upstream(_), Self::Artifact(_)) => true,
        }
    }

    /// What serves, as people call it.
    pub fn display_name(&self) -> String {
        match self {
            Self::Artifact(artifact) => artifact.engine.display_name.clone(),
            Self::Upstream(served) => served.upstream.display_name(),
        }
    }
}

/// The checks of a plan's GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedPreflight {
    /// Image of the program.
    pub image: String,
    /// What the spec asks for.
    #[serde(flatten)]
    pub asked: Preflight,
}

/// The plan that the spec asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent_deployment) struct Target {
    pub(in crate::agent_deployment) hash: String,
    pub(in crate::agent_deployment) input_hash: String,
    pub(in crate::agent_deployment) plan: RevisionPlan,
}

/// The engine of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEngine {
    /// Name of the Engine object.
    pub name: String,
    /// Digest of the artifact's manifest.
    pub manifest_digest: Digest,
    /// The engine as people call it.
    pub display_name: String,
    /// What serves it.
    #[serde(flatten)]
    pub served_by: ServedBy,
}

impl RevisionPlan {
    /// Hash of the plan: the name of the revision.
    ///
    /// # Errors
    /// When the plan cannot be written as canonical JSON; its types leave no such case.
    pub fn hash(&self) -> Result<ContentHash, IdentityError> {
        content_hash(self)
    }
}

/// The name in place of a revision's hash on the objects of a canary's baseline. Its pods have stable's plan under a
/// name that no two canaries share, so that selectors of a revision never match them. It is short: a pod keeps 58
/// characters of `NAME-HASH-base-`, which has 57 at most. A query for the canary's pods matches no name that is cut
/// later.
pub fn baseline_of(canary: &str) -> String {
    format!("{canary}-base")
}

/// What a plan was made from: a spec, and the repetition of its campaign whose choice was taken, 0 where that is the
/// first. Written as the hash of the spec, with `/3` for the third repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanInputs {
    /// Hash of the part of the spec that decides a plan.
    pub spec: String,
    /// Number of the repetition.
    pub repetition: i32,
}

impl PlanInputs {
    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn read(text: &str) -> Self {
        let (spec, repetition) = text.split_once('/').unwrap_or((text, "0"));
        Self { spec: spec.to_owned(), repetition: repetition.parse().unwrap_or(0) }
    }
}

impl fmt::Display for PlanInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.repetition {
            0 => f.write_str(&self.spec),
            repetition => write!(f, "{}/{repetition}", self.spec),
        }
    }
}

/// A kept revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Short hash of the plan.
    pub hash: String,
    /// Hash of the inputs that the plan was made from last.
    pub input_hash: String,
    /// Place in the history, from 1.
    pub number: i64,
    /// The plan.
    pub plan: RevisionPlan,
    /// Name of the ControllerRevision.
    pub name: String,
    /// UID of the ControllerRevision.
    pub uid: String,
    /// Resource version of the ControllerRevision.
    pub resource_version: String,
}

impl Revision {
    /// The inputs that the plan was made from last.
    pub fn inputs(&self) -> PlanInputs {
        PlanInputs::read(&self.input_hash)
    }

    /// Reads a ControllerRevision.
    ///
    /// # Errors
    /// When it holds no plan, or a plan of another shape.
    pub fn read(object: &ControllerRevision) -> Result<Self, RevisionError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let data = object.data.as_ref().ok_or_else(|| RevisionError::Empty { name: name.clone() })?;
        let plan = serde_json::from_value(data.0.clone())
            .map_err(|source| RevisionError::Parse { name: name.clone(), source })?;
        let hash = object.metadata.labels.as_ref().and_then(|l| l.get(slipway_crds::labels::REVISION)).cloned();
        let input_hash = object.metadata.annotations.as_ref().and_then(|a| a.get(INPUT_HASH)).cloned();
        Ok(Self {
            hash: hash.unwrap_or_default(),
            input_hash: input_hash.unwrap_or_default(),
            number: object.revision,
            plan,
            uid: object.metadata.uid.clone().unwrap_or_default(),
            resource_version: object.metadata.resource_version.clone().unwrap_or_default(),
            name,
        })
    }
}

/// The part of a spec that a plan is made from. Replicas, alerts and the rollout's own settings change no pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanInput<'a> {
    model: &'a ModelSource,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'a EngineConfiguration>,
    search: &'a SearchSpace,
    hardware: &'a Hardware,
    slo: &'a ServiceLevelObjectives,
    #[serde(skip_serializing_if = "Option::is_none")]
    profiling: Option<Profiling>,
    agent: &'a Agent,
    triton_resources: &'a ContainerResources,
    agent_resources: &'a ContainerResources,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication: Option<Authentication>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracing: Option<&'a Tracing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preflight: Option<&'a Preflight>,
    #[serde(skip_serializing_if = "RecordingLevel::is_default")]
    recording: RecordingLevel,
}

/// What of `spec.profiling` leads to a plan: not who approves of it, nor when or why it is measured again.
fn deciding(profiling: &Profiling) -> Profiling {
    let Profiling {
        driver,
        workloads,
        prior,
        budget,
        engines,
        parallel_jobs: _,
        approval: _,
        schedule: _,
        on_drift: _,
        approve_reprofiling: _,
    } = profiling;
    Profiling {
        engines: *engines,
        parallel_jobs: None,
        driver: *driver,
        workloads: workloads.clone(),
        prior: prior.clone(),
        budget: ProfilingBudget { per_month: None, ..budget.clone() },
        approval: Approval::default(),
        schedule: None,
        on_drift: OnDrift::default(),
        approve_reprofiling: None,
    }
}

/// Hash of what a plan is made from: a spec that hashes to a kept revision uses that revision's plan at once. The spec
/// has its defaults written in.
///
/// # Errors
/// When the spec cannot be written as canonical JSON; its types leave no such case.
pub fn input_hash(spec: &AgentDeploymentSpec) -> Result<ContentHash, IdentityError> {
    let AgentDeploymentSpec { model, engine, search, hardware, slo, agent, serving, rollout: _, profiling, alerts: _ } =
        spec;
    content_hash(&PlanInput {
        model,
        engine: engine.as_ref(),
        search,
        hardware,
        slo,
        profiling: profiling.as_ref().map(deciding),
        agent,
        triton_resources: &serving.triton_resources,
        agent_resources: &serving.agent_resources,
        authentication: serving.authentication.as_ref().map(Authentication::without_rates),
        tracing: serving.tracing.as_ref(),
        preflight: serving.preflight.as_ref(),
        recording: serving.recording.level,
    })
}
