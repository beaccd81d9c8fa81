//! The steps of a rollout as far as there is room for their pods. Pure.

use slipway_crds::v1alpha1::agent_deployment::{CapacityPhase, RolloutCapacity, TrafficType};

use super::{
    baseline,
    steps::{self, Arms, PlannedStep},
};
use crate::agent_deployment::world::World;

/// The steps that there is room for; none where nothing splits the traffic.
pub(super) fn schedule(world: &World, room: Option<&RolloutCapacity>) -> Vec<PlannedStep> {
    let (rollout, replicas) = (&world.spec.rollout, world.replicas());
    if rollout.traffic.r#type == TrafficType::BlueGreen {
        return Vec::new();
    }
    let unlimited = Arms { share_at_most: baseline::largest_share(world), ..Arms::unlimited(replicas) };
    let Some(room) = room else { return steps::schedule(rollout, unlimited) };
    // Places that are taken and given back one by one change nothing here: the judge's memory is tied to the steps.
    let beside = room.pods - room.drained;
    match room.phase {
        CapacityPhase::Waiting => steps::schedule(rollout, unlimited),
        CapacityPhase::Limited => steps::schedule(rollout, Arms { canary_at_most: room.pods, ..unlimited }),
        CapacityPhase::InPlace | CapacityPhase::Restoring if beside > 0 => {
            steps::schedule(rollout, Arms { canary_at_most: beside, ..unlimited })
        }
        CapacityPhase::InPlace | CapacityPhase::Restoring if replicas <= 1 => steps::alone(rollout),
        CapacityPhase::InPlace | CapacityPhase::Restoring => {
            steps::schedule(rollout, Arms { stable: replicas - 1, canary_at_most: 1, ..unlimited })
        }
    }
}
