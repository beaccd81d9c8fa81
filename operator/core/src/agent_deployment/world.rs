//! What is known of an AgentDeployment when it is decided on. Plain data.

mod data;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::v1alpha1::{AgentDeploymentSpec, AgentDeploymentStatus, EngineStatus, ProfileStatus};
use slipway_vocabulary::evidence::{Evidence, Implausible};

pub use self::data::{CalibrationView, DatasetView, LongestRun, PriorView, RecordedTraffic, WorkloadView};
use crate::{
    agent_deployment::{
        commands::{Annotated, Commands},
        monitoring::{
            counted::BrokenGpu,
            drift::{LivePod, MemoryView},
            judged_runs::BudgetsView,
            load::ObservedLoad,
            observed_objectives::ObservedObjectives,
        },
        rollout::{guardrails::GuardrailView, revision::Revision},
    },
    jobs::view::JobView,
    plan::{Removal, RemovalKind},
    settings::Settings,
    why::Named,
};

/// Everything that was observed.
#[derive(Debug, Clone)]
pub struct World {
    /// The time of the observation; the only clock of a decision.
    pub now: Timestamp,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Name of the AgentDeployment.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its generation.
    pub generation: i64,
    /// Reference by which it owns its children.
    pub owner: OwnerReference,
    /// What is wanted.
    pub spec: AgentDeploymentSpec,
    /// What its annotations tell the rollout.
    pub annotated: Annotated,
    /// What was recorded last.
    pub status: AgentDeploymentStatus,
    /// Ids of the status's notifications that no queue holds any more.
    pub settled: BTreeSet<String>,
    /// Whether the claim of the store is bound; absent if there is no claim yet.
    pub store_bound: Option<bool>,
    /// The data set of the quality objective; absent if there is no such objective.
    pub dataset: Option<DatasetView>,
    /// The calibration texts of `engine.tensorRTLLM`; absent if it names none.
    pub calibration: Option<CalibrationView>,
    /// The data of the profiling workloads, by name and key of their ConfigMaps.
    pub workloads: BTreeMap<(String, String), WorkloadView>,
    /// The table of `spec.profiling.prior`; absent if there is none.
    pub prior: Option<PriorView>,
    /// Profiles of this AgentDeployment, by name.
    pub profiles: BTreeMap<String, ProfileStatus>,
    /// The same as objects, the latest first.
    pub campaigns: Vec<OwnedObject>,
    /// What the serving pods counted.
    pub observed: ObservedObjectives,
    /// Whether each of them had a turn. What some of them counted would be other figures a moment later.
    pub are_all_heard: bool,
    /// What the pods with traffic carry.
    pub load: ObservedLoad,
    /// Pods of stable that answered; empty while a rollout compares it with a canary.
    pub live: Vec<LivePod>,
    /// What is remembered of what they counted.
    pub memory: MemoryView,
    /// When the latest campaign began.
    pub latest_campaign: Option<Timestamp>,
    /// Who set `spec.serving.replicas` last, if it was through /scale.
    pub scaled_by: Option<String>,
    /// What Prometheus counted, of weeks.
    pub budgets: BudgetsView,
    /// What every pod of stable and canary counted, by revision; empty while no rollout compares them.
    pub evidence: BTreeMap<String, Vec<PodEvidence>>,
    /// What Prometheus says of the canary, by the name of the guardrail; empty while the last look stands.
    pub guardrails: BTreeMap<String, GuardrailView>,
    /// The HTTPRoute.
    pub route: RouteView,
    /// Whether InferencePools can be written.
    pub pools: PoolsView,
    /// The alerting rules.
    pub rules: RulesView,
    /// Jobs of this AgentDeployment and of its model, by name.
    pub jobs: BTreeMap<String, JobView>,
    /// Engines of the namespace that are not being deleted, by name.
    pub engines: BTreeMap<String, EngineStatus>,
    /// Kept revisions that could be read.
    pub revisions: Vec<Revision>,
    /// What serves, by revision.
    pub serving: BTreeMap<String, ServingView>,
    /// Names, UIDs and resource versions of serving objects, by revision.
    pub objects: BTreeMap<String, Vec<OwnedObject>>,
}

impl World {
    /// What people tell the rollout.
    pub fn commands(&self) -> Commands<'_> {
        Commands::new(&self.spec.rollout, &self.annotated)
    }

    /// How the plugin's commands name it.
    pub fn named(&self) -> Named {
        Named { agent: self.name.clone(), namespace: self.namespace.clone() }
    }

    /// The kept revision of a plan.
    pub fn revision(&self, hash: &str) -> Option<&Revision> {
        self.revisions.iter().find(|revision| revision.hash == hash)
    }

    /// Hash of the revision that takes traffic. Its record may be lost or unreadable; it serves all the same.
    pub fn stable(&self) -> Option<&str> {
        self.status.rollout.as_ref()?.stable.as_deref()
    }

    /// Pods of a revision with all the traffic: the number in the spec, or the number that the load needs.
    pub fn replicas(&self) -> i32 {
        let serving = &self.spec.serving;
        let Some(asked) = &serving.autoscaling else { return serving.replicas.max(self.kept_in_rollout()) };
        let found = self.status.autoscaling.as_ref().map(|scaled| scaled.replicas).or_else(|| self.pods_of_stable());
        found.unwrap_or(serving.replicas).min(asked.max_replicas).max(asked.min_replicas)
    }

    /// Pods of a revision at the full planned traffic.
    pub fn most_replicas(&self) -> i32 {
        let serving = &self.spec.serving;
        serving.autoscaling.as_ref().map_or(serving.replicas, |asked| asked.max_replicas)
    }

    /// Pods of a revision at the least planned traffic.
    pub fn least_replicas(&self) -> i32 {
        let serving = &self.spec.serving;
        serving.autoscaling.as_ref().map_or(serving.replicas, |asked| asked.min_replicas)
    }

    /// Pods that no autoscaler removes. It sees only stable's share beside a canary, but stable must carry all traffic
    /// once the canary goes. An edited spec overrides this.
    pub fn kept_in_rollout(&self) -> i32 {
        let is_rolling_out = self.status.rollout.as_ref().is_some_and(|rollout| rollout.canary.is_some());
        let is_kept = is_rolling_out && self.scaled_by.is_some();
        self.pods_of_stable().filter(|_| is_kept).unwrap_or(0)
    }

    /// Pods of stable, with those that made room for a canary.
    fn pods_of_stable(&self) -> Option<i32> {
        let drained =
            self.status.rollout.as_ref().and_then(|rollout| rollout.capacity.as_ref()).map(|room| room.drained);
        Some(self.serving.get(self.stable()?)?.wanted + drained.unwrap_or(0))
    }
}

/// What a pod said of its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvidence {
    /// Name of the pod.
    pub pod: String,
    /// What it counted; absent if it did not answer, or nothing that can be relied on.
    pub evidence: Option<Evidence>,
    /// Why its answer was refused, if it was.
    pub refused: Option<Implausible>,
    /// Whether it was asked. Where the operator had no turn for it, its silence says nothing.
    pub was_asked: bool,
    /// The errors of hardware that its GPUs have raised, in whatever window.
    pub broken: Vec<BrokenGpu>,
    /// Whether the cluster or the operator ends it: it finishes its runs, and its end is not harm.
    pub is_leaving: bool,
    /// Its node, once it has one.
    pub node: Option<String>,
}

/// What is seen of the HTTPRoute of an AgentDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RouteView {
    /// The cluster knows no HTTPRoutes.
    UnknownKind,
    /// There is none yet.
    #[default]
    Absent,
    /// It is there.
    Present {
        /// The object.
        object: OwnedObject,
        /// Why no Gateway serves it as it stands; absent when one does.
        problem: Option<String>,
        /// Who has written it since the operator did; absent where nobody has.
        rival: Option<RouteRival>,
    },
}

/// Somebody who writes an HTTPRoute of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteRival {
    /// Its name as a field manager.
    pub manager: String,
    /// What it wrote: `spec.rules`.
    pub fields: String,
}

/// What is seen of the alerting rules of an AgentDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RulesView {
    /// Whether the cluster knows PrometheusRules.
    pub knows_prometheus_rules: bool,
    /// The objects that hold them: a PrometheusRule, a ConfigMap from before the cluster knew that kind, or both.
    pub objects: Vec<OwnedObject>,
}

/// Whether InferencePools can be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PoolsView {
    /// The operator's chart does not allow it.
    #[default]
    NotAllowed,
    /// The cluster knows no InferencePools of version v1.
    UnknownKind,
    /// They can.
    Writable,
}

/// What is seen of a revision's Deployment and pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServingView {
    /// Pods that the Deployment wants.
    pub wanted: i32,
    /// Pods of the current template.
    pub updated: i32,
    /// Pods that have a node.
    pub scheduled: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Those of them that have not been ready for the Deployment's `minReadySeconds` yet.
    pub settling: i32,
    /// Whether the Deployment controller has seen the current template.
    pub is_observed: bool,
    /// Whether the Deployment has made no progress within its deadline.
    pub is_past_deadline: bool,
    /// What a failing pod says.
    pub failure: Option<String>,
    /// The latest end of a container with an error, in a pod that stays. Refused GPUs do not count.
    pub crash: Option<Crash>,
    /// A pod whose GPUs are refused.
    pub refused: Option<RefusedPod>,
    /// The pod that no node has had room for the longest.
    pub unscheduled: Option<Unscheduled>,
}

/// A pod that does not start on its node, because of the node's GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedPod {
    /// Its name.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// What is wrong with the GPUs.
    pub problems: String,
}

/// A container that ended with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// When it ended.
    pub at: Timestamp,
    /// Which it was and what it said.
    pub text: String,
}

/// A pod that the scheduler finds no node for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unscheduled {
    /// Since when.
    pub since: Timestamp,
    /// The scheduler's message.
    pub message: String,
}

/// An object of this AgentDeployment, so that it can be deleted while it still is that object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedObject {
    /// Its kind.
    pub kind: RemovalKind,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resource version.
    pub resource_version: String,
}

impl OwnedObject {
    /// Its removal, while it still is the object that was observed.
    pub fn removal(&self) -> Removal {
        let Self { kind, name, uid, resource_version } = self.clone();
        Removal { kind, name, uid, resource_version }
    }
}
