//! An artifact or a checkpoint that the store lost: who misses it, and how it comes back. Pure.
//!
//! Nobody looks into the store without need. A pod that is to serve or measure an engine says when it is not there, and a build says
//! so of its checkpoint. The engine is then built again, and waits until the checkpoint has been fetched again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ContainerStateTerminated, Pod},
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

use super::decide::EngineWorld;
use crate::{
    jobs::{
        attempts::job_name,
        kind::{JobKind, JobRef},
        view::{JobPhase, JobView},
    },
    plan::{AT_ONCE, Note, Plan, UNWATCHED},
    why::{Step, Why},
};

/// Attempts that a status tells of.
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
        let arguments = container.args.as_deref().unwrap_or_default();
        let (verb, options) = arguments.split_first()?;
        let option = |name: &str| options.iter().find_map(|option| option.strip_prefix(name)).map(str::to_owned);
        let (engine, manifest_digest) = (option("--identity=")?, option("--manifest-digest=")?);
        let ended = (verb == "materialize").then(|| ended(pod, &container.name)).flatten()?;
        let message = Message::parse(ended.message.as_deref().unwrap_or_default()).ok()?;
        let is_missing = matches!(message, Message::Failed { class: FailureClass::MissingArtifact, .. });
        is_missing.then_some(Missed { engine, manifest_digest, at: ended.finished_at.as_ref()?.0 })
    })
}

/// How a container of a pod ended last.
fn ended<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStateTerminated> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_deref().unwrap_or_default();
    let status = statuses.iter().find(|status| status.name == container)?;
    let now = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    now.or_else(|| status.last_state.as_ref().and_then(|state| state.terminated.as_ref()))
}

/// When a pod last missed the artifact that an Engine's status has. What a pod missed before that was recorded says nothing of it.
pub fn missed_at(pods: &[Pod], engine: &str, status: &EngineStatus) -> Option<Timestamp> {
    let artifact = status.artifact.as_ref()?;
    let is_of_it = |missed: &Missed| {
        missed.engine == engine
            && missed.manifest_digest == artifact.manifest_digest
            && artifact.recorded_at.as_ref().is_none_or(|recorded| missed.at > recorded.0)
    };
    pods.iter().filter_map(missed).filter(is_of_it).map(|missed| missed.at).max()
}

/// When a checkpoint was last fetched, as the Jobs of the namespace say.
pub fn fetched_at(jobs: &BTreeMap<String, JobView>, source_digest: &str) -> Option<Timestamp> {
    let is_of_it = |job: &&JobView| {
        let JobPhase::Succeeded { outcome, .. } = &job.phase else { return false };
        matches!(outcome.as_ref(), Outcome::Fetch(result) if result.source_digest.as_str() == source_digest)
    };
    jobs.values().filter(is_of_it).filter_map(|job| job.ended_at).max()
}

/// Records that the artifact is lost, and the next attempt to build it.
pub(super) fn record(world: &EngineWorld, prefix: &str, plan: &mut Plan<EngineStatus>) -> Option<Step<()>> {
    let at = world.missed_at?;
    let artifact = plan.status.artifact.take()?;
    let manifest_digest = artifact.manifest_digest;
    let attempts_before = world.status.attempts.last().map_or(0, |attempt| attempt.number);
    let short: String = manifest_digest.chars().take(12).collect();
    let line = format!("the store has lost manifest {short} of {}: it is built again", world.name);
    plan.notes.push(Note::warning(Reason::ArtifactLost, line));
    plan.status.lost = Some(LostArtifact { manifest_digest, at: Time(at), attempts_before });
    Some(Step::Waiting(Why::JobStarting { job: attempt_again(prefix, attempts_before, plan) }))
}

/// What an attempt waits for whose checkpoint is not in the store; nothing of another attempt.
pub(super) fn checkpoint(
    world: &EngineWorld,
    job: Option<&JobView>,
    prefix: &str,
    plan: &mut Plan<EngineStatus>,
) -> Option<Step<()>> {
    let JobPhase::Failed { class: FailureClass::MissingArtifact, failure, finished_at } = &job?.phase else {
        return None;
    };
    let number = world.status.attempts.last().map_or(0, |attempt| attempt.number);
    if world.fetched_at > *finished_at {
        return Some(Step::Waiting(Why::JobStarting { job: attempt_again(prefix, number, plan) }));
    }
    plan.requeue = UNWATCHED;
    let job = JobRef { kind: JobKind::Build, name: job_name(prefix, number) };
    Some(Step::Waiting(Why::CheckpointMissing { job, failure: failure.clone() }))
}

fn attempt_again(prefix: &str, before: i32, plan: &mut Plan<EngineStatus>) -> JobRef {
    let job = JobRef { kind: JobKind::Build, name: job_name(prefix, before + 1) };
    push(&mut plan.status, BuildAttempt { number: before + 1, job: job.name.clone(), failure: None });
    plan.requeue = AT_ONCE;
    job
}

/// Adds an attempt; of too many, the first are forgotten.
pub(super) fn push(status: &mut EngineStatus, attempt: BuildAttempt) {
    status.attempts.push(attempt);
    status.attempts.drain(..status.attempts.len().saturating_sub(MAX_ATTEMPTS));
}

/// Forgets the loss once the very artifact is there again: plans name it by its digest.
pub(super) fn settle(status: &mut EngineStatus) {
    let is_back = |lost: &LostArtifact| {
        status.artifact.as_ref().is_some_and(|artifact| artifact.manifest_digest == lost.manifest_digest)
    };
    if status.lost.as_ref().is_some_and(is_back) {
        status.lost = None;
    }
}

/// What an engine waits for while it is built again.
pub(super) fn explain(step: Step<()>, status: &EngineStatus) -> Step<()> {
    match (step, &status.lost) {
        (Step::Waiting(why), Some(lost)) if status.artifact.is_none() => {
            let manifest = lost.manifest_digest.chars().take(12).collect();
            Step::Waiting(Why::BuildingAgain { manifest, state: why.to_string() })
        }
        (step, _) => step,
    }
}

#[cfg(test)]
mod tests;
