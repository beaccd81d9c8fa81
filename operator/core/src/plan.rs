//! What a reconciliation wants: children, status, events and when to look again. Pure data.

use std::time::Duration;

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Service},
    networking::v1::NetworkPolicy,
};
use slipway_crds::{
    conditions::Reason,
    v1alpha1::{Engine, Profile},
};

use crate::{inference_pool::InferencePool, notifications::events::Announcement, prometheus::PrometheusRule};

/// Without any news, everything is looked at again after this time: a watch that missed something heals.
pub const RESYNC: Duration = Duration::from_secs(300);
/// While something is under way that no watch reports, such as the passing of a back-off.
pub const SOON: Duration = Duration::from_secs(5);
/// While something may change that no watch reports, and nobody waits at a screen for it.
pub const UNWATCHED: Duration = Duration::from_secs(30);
/// After a status that must be recorded before anything else.
pub const AT_ONCE: Duration = Duration::from_millis(10);

/// One object that the operator writes.
///
/// Applied kinds are compared with what is there and sent again when they differ. Created kinds are written once and
/// then left alone: their specs cannot change, or do not concern a later version of this program.
#[derive(Debug, Clone, PartialEq)]
pub enum Child {
    /// Applied.
    ConfigMap(Box<ConfigMap>),
    /// Created: the size of a claim belongs to the one that grows it.
    PersistentVolumeClaim(Box<PersistentVolumeClaim>),
    /// Applied.
    Service(Box<Service>),
    /// Applied.
    Deployment(Box<Deployment>),
    /// Created: the template of a Job cannot change.
    Job(Box<Job>),
    /// Created: the spec of an engine is its identity.
    Engine(Box<Engine>),
    /// Created: the spec of a Profile is its frozen inputs.
    Profile(Box<Profile>),
    /// Applied.
    HttpRoute(Box<HttpRoute>),
    /// Applied.
    InferencePool(Box<InferencePool>),
    /// Applied.
    NetworkPolicy(Box<NetworkPolicy>),
    /// Applied.
    PrometheusRule(Box<PrometheusRule>),
    /// Applied: its plan never changes, but the inputs that lead to the plan may.
    ControllerRevision(Box<ControllerRevision>),
}

/// An object that has served its purpose. Deleted only while it still is the object that was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    /// The kind to delete.
    pub kind: RemovalKind,
    /// Name of the object.
    pub name: String,
    /// UID that the object must still have.
    pub uid: String,
    /// Resource version that the object must still have.
    pub resource_version: String,
}

/// Kinds that a plan may delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalKind {
    /// An engine that nobody names any more.
    Engine,
    /// A superseded revision's Deployment.
    Deployment,
    /// A superseded revision's Service.
    Service,
    /// A superseded revision's configuration, or a rules file.
    ConfigMap,
    /// A revision beyond the history limit.
    ControllerRevision,
    /// A campaign that later ones have followed.
    Profile,
    /// A superseded revision's InferencePool, or one that the spec asks for no more.
    InferencePool,
    /// A superseded revision's NetworkPolicy.
    NetworkPolicy,
    /// The route of an AgentDeployment that moves traffic in another way now.
    HttpRoute,
    /// The alerting rules of an AgentDeployment that asks for none any more.
    PrometheusRule,
    /// A Job that ended and that nothing reads any more.
    Job,
}

/// A line of the story that events tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Why the event is published.
    pub reason: Reason,
    /// Whether the event is a warning.
    pub severity: Severity,
    /// The line itself, for people.
    pub message: String,
    /// What it is about, for whatever follows from it.
    pub about: About,
}

/// What a note is about. Decisions read it here, never in the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// Nothing that anything follows from.
    Nothing,
    /// A plan, by its hash.
    Plan(String),
    /// Display name of an engine.
    Engine(String),
}

/// The two kinds of events that Kubernetes knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Things go as they should.
    Normal,
    /// Someone should look.
    Warning,
}

impl Note {
    /// A line that reports progress.
    pub fn normal(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, severity: Severity::Normal, message: message.into(), about: About::Nothing }
    }

    /// A line that someone should look at.
    pub fn warning(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, severity: Severity::Warning, message: message.into(), about: About::Nothing }
    }

    /// The same, about a plan.
    pub fn of_plan(self, hash: &str) -> Self {
        Self { about: About::Plan(hash.to_owned()), ..self }
    }

    /// The same, about an engine.
    pub fn of_engine(self, display_name: &str) -> Self {
        Self { about: About::Engine(display_name.to_owned()), ..self }
    }
}

/// Everything that one reconciliation wants.
///
/// A planner that writes the number of an attempt into the status leaves its Job to the next reconciliation, so that
/// the attempt is known before the Job exists.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a plan that nobody carries out changes nothing"]
pub struct Plan<Status> {
    /// Objects that must exist.
    pub children: Vec<Child>,
    /// Objects that must go.
    pub removals: Vec<Removal>,
    /// The new status.
    pub status: Status,
    /// Events to publish.
    pub notes: Vec<Note>,
    /// What receivers are told once the status is written, with what they may lack from before.
    pub announcements: Vec<Announcement>,
    /// When to look again without being woken.
    pub requeue: Duration,
}

impl<Status> Plan<Status> {
    /// Nothing is to be done; all is looked at again after a while.
    pub fn keeping(status: Status) -> Self {
        let (children, removals, notes, announcements) = Default::default();
        Self { children, removals, status, notes, announcements, requeue: RESYNC }
    }
}
