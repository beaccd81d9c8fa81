//! An artifact or a checkpoint that the store lost: who misses it, and how it comes back. Pure.
//!
//! Nobody looks into the store without need. A pod that is to serve or measure an engine says when it is not there, and
//! a build says so of its checkpoint. The engine is then built again, and waits until the checkpoint has been fetched
//! again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, ContainerStateTerminated, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        EngineStatus,
        engine::{BuildAttempt, LostArtifact},
    },
};
use slipway_worker_contract::{FailureClass, Message, Outcome};

use super::world::EngineWorld;
use crate::{
    jobs::{
        attempts::job_name,
        kind::{JobKind, JobRef},
        view::{JobPhase, JobView},
    },
    plan::{AT_ONCE, Note, Plan, UNWATCHED},
    why::{Blocked, Step, Why},
};

/// Attempts that a status has, at most.
const MAX_ATTEMPTS: usize = 16;

/// What a pod missed in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// Name of the Engine.
    pub engine: String,
    /// Digest of the artifact's manifest.
    pub manifest_digest: String,
    /// When.
    pub at: Timestamp,
}

/// What a pod missed, if its `materialize` ended for that.
pub fn missed(pod: &Pod) -> Option<Missed> {
    let containers = pod.spec.as_ref()?.init_containers.iter().flatten();
    containers.into_iter().find_map(|container| {
        let (engine, manifest_digest) = materialized(container)?;
        let ended = ended(pod, &container.name)?;
        let message = Message::parse(ended.message.as_deref().unwrap_or_default()).ok()?;
        let is_missing = matches!(message, Message::Failed { class: FailureClass::MissingArtifact, .. });
        is_missing.then_some(Missed { engine, manifest_digest, at: ended.finished_at.as_ref()?.0 })
    })
}

/// The Engine, and the digest of its artifact's manifest, that a container copies from the store; nothing of others.
pub fn materialized(container: &Container) -> Option<(String, String)> {
    let (verb, options) = container.args.as_deref()?.split_first()?;
    let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name)).map(str::to_owned);
    (verb == "materialize").then(|| Some((option("--identity=")?, option("--manifest-digest=")?))).flatten()
}

/// How a container of a pod ended last.
fn ended<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStateTerminated> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_deref().unwrap_or_default();
    let status = statuses.iter().find(|status| status.name == container)?;
    let now = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    now.or_else(|| status.last_state.as_ref().and_then(|state| state.terminated.as_ref()))
}

/// When a pod last missed the artifact that an Engine's status has. What a pod missed before that was recorded says
/// nothing of it.
pub fn missed_at(missed: &[Missed], engine: &str, status: &EngineStatus) -> Option<Timestamp> {
    let artifact = status.artifact.as_ref()?;
    let is_of_it = |missed: &Missed| {
        missed.engine == engine
            && missed.manifest_digest == artifact.manifest_digest
            && artifact.recorded_at.as_ref().is_none_or(|recorded| missed.at > recorded.0)
    };
    missed.iter().filter(|missed| is_of_it(missed)).map(|missed| missed.at).max()
}

/// When a checkpoint was last fetched, as the Jobs of the namespace say.
pub fn fetched_at(jobs: &BTreeMap<String, JobView>, source_digest: &str) -> Option<Timestamp> {
    let is_of_it = |job: &&JobView| {
        let JobPhase::Succeeded { outcome, .. } = &job.phase else { return false };
        matches!(outcome.as_ref(), Outcome::Fetch(result) if result.source_digest.as_str() == source_digest)
    };
    jobs.values().filter(is_of_it).filter_map(|job| job.ended_at).max()
}

/// The next attempt to build an artifact that a pod missed; nothing where none did.
pub(super) fn artifact(world: &EngineWorld, prefix: &str) -> Option<(Plan<EngineStatus>, Step<()>)> {
    let at = Time(world.missed_at?);
    let manifest_digest = world.status.artifact.as_ref()?.manifest_digest.clone();
    let attempts_before = world.status.attempts.last().map_or(0, |attempt| attempt.number);
    let line = format!("the store has lost artifact {} of {}: it is built again", short(&manifest_digest), world.name);
    let lost = Some(LostArtifact { manifest_digest, at, attempts_before });
    let status = EngineStatus { artifact: None, lost, ..world.status.clone() };
    let (plan, step) = attempt_again(prefix, attempts_before, status);
    Some((Plan { notes: vec![Note::warning(Reason::ArtifactLost, line)], ..plan }, step))
}

/// What an attempt waits for whose checkpoint is not in the store; nothing of another attempt.
pub(super) fn checkpoint(
    world: &EngineWorld,
    job: Option<&JobView>,
    prefix: &str,
    status: &EngineStatus,
) -> Option<(Plan<EngineStatus>, Step<()>)> {
    let JobPhase::Failed { class: FailureClass::MissingArtifact, failure, finished_at } = &job?.phase else {
        return None;
    };
    let number = world.status.attempts.last().map_or(0, |attempt| attempt.number);
    if world.fetched_at > *finished_at {
        return Some(attempt_again(prefix, number, status.clone()));
    }
    let job = JobRef { kind: JobKind::Build, name: job_name(prefix, number) };
    let why = Why::CheckpointMissing { job, failure: failure.clone() };
    let plan = Plan { requeue: UNWATCHED, ..Plan::keeping(status.clone()) };
    Some((plan, Err(Blocked::Waiting(why))))
}

fn attempt_again(prefix: &str, before: i32, status: EngineStatus) -> (Plan<EngineStatus>, Step<()>) {
    let job = JobRef { kind: JobKind::Build, name: job_name(prefix, before + 1) };
    let status = with_attempt(before + 1, &job.name, status);
    let plan = Plan { requeue: AT_ONCE, ..Plan::keeping(status) };
    (plan, Err(Blocked::Waiting(Why::JobStarting { job })))
}

/// The status with one more attempt; of too many, the first are forgotten.
pub(super) fn with_attempt(number: i32, job: &str, mut status: EngineStatus) -> EngineStatus {
    status.attempts.push(BuildAttempt { number, job: job.to_owned(), failure: None });
    status.attempts.drain(..status.attempts.len().saturating_sub(MAX_ATTEMPTS));
    status
}

/// The status without a loss once the very artifact is there again: plans name it by its digest.
pub(super) fn settled(status: EngineStatus) -> EngineStatus {
    let built = status.artifact.as_ref().map(|artifact| artifact.manifest_digest.clone());
    let lost = status.lost.filter(|lost| built.as_ref() != Some(&lost.manifest_digest));
    EngineStatus { lost, ..status }
}

/// What an engine waits for while it is built again.
pub(super) fn explained(step: Step<()>, status: &EngineStatus) -> Step<()> {
    match (step, &status.lost) {
        (Err(Blocked::Waiting(why)), Some(lost)) if status.artifact.is_none() => {
            let (manifest, state) = (short(&lost.manifest_digest), why.to_string());
            Err(Blocked::Waiting(Why::BuildingAgain { manifest, state }))
        }
        (step, _) => step,
    }
}

/// First digits of a digest, for people.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

#[cfg(test)]
mod tests;
