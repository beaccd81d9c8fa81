//! Undelivered notifications in the status: written with the decision that they report, and forgotten once delivered.
//! Pure.
//!
//! The queues of an operator end with its process. Its successor finds here what was on its way, so that every
//! notification is delivered at least once.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::agent_deployment::UndeliveredNotification;

use crate::{
    agent_deployment::world::World,
    notifications::events::{Announcement, Happening, Severity, Subject, Topic},
};

/// Notifications that wait in a status, at most: the oldest makes room.
const CAPACITY: usize = 16;
/// Characters of a message.
const MAX_MESSAGE: usize = 1024;

/// What waits from now on, for the status and the queues: earlier notifications that are not settled, and new ones.
pub(in crate::agent_deployment) fn next(
    world: &World,
    new: Vec<Announcement>,
) -> (Vec<UndeliveredNotification>, Vec<Announcement>) {
    let subject = subject(world);
    let waiting = world.status.undelivered.iter().filter(|known| !world.settled.contains(&known.id));
    let waiting = waiting.filter_map(|known| read(&subject, known));
    let mut known = BTreeSet::new();
    let mut all: Vec<_> = waiting.chain(new).filter(|announcement| known.insert(announcement.id())).collect();
    all.drain(..all.len().saturating_sub(CAPACITY));
    (all.iter().map(write).collect(), all)
}

/// The AgentDeployment that a world is about.
pub(super) fn subject(world: &World) -> Subject {
    Subject { namespace: world.namespace.clone(), name: world.name.clone(), uid: world.owner.uid.clone() }
}

fn write(announcement: &Announcement) -> UndeliveredNotification {
    let Announcement { subject: _, topic, happening, fingerprint, severity, message, generation, plan, at, receivers } =
        announcement;
    UndeliveredNotification {
        id: announcement.id(),
        at: Time(*at),
        happening: happening.as_str().to_owned(),
        topic: topic.to_string(),
        fingerprint: fingerprint.clone(),
        severity: severity.as_str().to_owned(),
        message: message.chars().take(MAX_MESSAGE).collect(),
        generation: *generation,
        plan: plan.clone(),
        receivers: receivers.clone(),
    }
}

/// Absent for what a newer operator wrote with unknown names.
fn read(subject: &Subject, known: &UndeliveredNotification) -> Option<Announcement> {
    let UndeliveredNotification {
        id: _,
        at: Time(at),
        happening,
        topic,
        fingerprint,
        severity,
        message,
        generation,
        plan,
        receivers,
    } = known;
    Some(Announcement {
        subject: subject.clone(),
        topic: Topic::read(topic)?,
        happening: Happening::ALL.into_iter().find(|known| known.as_str() == happening)?,
        fingerprint: fingerprint.clone(),
        severity: Severity::ALL.into_iter().find(|known| known.as_str() == severity)?,
        message: message.clone(),
        generation: *generation,
        plan: plan.clone(),
        at: *at,
        receivers: receivers.clone(),
    })
}

/// A time as the API writes it, in whole seconds: read again, it is the same.
pub(super) fn as_written(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn whatever_can_be_told_survives_the_status() {
        let subject = Subject { namespace: "team".to_owned(), name: "support".to_owned(), uid: "u1".to_owned() };
        let topics = [
            Topic::Rollout("7c1f9a2b3d".to_owned()),
            Topic::Engine("int8-small".to_owned()),
            Topic::Objective("answer-tail".to_owned()),
            Topic::Drift,
            Topic::Problem,
        ];
        for (topic, happening) in topics.iter().cycle().zip(Happening::ALL) {
            for severity in Severity::ALL {
                let announcement = Announcement {
                    subject: subject.clone(),
                    topic: topic.clone(),
                    happening,
                    fingerprint: "Stalled/JobFailed/fetch-1/BadModel".to_owned(),
                    severity,
                    message: "é".to_owned(),
                    generation: 3,
                    plan: Some("7c1f9a2b3d".to_owned()),
                    at: as_written("2026-11-21T10:15:30.123456789Z".parse().unwrap()),
                    receivers: vec!["team".to_owned()],
                };
                let json = serde_json::to_string(&write(&announcement)).unwrap();
                let known: UndeliveredNotification = serde_json::from_str(&json).unwrap();
                assert_eq!(read(&subject, &known), Some(announcement.clone()));
                assert_eq!(known.id, announcement.id(), "its receivers know it by this");
                let of_tomorrow = UndeliveredNotification { happening: "Renamed".to_owned(), ..known };
                assert_eq!(read(&subject, &of_tomorrow), None);
            }
        }
    }
}
