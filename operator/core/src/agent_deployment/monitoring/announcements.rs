//! The notifications of a decision: facts that hold now and did not hold before. Pure.
//!
//! Whether something is announced, and about what, follows from typed facts. The message is for people only. An
//! operator that takes over reads the same status, so that two operators do not announce the same fact.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeploymentStatus,
        agent_deployment::{DriftStatus, DriftVerdict, ObjectiveStatus},
    },
};

use super::undelivered;
use crate::{
    agent_deployment::{facts, outcome::Outcome, world::World},
    notifications::events::{Announcement, Happening, Role, Severity, Topic},
    plan::{About, Note},
    why::{Blocked, Why},
};

/// New announcements for the receivers of `spec.alerts` that the operator knows.
pub(in crate::agent_deployment) fn announce(
    world: &World,
    outcome: &Outcome,
    status: &AgentDeploymentStatus,
    notes: &[Note],
) -> Vec<Announcement> {
    let known = |name: &&String| world.settings.notifications.knows(name, &world.namespace);
    let receivers: Vec<String> = world.spec.alerts.receivers.iter().filter(known).cloned().collect();
    if receivers.is_empty() {
        return Vec::new();
    }
    let announcer = Announcer { world, outcome, status, receivers };
    let mut announcements: Vec<Announcement> = notes.iter().filter_map(|note| announcer.news(note)).collect();
    announcements.extend(announcer.problem());
    announcements.extend(announcer.objectives());
    announcements.extend(announcer.drift());
    announcements
}

struct Announcer<'a> {
    world: &'a World,
    outcome: &'a Outcome,
    status: &'a AgentDeploymentStatus,
    receivers: Vec<String>,
}

/// What an announcement says beside the facts that all share.
struct Content {
    topic: Topic,
    happening: Happening,
    fingerprint: String,
    message: String,
    plan: Option<String>,
}

impl Announcer<'_> {
    /// Notes that are announced to receivers too.
    fn news(&self, note: &Note) -> Option<Announcement> {
        let (happening, topic, plan) = match (note.reason, &note.about) {
            (Reason::EngineRefused, About::Engine(name)) => {
                (Happening::EngineRefused, Topic::Engine(name.clone()), self.plan())
            }
            (reason, About::Plan(plan)) => (of_rollout(reason)?, Topic::Rollout(plan.clone()), Some(plan.clone())),
            (_, About::Nothing | About::Engine(_)) => return None,
        };
        let fingerprint = format!("{}/{}", self.world.generation, plan.as_deref().unwrap_or_default());
        Some(self.announcement(Content { topic, happening, fingerprint, message: note.message.clone(), plan }))
    }

    /// The problem that blocks the AgentDeployment, if it is a new one; or its end.
    fn problem(&self) -> Option<Announcement> {
        let before = facts::known_problem(&self.world.status);
        let (happening, fingerprint, message) = match (before, facts::problem(&self.status.told)) {
            (Some(before), Some((_, now))) if before.is(now) => return None,
            (_, Some((condition, now))) => (self.happening(&now.reason), facts::code(now), self.message_of(condition)),
            (Some(before), None) => (Happening::Recovered, before.code(), self.state()),
            (None, None) => return None,
        };
        let plan = self.rejected_plan().or_else(|| self.plan());
        Some(self.announcement(Content { topic: Topic::Problem, happening, fingerprint, message, plan }))
    }

    /// The kind of event for a problem with this reason.
    fn happening(&self, reason: &str) -> Happening {
        let named = [
            (Reason::RolledBack, Happening::PlanRejected),
            (Reason::NoFeasibleConfiguration, Happening::ObjectivesInfeasible),
            (Reason::ProfilingFailed, Happening::ProfilingFailed),
            (Reason::VerdictUnreachable, Happening::VerdictUnreachable),
        ];
        let found = named.iter().find(|(named, _)| named.as_str() == reason);
        match found.map_or(Happening::Stalled, |(_, happening)| *happening) {
            Happening::PlanRejected if self.has_new_rejection() => Happening::RolledBack,
            happening => happening,
        }
    }

    /// The rejected plan that blocks the AgentDeployment.
    fn rejected_plan(&self) -> Option<String> {
        match &self.outcome.next {
            Some(Blocked::Stopped(Why::PlanRejected(rejected))) => Some(rejected.revision.clone()),
            Some(Blocked::Stopped(_) | Blocked::Waiting(_)) | None => None,
        }
    }

    /// Whether this decision rolled a plan back, rather than meeting one that was rolled back before.
    fn has_new_rejection(&self) -> bool {
        let rejected = |status: &AgentDeploymentStatus| status.rollout.clone().unwrap_or_default().rejected;
        let before = rejected(&self.world.status);
        rejected(self.status)
            .iter()
            .any(|plan| before.iter().all(|known| known.plan != plan.plan || known.at != plan.at))
    }

    /// The message of a condition.
    fn message_of(&self, condition: ConditionType) -> String {
        let found = self.status.conditions.iter().find(|c| is(c, condition));
        found.map_or_else(String::new, |condition| condition.message.clone())
    }

    /// The message about what is in progress.
    fn state(&self) -> String {
        let find = |condition| find(self.status, condition);
        let now = find(ConditionType::Reconciling).or_else(|| find(ConditionType::Ready));
        now.map_or_else(|| "nothing blocks progress".to_owned(), |condition| condition.message.clone())
    }

    fn objectives(&self) -> Vec<Announcement> {
        let (before, now) = (&self.world.status.missed_objectives, &self.status.missed_objectives);
        let missed = now.iter().filter(|name| !before.contains(name)).map(|name| (name, Happening::ObjectiveMissed));
        let met = before.iter().filter(|name| !now.contains(name)).map(|name| (name, Happening::ObjectiveMet));
        missed.chain(met).map(|(name, happening)| self.objective(name, happening)).collect()
    }

    fn objective(&self, name: &str, happening: Happening) -> Announcement {
        let entry = self.status.slo.iter().find(|entry| entry.name == name);
        let message = entry.map_or_else(|| format!("{name} is no longer declared"), observed);
        let topic = Topic::Objective(name.to_owned());
        self.announcement(Content { topic, happening, fingerprint: String::new(), message, plan: self.plan() })
    }

    /// New drift: none before, another kind, or another plan. Also its end, which another plan brings too.
    fn drift(&self) -> Option<Announcement> {
        let (before, now) = (drifted(&self.world.status), drifted(self.status));
        let identity = |(drift, _): &(&DriftStatus, Happening)| (drift.revision.clone(), drift.verdict);
        if before.as_ref().map(identity) == now.as_ref().map(identity) {
            return None;
        }
        let (happening, message) = match (now, &self.status.drift) {
            (Some((drift, happening)), _) => (happening, drift.message.clone()),
            (None, Some(drift)) => (Happening::DriftEnded, drift.message.clone()),
            (None, None) => (Happening::DriftEnded, "another plan serves".to_owned()),
        };
        let plan = self.status.rollout.as_ref().and_then(|rollout| rollout.stable.clone());
        let fingerprint = now.map_or_else(String::new, |(drift, _)| drift.revision.clone());
        Some(self.announcement(Content { topic: Topic::Drift, happening, fingerprint, message, plan }))
    }

    fn announcement(&self, content: Content) -> Announcement {
        let Content { topic, happening, fingerprint, message, plan } = content;
        let World { now, generation, .. } = self.world;
        Announcement {
            subject: undelivered::subject(self.world),
            topic,
            happening,
            fingerprint,
            severity: self.severity(happening),
            message,
            generation: *generation,
            plan,
            at: undelivered::as_written(*now),
            receivers: self.receivers.clone(),
        }
    }

    fn severity(&self, happening: Happening) -> Severity {
        let serves = find(self.status, ConditionType::Ready).is_some();
        match (happening.role(), happening) {
            (Role::Closes | Role::Tells, _) => Severity::Info,
            (Role::Opens, _) if !serves => Severity::Critical,
            (Role::Opens, Happening::ObjectiveMissed | Happening::Stalled) => Severity::Error,
            (Role::Opens, _) => Severity::Warning,
        }
    }

    /// The plan on its way or waiting for approval, else the one that serves.
    fn plan(&self) -> Option<String> {
        let rollout = self.status.rollout.as_ref()?;
        let proposed = || rollout.proposed.as_ref().map(|proposed| proposed.plan_hash.clone());
        rollout.canary.clone().or_else(proposed).or_else(|| rollout.stable.clone())
    }
}

/// The rollout's events, by the notes about plans.
fn of_rollout(reason: Reason) -> Option<Happening> {
    let named = [
        (Reason::RevisionStarting, Happening::RolloutOpened),
        (Reason::RevisionPromoted, Happening::RolloutPromoted),
        (Reason::AwaitingApproval, Happening::ApprovalRequested),
    ];
    named.iter().find(|(of, _)| *of == reason).map(|(_, happening)| *happening)
}

/// What has drifted, if something has.
fn drifted(status: &AgentDeploymentStatus) -> Option<(&DriftStatus, Happening)> {
    let drift = status.drift.as_ref()?;
    let happening = match drift.verdict {
        DriftVerdict::WorkloadDrift => Happening::WorkloadDrift,
        DriftVerdict::BehaviorDrift => Happening::BehaviorDrift,
        DriftVerdict::Collecting | DriftVerdict::NotEnough | DriftVerdict::NoDrift => return None,
    };
    Some((drift, happening))
}

/// The condition, if it is true.
fn find(status: &AgentDeploymentStatus, condition: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|c| is(c, condition) && c.status == "True")
}

fn is(condition: &Condition, of: ConditionType) -> bool {
    condition.type_ == of.as_str()
}

fn observed(entry: &ObjectiveStatus) -> String {
    let ObjectiveStatus { name, objective, target, predicted, observed, window, .. } = entry;
    let observed = observed.as_deref().unwrap_or("nothing");
    let window = window.as_ref().map(|window| format!(" over {window}")).unwrap_or_default();
    let predicted = predicted.as_ref().map(|predicted| format!("; predicted was {predicted}")).unwrap_or_default();
    format!("{name}: {objective} is {observed}{window}, the objective is {target}{predicted}")
}
