//! The planners' outcome, from which status, facts and announcements are made. Pure.

use slipway_crds::{conditions::Reason, v1alpha1::agent_deployment::OnInconclusive};

use super::world::World;
use crate::why::{Blocked, Why};

/// The planners' outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The revision that takes traffic.
    pub serving: Option<String>,
    /// Why something is left to do; absent if nothing is.
    pub next: Option<Blocked>,
    /// The campaign in the background; absent if nothing is measured by schedule.
    pub background: Option<Background>,
}

/// Whether the serving choice is measured again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Background {
    /// It is: its progress.
    Measuring(Why),
    /// It is not: until when, or why.
    Idle(Why),
}

/// The decision of a person that everything waits for.
pub(super) fn left_to_people<'a>(world: &World, outcome: &'a Outcome) -> Option<&'a Why> {
    let Some(Blocked::Waiting(why)) = &outcome.next else { return None };
    let is_inconclusive = world.spec.rollout.on_inconclusive == OnInconclusive::Pause;
    let waits = match why {
        Why::RolloutPaused { .. } | Why::RolloutWithoutPods { .. } | Why::RolloutHeld(_) | Why::AwaitingApproval(_) => {
            true
        }
        Why::CanaryJudged { reason: Reason::VerdictUnreachable, .. } => is_inconclusive,
        _ => false,
    };
    waits.then_some(why)
}

/// Annotations that name an unknown command to the rollout, or no plan.
pub fn invalid_commands(world: &World) -> Option<Why> {
    let invalid = world.annotated.invalid();
    (!invalid.is_empty()).then(|| Why::CommandInvalid { invalid: invalid.to_vec() })
}

/// Receivers that the operator's configuration lacks, or offers to other namespaces only.
pub fn unknown_receivers(world: &World) -> Option<Why> {
    let notifications = &world.settings.notifications;
    let unknown = world.spec.alerts.receivers.iter().filter(|name| !notifications.knows(name, &world.namespace));
    let unknown: Vec<String> = unknown.cloned().collect();
    let known = notifications.offered_to(&world.namespace).map(|receiver| receiver.name.clone()).collect();
    (!unknown.is_empty()).then_some(Why::UnknownReceiver { unknown, known })
}
