//! Places of stable that a canary takes, and gives back. Pure.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{Capacity, CapacityPhase, RolloutCapacity},
};

use super::{
    super::canary::{Canary, LOOK, Next, Turn},
    MAX_MESSAGE, shortened,
};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        rollout::build,
        world::{Crash, ServingView},
    },
    plan::Note,
    why::{Blocked, counted_pods},
};

/// Within this time of a place being free the scheduler has given it away.
const SCHEDULING: SignedDuration = SignedDuration::from_secs(60);

impl Canary<'_> {
    /// Only with the user's token, at most one failure for each token, and never if the canary could not get traffic
    /// afterwards.
    pub(super) fn may_take_a_place(&self) -> bool {
        let spec = &self.world.spec.rollout;
        let is_allowed = spec.capacity == Capacity::InPlace && self.paused_by().is_none() && !self.was_in_vain();
        let is_stable_known = self.world.revision(self.stable).is_some();
        // What an earlier release began to drain goes on.
        let is_of_use = !self.has_other_nodes() || self.room().is_some_and(|room| room.drained > 0);
        is_allowed && self.stable_pods() > 0 && self.is_route_there() && is_stable_known && is_of_use
    }

    /// Whether the pods of stable are on other nodes than the canary may have, such as those of another GPU model.
    pub(super) fn has_other_nodes(&self) -> bool {
        let own = &self.target.plan.hardware.node_selector;
        let stable = self.world.revision(self.stable).map(|stable| &stable.plan.hardware.node_selector);
        stable.is_some_and(|stable| own.iter().any(|(label, value)| stable.get(label).is_some_and(|of| of != value)))
    }

    pub(super) fn was_in_vain(&self) -> bool {
        let Some((room, word)) = self.room().and_then(|room| Some((room, room.drained_in_vain.as_ref()?))) else {
            return false;
        };
        let (commands, plan) = (self.world.commands(), &self.target.hash);
        let annotated = commands.retry_of_annotation(plan);
        commands.retry_of_spec(plan).is_none_or(|asked| asked == word)
            && annotated.is_none_or(|asked| Some(asked) == room.drained_in_vain_annotation.as_ref())
    }

    pub(super) fn take_a_place(&mut self, pods: i32, scheduler: &str) -> Parts {
        let drained = self.room().map_or(0, |room| room.drained) + 1;
        let left = self.replicas() - drained;
        let room = RolloutCapacity {
            phase: CapacityPhase::InPlace,
            pods: pods + 1,
            drained,
            retry_at: None,
            attempts: self.room().map_or(0, |room| room.attempts),
            ..self.refused(scheduler)
        };
        let (stable, canary) = (self.stable, &self.target.hash);
        let line = format!("draining one {stable} pod for plan {canary}; {left} remain: {scheduler}");
        let note = if left == 0 {
            Note::warning(Reason::UpdatingInPlace, format!("{line}. No pod serves until {canary} is ready"))
        } else {
            Note::normal(Reason::UpdatingInPlace, line)
        };
        self.take(room);
        Parts::of_notes([note])
    }

    /// The next step of a canary in the place of serving pods.
    pub(super) fn look_after_places(&mut self, view: &ServingView) -> Planned<Next> {
        let wanted = self.wanted();
        let Some(room) = self.room().cloned() else { return Parts::default().with(Next::GoOn) };
        if view.is_observed && view.ready >= wanted {
            let has_passed = self.planned().is_none();
            let takes_a_place = has_passed && wanted < self.replicas() && self.may_take_a_place();
            let parts = if takes_a_place { self.take_a_place(wanted, &room.message) } else { Parts::default() };
            return parts.with(Next::GoOn);
        }
        if let Some(Crash { text, .. }) =
            view.crash.as_ref().filter(|crash| view.ready < wanted && crash.at >= room.since.0)
        {
            let reason = format!("one of its pods failed in the place of a drained {} pod: {text}", self.stable);
            return Parts::default().with(Next::RollBack(reason));
        }
        if let Some(unscheduled) = view.unscheduled.as_ref().filter(|_| self.is_past(&room, self.leaving())) {
            return self.find_no_place(&shortened(&unscheduled.message)).with(Next::GoOn);
        }
        if self.is_past(&room, self.coming_up()) {
            let minutes = self.coming_up().as_mins();
            let failure = view.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
            let ready = view.ready;
            let stable = self.stable;
            let reason =
                format!("{ready} of {wanted} pods were ready {minutes} min after a {stable} pod was drained{failure}");
            return Parts::default().with(Next::RollBack(reason));
        }
        Parts::default().with(Next::GoOn)
    }

    /// Longest time until a drained pod is gone and its place is given away.
    fn leaving(&self) -> SignedDuration {
        let plan = self.world.revision(self.stable).map(|revision| &revision.plan);
        let grace = plan.map_or(0, build::pod::grace_seconds);
        SignedDuration::from_secs(grace).saturating_add(SCHEDULING)
    }

    /// Longest time until a pod is ready in the place of another.
    fn coming_up(&self) -> SignedDuration {
        let progress = SignedDuration::from_secs(i64::from(build::serving::PROGRESS_DEADLINE_SECONDS));
        self.leaving().saturating_add(progress)
    }

    fn is_past(&self, room: &RolloutCapacity, limit: SignedDuration) -> bool {
        self.world.now.duration_since(room.since.0) >= limit
    }

    /// A place was made, and is not the canary's.
    fn find_no_place(&mut self, scheduler: &str) -> Parts {
        let (commands, plan) = (self.world.commands(), &self.target.hash);
        if let Some(room) = self.rollout.capacity.as_mut() {
            room.drained_in_vain = Some(commands.retry_of_spec(plan).cloned().unwrap_or_default());
            room.drained_in_vain_annotation = commands.retry_of_annotation(plan).cloned();
            room.message = scheduler.to_owned();
        }
        let Planned { value: holds_several, parts } =
            if self.holds_several_places() { self.hands_back(None) } else { Parts::default().with(false) };
        if !holds_several {
            self.wait_for_room(scheduler);
        }
        parts
    }

    /// Whether places are being given back, or are held without the user's token.
    pub(in super::super) fn is_to_give_way(&self) -> bool {
        let is_allowed = self.world.spec.rollout.capacity == Capacity::InPlace;
        match self.phase() {
            Some(CapacityPhase::Restoring) => true,
            Some(CapacityPhase::InPlace) => !is_allowed,
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited) => false,
        }
    }

    /// Whether giving all places back at once would leave the users to too few pods.
    pub(in super::super) fn holds_several_places(&self) -> bool {
        self.room().is_some_and(|room| match room.phase {
            CapacityPhase::Restoring => room.drained > 1 || !self.has_stable_back(),
            CapacityPhase::InPlace | CapacityPhase::Waiting | CapacityPhase::Limited => room.drained > 1,
        })
    }

    /// Whether the pods that stable got back are ready. One that finds no node because others are faster is not awaited
    /// forever.
    fn has_stable_back(&self) -> bool {
        self.stable_ready() >= self.stable_pods()
            || self.room().is_some_and(|room| self.is_past(room, self.coming_up()))
    }

    /// Gives back the next place, if the one before is taken; whether several are held still.
    pub(in super::super) fn hands_back(&mut self, reason: Option<&str>) -> Planned<bool> {
        let mut told = None;
        let now = Time(self.world.now);
        if let Some(room) = self.rollout.capacity.as_mut().filter(|room| room.phase != CapacityPhase::Restoring) {
            room.phase = CapacityPhase::Restoring;
            room.since = now.clone();
            room.reason = reason.map(|reason| reason.chars().take(MAX_MESSAGE).collect());
            let in_vain = room.drained_in_vain.as_ref().map(|_| room.message.as_str());
            let why = reason.or(in_vain).unwrap_or("the spec asks for another plan");
            let line = format!("{} regains {} one by one: {why}", self.stable, counted_pods(room.drained));
            told = Some(Note::warning(Reason::RestoringStable, line));
        }
        while self.has_stable_back()
            && let Some(room) = self.rollout.capacity.as_mut().filter(|room| room.drained > 1)
        {
            room.drained -= 1;
            room.pods -= 1;
            room.since = now.clone();
        }
        Parts::of_notes(told).with(self.holds_several_places())
    }

    /// Both revisions as they are while places are given back.
    pub(in super::super) fn keep_handing_back(mut self) -> Planned<Turn> {
        self.share_by_pods();
        let Planned { value: leaving, parts } = self.keep_both();
        let next = Some(Blocked::Waiting(self.restoring()));
        parts.and(Parts::look_within(LOOK)).with(Turn { next, rollout: self.recorded(leaving) })
    }
}
