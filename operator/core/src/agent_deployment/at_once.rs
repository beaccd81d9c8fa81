//! Which Jobs follow their record at once, on the same observation. Pure.
//!
//! Another look costs a dozen reads. It is due where more rests on lists than a first attempt, whose Job has one name
//! whatever they show. A list of the past may show as failed what has ended well.

use slipway_crds::v1alpha1::{AgentDeploymentStatus, agent_deployment::JobAttempt};

use super::world::World;
use crate::{
    jobs::{kind::JobKind, view::JobPhase},
    plan::{AT_ONCE, Plan},
};

/// Whether a plan records first attempts of Jobs and is due for no other reason, so that these may follow. Where a
/// revision serves, more is remembered than the status.
pub fn follows(world: &World, plan: &Plan<AgentDeploymentStatus>) -> bool {
    let all_ended_well = world.jobs.values().all(|job| matches!(job.phase, JobPhase::Succeeded { .. }));
    let may_follow =
        |attempt: &&JobAttempt| attempt.attempt == 1 && (all_ended_well || attempt.kind == JobKind::Resolve.as_str());
    let new: Vec<_> = plan.status.jobs.iter().filter(|attempt| !world.status.jobs.contains(attempt)).collect();
    let is_recorded = !new.is_empty() && new.iter().all(may_follow);
    plan.requeue == AT_ONCE && world.status.rollout.is_none() && is_recorded
}
