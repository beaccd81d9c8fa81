//! What the planners came to, as status, facts and announcements are made of it. Pure.

use slipway_crds::{conditions::Reason, v1alpha1::agent_deployment::OnInconclusive};

use super::world::World;
use crate::why::{Blocked, Why};

/// What the planners came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The revision that takes traffic.
    pub serving: Option<String>,
    /// Why not all is done; absent when it is.
    pub next: Option<Blocked>,
    /// What goes on beside it; absent where nothing is measured by schedule.
    pub background: Option<Background>,
}

/// Whether what serves is measured anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Background {
    /// It is: how far.
    Measuring(Why),
    /// It is not: until when, or why.
    Idle(Why),
}

/// What a person must say before anything goes on.
pub(super) fn left_to_people<'a>(world: &World, outcome: &'a Outcome) -> Option<&'a Why> {
    let Some(Blocked::Waiting(why)) = &outcome.next else { return None };
    let is_inconclusive = world.spec.rollout.on_inconclusive == OnInconclusive::Pause;
    let waits = match why {
        Why::RolloutPaused { .. }
        | Why::RolloutWithoutPods { .. }
        | Why::RolloutHeld(_)
        | Why::AwaitingApproval { .. } => true,
        Why::CanaryJudged { reason: Reason::VerdictUnreachable, .. } => is_inconclusive,
        _ => false,
    };
    waits.then_some(why)
}

/// Receivers that the operator's configuration lacks, or offers to other namespaces only.
pub fn unknown_receivers(world: &World) -> Option<Why> {
    let notifications = &world.settings.notifications;
    let unknown = world.spec.alerts.receivers.iter().filter(|name| !notifications.knows(name, &world.namespace));
    let unknown: Vec<String> = unknown.cloned().collect();
    let known = notifications.offered_to(&world.namespace).map(|receiver| receiver.name.clone()).collect();
    (!unknown.is_empty()).then_some(Why::UnknownReceiver { unknown, known })
}
