//! A Job of an AgentDeployment: which attempt is next, and what it waits for. Pure.

use slipway_crds::v1alpha1::agent_deployment::JobAttempt;

use super::{
    parts::{Found, JobChange, Parts, Planned},
    world::World,
};
use crate::{
    artifact_store,
    jobs::{
        attempts::{self, AttemptStep, Attempts, job_name},
        kind::{JobKind, JobRef},
        view::{JobPhase, JobView},
    },
    plan::{AT_ONCE, SOON, UNWATCHED},
    why::Why,
};

/// A Job of this AgentDeployment: its place in the status, and how its next attempt is made.
pub(super) struct JobStep<'a> {
    pub(super) kind: JobKind,
    pub(super) input_hash: &'a str,
    /// Whether only the latest Job of the kind matters.
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

    /// What comes next. A new attempt is recorded before its Job is created.
    pub(super) fn next(&self, world: &World) -> Planned<AttemptStep> {
        let prefix = self.prefix();
        let recorded = self.recorded(world);
        let job = self.latest(world);
        let step = attempts::decide(Attempts {
            kind: self.kind,
            job_prefix: &prefix,
            recorded,
            max_attempts: world.settings.jobs.max_attempts,
            job,
            now: world.now,
        });
        let parts = match &step {
            AttemptStep::Record(attempt) => self.record(*attempt),
            AttemptStep::Wait(Why::JobRetrying { .. }) => Parts::look_within(SOON),
            AttemptStep::Wait(why) if why.is_unwatched() => Parts::look_within(UNWATCHED),
            AttemptStep::Create(_) | AttemptStep::Wait(_) | AttemptStep::Succeeded { .. } | AttemptStep::GivenUp(_) => {
                Parts::default()
            }
        };
        parts.with(step)
    }

    /// An attempt in the status, and nothing else.
    pub(super) fn record(&self, attempt: i32) -> Parts {
        let found = Found { jobs: vec![self.attempted(attempt)], ..Found::default() };
        Parts::of_found(found).and(Parts::look_within(AT_ONCE))
    }

    /// Of most kinds only the latest input matters; several engines are evaluated side by side.
    fn attempted(&self, attempt: i32) -> JobChange {
        let (kind, input_hash) = (self.kind.as_str().to_owned(), self.input_hash.to_owned());
        let attempt = JobAttempt { kind, input_hash, attempt };
        if self.is_single { JobChange::AttemptedAlone(attempt) } else { JobChange::Attempted(attempt) }
    }

    /// The Job of the latest attempt, if it exists.
    pub(super) fn latest<'w>(&self, world: &'w World) -> Option<&'w JobView> {
        world.jobs.get(&self.job_name(self.recorded(world)))
    }

    /// The reason for a wait. An unbound claim is named itself, because the scheduler's message says less.
    pub(super) fn explain(&self, world: &World, why: Why) -> Why {
        match self.latest(world).map(|job| &job.phase) {
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
