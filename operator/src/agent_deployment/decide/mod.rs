//! What comes next for an AgentDeployment. Pure: the same world gives the same plan.

mod alerts;
mod announce;
mod approval;
mod autoscaling;
mod axes;
mod drift;
mod engines;
mod fetch;
mod no_build;
mod profiling;
mod quality;
mod reprofiling;
mod resolve;
mod rollout;
mod tensorrt_llm;

#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::ConditionType,
    identity::IdentityError,
    v1alpha1::{AgentDeploymentStatus, agent_deployment::JobAttempt},
};

use engines::BuiltEngine;
use resolve::Resolved;
use rollout::prediction;

use super::{
    build,
    revision::{self, PlanInputs, Revision, RevisionPlan},
    scaling,
    status::{self, Outcome},
    world::World,
};
use crate::{
    jobs::{
        attempts::{self, AttemptStep, Attempts, job_name},
        view::JobPhase,
    },
    plan::{AT_ONCE, Child, Note, Plan, RESYNC, Removal, SOON},
    why::{Step, Why},
};

/// While a revision is held to objectives: what its pods count is no event of the API server's.
const LOOK: Duration = Duration::from_secs(30);

/// The plan that is being put together.
#[derive(Debug)]
struct Draft {
    children: Vec<Child>,
    removals: Vec<Removal>,
    status: AgentDeploymentStatus,
    notes: Vec<Note>,
    requeue: Duration,
}

/// The plan that the spec asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    hash: String,
    input_hash: String,
    plan: RevisionPlan,
}

/// Decides what comes next.
///
/// # Errors
/// When a part of the spec has no canonical JSON; its types leave no such case.
pub fn decide(world: &World) -> Result<Plan<AgentDeploymentStatus>, IdentityError> {
    let mut draft = Draft {
        children: vec![Child::PersistentVolumeClaim(Box::new(build::store::claim(world)))],
        removals: Vec::new(),
        status: world.status.clone(),
        notes: Vec::new(),
        requeue: RESYNC,
    };
    let spec = revision::input_hash(&world.spec)?.as_str().to_owned();
    let inputs = reprofiling::inputs(world, &spec);
    let target = match kept(world, &inputs) {
        Some(kept) => {
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
    drift::decide(world, &mut draft);
    outcome.background = reprofiling::decide(world, &spec, &outcome, &mut draft)?;
    autoscaling::decide(world, &mut draft);
    profiling::forget_old(world, &mut draft);
    alerts::decide(world, &mut draft);
    status::complete(world, &outcome, &mut draft.status);
    tell_of_stop(world, &outcome, &mut draft);
    tell_of_unknown_receivers(world, &mut draft);
    tell_of_contest(world, &mut draft);
    let announcements = announce::announce(world, &draft.status, &draft.notes);
    let Draft { children, removals, status, notes, mut requeue } = draft;
    if outcome.serving.is_some() && !status.slo.is_empty() {
        requeue = requeue.min(LOOK);
    }
    Ok(Plan { children, removals, status, notes, announcements, requeue })
}

/// A stop is told once: when its reason is new.
fn tell_of_stop(world: &World, outcome: &Outcome, draft: &mut Draft) {
    let Some(Step::Stopped(why)) = &outcome.next else { return };
    let line = why.to_string();
    let is_told = |c: &Condition| c.type_ == ConditionType::Stalled.as_str() && c.status == "True" && c.message == line;
    if !world.status.conditions.iter().any(is_told) {
        draft.notes.push(Note::warning(why.reason(), line));
    }
}

/// A name that the operator does not know is told once, and keeps nothing from going on.
fn tell_of_unknown_receivers(world: &World, draft: &mut Draft) {
    let Some(why) = status::unknown_receivers(world) else { return };
    let line = why.to_string();
    let is_told = |c: &Condition| c.type_ == ConditionType::ReceiversResolved.as_str() && c.message == line;
    if !world.status.conditions.iter().any(is_told) {
        draft.notes.push(Note::warning(why.reason(), line));
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
    let latest = of_spec.max_by_key(|revision| revision.inputs().repetition)?;
    (latest.inputs().repetition >= inputs.repetition).then_some(latest)
}

/// What can be measured, and served.
struct Prepared {
    resolved: Resolved,
    engines: Vec<BuiltEngine>,
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

/// From the model's reference to engines.
fn prepare(world: &World, draft: &mut Draft) -> Result<Step<Prepared>, IdentityError> {
    // A sidecar would refuse it, but only after engines are built and measured.
    if let Some(problem) = build::runtime_config::problem(&world.name, &world.spec.agent) {
        return Ok(Step::Stopped(Why::SpecRefused { field: "spec.agent", problem }));
    }
    let resolved = match resolve::decide(world, draft)? {
        Step::Done(resolved) => resolved,
        Step::Waiting(why) => return Ok(Step::Waiting(why)),
        Step::Stopped(why) => return Ok(Step::Stopped(why)),
    };
    // What cannot be built need not be fetched.
    match engines::points(world, &resolved) {
        Step::Done(_) => {}
        Step::Waiting(why) => {
            draft.requeue = SOON;
            return Ok(Step::Waiting(why));
        }
        Step::Stopped(why) => return Ok(Step::Stopped(why)),
    }
    match fetch::decide(world, &resolved, draft)? {
        Step::Done(()) => {}
        Step::Waiting(why) => return Ok(Step::Waiting(why)),
        Step::Stopped(why) => return Ok(Step::Stopped(why)),
    }
    Ok(match engines::decide(world, &resolved, draft)? {
        Step::Done(engines) => Step::Done(Prepared { resolved, engines }),
        Step::Waiting(why) => Step::Waiting(why),
        Step::Stopped(why) => Step::Stopped(why),
    })
}

/// A Job of this AgentDeployment: its place in the status, and how its next attempt is made.
struct JobStep<'a> {
    kind: &'static str,
    input_hash: &'a str,
    /// Whether only one Job of the kind is of interest at a time.
    is_single: bool,
}

impl JobStep<'_> {
    fn prefix(&self) -> String {
        format!("{}-{}", self.kind, self.input_hash)
    }

    fn recorded(&self, world: &World) -> i32 {
        let same = |job: &&JobAttempt| job.kind == self.kind && job.input_hash == self.input_hash;
        world.status.jobs.iter().find(same).map_or(0, |job| job.attempt)
    }

    /// Asks what comes next, and writes a new attempt into the status.
    fn next(&self, world: &World, draft: &mut Draft) -> AttemptStep {
        let prefix = self.prefix();
        let recorded = self.recorded(world);
        let job = world.jobs.get(&job_name(&prefix, recorded));
        let step = attempts::decide(Attempts {
            job_prefix: &prefix,
            recorded,
            max_attempts: world.settings.jobs.max_attempts,
            job,
            now: world.now,
        });
        match &step {
            AttemptStep::Record(attempt) => {
                // Of most kinds only the latest input is of interest; several engines are evaluated side by side.
                let is_superseded =
                    |job: &JobAttempt| job.kind == self.kind && (self.is_single || job.input_hash == self.input_hash);
                draft.status.jobs.retain(|job| !is_superseded(job));
                draft.status.jobs.push(JobAttempt {
                    kind: self.kind.to_owned(),
                    input_hash: self.input_hash.to_owned(),
                    attempt: *attempt,
                });
                draft.requeue = AT_ONCE;
            }
            AttemptStep::Wait(Why::JobRetrying { .. }) => draft.requeue = SOON,
            AttemptStep::Create(_) | AttemptStep::Wait(_) | AttemptStep::Succeeded { .. } | AttemptStep::GivenUp(_) => {
            }
        }
        step
    }

    /// What a wait is for: a claim that nothing binds is worth more words than the scheduler has.
    fn explain(&self, world: &World, why: Why) -> Why {
        let prefix = self.prefix();
        let phase = world.jobs.get(&job_name(&prefix, self.recorded(world))).map(|job| &job.phase);
        match phase {
            Some(JobPhase::Unscheduled(message))
                if message.contains("PersistentVolumeClaim") && world.store_bound != Some(true) =>
            {
                Why::StoreUnbound {
                    claim: build::store::CLAIM.to_owned(),
                    storage_class: world.settings.store.storage_class_name.clone(),
                }
            }
            _ => why,
        }
    }

    /// The name of the Job of an attempt.
    fn job_name(&self, attempt: i32) -> String {
        job_name(&self.prefix(), attempt)
    }
}
