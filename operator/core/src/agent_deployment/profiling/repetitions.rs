//! Repetitions of a campaign as the status and the records of revisions know them. Pure.

use slipway_crds::v1alpha1::agent_deployment::{AdoptedCampaign, ReprofilingStatus};

use crate::agent_deployment::{rollout::revision::PlanInputs, world::World};

/// What the plan is made from: the spec, and the repetition whose choice was taken for it.
pub(in crate::agent_deployment) fn inputs(world: &World, spec: &str) -> PlanInputs {
    PlanInputs { spec: spec.to_owned(), repetition: adopted(world, spec).map_or(0, |adopted| adopted.number) }
}

/// The repetition whose choice was taken for this spec.
pub(in crate::agent_deployment) fn adopted<'a>(world: &'a World, spec: &str) -> Option<&'a AdoptedCampaign> {
    world.status.reprofiling.as_ref()?.adopted.as_ref().filter(|adopted| adopted.input_hash == spec)
}

/// Whether one is being measured.
pub(in crate::agent_deployment) fn is_under_way(world: &World) -> bool {
    world.status.reprofiling.as_ref().is_some_and(has_open_run)
}

pub(super) fn has_open_run(state: &ReprofilingStatus) -> bool {
    state.run.as_ref().is_some_and(|run| run.ended_at.is_none())
}

/// The number of the next repetition. Numbers are given once, even where the status was lost and only the records of
/// revisions remember them.
pub(in crate::agent_deployment) fn next_number(world: &World) -> i32 {
    let recorded = world.revisions.iter().map(|revision| revision.inputs().repetition);
    let latest = world.status.reprofiling.as_ref().and_then(|state| state.run.as_ref()).map(|run| run.number);
    1 + recorded.chain(latest).max().unwrap_or(0)
}
