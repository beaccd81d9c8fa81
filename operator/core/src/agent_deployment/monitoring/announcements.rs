//! What receivers are told of a decision: what the status says now and did not say before. Pure.
//!
//! An operator that takes over reads the same status, so that nothing is told twice by two of them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeploymentStatus,
        agent_deployment::{DriftStatus, DriftVerdict, ObjectiveStatus},
    },
};

use crate::{
    agent_deployment::world::World,
    notifications::events::{Announcement, Happening, Role, Severity, Subject, Topic},
    plan::Note,
};

/// What is to be told, to the receivers of `spec.alerts` that the operator knows.
pub(in crate::agent_deployment) fn announce(
    world: &World,
    status: &AgentDeploymentStatus,
    notes: &[Note],
) -> Vec<Announcement> {
    let known = |name: &&String| world.settings.notifications.knows(name);
    let receivers: Vec<String> = world.spec.alerts.receivers.iter().filter(known).cloned().collect();
    if receivers.is_empty() {
        return Vec::new();
    }
    let teller = Teller { world, status, receivers };
    let mut announcements: Vec<Announcement> = notes.iter().filter_map(|note| teller.news(note)).collect();
    announcements.extend(teller.problem());
    announcements.extend(teller.objectives());
    announcements.extend(teller.drift());
    announcements
}

struct Teller<'a> {
    world: &'a World,
    status: &'a AgentDeploymentStatus,
    receivers: Vec<String>,
}

/// What an announcement says beside the facts that all share.
struct Words {
    topic: Topic,
    happening: Happening,
    fingerprint: String,
    message: String,
    plan: Option<String>,
}

impl Teller<'_> {
    /// Notes that receivers are told too.
    fn news(&self, note: &Note) -> Option<Announcement> {
        let plan = self.plan();
        let rollout = || Topic::Rollout(plan.clone().unwrap_or_default());
        let (happening, topic) = if note.reason == Reason::RevisionStarting {
            (Happening::RolloutOpened, rollout())
        } else if note.reason == Reason::RevisionPromoted {
            (Happening::RolloutPromoted, rollout())
        } else if note.reason == Reason::AwaitingApproval {
            (Happening::ApprovalRequested, rollout())
        } else if note.reason == Reason::EngineRefused {
            // The message begins with the name that people call the engine.
            let name = note.message.split(':').next().unwrap_or_default();
            (Happening::EngineRefused, Topic::Engine(name.to_owned()))
        } else {
            return None;
        };
        let fingerprint = format!("{}/{}", self.world.generation, plan.as_deref().unwrap_or_default());
        Some(self.announcement(Words { topic, happening, fingerprint, message: note.message.clone(), plan }))
    }

    /// Whatever keeps the AgentDeployment from going on, when it is another thing than before, or none any more.
    fn problem(&self) -> Option<Announcement> {
        let before = problem(&self.world.status);
        let (happening, fingerprint, message) = match (before, problem(self.status)) {
            (before, Some(now)) if before.as_ref().is_none_or(|before| before.fingerprint != now.fingerprint) => {
                let is_rolled_back = now.happening == Happening::PlanRejected && self.has_new_rejection();
                let happening = if is_rolled_back { Happening::RolledBack } else { now.happening };
                (happening, now.fingerprint, now.message)
            }
            (Some(before), None) => (Happening::Recovered, before.fingerprint, self.state()),
            (None, None) | (Some(_) | None, Some(_)) => return None,
        };
        let plan = self.rejected_plan(&message).or_else(|| self.plan());
        Some(self.announcement(Words { topic: Topic::Problem, happening, fingerprint, message, plan }))
    }

    /// The rejected plan that a message is about: it stands in no other member of the status.
    fn rejected_plan(&self, message: &str) -> Option<String> {
        let rejected = &self.status.rollout.as_ref()?.rejected;
        rejected.iter().find(|rejected| message.contains(&rejected.plan)).map(|rejected| rejected.plan.clone())
    }

    /// Whether this decision rolled a plan back, rather than meeting one that was rolled back before.
    fn has_new_rejection(&self) -> bool {
        let rejected = |status: &AgentDeploymentStatus| status.rollout.clone().unwrap_or_default().rejected;
        let before = rejected(&self.world.status);
        rejected(self.status)
            .iter()
            .any(|plan| before.iter().all(|known| known.plan != plan.plan || known.at != plan.at))
    }

    /// What is going on, in words.
    fn state(&self) -> String {
        let find = |condition| find(self.status, condition);
        let now = find(ConditionType::Reconciling).or_else(|| find(ConditionType::Ready));
        now.map_or_else(|| "nothing stands in the way".to_owned(), |condition| condition.message.clone())
    }

    fn objectives(&self) -> Vec<Announcement> {
        let (before, now) = (&self.world.status.missed_objectives, &self.status.missed_objectives);
        let missed = now.iter().filter(|name| !before.contains(name)).map(|name| (name, Happening::ObjectiveMissed));
        let met = before.iter().filter(|name| !now.contains(name)).map(|name| (name, Happening::ObjectiveMet));
        missed.chain(met).map(|(name, happening)| self.objective(name, happening)).collect()
    }

    fn objective(&self, name: &str, happening: Happening) -> Announcement {
        let entry = self.status.slo.iter().find(|entry| entry.name == name);
        let message = entry.map_or_else(|| format!("{name} is declared no more"), observed);
        let topic = Topic::Objective(name.to_owned());
        self.announcement(Words { topic, happening, fingerprint: String::new(), message, plan: self.plan() })
    }

    /// Drift that was not there before, of another kind, or of another plan; and its end, which also another plan is.
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
        Some(self.announcement(Words { topic: Topic::Drift, happening, fingerprint, message, plan }))
    }

    fn announcement(&self, words: Words) -> Announcement {
        let Words { topic, happening, fingerprint, message, plan } = words;
        let World { now, name, namespace, generation, owner, .. } = self.world;
        Announcement {
            subject: Subject { namespace: namespace.clone(), name: name.clone(), uid: owner.uid.clone() },
            topic,
            happening,
            fingerprint,
            severity: self.severity(happening),
            message,
            generation: *generation,
            plan,
            at: *now,
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

struct Problem {
    happening: Happening,
    fingerprint: String,
    message: String,
}

/// What keeps an AgentDeployment from going on, or falls short of what was asked for.
fn problem(status: &AgentDeploymentStatus) -> Option<Problem> {
    let stalled = find(status, ConditionType::Stalled);
    let inconclusive =
        || find(status, ConditionType::Suspended).filter(|c| c.reason == Reason::VerdictUnreachable.as_str());
    let unattainable = || status.conditions.iter().find(|c| is(c, ConditionType::SLOAttainable) && c.status == "False");
    let condition = stalled.or_else(inconclusive).or_else(unattainable)?;
    let named = [
        (Reason::RolledBack, Happening::PlanRejected),
        (Reason::NoFeasibleConfiguration, Happening::ObjectivesInfeasible),
        (Reason::ProfilingFailed, Happening::ProfilingFailed),
        (Reason::VerdictUnreachable, Happening::VerdictUnreachable),
    ];
    let is_it = |(reason, _): &&(Reason, Happening)| reason.as_str() == condition.reason;
    let happening = named.iter().find(is_it).map_or(Happening::Stalled, |(_, happening)| *happening);
    let wordy = [Reason::RevisionFailing, Reason::VerdictUnreachable, Reason::InsufficientCapacity];
    let is_wordy = wordy.iter().any(|reason| reason.as_str() == condition.reason);
    let canary = || status.rollout.as_ref().and_then(|rollout| rollout.canary.clone()).unwrap_or_default();
    // The words of the kubelet and the scheduler and the judge's numbers change while the problem stays.
    let what = if is_wordy { canary() } else { condition.message.clone() };
    let fingerprint = format!("{}/{what}", condition.reason);
    Some(Problem { happening, fingerprint, message: condition.message.clone() })
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
