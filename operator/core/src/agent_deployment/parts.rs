//! What planners of AgentDeployments return: a value, and with it their part of the plan. Pure.

use slipway_crds::{
    identity::IdentityError,
    v1alpha1::{
        AgentDeploymentStatus,
        agent_deployment::{EngineChoice, JobAttempt, ResolvedImage, ResolvedModel, SelectedConfiguration},
    },
};

use super::facts::EngineFact;
use crate::{
    jobs::kind::JobKind,
    parts::{self, Findings},
    why::{Blocked, Why},
};

/// What a planner contributes to the plan.
pub(super) type Parts = parts::Parts<Found>;

/// A planner's value, and what it contributes.
pub(super) type Planned<T> = parts::Planned<T, Found>;

/// The outcome of a planner that may be halted.
pub(super) type Planning<T> = Planned<Result<T, Halt>>;

/// Why a planner has no value.
#[derive(Debug)]
pub(super) enum Halt {
    /// A step is not done.
    Blocked(Blocked),
    /// An object that its content names has no canonical JSON; the types leave no such case.
    NoIdentity(IdentityError),
}

impl Halt {
    /// The step goes on by itself.
    pub(super) fn waiting(why: Why) -> Self {
        Self::Blocked(Blocked::Waiting(why))
    }

    /// The step has stopped, and only a person can help.
    pub(super) fn stopped(why: Why) -> Self {
        Self::Blocked(Blocked::Stopped(why))
    }
}

impl From<Blocked> for Halt {
    fn from(blocked: Blocked) -> Self {
        Self::Blocked(blocked)
    }
}

impl From<IdentityError> for Halt {
    fn from(error: IdentityError) -> Self {
        Self::NoIdentity(error)
    }
}

/// What was found out for the status. Absent parts of the status stay as they were.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Found {
    /// The resolved model.
    pub(super) model: Option<ResolvedModel>,
    /// The resolved images.
    pub(super) images: Option<Vec<ResolvedImage>>,
    /// The engines under consideration.
    pub(super) engines: Option<Vec<EngineChoice>>,
    /// Changes of the recorded attempts of Jobs, in order.
    pub(super) jobs: Vec<JobChange>,
    /// Changes of the recorded facts of engines, in order.
    pub(super) facts: Vec<EngineFact>,
    /// The basis of the choice.
    pub(super) basis: Option<Basis>,
    /// The choice.
    pub(super) selected: Option<SelectedConfiguration>,
}

/// The basis of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Basis {
    /// Nothing is measured.
    Unmeasured,
    /// A campaign, by the name of its Profile.
    Campaign(String),
}

/// A change of the recorded attempts of Jobs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JobChange {
    /// An attempt replaces the previous one with the same input.
    Attempted(JobAttempt),
    /// An attempt replaces all others of its kind.
    AttemptedAlone(JobAttempt),
    /// Attempts of a kind are forgotten unless they have one of these inputs.
    ForgotBut(JobKind, Vec<String>),
}

impl JobChange {
    fn of(self, mut jobs: Vec<JobAttempt>) -> Vec<JobAttempt> {
        match self {
            Self::Attempted(attempt) => {
                jobs.retain(|job| job.kind != attempt.kind || job.input_hash != attempt.input_hash);
                jobs.push(attempt);
            }
            Self::AttemptedAlone(attempt) => {
                jobs.retain(|job| job.kind != attempt.kind);
                jobs.push(attempt);
            }
            Self::ForgotBut(kind, inputs) => {
                jobs.retain(|job| job.kind != kind.as_str() || inputs.contains(&job.input_hash));
            }
        }
        jobs
    }
}

impl Findings for Found {
    fn and(self, later: Self) -> Self {
        let Self { model, images, engines, jobs, facts, basis, selected } = later;
        Self {
            model: model.or(self.model),
            images: images.or(self.images),
            engines: engines.or(self.engines),
            jobs: self.jobs.into_iter().chain(jobs).collect(),
            facts: self.facts.into_iter().chain(facts).collect(),
            basis: basis.or(self.basis),
            selected: selected.or(self.selected),
        }
    }
}

impl Found {
    /// The status with what was found out.
    pub(super) fn into_status(self, before: AgentDeploymentStatus) -> AgentDeploymentStatus {
        let Self { model, images, engines, jobs, facts, basis, selected } = self;
        AgentDeploymentStatus {
            model: model.or(before.model),
            images: images.unwrap_or(before.images),
            engines: engines.unwrap_or(before.engines),
            jobs: jobs.into_iter().fold(before.jobs, |jobs, change| change.of(jobs)),
            told: facts.into_iter().fold(before.told, |told, fact| fact.of(told)),
            profile: match basis {
                None => before.profile,
                Some(Basis::Unmeasured) => None,
                Some(Basis::Campaign(name)) => Some(name),
            },
            selected: selected.or(before.selected),
            ..before
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn attempt(kind: JobKind, input: &str, attempt: i32) -> JobAttempt {
        JobAttempt { kind: kind.as_str().to_owned(), input_hash: input.to_owned(), attempt }
    }

    #[test]
    fn an_attempt_replaces_those_that_no_longer_matter() {
        let before = vec![attempt(JobKind::Fetch, "a", 1), attempt(JobKind::Quality, "a", 1)];
        let changes = [
            JobChange::AttemptedAlone(attempt(JobKind::Fetch, "b", 1)),
            JobChange::Attempted(attempt(JobKind::Quality, "b", 1)),
            JobChange::Attempted(attempt(JobKind::Quality, "b", 2)),
            JobChange::ForgotBut(JobKind::Quality, vec!["b".to_owned()]),
        ];
        let after = changes.into_iter().fold(before, |jobs, change| change.of(jobs));
        assert_eq!(after, [attempt(JobKind::Fetch, "b", 1), attempt(JobKind::Quality, "b", 2)]);
    }
}
