//! Step 5: the revision of the plan takes over. Pure.
//!
//! Stable keeps its full capacity until then, unless the user lets it make room ([`capacity`]). Promotion retargets
//! Service and route and restarts nothing. With BlueGreen the new revision takes over once its pods are ready. Else it
//! gets traffic step by step, and is compared with the pods of stable or with fresh ones of the same plan ([`canary`],
//! [`baseline`]).

mod advance;
pub mod approval;
mod baseline;
pub mod build;
mod canary;
mod canary_baseline;
mod capacity;
pub mod guardrails;
mod held;
mod judge;
mod keep;
pub mod layout;
mod nodes;
pub(super) mod prediction;
mod progress;
mod readiness;
pub mod revision;
mod room;
mod route;
mod route_contest;
mod route_patience;
mod steps;
mod take_over;
mod windows;

use slipway_crds::v1alpha1::agent_deployment::RolloutStatus;

pub use self::windows::judged_after;
use self::{
    canary::Turn,
    keep::{keep, remove_others, settled, without_expired},
    progress::progress,
    revision::Target,
    take_over::{promote, started},
};
use super::{
    outcome::Outcome,
    parts::{Parts, Planned},
    world::World,
};
use crate::{
    plan::Child,
    why::{Blocked, Step},
};

/// The outcome of a rollout.
pub(super) struct RolledOut {
    pub(super) outcome: Outcome,
    /// What is remembered of it; absent before anything serves.
    pub(super) rollout: Option<RolloutStatus>,
}

impl RolledOut {
    fn new(serving: Option<&str>, next: Option<Blocked>, rollout: Option<RolloutStatus>) -> Self {
        Self { outcome: Outcome { serving: serving.map(str::to_owned), next, background: None }, rollout }
    }
}

pub(super) fn decide(world: &World, target: Step<Target>) -> Planned<RolledOut> {
    Planned::of(|parts| {
        let RolledOut { outcome, rollout } = parts.join(phase(world, target));
        let Some(rollout) = rollout else { return RolledOut { outcome, rollout } };
        // Whatever the rollout waits for, gateways and others go on with the route.
        let route_unavailable_since = parts.join(route_patience::recorded(world));
        let route_contest = parts.join(route_contest::recorded(world));
        RolledOut { outcome, rollout: Some(RolloutStatus { route_contest, route_unavailable_since, ..rollout }) }
    })
}

fn phase(world: &World, target: Step<Target>) -> Planned<RolledOut> {
    Planned::of(|parts| {
        let stable = world.stable();
        let recorded = world.status.rollout.clone().map(|rollout| parts.join(without_expired(world, rollout)));
        let brought_back = stable.zip(recorded.as_ref()).and_then(|(stable, recorded)| {
            parts.join(advance::bring_back_first(world, stable, target.as_ref().ok(), recorded))
        });
        if let Some(Turn { next, rollout }) = brought_back {
            return RolledOut::new(stable, next, Some(rollout));
        }
        match target {
            Ok(target) => parts.join(roll_out(world, stable, &target, recorded)),
            Err(blocked) => parts.join(stay(world, stable, blocked, recorded)),
        }
    })
}

/// Without a target stable goes on, and nothing else.
fn stay(world: &World, stable: Option<&str>, blocked: Blocked, recorded: Option<RolloutStatus>) -> Planned<RolledOut> {
    Planned::of(|parts| {
        let settled = stable.zip(recorded).map(|(stable, recorded)| settled(stable, recorded));
        let before = settled.as_ref().map(|rollout| rollout.leaving.clone()).unwrap_or_default();
        parts.add(keep(world, stable));
        let kept: Vec<&str> = stable.into_iter().collect();
        let leaving = parts.join(remove_others(world, &kept, before));
        RolledOut::new(stable, Some(blocked), settled.map(|settled| RolloutStatus { leaving, ..settled }))
    })
}

/// Records the target, starts it, and maintains the route.
fn roll_out(
    world: &World,
    stable: Option<&str>,
    target: &Target,
    recorded: Option<RolloutStatus>,
) -> Planned<RolledOut> {
    Planned::of(|parts| {
        parts.add(record_of(world, target));
        let Turn { next, rollout } = parts.join(bring_up(world, stable, target, recorded));
        let next = next.or_else(|| route::problem(world).map(Blocked::Waiting));
        parts.add(route::remove(world));
        parts.add(route::remove_pools(world, &parts.removals));
        RolledOut::new(rollout.stable.clone().as_deref(), next, Some(rollout))
    })
}

/// Starts the target and lets it take over.
fn bring_up(world: &World, stable: Option<&str>, target: &Target, recorded: Option<RolloutStatus>) -> Planned<Turn> {
    let is_stable = stable == Some(target.hash.as_str());
    if let Some(stable) = stable.filter(|_| !is_stable) {
        if world.replicas() > 0 {
            return advance::advance(world, stable, target, recorded);
        }
        if let Some(turn) = advance::without_pods(world, stable, target, recorded.as_ref()) {
            return turn;
        }
    }
    let recorded = recorded.unwrap_or_default();
    let progress = progress(&target.hash, world.serving.get(&target.hash), world.replicas());
    if is_stable || progress.is_ok() {
        let Planned { value: rollout, parts } = promote(world, stable, target, recorded);
        return parts.with(Turn { next: progress.err(), rollout });
    }
    Planned::of(|parts| {
        parts.add(started(world, target, world.replicas()));
        parts.add(keep(world, stable));
        let pods = build::serving::revision_children(world, &target.hash, &target.plan, world.replicas());
        parts.add(Parts::of_children(pods));
        let kept: Vec<&str> = stable.into_iter().chain([target.hash.as_str()]).collect();
        let leaving = parts.join(remove_others(world, &kept, recorded.leaving));
        let rollout = RolloutStatus {
            stable: stable.map(str::to_owned),
            canary: Some(target.hash.clone()),
            leaving,
            rejected: recorded.rejected,
            ..RolloutStatus::default()
        };
        Turn { next: progress.err(), rollout }
    })
}

/// The record of the plan, with the inputs that lead to it.
fn record_of(world: &World, target: &Target) -> Parts {
    let known = world.revision(&target.hash);
    if known.is_some_and(|known| known.input_hash == target.input_hash) {
        return Parts::default();
    }
    let number =
        known.map_or_else(|| world.revisions.iter().map(|r| r.number).max().unwrap_or(0) + 1, |known| known.number);
    let record = build::controller_revision::controller_revision(
        world,
        &target.hash,
        &target.input_hash,
        (number, &target.plan),
    );
    Parts::of_children([Child::ControllerRevision(Box::new(record))])
}
