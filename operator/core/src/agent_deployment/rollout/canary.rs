//! A rollout on its way, as the parts of its planner see it. Pure.
//!
//! Every decision is in the rollout before it is carried out: an operator that is replaced at any point continues from
//! there.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    commands::Source,
    v1alpha1::agent_deployment::{LeavingRevision, RolloutStatus, TrafficType},
};

use super::{
    build::{self, traffic::Split},
    keep::{keep_split, remove_others},
    revision::Target,
    room, route_contest,
    steps::PlannedStep,
};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::{RouteView, World},
    },
    why::{Blocked, Why},
};

/// How soon the earlier pods are read after a revision has taken over: the length of a window of evidence.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// The outcome of a look at a rollout.
pub(super) struct Turn {
    /// Why it is not over; absent once it is.
    pub(super) next: Option<Blocked>,
    /// What is remembered of it.
    pub(super) rollout: RolloutStatus,
}

/// What follows from the verdict.
pub(super) enum Next {
    GoOn,
    RollBack(String),
}

/// A rollout on its way.
pub(super) struct Canary<'a> {
    pub(super) world: &'a World,
    pub(super) stable: &'a str,
    pub(super) target: &'a Target,
    /// The steps, with the pods that there is room for; none where nothing splits the traffic.
    pub(super) schedule: Vec<PlannedStep>,
    pub(super) rollout: RolloutStatus,
    /// Revisions whose pods clients may be on their way to since before.
    pub(super) leaving: Vec<LeavingRevision>,
    /// Who else writes its route.
    pub(super) contest: Option<Why>,
    /// Why a guardrail of the user's keeps it at its step.
    pub(super) guarded: Option<String>,
}

impl<'a> Canary<'a> {
    pub(super) fn new(
        world: &'a World,
        (stable, target): (&'a str, &'a Target),
        rollout: RolloutStatus,
        leaving: Vec<LeavingRevision>,
    ) -> Self {
        let schedule = room::schedule(world, rollout.capacity.as_ref());
        let contest = route_contest::why(world);
        Self { world, stable, target, schedule, rollout, leaving, contest, guarded: None }
    }
}

impl Canary<'_> {
    /// Position of the step in the schedule, from 1; beyond its end the canary is about to take over.
    pub(super) fn step(&self) -> usize {
        self.rollout.step.and_then(|step| usize::try_from(step).ok()).unwrap_or(1).clamp(1, self.schedule.len() + 1)
    }

    pub(super) fn planned(&self) -> Option<&PlannedStep> {
        self.schedule.get(self.step() - 1)
    }

    pub(super) fn weight(&self) -> i32 {
        self.rollout.weight.unwrap_or(0)
    }

    pub(super) fn set_weight(&mut self, weight: i32) {
        if weight != self.weight() {
            self.rollout.weight = Some(weight);
            let planned = self.planned().filter(|step| step.weight == weight);
            self.rollout.canary_share = Some(format!("{:.0}%", planned.map_or(f64::from(weight), |step| step.share)));
            self.note_other_shares();
        }
    }

    /// Another share is another load, and what was seen before is not part of the comparison.
    pub(super) fn note_other_shares(&mut self) {
        self.rollout.weight_since = Some(Time(self.world.now));
        self.rollout.guardrails.clear();
    }

    /// Pods that the step needs; all of them before the canary takes over.
    pub(super) fn needed(&self) -> i32 {
        self.planned().map_or(self.world.replicas(), |step| step.pods)
    }

    /// What a person keeps it at its step by.
    pub(super) fn paused_by(&self) -> Option<Source> {
        self.world.commands().pauses(&self.target.hash)
    }

    /// Traffic moves only through a route that a gateway serves and nobody else writes.
    pub(super) fn is_route_there(&self) -> bool {
        match self.world.spec.rollout.traffic.r#type {
            TrafficType::BlueGreen | TrafficType::ReplicaRatio => true,
            TrafficType::GatewayAPI => {
                let is_served = matches!(self.world.route, RouteView::Present { problem: None, .. });
                is_served && self.contest.is_none() && build::pool::problem(self.world).is_none()
            }
        }
    }

    /// Both revisions and the baseline, with the pods and shares that the rollout gives them. Stable comes first.
    /// Returns who leaves.
    pub(super) fn keep_both(&self) -> Planned<Vec<LeavingRevision>> {
        let (world, stable, target) = (self.world, self.stable, self.target);
        let baseline = self.rollout.baseline.as_ref().map(|baseline| (baseline.revision.as_str(), baseline.weight));
        let split = Split { stable: Some(stable), canary: Some((&target.hash, self.weight())), baseline };
        let kept = [stable, target.hash.as_str()].into_iter().chain(baseline.map(|(revision, _)| revision));
        let kept: Vec<&str> = kept.collect();
        let of_canary = build::serving::revision_children(world, &target.hash, &target.plan, self.wanted());
        Planned::of(|parts| {
            parts.add(keep_split(world, split, self.stable_pods()));
            parts.add(Parts::of_children(of_canary));
            parts.add(Parts::of_children(self.baseline_children()));
            parts.join(remove_others(world, &kept, self.leaving.clone()))
        })
    }

    /// The rollout as it is written down, with who leaves.
    pub(super) fn recorded(self, leaving: Vec<LeavingRevision>) -> RolloutStatus {
        RolloutStatus { leaving, ..self.rollout }
    }
}

/// The rollout of this plan before anything has happened. Where nothing splits the traffic there are no steps and no
/// shares.
pub(super) fn from_the_start(world: &World, stable: &str, target: &Target, recorded: RolloutStatus) -> RolloutStatus {
    let is_split = world.spec.rollout.traffic.r#type != TrafficType::BlueGreen;
    RolloutStatus {
        stable: Some(stable.to_owned()),
        canary: Some(target.hash.clone()),
        step: is_split.then_some(1),
        weight: is_split.then_some(0),
        canary_share: is_split.then(|| "0%".to_owned()),
        rejected: recorded.rejected,
        ..RolloutStatus::default()
    }
}
