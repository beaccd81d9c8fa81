//! What planners return: a value, and with it their part of the plan. Pure.
//!
//! A planner sees the world and what it is given, never what others have contributed. Whoever calls it joins the parts in the order of
//! the calls, which is the order of objects and events.

use std::time::Duration;

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
    plan::{Child, Note, Removal},
    why::{Blocked, Why},
};

/// What a planner contributes to the plan.
#[derive(Debug, Clone, PartialEq, Default)]
#[must_use = "what a planner contributes belongs into the plan"]
pub(super) struct Parts {
    /// Objects that must exist.
    pub(super) children: Vec<Child>,
    /// Objects that must go.
    pub(super) removals: Vec<Removal>,
    /// Events to publish.
    pub(super) notes: Vec<Note>,
    /// When to look again at the latest; absent where that is all the same.
    pub(super) requeue: Option<Duration>,
    /// What was found out on the way to a plan.
    pub(super) found: Found,
}

impl Parts {
    /// Objects that must exist, and nothing else.
    pub(super) fn of_children(children: impl IntoIterator<Item = Child>) -> Self {
        Self { children: children.into_iter().collect(), ..Self::default() }
    }

    /// Objects that must go, and nothing else.
    pub(super) fn of_removals(removals: impl IntoIterator<Item = Removal>) -> Self {
        Self { removals: removals.into_iter().collect(), ..Self::default() }
    }

    /// Events, and nothing else.
    pub(super) fn of_notes(notes: impl IntoIterator<Item = Note>) -> Self {
        Self { notes: notes.into_iter().collect(), ..Self::default() }
    }

    /// A look within a time, and nothing else.
    pub(super) fn look_within(time: Duration) -> Self {
        Self { requeue: Some(time), ..Self::default() }
    }

    /// A part of the status, and nothing else.
    pub(super) fn of_found(found: Found) -> Self {
        Self { found, ..Self::default() }
    }

    /// These parts, and later ones after them.
    pub(super) fn and(mut self, later: Self) -> Self {
        let Self { children, removals, notes, requeue, found } = later;
        self.children.extend(children);
        self.removals.extend(removals);
        self.notes.extend(notes);
        self.requeue = self.requeue.into_iter().chain(requeue).min();
        self.found = self.found.and(found);
        self
    }

    /// Takes later parts over.
    pub(super) fn add(&mut self, later: Self) {
        *self = std::mem::take(self).and(later);
    }

    /// Takes over what a planner contributes, and hands out its value.
    pub(super) fn join<T>(&mut self, planned: Planned<T>) -> T {
        let Planned { value, parts } = planned;
        self.add(parts);
        value
    }

    /// These parts beside a value.
    pub(super) fn with<T>(self, value: T) -> Planned<T> {
        Planned { value, parts: self }
    }
}

/// What a planner came to, and what it contributes.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "what a planner contributes belongs into the plan"]
pub(super) struct Planned<T> {
    /// What it came to.
    pub(super) value: T,
    /// What it contributes.
    pub(super) parts: Parts,
}

impl<T> Planned<T> {
    /// What comes of several planners, one after the other. Parts of those that came before one that is blocked are kept.
    pub(super) fn of(steps: impl FnOnce(&mut Parts) -> T) -> Self {
        let mut parts = Parts::default();
        let value = steps(&mut parts);
        Self { value, parts }
    }
}

/// What a planner on the way to a plan came to.
pub(super) type Planning<T> = Planned<Result<T, Halt>>;

/// What keeps a planner from its value.
#[derive(Debug)]
pub(super) enum Halt {
    /// A step is not done.
    Blocked(Blocked),
    /// What is to be named by its content has no canonical JSON; the types leave no such case.
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

/// What was found out on the way to a plan. What is absent is left in the status as it was.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Found {
    /// What the model's reference stands for.
    pub(super) model: Option<ResolvedModel>,
    /// What the images stand for.
    pub(super) images: Option<Vec<ResolvedImage>>,
    /// The engines under consideration.
    pub(super) engines: Option<Vec<EngineChoice>>,
    /// What becomes of the recorded attempts of Jobs, in turn.
    pub(super) jobs: Vec<JobChange>,
    /// What is recorded of engines, in turn.
    pub(super) facts: Vec<EngineFact>,
    /// What the choice rests on.
    pub(super) basis: Option<Basis>,
    /// The choice.
    pub(super) selected: Option<SelectedConfiguration>,
}

/// What a choice rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Basis {
    /// Nothing is measured.
    Unmeasured,
    /// A campaign, by the name of its Profile.
    Campaign(String),
}

/// What becomes of the recorded attempts of Jobs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JobChange {
    /// An attempt takes the place of the one before with the same input.
    Attempted(JobAttempt),
    /// An attempt takes the place of all others of its kind.
    AttemptedAlone(JobAttempt),
    /// Of a kind, attempts with other inputs are forgotten.
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

impl Found {
    /// What was found out, and what was later: that stands.
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
    use slipway_crds::conditions::Reason;

    use super::*;

    fn attempt(kind: JobKind, input: &str, attempt: i32) -> JobAttempt {
        JobAttempt { kind: kind.as_str().to_owned(), input_hash: input.to_owned(), attempt }
    }

    fn part(line: &str, seconds: u64) -> Parts {
        let found = Found { basis: Some(Basis::Campaign(line.to_owned())), ..Found::default() };
        let note = Parts::of_notes([Note::normal(Reason::Profiling, line)]);
        note.and(Parts::look_within(Duration::from_secs(seconds))).and(Parts::of_found(found))
    }

    #[test]
    fn parts_are_joined_in_order_and_the_soonest_look_counts() {
        let joined = part("first", 5).and(part("second", 60));
        let lines: Vec<&str> = joined.notes.iter().map(|note| note.message.as_str()).collect();
        assert_eq!(lines, ["first", "second"]);
        assert_eq!(joined.requeue, Some(Duration::from_secs(5)));
        assert_eq!(joined.found.basis, Some(Basis::Campaign("second".to_owned())));
    }

    #[test]
    fn how_parts_are_grouped_and_nothing_beside_them_changes_nothing() {
        let [a, b, c] = [part("a", 3), part("b", 2), part("c", 9)];
        assert_eq!(a.clone().and(b.clone()).and(c.clone()), a.clone().and(b.and(c)));
        assert_eq!(Parts::default().and(a.clone()), a);
        assert_eq!(a.clone().and(Parts::default()), a);
    }

    #[test]
    fn what_was_contributed_before_a_planner_is_blocked_is_kept() {
        let why = || Why::RouteUnavailable { problem: "no gateway".to_owned() };
        let planned: Planning<()> = Planned::of(|parts| {
            parts.add(part("before", 5));
            let blocked: Result<(), Blocked> = Err(Blocked::Waiting(why()));
            blocked?;
            parts.add(part("after", 1));
            Ok(())
        });
        assert_eq!(planned.parts, part("before", 5));
        assert!(matches!(planned.value, Err(Halt::Blocked(Blocked::Waiting(found))) if found == why()));
    }

    #[test]
    fn an_attempt_takes_the_place_of_those_that_are_of_interest_no_more() {
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
