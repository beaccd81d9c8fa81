//! What receivers can be told. Plain data: planners make it; the shell delivers it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Events of an AgentDeployment that people may want to be notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Happening {
    /// A changed plan is being brought up.
    RolloutOpened,
    /// A plan took over.
    RolloutPromoted,
    /// A plan did harm and lost its traffic.
    RolledBack,
    /// A plan that had been rolled back was applied again, and is not tried.
    PlanRejected,
    /// A rollout's longest soak has passed without a verdict, and a person must decide.
    VerdictUnreachable,
    /// No configuration meets the objectives.
    ObjectivesInfeasible,
    /// The campaign of measurements could not be carried out.
    ProfilingFailed,
    /// A new choice waits for a person to approve of it.
    ApprovalRequested,
    /// An engine answers worse than `spec.slo.quality` allows.
    EngineRefused,
    /// Traffic misses an objective.
    ObjectiveMissed,
    /// Traffic meets an objective that it missed.
    ObjectiveMet,
    /// What users ask has changed since the first day of the plan that serves.
    WorkloadDrift,
    /// The same is served worse than on the first day of the plan that serves.
    BehaviorDrift,
    /// Neither is so any more.
    DriftEnded,
    /// Work has stopped for another reason, and only a person can help.
    Stalled,
    /// What had stopped goes on.
    Recovered,
}

/// What a happening does to an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It begins one, or is another reason for one that is open.
    Opens,
    /// It ends one.
    Closes,
    /// There is nothing that would end it: it is news.
    Tells,
}

impl Happening {
    /// Every happening.
    pub const ALL: [Self; 16] = [
        Self::RolloutOpened,
        Self::RolloutPromoted,
        Self::RolledBack,
        Self::PlanRejected,
        Self::VerdictUnreachable,
        Self::ObjectivesInfeasible,
        Self::ProfilingFailed,
        Self::ApprovalRequested,
        Self::EngineRefused,
        Self::ObjectiveMissed,
        Self::ObjectiveMet,
        Self::WorkloadDrift,
        Self::BehaviorDrift,
        Self::DriftEnded,
        Self::Stalled,
        Self::Recovered,
    ];

    /// The name in configuration and payloads.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RolloutOpened => "RolloutOpened",
            Self::RolloutPromoted => "RolloutPromoted",
            Self::RolledBack => "RolledBack",
            Self::PlanRejected => "PlanRejected",
            Self::VerdictUnreachable => "VerdictUnreachable",
            Self::ObjectivesInfeasible => "ObjectivesInfeasible",
            Self::ProfilingFailed => "ProfilingFailed",
            Self::ApprovalRequested => "ApprovalRequested",
            Self::EngineRefused => "EngineRefused",
            Self::ObjectiveMissed => "ObjectiveMissed",
            Self::ObjectiveMet => "ObjectiveMet",
            Self::WorkloadDrift => "WorkloadDrift",
            Self::BehaviorDrift => "BehaviorDrift",
            Self::DriftEnded => "DriftEnded",
            Self::Stalled => "Stalled",
            Self::Recovered => "Recovered",
        }
    }

    /// The same for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::RolloutOpened => "rollout opened",
            Self::RolloutPromoted => "new plan serves",
            Self::RolledBack => "rolled back",
            Self::PlanRejected => "rejected plan applied again",
            Self::VerdictUnreachable => "rollout without verdict",
            Self::ObjectivesInfeasible => "no configuration meets the objectives",
            Self::ProfilingFailed => "profiling failed",
            Self::ApprovalRequested => "new choice waits for approval",
            Self::EngineRefused => "engine refused",
            Self::ObjectiveMissed => "objective missed",
            Self::ObjectiveMet => "objective met again",
            Self::WorkloadDrift => "workload has changed",
            Self::BehaviorDrift => "behavior has worsened",
            Self::DriftEnded => "drift has ended",
            Self::Stalled => "stalled",
            Self::Recovered => "recovered",
        }
    }

    /// What it does to an incident.
    pub const fn role(self) -> Role {
        match self {
            Self::RolledBack
            | Self::PlanRejected
            | Self::VerdictUnreachable
            | Self::ObjectivesInfeasible
            | Self::ProfilingFailed
            | Self::ObjectiveMissed
            | Self::WorkloadDrift
            | Self::BehaviorDrift
            | Self::Stalled => Role::Opens,
            Self::ObjectiveMet | Self::DriftEnded | Self::Recovered => Role::Closes,
            Self::RolloutOpened | Self::RolloutPromoted | Self::ApprovalRequested | Self::EngineRefused => Role::Tells,
        }
    }
}

/// How much a happening matters: PagerDuty's four words, which other tools know too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nobody serves.
    Critical,
    /// Users suffer, or work has stopped.
    Error,
    /// Someone should look; users are served.
    Warning,
    /// Things go as they should.
    Info,
}

impl Severity {
    /// Every severity.
    pub const ALL: [Self; 4] = [Self::Critical, Self::Error, Self::Warning, Self::Info];

    /// The name in payloads.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// What a happening is about, within its AgentDeployment. Happenings of one topic are told in their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// A rollout, by the hash of its plan.
    Rollout(String),
    /// Display name of an engine.
    Engine(String),
    /// An objective, by name.
    Objective(String),
    /// Whether what serves, or what users ask, is as on the first day.
    Drift,
    /// Whatever keeps the AgentDeployment from going on: one thing at a time.
    Problem,
}

impl Topic {
    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn read(text: &str) -> Option<Self> {
        Some(match text.split_once('/') {
            Some(("rollout", plan)) => Self::Rollout(plan.to_owned()),
            Some(("engine", name)) => Self::Engine(name.to_owned()),
            Some(("objective", name)) => Self::Objective(name.to_owned()),
            None if text == "drift" => Self::Drift,
            None if text == "problem" => Self::Problem,
            Some(_) | None => return None,
        })
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rollout(plan) => write!(f, "rollout/{plan}"),
            Self::Engine(name) => write!(f, "engine/{name}"),
            Self::Objective(name) => write!(f, "objective/{name}"),
            Self::Drift => f.write_str("drift"),
            Self::Problem => f.write_str("problem"),
        }
    }
}

/// The AgentDeployment that something happened to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: another object of the same name is another subject.
    pub uid: String,
}

/// An event, for the receivers that `spec.alerts` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// To whom.
    pub subject: Subject,
    /// What it is about.
    pub topic: Topic,
    /// What happened.
    pub happening: Happening,
    /// What makes it the same happening as before: reason, plan and generation.
    pub fingerprint: String,
    /// How much it matters.
    pub severity: Severity,
    /// In words, with numbers: what condition or event say.
    pub message: String,
    /// Generation of the spec.
    pub generation: i64,
    /// Hash of the plan that it is about, where it is about one.
    pub plan: Option<String>,
    /// When it was decided.
    pub at: Timestamp,
    /// Names of the receivers.
    pub receivers: Vec<String>,
}

impl Announcement {
    /// The same for every attempt, and for no other announcement: receivers take an event once by it.
    pub fn id(&self) -> String {
        let Self { subject, topic, happening, fingerprint, at, .. } = self;
        let text = format!("{}/{topic}/{}/{fingerprint}/{at}", subject.uid, happening.as_str());
        let digest = Sha256::digest(text.as_bytes());
        let digits: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("msg_{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_happening_is_written_in_configuration_by_its_name() {
        for happening in Happening::ALL {
            let read: Happening = serde_norway::from_str(happening.as_str()).expect("a name of a happening");
            assert_eq!(read, happening);
        }
    }

    #[test]
    fn whatever_opens_an_incident_has_something_that_closes_it() {
        let closing: Vec<_> = Happening::ALL.into_iter().filter(|h| h.role() == Role::Closes).collect();
        let expected = [Happening::ObjectiveMet, Happening::DriftEnded, Happening::Recovered];
        assert_eq!(closing, expected, "one for objectives, one for drift, one for problems");
    }
}
