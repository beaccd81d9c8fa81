//! What comes next for an AgentDeployment. Pure: the same world gives the same plan.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{conditions::ConditionType, identity::IdentityError, v1alpha1::AgentDeploymentStatus};

use super::{
    draft::{Draft, Target},
    engines, facts,
    monitoring::{alerts, announcements, autoscaling, drift, scaling, undelivered},
    prepare::prepare,
    profiling::{self, reprofiling},
    resolve::fetch,
    rollout::{
        self, approval,
        revision::{self, PlanInputs, PlannedEngine, Revision},
    },
    status::{self, Background, Outcome},
    world::World,
};
use crate::{
    artifact_store,
    plan::{Child, Note, Plan, RESYNC, UNWATCHED},
    why::{Step, Why},
};

/// While a revision is held to objectives: what its pods count is no event of the API server's.
const LOOK: Duration = Duration::from_secs(30);

/// Decides what comes next.
///
/// # Errors
/// When a part of the spec has no canonical JSON; its types leave no such case.
pub fn decide(world: &World) -> Result<Plan<AgentDeploymentStatus>, IdentityError> {
    let mut draft = Draft {
        children: vec![Child::PersistentVolumeClaim(Box::new(artifact_store::claim(
            &world.namespace,
            &world.settings.store,
        )))],
        removals: Vec::new(),
        status: world.status.clone(),
        notes: Vec::new(),
        requeue: RESYNC,
    };
    let spec = revision::input_hash(&world.spec)?.as_str().to_owned();
    let inputs = reprofiling::inputs(world, &spec);
    let target = match kept(world, &inputs) {
        Some(kept) => {
            fetch::restore(world, &mut draft)?;
            let (hash, input_hash) = (kept.hash.clone(), kept.input_hash.clone());
            Step::Done(Target { hash, input_hash, plan: kept.plan.clone() })
        }
        None => pipeline(world, &mut draft, &inputs)?,
    };
    let approval::Asked { target, proposal } = approval::ask(world, target, &mut draft);
    let mut outcome = rollout::decide(world, target, &mut draft);
    if let Some(rollout) = &mut draft.status.rollout {
        rollout.proposed = proposal;
    }
    drift::decide::decide(world, &mut draft);
    outcome.background = reprofiling::decide(world, &spec, &outcome, &mut draft)?;
    autoscaling::decide(world, &mut draft);
    profiling::forget_old(world, &mut draft);
    alerts::decide(world, &mut draft);
    status::complete(world, &outcome, &mut draft.status);
    tell_of_refused_schedule(world, &outcome, &mut draft);
    tell_of_stop(world, &outcome, &mut draft);
    tell_of_unknown_receivers(world, &mut draft);
    tell_of_contest(world, &mut draft);
    let announcements = announcements::announce(world, &outcome, &draft.status, &draft.notes);
    let (undelivered, announcements) = undelivered::next(world, announcements);
    draft.status.undelivered = undelivered;
    let Draft { children, removals, status, notes, mut requeue } = draft;
    if !announcements.is_empty() {
        // That they have been delivered is no event of the API server's.
        requeue = requeue.min(UNWATCHED);
    }
    if outcome.serving.is_some() && !status.slo.is_empty() {
        requeue = requeue.min(LOOK);
    }
    Ok(Plan { children, removals, status, notes, announcements, requeue })
}

/// A stop is told once: when its reason is new.
fn tell_of_stop(world: &World, outcome: &Outcome, draft: &mut Draft) {
    let Some(Step::Stopped(why)) = &outcome.next else { return };
    if !facts::is_told(world, ConditionType::Stalled, &draft.status) {
        draft.notes.push(Note::warning(why.reason(), why.to_string()));
    }
}

/// A name that the operator does not know is told once, and keeps nothing from going on.
fn tell_of_unknown_receivers(world: &World, draft: &mut Draft) {
    let Some(why) = status::unknown_receivers(world) else { return };
    if !facts::is_told(world, ConditionType::ReceiversResolved, &draft.status) {
        draft.notes.push(Note::warning(why.reason(), why.to_string()));
    }
}

/// A schedule that cannot be kept is told once, and keeps nothing else from going on.
fn tell_of_refused_schedule(world: &World, outcome: &Outcome, draft: &mut Draft) {
    let Some(Background::Idle(why @ Why::SpecRefused { .. })) = &outcome.background else { return };
    if !facts::is_told(world, ConditionType::Profiling, &draft.status) {
        draft.notes.push(Note::warning(why.reason(), why.to_string()));
    }
}

/// Somebody who scales in vain is told once.
fn tell_of_contest(world: &World, draft: &mut Draft) {
    let is_told = |c: &Condition| c.type_ == ConditionType::ReplicasContested.as_str();
    if let Some(contested) = scaling::contested(world).filter(|_| !world.status.conditions.iter().any(is_told)) {
        draft.notes.push(Note::warning(contested.reason, contested.message));
    }
}

/// The kept revision of these inputs. One that a later measurement of the same spec chose stands for that spec from then on.
fn kept<'a>(world: &'a World, inputs: &PlanInputs) -> Option<&'a Revision> {
    let of_spec = world.revisions.iter().rev().filter(|revision| revision.inputs().spec == inputs.spec);
    let of_spec = of_spec.filter(|revision| !is_lost(world, revision));
    let latest = of_spec.max_by_key(|revision| revision.inputs().repetition)?;
    (latest.inputs().repetition >= inputs.repetition).then_some(latest)
}

/// Whether the store lost what a revision serves, and the engine was built again as something else: its pods cannot start any more.
fn is_lost(world: &World, revision: &Revision) -> bool {
    let PlannedEngine { name, manifest_digest, .. } = &revision.plan.engine;
    world.engines.get(name).is_some_and(|engine| {
        engine.artifact.is_some()
            && engine.lost.as_ref().is_some_and(|lost| lost.manifest_digest == manifest_digest.as_str())
    })
}

/// From the model's reference to a plan, one planner a step.
fn pipeline(world: &World, draft: &mut Draft, inputs: &PlanInputs) -> Result<Step<Target>, IdentityError> {
    let prepared = match prepare(world, draft)? {
        Step::Done(prepared) => prepared,
        Step::Waiting(why) => return Ok(Step::Waiting(why)),
        Step::Stopped(why) => return Ok(Step::Stopped(why)),
    };
    let choice = match profiling::decide(world, &prepared, inputs, draft)? {
        Step::Done(choice) => choice,
        Step::Waiting(why) => return Ok(Step::Waiting(why)),
        Step::Stopped(why) => return Ok(Step::Stopped(why)),
    };
    let plan = engines::plan(world, &prepared.resolved, &choice, draft);
    let hash = plan.hash()?.short().to_owned();
    Ok(Step::Done(Target { hash, input_hash: inputs.to_string(), plan }))
}
