//! A Job of an AgentDeployment: which attempt is next, and what it waits for. Pure.

use slipway_crds::v1alpha1::agent_deployment::JobAttempt;

use super::{draft::Draft, world::World};
use crate::{
    artifact_store,
    jobs::{
        attempts::{self, AttemptStep, Attempts, job_name},
        kind::{JobKind, JobRef},
        view::JobPhase,
    },
    plan::{AT_ONCE, SOON, UNWATCHED},
    why::Why,
};

/// A Job of this AgentDeployment: its place in the status, and how its next attempt is made.
pub(super) struct JobStep<'a> {
    pub(super) kind: JobKind,
    pub(super) input_hash: &'a str,
    /// Whether only one Job of the kind is of interest at a time.
    pub(super) is_single: bool,
}

impl JobStep<'_> {
    pub(super) fn prefix(&self) -> String {
        format!("{}-{}", self.kind.as_str(), self.input_hash)
    }

    pub(super) fn recorded(&self, world: &World) -> i32 {
        let same = |job: &&JobAttempt| job.kind == self.kind.as_str() && job.input_hash == self.input_hash;
        world.status.jobs.iter().find(same).map_or(0, |job| job.attempt)
    }

    /// Asks what comes next, and writes a new attempt into the status.
    pub(super) fn next(&self, world: &World, draft: &mut Draft) -> AttemptStep {
        let prefix = self.prefix();
        let recorded = self.recorded(world);
        let job = world.jobs.get(&job_name(&prefix, recorded));
        let step = attempts::decide(Attempts {
            kind: self.kind,
            job_prefix: &prefix,
            recorded,
            max_attempts: world.settings.jobs.max_attempts,
            job,
            now: world.now,
        });
        match &step {
            AttemptStep::Record(attempt) => self.record(*attempt, draft),
            AttemptStep::Wait(Why::JobRetrying { .. }) => draft.requeue = SOON,
            AttemptStep::Wait(why) if why.is_unwatched() => draft.requeue = draft.requeue.min(UNWATCHED),
            AttemptStep::Create(_) | AttemptStep::Wait(_) | AttemptStep::Succeeded { .. } | AttemptStep::GivenUp(_) => {
            }
        }
        step
    }

    /// Writes an attempt into the status, and nothing else.
    pub(super) fn record(&self, attempt: i32, draft: &mut Draft) {
        // Of most kinds only the latest input is of interest; several engines are evaluated side by side.
        let is_superseded =
            |job: &JobAttempt| job.kind == self.kind.as_str() && (self.is_single || job.input_hash == self.input_hash);
        draft.status.jobs.retain(|job| !is_superseded(job));
        draft.status.jobs.push(JobAttempt {
            kind: self.kind.as_str().to_owned(),
            input_hash: self.input_hash.to_owned(),
            attempt,
        });
        draft.requeue = AT_ONCE;
    }

    /// What a wait is for: a claim that nothing binds is worth more words than the scheduler has.
    pub(super) fn explain(&self, world: &World, why: Why) -> Why {
        let prefix = self.prefix();
        let phase = world.jobs.get(&job_name(&prefix, self.recorded(world))).map(|job| &job.phase);
        match phase {
            Some(JobPhase::Unscheduled { lacks_claim: true, .. }) if world.store_bound != Some(true) => {
                Why::StoreUnbound {
                    claim: artifact_store::CLAIM.to_owned(),
                    storage_class: world.settings.store.storage_class_name.clone(),
                }
            }
            _ => why,
        }
    }

    /// The Job of an attempt.
    pub(super) fn job(&self, attempt: i32) -> JobRef {
        JobRef { kind: self.kind, name: self.job_name(attempt) }
    }

    /// The name of the Job of an attempt.
    pub(super) fn job_name(&self, attempt: i32) -> String {
        job_name(&self.prefix(), attempt)
    }
}
