//! A rollout in a cluster that has no room for it: it goes on with fewer pods, waits, or takes the place of serving
//! pods. Pure.
//!
//! The operator probes capacity by creating a pod, and reads no node and no pod of others. A canary pod without a node
//! after `capacityDeadline` says all there is to know, in the scheduler's message. Every reaction is in the status
//! before it is carried out.
//!
//! Places are taken from stable one at a time, and only with `capacity: InPlace`. The first is taken when the canary
//! has no pod at all, further ones when it has passed its last step with all pods ready. So both together are never
//! more than one pod short, and places are given back in the same way.

mod draining;
mod shortage;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{Capacity, CapacityPhase, RolloutCapacity, RolloutStatus, TrafficType},
};

use super::{
    baseline,
    canary::{Canary, Next, from_the_start},
    room::schedule,
};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::{ServingView, Unscheduled, World},
    },
    plan::Note,
};

/// The first back-off after a failed probe: shorter than the ten minutes for which autoscalers keep an idle node, so
/// that a late node is still there. Each further one is twice as long.
const FIRST_BACK_OFF: SignedDuration = SignedDuration::from_mins(5);
/// The longest: a waiting pod occupies the scheduler's queue, and may make autoscalers add nodes, only part of the
/// time.
const LONGEST_BACK_OFF: SignedDuration = SignedDuration::from_hours(1);
/// What is kept of the scheduler's message.
const MAX_MESSAGE: usize = 400;

/// How long to wait before the next probe.
fn back_off(attempts: i32) -> SignedDuration {
    let doublings = u32::try_from(attempts - 1).unwrap_or(0).min(8);
    FIRST_BACK_OFF.checked_mul(2_i32.pow(doublings)).unwrap_or(LONGEST_BACK_OFF).min(LONGEST_BACK_OFF)
}

fn shortened(scheduler: &str) -> String {
    scheduler.trim_end_matches(['.', ' ']).chars().take(MAX_MESSAGE).collect()
}

/// How many pods there are of either.
impl<'a> Canary<'a> {
    /// What is seen of its pods, or of pairs of one of them and one of the baseline.
    fn view(&self) -> Option<ServingView> {
        let serving = &self.world.serving;
        let canary = serving.get(&self.target.hash)?;
        match self.baseline() {
            None => Some(canary.clone()),
            Some(baseline) => baseline::pairs(canary, serving.get(&baseline)?),
        }
    }

    /// Whether a pod of it, or of the baseline, has a node.
    fn has_any_node(&self) -> bool {
        let beside = [Some(self.target.hash.clone()), self.baseline()];
        let views = beside.iter().flatten().filter_map(|revision| self.world.serving.get(revision));
        views.map(|view| view.scheduled).any(|scheduled| scheduled > 0)
    }

    fn stable_view(&self) -> Option<&'a ServingView> {
        self.world.serving.get(self.stable)
    }

    fn room(&self) -> Option<&RolloutCapacity> {
        self.rollout.capacity.as_ref()
    }

    pub(super) fn phase(&self) -> Option<CapacityPhase> {
        self.room().map(|room| room.phase)
    }

    fn replicas(&self) -> i32 {
        self.world.replicas()
    }

    /// Pods of stable: all but those that made room.
    pub(super) fn stable_pods(&self) -> i32 {
        (self.replicas() - self.room().map_or(0, |room| room.drained)).max(0)
    }

    /// Pods of stable that can be sent to.
    pub(super) fn stable_ready(&self) -> i32 {
        self.stable_view().map_or(0, |view| view.ready.min(self.stable_pods()))
    }

    /// Pods that the canary is given.
    pub(super) fn wanted(&self) -> i32 {
        let needed = self.needed();
        let Some(room) = self.room() else { return needed };
        match room.phase {
            // What was short is asked for as a whole: traffic that would have to be taken back again is not given.
            CapacityPhase::Waiting if self.is_asking() => needed.max(room.wanted.min(self.replicas())),
            CapacityPhase::Waiting => 0,
            CapacityPhase::Limited if self.planned().is_none() && self.is_asking() => needed,
            CapacityPhase::Limited => needed.min(room.pods),
            CapacityPhase::InPlace | CapacityPhase::Restoring => room.pods.min(self.replicas()),
        }
    }

    /// Whether the time until which it was to wait is over, and no pod of stable asks for the same room.
    fn is_asking(&self) -> bool {
        let is_stable_short = self.stable_view().is_some_and(|view| view.unscheduled.is_some());
        let is_time = self.room().and_then(|room| room.retry_at.as_ref()).is_none_or(|at| at.0 <= self.world.now);
        is_time && !is_stable_short
    }

    /// Whether every pod that the canary is given has a node.
    fn has_nodes(&self) -> bool {
        let wanted = self.wanted();
        wanted > 0 && self.view().is_some_and(|view| view.wanted == wanted && view.scheduled >= wanted)
    }

    /// Traffic as the pods stand: pods that are replaced one by one can only be sent to so.
    pub(super) fn share_by_pods(&mut self) {
        let is_split = self.world.spec.rollout.traffic.r#type != TrafficType::BlueGreen;
        match self.phase() {
            Some(CapacityPhase::InPlace | CapacityPhase::Restoring) => {}
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited) if is_split => return,
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited) => return self.set_weight(0),
        }
        let canary = self.view().map_or(0, |view| view.ready.min(self.wanted()));
        let weight = match (canary, self.stable_ready()) {
            // Neither can answer, and stable, drained as a whole, comes back only when the canary is rolled back.
            (0, 0) => self.weight(),
            (0, _) => 0,
            (_, 0) => 100,
            (canary, stable) => (100 * canary / (canary + stable)).clamp(1, 99),
        };
        self.set_weight(weight);
    }
}

/// Asking for room.
impl Canary<'_> {
    /// Records the state of the canary's pods in the rollout.
    pub(super) fn ask_for_room(&mut self) -> Planned<Next> {
        self.ask_at_once_after_an_edit();
        let wanted = self.wanted();
        let Some(view) = self.view().filter(|view| view.wanted == wanted) else {
            return Parts::default().with(Next::GoOn);
        };
        match self.phase() {
            Some(CapacityPhase::InPlace) => self.look_after_places(&view),
            Some(CapacityPhase::Restoring) => Parts::default().with(Next::GoOn),
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited) => {
                self.look_for_nodes(&view, wanted).with(Next::GoOn)
            }
        }
    }

    fn look_for_nodes(&mut self, view: &ServingView, wanted: i32) -> Parts {
        let stable = self.stable_view().and_then(|stable| self.overdue(stable));
        match (stable, self.overdue(view)) {
            // Stable has grown, or has lost a node: its own pods come first.
            (Some(unscheduled), _) if self.has_any_node() => self.wait_for_room(&shortened(&unscheduled.message)),
            (_, Some(unscheduled)) => return self.fall_back(view, &shortened(&unscheduled.message)),
            (_, None) if self.phase() == Some(CapacityPhase::Waiting) && wanted > 0 && view.ready >= wanted => {
                self.rollout.capacity = None;
            }
            (_, None) => {}
        }
        Parts::default()
    }

    /// An edit of the spec and a new command to retry end the back-off.
    fn ask_at_once_after_an_edit(&mut self) {
        let World { now, generation, .. } = self.world;
        let retry = self.world.commands().retry_of_annotation(&self.target.hash);
        let is_new = |room: &RolloutCapacity| {
            let is_retry_new = retry.is_some() && room.retry_annotation.as_ref() != retry;
            room.generation != *generation || is_retry_new
        };
        if let Some(room) = self.rollout.capacity.as_mut().filter(|room| is_new(room)) {
            room.generation = *generation;
            room.retry_annotation = retry.cloned();
            room.attempts = 0;
            room.retry_at = room.retry_at.take().map(|Time(at)| Time(at.min(*now)));
        }
    }

    /// The pod that has waited for a node for longer than the deadline. Pods that leave give their room back first.
    fn overdue<'v>(&self, view: &'v ServingView) -> Option<&'v Unscheduled> {
        let unscheduled = view.unscheduled.as_ref().filter(|_| !self.is_room_coming_free())?;
        let room = self.room();
        let asked = [room.map(|room| room.since.0), room.and_then(|room| room.retry_at.as_ref()).map(|at| at.0)];
        let asked =
            asked.into_iter().flatten().filter(|at| *at <= self.world.now).fold(unscheduled.since, Timestamp::max);
        let deadline = self.world.spec.rollout.capacity_deadline.microseconds();
        let deadline = SignedDuration::from_micros(i64::try_from(deadline).unwrap_or(i64::MAX));
        // A deadline beyond all times never passes.
        let until = asked.checked_add(deadline).ok()?;
        (until <= self.world.now).then_some(unscheduled)
    }

    /// Whether there are still objects of revisions that leave.
    fn is_room_coming_free(&self) -> bool {
        let baseline = self.baseline();
        let stays = |revision: &String| {
            revision == self.stable || *revision == self.target.hash || Some(revision) == baseline.as_ref()
        };
        !self.world.objects.keys().all(stays)
    }

    /// Not all pods have found room.
    fn fall_back(&mut self, view: &ServingView, scheduler: &str) -> Parts {
        let found = view.scheduled;
        let is_split = !self.schedule.is_empty();
        let is_unfit = found > view.ready || view.crash.is_some();
        match self.world.spec.rollout.capacity {
            Capacity::SurgeIfPossible if found > 0 && is_split => return self.go_on_with(found, scheduler),
            Capacity::InPlace if found > 0 && self.planned().is_some() => return self.go_on_with(found, scheduler),
            // A canary that does not get ready where there is room is not worth a serving pod.
            Capacity::InPlace if is_unfit && !view.is_past_deadline => {}
            Capacity::InPlace if is_unfit => self.wait_for_room(scheduler),
            Capacity::InPlace if self.may_take_a_place() => return self.take_a_place(found, scheduler),
            Capacity::InPlace if self.paused_by().is_some() && !self.was_in_vain() && !self.has_other_nodes() => {}
            Capacity::InPlace if found > 0 && is_split => return self.go_on_with(found, scheduler),
            Capacity::SurgeIfPossible | Capacity::InPlace | Capacity::RequireSurge => self.wait_for_room(scheduler),
        }
        Parts::default()
    }

    /// What is recorded after a failed probe.
    fn refused(&self, scheduler: &str) -> RolloutCapacity {
        let now = self.world.now;
        let known = self.room();
        let attempts = known.map_or(0, |room| room.attempts).saturating_add(1);
        RolloutCapacity {
            phase: CapacityPhase::Waiting,
            wanted: self.wanted().max(self.needed()),
            pods: 0,
            drained: 0,
            since: Time(now),
            message: scheduler.to_owned(),
            retry_at: now.checked_add(back_off(attempts)).ok().map(Time),
            attempts,
            generation: self.world.generation,
            reason: None,
            drained_in_vain: known.and_then(|room| room.drained_in_vain.clone()),
            drained_in_vain_annotation: known.and_then(|room| room.drained_in_vain_annotation.clone()),
            retry_annotation: self.world.commands().retry_of_annotation(&self.target.hash).cloned(),
        }
    }

    /// The same place among the steps, which may be fewer now.
    fn take(&mut self, room: RolloutCapacity) {
        let has_passed = self.planned().is_none();
        self.rollout.capacity = Some(room);
        self.schedule = schedule(self.world, self.room());
        if self.rollout.step.is_some() {
            let last = self.schedule.len();
            let step = if has_passed { last + 1 } else { self.step().min(last.max(1)) };
            self.rollout.step = i32::try_from(step).ok();
        }
    }

    fn go_on_with(&mut self, found: i32, scheduler: &str) -> Parts {
        let is_told = self.room().is_some_and(|room| room.phase == CapacityPhase::Limited && room.pods == found);
        let room = RolloutCapacity { phase: CapacityPhase::Limited, pods: found, ..self.refused(scheduler) };
        let beside = self.baseline().map_or("", |_| " and as many of its baseline");
        let line = format!(
            "plan {} continues with {found} of {} pods{beside}, and with no more traffic than these carry: \
             {scheduler}",
            self.target.hash, room.wanted
        );
        self.take(room);
        Parts::of_notes((!is_told).then(|| Note::warning(Reason::InsufficientCapacity, line)))
    }

    /// Without pods, from the start. What it asks for next time is what it lacked.
    pub(super) fn wait_for_room(&mut self, scheduler: &str) {
        let had_baseline = self.baseline().is_some();
        let room = self.refused(scheduler);
        let Self { world, stable, target, .. } = *self;
        let is_promoted = world.commands().promotes(&target.hash).is_some();
        self.rollout = RolloutStatus {
            capacity: Some(room),
            ..from_the_start(world, stable, target, std::mem::take(&mut self.rollout))
        };
        self.schedule = schedule(world, self.room());
        if is_promoted && self.rollout.step.is_some() {
            self.rollout.step = i32::try_from(self.schedule.len() + 1).ok();
        }
        let is_with_baseline = !had_baseline && self.baseline().is_some();
        if let Some(room) = self.rollout.capacity.as_mut().filter(|_| is_with_baseline) {
            // What it lacked alone it asks for together with a baseline, and not twice.
            room.wanted = room.wanted.div_euclid(2) + room.wanted.rem_euclid(2);
        }
    }
}
