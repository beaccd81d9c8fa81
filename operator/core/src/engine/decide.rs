//! What comes next for an Engine. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        EngineSpec, EngineStatus,
        engine::{AttemptFailure, BuildAttempt, EngineArtifact},
    },
};
use slipway_worker_contract::{BuildResult, EngineRef, Outcome, paths};

use super::{
    build, lost, status,
    unused::{self, Use},
};
use crate::{
    jobs::{
        attempts::{self, AttemptStep, Attempts, job_name},
        kind::{JobKind, JobRef},
        view::{JobPhase, JobView},
    },
    plan::{AT_ONCE, Child, Note, Plan, RESYNC, SOON, UNWATCHED},
    settings::Settings,
    why::{Step, Why},
};

/// Steps and tools of a builder that a status tells of.
const MAX_TOLD: usize = 32;
/// Characters of their names.
const MAX_NAME: usize = 63;
/// Characters of a version.
const MAX_VERSION: usize = 256;

/// Everything that was observed of an Engine.
#[derive(Debug, Clone)]
pub struct EngineWorld {
    /// The time of the observation.
    pub now: Timestamp,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// Name of the Engine.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its generation.
    pub generation: i64,
    /// Reference by which it owns its Jobs.
    pub owner: k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    /// What is to be built.
    pub spec: EngineSpec,
    /// What was recorded last.
    pub status: EngineStatus,
    /// Its Jobs, by name.
    pub jobs: BTreeMap<String, JobView>,
    /// Its resource version.
    pub resource_version: String,
    /// Whether anybody names it.
    pub used: Use,
    /// When a pod last missed its artifact in the store; absent where none did.
    pub missed_at: Option<Timestamp>,
    /// When its checkpoint was last fetched; absent where no Job says so.
    pub fetched_at: Option<Timestamp>,
}

/// Decides what comes next.
pub fn decide(world: &EngineWorld) -> Plan<EngineStatus> {
    let mut plan = Plan {
        children: Vec::new(),
        removals: Vec::new(),
        status: world.status.clone(),
        notes: Vec::new(),
        announcements: Vec::new(),
        requeue: RESYNC,
    };
    let step = match lost::record(world, &job_prefix(world), &mut plan) {
        Some(step) => step,
        None if world.status.artifact.is_some() => Step::Done(()),
        None => build_step(world, &mut plan),
    };
    lost::settle(&mut plan.status);
    let step = lost::explain(step, &plan.status);
    status::complete(world, &step, &mut plan.status);
    unused::collect(world, &mut plan);
    plan
}

/// Name of the Jobs of an Engine, without the number of the attempt.
fn job_prefix(world: &EngineWorld) -> String {
    format!("{}-{}", JobKind::Build.as_str(), world.name.trim_start_matches("engine-"))
}

fn build_step(world: &EngineWorld, plan: &mut Plan<EngineStatus>) -> Step<()> {
    let prefix = job_prefix(world);
    let recorded = world.status.attempts.last().map_or(0, |attempt| attempt.number);
    let name = job_name(&prefix, recorded);
    let job = world.jobs.get(&name);
    record_failure(job, &mut plan.status);
    if let Some(step) = lost::checkpoint(world, job, &prefix, plan) {
        return step;
    }
    let attempts_before = world.status.lost.as_ref().map_or(0, |lost| lost.attempts_before);
    let next = attempts::decide(Attempts {
        kind: JobKind::Build,
        job_prefix: &prefix,
        recorded,
        max_attempts: world.settings.jobs.max_attempts.saturating_add(attempts_before),
        job,
        now: world.now,
    });
    match next {
        AttemptStep::Record(attempt) => {
            let job = JobRef { kind: JobKind::Build, name: job_name(&prefix, attempt) };
            lost::push(&mut plan.status, BuildAttempt { number: attempt, job: job.name.clone(), failure: None });
            plan.requeue = AT_ONCE;
            Step::Waiting(Why::JobStarting { job })
        }
        AttemptStep::Create(_) => match build::build_job(world, &name) {
            Ok((task, job)) => {
                plan.children.push(Child::ConfigMap(Box::new(task)));
                plan.children.push(Child::Job(Box::new(job)));
                Step::Waiting(Why::JobStarting { job: JobRef { kind: JobKind::Build, name } })
            }
            Err(problem) => Step::Stopped(Why::EngineUnbuildable { problem: problem.to_string() }),
        },
        AttemptStep::Wait(why) => {
            match &why {
                Why::JobRetrying { .. } => plan.requeue = SOON,
                why if why.is_unwatched() => plan.requeue = UNWATCHED,
                _ => {}
            }
            Step::Waiting(why)
        }
        AttemptStep::GivenUp(why) => {
            if !is_stalled_already(world) {
                plan.notes.push(Note::warning(Reason::EngineFailed, why.to_string()));
            }
            Step::Stopped(why)
        }
        AttemptStep::Succeeded { outcome, milliseconds } => match *outcome {
            Outcome::Build(result) => {
                record_artifact(world, &result, milliseconds, plan);
                Step::Done(())
            }
            Outcome::Resolve(_)
            | Outcome::Fetch(_)
            | Outcome::Quality(_)
            | Outcome::Materialize(_)
            | Outcome::Profile(_) => {
                let worker = &world.settings.images.worker;
                let failure =
                    format!("it reported the result of another task: is {worker} the worker of this release?");
                Step::Stopped(Why::JobFailed {
                    job: JobRef { kind: JobKind::Build, name },
                    class: "ImageMismatch",
                    failure,
                })
            }
        },
    }
}

fn is_stalled_already(world: &EngineWorld) -> bool {
    world.status.conditions.iter().any(|c| c.type_ == "Stalled" && c.status == "True")
}

/// Writes the failure of the latest attempt beside it; an attempt that is made once more loses its old failure.
fn record_failure(job: Option<&JobView>, status: &mut EngineStatus) {
    let Some(latest) = status.attempts.last_mut() else { return };
    latest.failure = match job.map(|job| &job.phase) {
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
}

fn record_artifact(world: &EngineWorld, result: &BuildResult, milliseconds: i64, plan: &mut Plan<EngineStatus>) {
    let reference = EngineRef { identity: world.name.clone(), manifest_digest: result.manifest_digest.clone() };
    let size_bytes = i64::try_from(result.bytes).unwrap_or(i64::MAX);
    plan.notes.push(Note::normal(
        Reason::EngineBuilt,
        format!(
            "{} {}: {:.1} MB in {:.1} s, manifest {}",
            world.name,
            world.spec.build.precision.as_str(),
            size_bytes as f64 / 1e6,
            milliseconds as f64 / 1e3,
            &result.manifest_digest.as_str()[..12]
        ),
    ));
    plan.status.artifact = Some(EngineArtifact {
        manifest_digest: result.manifest_digest.to_string(),
        location: paths::engine(&reference),
        size_bytes,
        recorded_at: Some(Time(world.now)),
        build_milliseconds: milliseconds,
        step_milliseconds: bounded(&result.durations_millis)
            .map(|(step, taken)| (step, i64::try_from(*taken).unwrap_or(i64::MAX)))
            .collect(),
        versions: bounded(&result.versions)
            .map(|(tool, version)| (tool, version.chars().take(MAX_VERSION).collect()))
            .collect(),
    });
}

/// What a builder may tell of: its words have no other bound.
fn bounded<T>(by_name: &BTreeMap<String, T>) -> impl Iterator<Item = (String, &T)> {
    by_name.iter().take(MAX_TOLD).map(|(name, value)| (name.chars().take(MAX_NAME).collect(), value))
}

#[cfg(test)]
mod tests;
