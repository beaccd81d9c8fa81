//! An AgentDeployment as a tree: its revisions with their shares, their pods, and what happened last. Pure.
//!
//! [`mod@text`] draws it, [`pod`] reads a pod as kubectl does, and [`lines`] has lines of a width with tones.

pub mod lines;
pub mod pod;
pub mod text;

use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::ResourceExt;
use serde::Serialize;
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment,
        agent_deployment::{EngineChoice, ObjectiveStatus, Stage},
    },
};

use crate::{
    output::Shown,
    progress::{Progress, progress},
    revisions::{Role, Share, shares},
    rollout,
    tree::pod::PodView,
    view::rollout::Judgement,
};

/// Events that are kept, latest first.
const MOST_EVENTS: usize = 8;

/// What was seen of an AgentDeployment.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The AgentDeployment.
    pub object: &'a AgentDeployment,
    /// Its pods, of revisions and of Jobs.
    pub pods: &'a [Pod],
    /// Its events.
    pub events: &'a [Event],
}

/// An AgentDeployment with its revisions, their pods, and the latest events.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Summary for people. Absent before the operator has processed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// How far it is, as kstatus reads the conditions.
    pub progress: ProgressView,
    /// Ready pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_pods: Option<i32>,
    /// Wanted pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_pods: Option<i32>,
    /// Display name of the chosen engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// The revisions, stable first.
    pub revisions: Vec<Revision>,
    /// Engines under consideration, as the API has them, until one is chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineChoice>,
    /// Pods of Jobs that have not succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<PodView>,
    /// Objectives, as the API has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<ObjectiveStatus>,
    /// What the judge says of the canary. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// The canary's shares step by step, in percent, as the spec has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<i32>,
    /// The step that the canary is at, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i32>,
    /// What else there is to say of the rollout, in words.
    #[serde(skip)]
    pub details: String,
    /// The latest events, latest first.
    pub events: Vec<Happening>,
}

impl Shown for Tree {
    const KIND: &'static str = "Tree";
}

/// How far an AgentDeployment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressView {
    /// In one word.
    pub state: ProgressState,
    /// Why, in words. Absent where it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far an AgentDeployment is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ProgressState {
    /// Work is under way.
    InProgress,
    /// Ready, and nothing is under way.
    Ready,
    /// Work has stopped.
    Stalled,
    /// It waits for a person.
    Suspended,
}

impl ProgressView {
    /// How far an AgentDeployment is.
    pub fn of(object: &AgentDeployment) -> Self {
        let (state, message) = match progress(object) {
            Progress::InProgress(message) => (ProgressState::InProgress, Some(message)),
            Progress::Ready => (ProgressState::Ready, None),
            Progress::Stalled(message) => (ProgressState::Stalled, Some(message)),
            Progress::Suspended(message) => (ProgressState::Suspended, Some(message)),
        };
        Self { state, message }
    }
}

/// A revision with its pods.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// Its part, name and share.
    #[serde(flatten)]
    pub share: Share,
    /// Its pods, oldest first.
    pub pods: Vec<PodView>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    /// When it happened last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// In one word.
    pub reason: String,
    /// In words.
    pub message: String,
}

impl Happening {
    /// What an event says.
    pub fn of(event: &Event) -> Self {
        Self {
            at: last_time(event).map(Time),
            is_warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.clone().unwrap_or_default(),
            message: event.message.clone().unwrap_or_default(),
        }
    }
}

impl Tree {
    /// The tree of what was seen.
    pub fn of(seen: Seen<'_>) -> Self {
        let Seen { object, pods, events } = seen;
        let status = object.status.clone().unwrap_or_default();
        let rollout = status.rollout.unwrap_or_default();
        let judgement = rollout.canary.as_ref().map(|_| Judgement::of(object, &rollout));
        let steps = judgement.iter().flat_map(|_| object.spec.rollout.steps.iter().map(|step| step.weight));
        let revisions = revisions(object, pods);
        let is_chosen = status.selected.is_some();
        Self {
            name: object.name_any(),
            namespace: object.namespace().unwrap_or_default(),
            stage: status.stage,
            progress: ProgressView::of(object),
            ready_pods: status.ready_pods,
            wanted_pods: status.wanted_pods,
            selected: status.selected.map(|selected| selected.display_name),
            revisions,
            engines: if is_chosen { Vec::new() } else { status.engines },
            jobs: jobs(pods),
            objectives: status.slo,
            steps: steps.collect(),
            step: rollout.step.filter(|_| judgement.is_some()),
            judgement,
            details: rollout::details(object),
            events: happenings(events),
        }
    }
}

/// The revisions of the status with their pods, then those that only pods name.
fn revisions(object: &AgentDeployment, pods: &[Pod]) -> Vec<Revision> {
    let revision = |pod: &Pod| pod.labels().get(labels::REVISION).cloned();
    let of = |name: &str| {
        let mut found: Vec<PodView> =
            pods.iter().filter(|pod| revision(pod).is_some_and(|of| of == name)).map(PodView::of).collect();
        found.sort_by(|a, b| (&a.started_at, &a.name).cmp(&(&b.started_at, &b.name)));
        found
    };
    let mut all: Vec<Revision> =
        shares(object).into_iter().map(|share| Revision { pods: of(&share.revision), share }).collect();
    let mut others: Vec<String> = pods.iter().filter_map(revision).collect();
    others.sort();
    others.dedup();
    for name in others {
        if !all.iter().any(|known| known.share.revision == name) {
            let pods = of(&name);
            let share = Share { role: Role::Leaving, revision: name, share_percent: 0, since: None, until: None };
            all.push(Revision { share, pods });
        }
    }
    all
}

/// Pods of Jobs that have not succeeded, oldest first.
fn jobs(pods: &[Pod]) -> Vec<PodView> {
    let is_of_job = |pod: &&Pod| pod.labels().contains_key(labels::JOB);
    let has_succeeded =
        |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Succeeded");
    let mut found: Vec<PodView> =
        pods.iter().filter(is_of_job).filter(|pod| !has_succeeded(pod)).map(PodView::of).collect();
    found.sort_by(|a, b| (&a.started_at, &a.name).cmp(&(&b.started_at, &b.name)));
    found
}

fn happenings(events: &[Event]) -> Vec<Happening> {
    let mut all: Vec<&Event> = events.iter().collect();
    all.sort_by_key(|event| std::cmp::Reverse(last_time(event)));
    all.into_iter().take(MOST_EVENTS).map(Happening::of).collect()
}

/// When an event happened last, as far as its fields say it.
fn last_time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let times = [
        series,
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.first_timestamp.as_ref().map(|time| time.0),
    ];
    times.into_iter().flatten().max()
}
