//! What comes next for an AgentDeployment. Pure: the same world gives the same plan.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::ConditionType,
    identity::IdentityError,
    v1alpha1::{AgentDeploymentStatus, agent_deployment::RolloutStatus},
};

use super::{
    facts,
    monitoring::{alerts, announcements, autoscaling, drift, scaling, undelivered},
    outcome::{Background, Outcome, unknown_receivers},
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

/// While a revision is held to objectives: what its pods count is no event of the API server's.
const LOOK: Duration = Duration::from_secs(30);

/// Decides what comes next. Planners run in the order of the phases; what one needs of another is passed on here, and nowhere else.
///
/// # Errors
/// When a part of the spec has no canonical JSON; its types leave no such case.
pub fn decide(world: &World) -> Result<Plan<AgentDeploymentStatus>, IdentityError> {
    let spec = revision::input_hash(&world.spec)?.as_str().to_owned();
    let claim = artifact_store::claim(&world.namespace, &world.settings.store);
    let mut parts = Parts::of_children([Child::PersistentVolumeClaim(Box::new(claim))]);
    let Asked { target, proposal } = parts.join(ask(world, &spec))?;
    let RolledOut { mut outcome, rollout } = parts.join(rollout::decide(world, target));
    let rollout = rollout.map(|rollout| RolloutStatus { proposed: proposal, ..rollout });
    let drift = parts.join(drift::decide::decide(world, rollout.as_ref()));
    let repeated = parts.join(reprofiling::decide(world, &spec, &outcome, drift.as_ref()))?;
    outcome.background = repeated.background;
    let autoscaling = parts.join(autoscaling::decide(world));
    let reprofiling = repeated.reprofiling;
    let found = std::mem::take(&mut parts.found).into_status(world.status.clone());
    let found = AgentDeploymentStatus { rollout, drift, reprofiling, autoscaling, ..found };
    parts.add(profiling::forget_old(world, found.profile.as_ref()));
    parts.add(alerts::decide(world));
    let status = status::complete(world, &outcome, found);
    parts.add(Parts::of_notes(told(world, &outcome, &status)));
    if outcome.serving.is_some() && !status.slo.is_empty() {
        parts.add(Parts::look_within(LOOK));
    }
    let news = announcements::announce(world, &outcome, &status, &parts.notes);
    let (undelivered, announcements) = undelivered::next(world, news);
    if !announcements.is_empty() {
        // That they have been delivered is no event of the API server's.
        parts.add(Parts::look_within(UNWATCHED));
    }
    // All that was found is in the status.
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

/// The plan that the spec asks for, once nothing keeps it from being rolled out.
fn ask(world: &World, spec: &str) -> Planned<Result<Asked, IdentityError>> {
    let inputs = repetitions::inputs(world, spec);
    if let Some(kept) = kept(world, &inputs) {
        let (hash, input_hash) = (kept.hash.clone(), kept.input_hash.clone());
        let target = Target { hash, input_hash, plan: kept.plan.clone() };
        let Planned { value: restored, parts } = fetch::restore(world);
        // It was let through when it was made.
        return parts.with(restored.map(|()| Asked { target: Ok(target), proposal: None }));
    }
    Planned::of(|parts| match parts.join(pipeline::chosen(world, &inputs)) {
        Ok(chosen) => Ok(parts.join(approval::ask(world, chosen))),
        Err(Halt::Blocked(blocked)) => Ok(Asked { target: Err(blocked), proposal: None }),
        Err(Halt::NoIdentity(error)) => Err(error),
    })
}

/// The kept revision of these inputs. One that a later measurement of the same spec chose stands for that spec from then on.
fn kept<'a>(world: &'a World, inputs: &PlanInputs) -> Option<&'a Revision> {
    let of_spec = world.revisions.iter().rev().filter(|revision| revision.inputs().spec == inputs.spec);
    let of_spec = of_spec.filter(|revision| !is_lost(world, revision));
    let latest = of_spec.max_by_key(|revision| revision.inputs().repetition)?;
    (latest.inputs().repetition >= inputs.repetition).then_some(latest)
}

/// Whether the store lost what a revision serves, and the engine was built again as something else: its pods cannot
/// start any more.
fn is_lost(world: &World, revision: &Revision) -> bool {
    let PlannedEngine { name, manifest_digest, .. } = &revision.plan.engine;
    world.engines.get(name).is_some_and(|engine| {
        engine.artifact.is_some()
            && engine.lost.as_ref().is_some_and(|lost| lost.manifest_digest == manifest_digest.as_str())
    })
}

/// What is told once, when it is new.
fn told(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> impl Iterator<Item = Note> {
    let notes = [
        refused_schedule(world, outcome, status),
        stop(world, outcome, status),
        unknown_receiver(world, status),
        contest(world),
    ];
    notes.into_iter().flatten()
}

fn stop(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> Option<Note> {
    let Some(Blocked::Stopped(why)) = &outcome.next else { return None };
    let is_told = facts::is_told(world, ConditionType::Stalled, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// A name that the operator does not know keeps nothing from going on.
fn unknown_receiver(world: &World, status: &AgentDeploymentStatus) -> Option<Note> {
    let why = unknown_receivers(world)?;
    let is_told = facts::is_told(world, ConditionType::ReceiversResolved, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// A schedule that cannot be kept keeps nothing else from going on.
fn refused_schedule(world: &World, outcome: &Outcome, status: &AgentDeploymentStatus) -> Option<Note> {
    let Some(Background::Idle(why @ Why::SpecRefused { .. })) = &outcome.background else { return None };
    let is_told = facts::is_told(world, ConditionType::Profiling, status);
    (!is_told).then(|| Note::warning(why.reason(), why.to_string()))
}

/// Somebody who scales in vain.
fn contest(world: &World) -> Option<Note> {
    let is_told = |c: &Condition| c.type_ == ConditionType::ReplicasContested.as_str();
    let contested = scaling::contested(world).filter(|_| !world.status.conditions.iter().any(is_told))?;
    Some(Note::warning(contested.reason, contested.message))
}
