//! Facts that are announced once, by condition, reason and subject. Pure.
//!
//! A fact is recorded in codes. Whether it is announced again follows from these, never from its message.

use serde_json::Value;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    identity::content_hash,
    v1alpha1::{
        AgentDeploymentSpec, AgentDeploymentStatus,
        agent_deployment::{EngineChoice, ToldFact},
        profile::ProfilePhase,
    },
};

use super::{
    outcome::{Background, Outcome, invalid_commands, left_to_people, unknown_receivers},
    world::World,
};
use crate::why::{Blocked, Held, RefusedGpus, Why};

/// A condition whose facts are announced once.
struct Stating {
    condition: ConditionType,
    /// Its status while the fact holds.
    status: &'static str,
    /// The one reason that counts, if it has others: a rollout may wait for a person because the spec asks for it.
    only: Option<Reason>,
}

impl Stating {
    const fn new(condition: ConditionType, status: &'static str, only: Option<Reason>) -> Self {
        Self { condition, status, only }
    }
}

/// Conditions that state a problem, the most urgent first.
static PROBLEMS: [Stating; 3] = [
    Stating::new(ConditionType::Stalled, "True", None),
    Stating::new(ConditionType::Suspended, "True", Some(Reason::VerdictUnreachable)),
    Stating::new(ConditionType::SLOAttainable, "False", None),
];
/// Further conditions whose facts are announced.
static NOTICES: [Stating; 3] = [
    Stating::new(ConditionType::ReceiversResolved, "False", None),
    Stating::new(ConditionType::CommandInvalid, "True", None),
    Stating::new(ConditionType::Profiling, "False", Some(Reason::SpecRefused)),
];
/// Prefix of the names under which facts about engines are recorded.
const ENGINE: &str = "Engine/";

/// What is known of an announced fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The condition that states it.
    pub(super) condition: ConditionType,
    reason: String,
    /// What it is about; absent in a status of a release that recorded no facts.
    subject: Option<String>,
}

impl Known {
    /// Whether it is this fact. A status without recorded facts has only condition and reason.
    pub(super) fn is(&self, fact: &ToldFact) -> bool {
        self.condition.as_str() == fact.about
            && self.reason == fact.reason
            && self.subject.as_ref().is_none_or(|subject| *subject == fact.subject)
    }

    /// Its identity, as one text.
    pub(super) fn code(&self) -> String {
        format!("{}/{}/{}", self.condition.as_str(), self.reason, self.subject.as_deref().unwrap_or_default())
    }
}

/// The same of a fact.
pub(super) fn code(fact: &ToldFact) -> String {
    let ToldFact { about, reason, subject } = fact;
    format!("{about}/{reason}/{subject}")
}

/// The fact that a condition states about a subject.
fn fact(condition: ConditionType, reason: Reason, subject: String) -> ToldFact {
    ToldFact { about: condition.as_str().to_owned(), reason: reason.as_str().to_owned(), subject }
}

/// The facts that hold now, which replace the earlier ones. Engines that are no longer candidates are forgotten.
pub(super) fn recorded(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> Vec<ToldFact> {
    let is_candidate = |about: &str| status.engines.iter().any(|engine| about_engine(&engine.name) == about);
    let of_engines = status.told.iter().filter(|fact| is_candidate(&fact.about)).cloned();
    of_engines.chain(stated(world, outcome, status)).collect()
}

/// The facts of conditions that are announced once.
fn stated(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> Vec<ToldFact> {
    let stopped = match &outcome.next {
        Some(Blocked::Stopped(why)) => Some((ConditionType::Stalled, why)),
        Some(Blocked::Waiting(_)) | None => None,
    };
    let undecided = left_to_people(world, outcome).map(|why| (ConditionType::Suspended, why));
    let refused = match &outcome.background {
        Some(Background::Idle(why)) => Some((ConditionType::Profiling, why)),
        Some(Background::Measuring(_)) | None => None,
    };
    let unknown = unknown_receivers(world);
    let unknown = unknown.as_ref().map(|why| (ConditionType::ReceiversResolved, why));
    let of = |(condition, why): (ConditionType, &Why)| {
        let subject = subject(why, &world.spec, &status.engines);
        let is_told = stating(condition)?.only.is_none_or(|only| only == why.reason());
        is_told.then(|| fact(condition, why.reason(), subject))
    };
    let invalid = invalid_commands(world);
    let invalid = invalid.as_ref().map(|why| (ConditionType::CommandInvalid, why));
    let found = [stopped, undecided, refused, unknown, invalid].into_iter().flatten().filter_map(of);
    found.chain(unattainable(world, status)).collect()
}

/// The campaign that found nothing to meet the objectives.
fn unattainable(world: &World, status: &AgentDeploymentStatus) -> Option<ToldFact> {
    let name = status.profile.as_ref()?;
    let is_infeasible = world.profiles.get(name)?.phase == Some(ProfilePhase::Infeasible);
    let told = || fact(ConditionType::SLOAttainable, Reason::NoFeasibleConfiguration, name.clone());
    is_infeasible.then(told)
}

fn stating(condition: ConditionType) -> Option<&'static Stating> {
    PROBLEMS.iter().chain(&NOTICES).find(|stating| stating.condition == condition)
}

/// What a condition stated when this status was written.
pub(super) fn known(status: &AgentDeploymentStatus, condition: ConditionType) -> Option<Known> {
    let recorded = status.told.iter().find(|fact| fact.about == condition.as_str());
    if let Some(ToldFact { reason, subject, .. }) = recorded {
        return Some(Known { condition, reason: reason.clone(), subject: Some(subject.clone()) });
    }
    let Stating { status: states, only, .. } = stating(condition)?;
    let found = status.conditions.iter().find(|c| c.type_ == condition.as_str() && c.status == *states)?;
    let is_told = only.is_none_or(|only| only.as_str() == found.reason);
    is_told.then(|| Known { condition, reason: found.reason.clone(), subject: None })
}

/// The most urgent problem that a status knows.
pub(super) fn known_problem(status: &AgentDeploymentStatus) -> Option<Known> {
    PROBLEMS.iter().find_map(|stating| known(status, stating.condition))
}

/// The most urgent problem among recorded facts, with the condition that states it.
pub(super) fn problem(told: &[ToldFact]) -> Option<(ConditionType, &ToldFact)> {
    PROBLEMS.iter().find_map(|Stating { condition, .. }| {
        told.iter().find(|fact| fact.about == condition.as_str()).map(|fact| (*condition, fact))
    })
}

/// Whether the fact of a condition was announced before; also if it states none.
pub(super) fn is_told(world: &World, condition: ConditionType, status: &AgentDeploymentStatus) -> bool {
    let now = status.told.iter().find(|fact| fact.about == condition.as_str());
    now.is_none_or(|fact| known(&world.status, condition).is_some_and(|known| known.is(fact)))
}

/// The name under which facts about an engine are recorded.
fn about_engine(name: &str) -> String {
    format!("{ENGINE}{name}")
}

/// What is recorded of an engine from now on, in place of earlier facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineFact {
    about: String,
    /// Absent if there is nothing to announce.
    fact: Option<ToldFact>,
}

impl EngineFact {
    /// The quality gate refuses it.
    pub(super) fn refused(name: &str, subject: String) -> Self {
        let about = about_engine(name);
        let reason = Reason::EngineRefused.as_str().to_owned();
        Self { fact: Some(ToldFact { about: about.clone(), reason, subject }), about }
    }

    /// Nothing is wrong with it.
    pub(super) fn none(name: &str) -> Self {
        Self { about: about_engine(name), fact: None }
    }

    /// Whether it is new. The status of a release that recorded no facts knows only of measured quality that was not
    /// accepted.
    pub(super) fn is_new(&self, world: &World) -> bool {
        let Some(fact) = &self.fact else { return false };
        let is_it = |engine: &EngineChoice| about_engine(&engine.name) == self.about;
        let was_refused =
            |engine: &EngineChoice| is_it(engine) && engine.quality.as_ref().is_some_and(|quality| !quality.accepted);
        let known = world.status.told.iter().find(|known| known.about == self.about);
        known.map_or_else(|| !world.status.engines.iter().any(was_refused), |known| known != fact)
    }

    /// What is recorded, once this is.
    pub(super) fn of(self, mut told: Vec<ToldFact>) -> Vec<ToldFact> {
        told.retain(|known| known.about != self.about);
        told.extend(self.fact);
        told
    }
}

/// What distinguishes one "not yet" from others with the same reason.
pub(super) fn subject(why: &Why, spec: &AgentDeploymentSpec, engines: &[EngineChoice]) -> String {
    match why {
        Why::SpecRefused { field, .. } => of_field(spec, field),
        Why::EngineRefused { field, .. } => of_field(spec, &format!("spec.{field}")),
        Why::EngineUnbuildable { .. } => of_field(spec, "spec.engine"),
        Why::CalibrationUnusable { config_map, .. }
        | Why::DatasetUnusable { config_map, .. }
        | Why::WorkloadUnusable { config_map, .. }
        | Why::PriorUnusable { config_map, .. } => config_map.clone(),
        Why::StoreUnbound { claim, .. } => claim.clone(),
        Why::JobFailed { job, class, .. } => format!("{job}/{class}"),
        Why::JobStarting { job }
        | Why::JobUnscheduled { job, .. }
        | Why::ImageUnavailable { job, .. }
        | Why::SecretUnavailable { job, .. }
        | Why::PodsRefused { job, .. }
        | Why::CheckpointMissing { job, .. }
        | Why::JobRunning { job, .. }
        | Why::JobRetrying { job, .. } => job.name.clone(),
        Why::NoEngine { .. } => hash(&engines.iter().map(|engine| &engine.name).collect::<Vec<_>>()),
        Why::BuildingAgain { manifest, .. } => manifest.clone(),
        Why::EnginesBuilding { .. } | Why::MeasuringQuality { .. } => String::new(),
        Why::Profiling { profile, .. }
        | Why::ProfilingFailed { profile, .. }
        | Why::NoFeasibleConfiguration { profile, .. } => profile.clone(),
        Why::ReprofilingPlanned { at, .. } => at.clone(),
        Why::ReprofilingAfterDrift { waits, .. } => waits.subject().to_owned(),
        Why::ReprofilingBudgetUsed { month, .. } => month.clone(),
        Why::RevisionStarting { revision, .. }
        | Why::RevisionFailing { revision, .. }
        | Why::RevisionUnscheduled { revision, .. }
        | Why::InsufficientCapacity { revision, .. }
        | Why::UpdatingInPlace { revision, .. }
        | Why::CanaryJudged { revision, .. }
        | Why::RolloutPaused { revision, .. }
        | Why::RolloutWithoutPods { revision }
        | Why::RolloutHeld(Held { revision, .. })
        | Why::PreflightFailed(RefusedGpus { revision, .. }) => revision.clone(),
        Why::AwaitingApproval(proposed) => proposed.revision.clone(),
        Why::PlanRejected(rejected) => rejected.revision.clone(),
        Why::RestoringStable { stable, .. } => stable.clone(),
        Why::RouteUnavailable { .. } => String::new(),
        Why::RouteContested(contested) => contested.manager.clone(),
        Why::UnknownReceiver { unknown, known: _ } => unknown.join(","),
        Why::CommandInvalid { invalid } => {
            hash(&invalid.iter().map(|invalid| (&invalid.annotation, &invalid.value)).collect::<Vec<_>>())
        }
    }
}

/// A field with a hash of its value: the same field with another value is another problem.
fn of_field(spec: &AgentDeploymentSpec, field: &str) -> String {
    let Some(path) = field.strip_prefix("spec.") else { return field.to_owned() };
    let Ok(spec) = serde_json::to_value(spec) else { return field.to_owned() };
    format!("{field}/{}", hash(nearest(&spec, path)))
}

/// The value at a path such as `agent.tools[1].http`, or at as much of it as there is.
fn nearest<'a>(spec: &'a Value, path: &str) -> &'a Value {
    let mut value = spec;
    for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        let next = value.get(part).or_else(|| value.get(part.parse::<usize>().ok()?));
        let Some(next) = next else { return value };
        value = next;
    }
    value
}

/// Only floating-point numbers have no hash, and the spec contains no such number.
fn hash<T: serde::Serialize>(value: &T) -> String {
    content_hash(value).map(|hash| hash.short().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
