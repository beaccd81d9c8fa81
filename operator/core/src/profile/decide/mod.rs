//! What comes next for a Profile. Pure.
//!
//! Every finished measurement is written to the status before anything depends on it. So a campaign continues from
//! wherever it was interrupted: the rows of the status are all that it remembers.

use slipway_crds::v1alpha1::ProfileStatus;

use super::{
    parts::{Parts, Planned},
    status::{self, CampaignState},
    world::ProfileWorld,
};
use crate::plan::{Plan, RESYNC};

mod adopt;
mod asked;
mod confirm;
mod engine;
mod explore;
mod job;
mod ledger;
mod order;
mod repeat;
mod throughputs;
mod warm_start;

/// Decides what comes next. Planners run in this order, and each sees the status with what the ones before it found.
pub fn decide(world: &ProfileWorld) -> Plan<ProfileStatus> {
    let world = &asked::with_artifacts(world);
    let mut parts = adopt::adopt(world);
    parts.add(warm_start::found(world, &parts.found));
    let state = match status::ended(&world.status) {
        Some(state) => state,
        None => parts.join(go_on(world, &parts.found.seen_from(&world.status))),
    };
    let Parts { children, removals, notes, requeue, found } = parts;
    Plan {
        children,
        removals,
        status: status::complete(world, state, found.into_status(world.status.clone())),
        notes,
        announcements: Vec::new(),
        requeue: requeue.map_or(RESYNC, |time| time.min(RESYNC)),
    }
}

/// Measures all engines, tells close points apart, and then chooses.
fn go_on(world: &ProfileWorld, before: &ProfileStatus) -> Planned<CampaignState> {
    Planned::of(|parts| {
        if let Some(state) = parts.join(explore::explore(world, before)) {
            return state;
        }
        if let Some(state) = parts.join(repeat::repeat(world, &parts.found.seen_from(before))) {
            return state;
        }
        parts.join(confirm::finish(world, &parts.found.seen_from(before)))
    })
}

#[cfg(test)]
mod tests;
