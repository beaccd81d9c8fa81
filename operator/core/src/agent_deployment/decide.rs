//! What comes next for an AgentDeployment. Pure: the same world gives the same plan.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::ConditionType,
    identity::IdentityError,
    v1alpha1::{AgentDeploymentStatus, agent_deployment::RolloutStatus},
};

use super::{
    defaults, facts,
    monitoring::{alerts, announcements, autoscaling, drift, scaling, self_check, undelivered},
    outcome::{Background, Outcome, invalid_commands, unknown_receivers},
    parts::{Halt, Parts, Planned},
    pipeline,
    profiling::{self, repetitions, reprofiling},
    resolve::fetch,
    rollout::{
        self, RolledOut,
        approval::{self, Asked},
        revision::{self, PlanInputs, PlannedEngine, Revision, Target},
    },
    status,
    world::World,
};
use crate::{
    artifact_store,
    plan::{Child, Note, Plan, RESYNC, UNWATCHED},
    why::{Blocked, Why},
};

/// Poll interval while a revision has objectives to meet: no watch reports what its pods count.
const LOOK: Duration = Duration::from_secs(30);

/// Decides what comes next. Planners run in the order of the phases. Only this function passes values from one to
/// another.
///
/// # Errors
/// When a part of the spec has no canonical JSON; its types leave no such case.
pub fn decide(world: &World) -> Result<Plan<AgentDeploymentStatus>, IdentityError> {
    let spec = revision::input_hash(&defaults::completed(world))?.as_str().to_owned();
    let mut parts = Parts::of_children(store(world));
    let Asked { target, proposal } = parts.join(ask(world, &spec))?;
    let RolledOut { mut outcome, rollout } = parts.join(rollout::decide(world, target));
    let rollout = rollout.map(|rollout| RolloutStatus { proposed: proposal, ..rollout });
    if is_starting_elsewhere(world, &outcome) {
        parts.add(Parts::look_within(LOOK));
    }
    let drift = parts.join(drift::decide::decide(world, rollout.as_ref()));
    let repeated = parts.join(reprofiling::decide(world, &spec, &outcome, drift.as_ref()))?;
    outcome.background = repeated.background;
    let autoscaling = parts.join(autoscaling::decide(world));
    let reprofiling = repeated.reprofiling;
    let self_check = self_check::decide(world, rollout.as_ref());
    let found = std::mem::take(&mut parts.found).into_status(world.status.clone());
    let defaults = defaults::taken(world, found.model.as_ref());
    let found = AgentDeploymentStatus { defaults, rollout, drift, reprofiling, autoscaling, self_check, ..found };
    parts.add(profiling::forget_unneeded(world, found.profile.as_ref()));
    parts.add(alerts::decide(world));
    let status = status::complete(world, &outcome, found);
    parts.add(Parts::of_notes(news(world, &outcome, &status)));
    if outcome.serving.is_some() && !status.slo.is_empty() {
        parts.add(Parts::look_within(LOOK));
    }
    let announced = announcements::announce(world, &outcome, &status, &parts.notes);
    let (undelivered, announcements) = undelivered::next(world, announced);
    if !announcements.is_empty() {
        // No watch reports a delivery.
        parts.add(Parts::look_within(UNWATCHED));
    }
    // The status already has all findings.
    let Parts { children, removals, notes, requeue, found: _ } = parts;
    Ok(Plan {
        children,
        removals,
        status: AgentDeploymentStatus { undelivered, ..status },
        notes,
        announcements,
        requeue: requeue.map_or(RESYNC, |time| time.min(RESYNC)),
    })
}

/// The claim of the artifact store, where it is missing: one that is there is left alone. Where another server has the
/// model there is nothing to keep, unless an engine still serves.
fn store(world: &World) -> Option<Child> {
    let canary = world.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref());
    let mut serving = world.stable().into_iter().chain(canary).filter_map(|hash| world.revision(hash));
    let is_needed = world.spec.checkpoint().is_some() || serving.any(|known| known.plan.served.artifact().is_some());
    let claim = || artifact_store::claim(&world.namespace, &world.settings.store);
    (is_needed && world.store_bound.is_none()).then(|| Child::PersistentVolumeClaim(Box::new(claim())))
}

/// Whether pods that ask a server elsewhere are not ready yet. No watch reports why.
fn is_starting_elsewhere(world: &World, outcome: &Outcome) -> bool {
    let next = outcome.next.as_ref().filter(|_| world.spec.upstream().is_some());
    let is_failing = |why: &Why| matches!(why, Why::RevisionFailing { .. });
    match next {
        Some(Blocked::Waiting(why)) => is_failing(why) || matches!(why, Why::RevisionStarting { .. }),
        // The cause may change, and go, without an edit.
        Some(Blocked::Stopped(why)) => is_failing(why),
        None => false,
    }
}

/// The plan that the spec asks for, once nothing blocks its rollout.
fn ask(world: &World, spec: &str) -> Planned<Result<Asked, IdentityError>> {
    let inputs = repetitions::inputs(world, spec);
    if let Some(kept) = kept(world, &inputs) {
        let (hash, input_hash) = (kept.hash.clone(), kept.input_hash.clone());
        let target = Target { hash, input_hash, plan: kept.plan.clone() };
        let Planned { value: restored, parts } = fetch::restore(world);
        let parts = parts.and(profiling::leave_asking(world));
        let parts = parts.and(Parts::of_found(pipeline::considered(world, &kept.plan)));
        // It was approved when it was made.
        return parts.with(restored.map(|()| Asked { target: Ok(target), proposal: None }));
    }
    Planned::of(|parts| match parts.join(pipeline::chosen(world, &inputs)) {
        Ok(chosen) => Ok(parts.join(approval::ask(world, chosen))),
        Err(Halt::Blocked(blocked)) => Ok(Asked { target: Err(blocked), proposal: None }),
        Err(Halt::NoIdentity(error)) => Err(error),
    })
}

/// The kept revision of these inputs. If a later measurement of the same spec chose another plan, that one counts from
/// then on.
fn kept<'a>(world: &'a World, inputs: &PlanInputs) -> Option<&'a Revision> {
    let of_spec = world.revisions.iter().rev().filter(|revision| revision.inputs().spec == inputs.spec);
    let of_spec = of_spec.filter(|revision| !is_lost(world, revision));
    let latest = of_spec.max_by_key(|revision| revision.inputs().repetition)?;
    (latest.inputs().repetition >= inputs.repetition).then_some(latest)
}

/// Whether the store lost the artifact of a revision and the rebuilt engine differs: its pods can no longer start.
fn is_lost(world: &World, revision: &Revision) -> bool {
    let Some(artifact) = revision.plan.served.artifact() else { return false };
    let PlannedEngine { name, manifest_digest, .. } = &artifact.engine;
    world.engines.get(name).is_some_and(|engine| {
        engine.artifact.is_some()
            && engine.lost.as_ref().is_some_and(|lost| lost.manifest_digest == manifest_digest.as_str())
    })
}

/// Events that are published once, when their fact is new.
fn news(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> impl Iterator<Item = Note> {
    let notes = [
        refused_schedule(world, outcome, status),
        stop(world, outcome, status),
        unknown_receiver(world, status),
        invalid_command(world, status),
        contest(world),
    ];
    notes.into_iter().flatten()
}

fn stop(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> Option<Note> {
    let Some(Blocked::Stopped(why)) = &outcome.next else { return None };
    let is_told = facts::is_told(world, ConditionType::Stalled, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// An unknown receiver blocks nothing.
fn unknown_receiver(world: &World, status: &AgentDeploymentStatus) -> Option<Note> {
    let why = unknown_receivers(world)?;
    let is_told = facts::is_told(world, ConditionType::ReceiversResolved, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// An invalid command blocks nothing.
fn invalid_command(world: &World, status: &AgentDeploymentStatus) -> Option<Note> {
    let why = invalid_commands(world)?;
    let is_told = facts::is_told(world, ConditionType::CommandInvalid, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// An invalid schedule blocks nothing else.
fn refused_schedule(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> Option<Note> {
    let Some(Background::Idle(why @ Why::SpecRefused { .. })) = &outcome.background else { return None };
    let is_told = facts::is_told(world, ConditionType::Profiling, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// A client whose scaling has no effect.
fn contest(world: &World) -> Option<Note> {
    let is_told = |c: &Condition| c.type_ == ConditionType::ReplicasContested.as_str();
    let contested = scaling::contested(world).filter(|_| !world.status.conditions.iter().any(is_told))?;
    Some(Note::warning(contested.reason, contested.message))
}
