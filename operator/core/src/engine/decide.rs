//! What comes next for an Engine. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        EngineStatus,
        engine::{AttemptFailure, EngineArtifact},
    },
};
use slipway_worker_contract::{BuildResult, EngineRef, Outcome, paths};

use super::{build, lost, status, unused, world::EngineWorld};
use crate::{
    jobs::{
        attempts::{self, AttemptStep, Attempts, job_name},
        kind::{JobKind, JobRef},
        view::{JobPhase, JobView},
    },
    plan::{AT_ONCE, Child, Note, Plan, SOON, UNWATCHED},
    why::{Blocked, Step, Why},
};

/// Maximum number of a builder's steps and tools in a status.
const MAX_TOLD: usize = 32;
/// Characters of their names.
const MAX_NAME: usize = 63;
/// Characters of a version.
const MAX_VERSION: usize = 256;

/// Decides what comes next.
pub fn decide(world: &EngineWorld) -> Plan<EngineStatus> {
    let prefix = job_prefix(world);
    let (plan, step) = match (lost::artifact(world, &prefix), &world.status.artifact) {
        (Some(again), _) => again,
        (None, Some(_)) => (Plan::keeping(world.status.clone()), Ok(())),
        (None, None) => build_step(world, &prefix),
    };
    let status = lost::settled(plan.status);
    let step = lost::explained(step, &status);
    let status = status::complete(world, &step, status);
    unused::collected(world, Plan { status, ..plan })
}

/// Name of the Jobs of an Engine, without the number of the attempt.
fn job_prefix(world: &EngineWorld) -> String {
    format!("{}-{}", JobKind::Build.as_str(), world.name.trim_start_matches("engine-"))
}

fn build_step(world: &EngineWorld, prefix: &str) -> (Plan<EngineStatus>, Step<()>) {
    let recorded = world.status.attempts.last().map_or(0, |attempt| attempt.number);
    let name = job_name(prefix, recorded);
    let job = world.jobs.get(&name);
    let status = with_failure(job, world.status.clone());
    if let Some(waiting) = lost::checkpoint(world, job, prefix, &status) {
        return waiting;
    }
    let plan = Plan::keeping(status);
    let attempts_before = world.status.lost.as_ref().map_or(0, |lost| lost.attempts_before);
    let max_attempts = world.settings.jobs.max_attempts.saturating_add(attempts_before);
    let next = attempts::decide(Attempts {
        kind: JobKind::Build,
        job_prefix: prefix,
        recorded,
        max_attempts,
        job,
        now: world.now,
    });
    match (next, new_failure(&world.status, &plan.status)) {
        // What one look alone has seen begins nothing: a pod that a list lacked may have ended well.
        (AttemptStep::Record(next_attempt), Some(failure)) => {
            let job = JobRef { kind: JobKind::Build, name };
            let why = Why::JobRetrying { job, next_attempt, max_attempts, failure };
            (Plan { requeue: AT_ONCE, ..plan }, Err(Blocked::Waiting(why)))
        }
        (next, _) => step_of(world, next, (prefix, name), plan),
    }
}

/// What follows from the next step of the attempts.
fn step_of(
    world: &EngineWorld,
    next: AttemptStep,
    (prefix, name): (&str, String),
    plan: Plan<EngineStatus>,
) -> (Plan<EngineStatus>, Step<()>) {
    match next {
        AttemptStep::Record(attempt) => {
            let job = JobRef { kind: JobKind::Build, name: job_name(prefix, attempt) };
            let status = lost::with_attempt(attempt, &job.name, plan.status);
            (Plan { status, requeue: AT_ONCE, ..plan }, Err(Blocked::Waiting(Why::JobStarting { job })))
        }
        AttemptStep::Create(_) => match build::build_job(world, &name) {
            Ok((task, job)) => {
                let children = vec![Child::ConfigMap(Box::new(task)), Child::Job(Box::new(job))];
                let job = JobRef { kind: JobKind::Build, name };
                (Plan { children, ..plan }, Err(Blocked::Waiting(Why::JobStarting { job })))
            }
            Err(problem) => (plan, Err(Blocked::Stopped(Why::EngineUnbuildable { problem: problem.to_string() }))),
        },
        AttemptStep::Wait(why @ Why::JobRetrying { .. }) => {
            (Plan { requeue: SOON, ..plan }, Err(Blocked::Waiting(why)))
        }
        AttemptStep::Wait(why) if why.is_unwatched() => {
            (Plan { requeue: UNWATCHED, ..plan }, Err(Blocked::Waiting(why)))
        }
        AttemptStep::Wait(why) => (plan, Err(Blocked::Waiting(why))),
        AttemptStep::GivenUp(why) => {
            let is_new = !is_stalled_already(world);
            let note = is_new.then(|| Note::warning(Reason::EngineFailed, why.to_string()));
            (Plan { notes: note.into_iter().collect(), ..plan }, Err(Blocked::Stopped(why)))
        }
        AttemptStep::Succeeded { outcome, milliseconds } => match *outcome {
            Outcome::Build(result) => {
                let notes = vec![Note::normal(Reason::EngineBuilt, story(world, &result, milliseconds))];
                let artifact = Some(artifact(world, &result, milliseconds));
                (Plan { notes, status: EngineStatus { artifact, ..plan.status }, ..plan }, Ok(()))
            }
            Outcome::Resolve(_)
            | Outcome::Fetch(_)
            | Outcome::Quality(_)
            | Outcome::Materialize(_)
            | Outcome::Sweep(_)
            | Outcome::Profile(_) => (plan, Err(Blocked::Stopped(foreign_result(world, name)))),
        },
    }
}

/// A Job whose result is of another kind: operator and worker are not of one version.
fn foreign_result(world: &EngineWorld, name: String) -> Why {
    let worker = &world.settings.images.worker;
    let failure = format!(
        "it reported the result of another task: check that {worker} is the worker of this \
                           release"
    );
    Why::JobFailed { job: JobRef { kind: JobKind::Build, name }, class: "ImageMismatch", failure, attempts: None }
}

fn is_stalled_already(world: &EngineWorld) -> bool {
    world.status.conditions.iter().any(|c| c.type_ == "Stalled" && c.status == "True")
}

/// The failure of the latest attempt, where no status has had it before.
fn new_failure(before: &EngineStatus, after: &EngineStatus) -> Option<String> {
    let failure = |status: &EngineStatus| status.attempts.last().and_then(|attempt| attempt.failure.clone());
    failure(after).filter(|_| failure(before).is_none()).map(|failure| failure.message)
}

/// Writes the failure of the latest attempt beside it; an attempt that is made once more loses its old failure.
fn with_failure(job: Option<&JobView>, mut status: EngineStatus) -> EngineStatus {
    let failure = match job.map(|job| &job.phase) {
        Some(JobPhase::Failed { class, failure, .. }) => {
            Some(AttemptFailure { class: *class, message: failure.chars().take(1024).collect() })
        }
        Some(
            JobPhase::Unscheduled { .. }
            | JobPhase::ImageUnavailable(_)
            | JobPhase::SecretUnavailable(_)
            | JobPhase::PodsRefused(_)
            | JobPhase::Running { .. }
            | JobPhase::Succeeded { .. },
        )
        | None => None,
    };
    if let Some(latest) = status.attempts.last_mut() {
        latest.failure = failure;
    }
    status
}

fn story(world: &EngineWorld, result: &BuildResult, milliseconds: i64) -> String {
    format!(
        "{} {}: {:.1} MB in {:.1} s, manifest {}",
        world.name,
        world.spec.build.precision.as_str(),
        bytes(result) as f64 / 1e6,
        milliseconds as f64 / 1e3,
        &result.manifest_digest.as_str()[..12]
    )
}

fn bytes(result: &BuildResult) -> i64 {
    i64::try_from(result.bytes).unwrap_or(i64::MAX)
}

fn artifact(world: &EngineWorld, result: &BuildResult, milliseconds: i64) -> EngineArtifact {
    let reference = EngineRef { identity: world.name.clone(), manifest_digest: result.manifest_digest.clone() };
    EngineArtifact {
        manifest_digest: result.manifest_digest.to_string(),
        location: paths::engine(&reference),
        size_bytes: bytes(result),
        recorded_at: Some(Time(world.now)),
        build_milliseconds: milliseconds,
        step_milliseconds: bounded(&result.durations_millis)
            .map(|(step, taken)| (step, i64::try_from(*taken).unwrap_or(i64::MAX)))
            .collect(),
        versions: bounded(&result.versions)
            .map(|(tool, version)| (tool, version.chars().take(MAX_VERSION).collect()))
            .collect(),
    }
}

/// Bounds what a builder reports, because nothing else does.
fn bounded<T>(by_name: &BTreeMap<String, T>) -> impl Iterator<Item = (String, &T)> {
    by_name.iter().take(MAX_TOLD).map(|(name, value)| (name.chars().take(MAX_NAME).collect(), value))
}

#[cfg(test)]
mod tests;
