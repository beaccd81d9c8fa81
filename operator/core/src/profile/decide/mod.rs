//! What comes next for a Profile. Pure.
//!
//! Every finished measurement is written to the status before anything depends on it. So a campaign continues from
//! wherever it was interrupted: the rows of the status are all that it remembers.

use slipway_crds::v1alpha1::ProfileStatus;

use super::{status, world::ProfileWorld};
use crate::plan::{Plan, RESYNC};

mod adopt;
pub mod confirm;
mod explore;
mod infeasible;
mod job;
pub mod rows;
pub mod select;

/// Decides what comes next.
pub fn decide(world: &ProfileWorld) -> Plan<ProfileStatus> {
    let mut plan = Plan {
        children: Vec::new(),
        removals: Vec::new(),
        status: world.status.clone(),
        notes: Vec::new(),
        announcements: Vec::new(),
        requeue: RESYNC,
    };
    adopt::adopt(world, &mut plan);
    let state = status::ended(&world.status)
        .or_else(|| explore::explore(world, &mut plan))
        .unwrap_or_else(|| confirm::finish(world, &mut plan));
    status::complete(world, state, &mut plan.status);
    plan
}

#[cfg(test)]
mod tests;
