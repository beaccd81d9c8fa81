//! Places of stable that a canary takes, and gives back. Pure.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{Capacity, CapacityPhase, RolloutCapacity},
};

use super::{
    super::{
        Blocked, Draft, Step,
        canary::{Canary, LOOK, Next, retry_word},
    },
    MAX_MESSAGE, shortened,
};
use crate::{
    agent_deployment::{
        rollout::build,
        world::{Crash, ServingView},
    },
    plan::Note,
    why::counted_pods,
};

/// Within this time of a place being free the scheduler has given it away.
const SCHEDULING: SignedDuration = SignedDuration::from_secs(60);

impl Canary<'_> {
    /// Only with the user's word, once in vain for each word, and never when the canary could not be sent to afterwards.
    pub(super) fn may_take_a_place(&self) -> bool {
        let spec = &self.world.spec.rollout;
        let is_allowed = spec.capacity == Capacity::InPlace && !spec.paused && !self.was_in_vain();
        is_allowed && self.stable_pods() > 0 && self.is_route_there() && self.world.revision(self.stable).is_some()
    }

    pub(super) fn was_in_vain(&self) -> bool {
        let Some(word) = self.room().and_then(|room| room.drained_in_vain.as_ref()) else { return false };
        retry_word(self.world, self.target).is_none_or(|asked| asked == word)
    }

    pub(super) fn take_a_place(&mut self, pods: i32, scheduler: &str, draft: &mut Draft) {
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
        let line = format!("a pod of {stable} makes room for plan {canary}, {left} go on: {scheduler}");
        draft.notes.push(if left == 0 {
            Note::warning(Reason::UpdatingInPlace, format!("{line}. Nobody serves until {canary} is ready"))
        } else {
            Note::normal(Reason::UpdatingInPlace, line)
        });
        self.take(room);
    }

    /// What becomes of a canary in the place of serving pods.
    pub(super) fn look_after_places(&mut self, view: &ServingView, draft: &mut Draft) -> Next {
        let wanted = self.wanted();
        let Some(room) = self.room().cloned() else { return Next::GoOn };
        if view.is_observed && view.ready >= wanted {
            let has_passed = self.planned().is_none();
            if has_passed && wanted < self.replicas() && self.may_take_a_place() {
                self.take_a_place(wanted, &room.message, draft);
            }
            return Next::GoOn;
        }
        if let Some(Crash { text, .. }) =
            view.crash.as_ref().filter(|crash| view.ready < wanted && crash.at >= room.since.0)
        {
            return Next::RollBack(format!("a pod of it failed in the place of one of {}: {text}", self.stable));
        }
        if let Some(unscheduled) = view.unscheduled.as_ref().filter(|_| self.is_past(&room, self.leaving())) {
            self.find_no_place(&shortened(&unscheduled.message), draft);
        } else if self.is_past(&room, self.coming_up()) {
            let minutes = self.coming_up().as_mins();
            let failure = view.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
            let ready = view.ready;
            return Next::RollBack(format!(
                "{ready} of {wanted} pods were ready {minutes} min after a pod of {} had made room{failure}",
                self.stable
            ));
        }
        Next::GoOn
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
    fn find_no_place(&mut self, scheduler: &str, draft: &mut Draft) {
        if let Some(room) = self.rollout.capacity.as_mut() {
            room.drained_in_vain = Some(retry_word(self.world, self.target).cloned().unwrap_or_default());
            room.message = scheduler.to_owned();
        }
        let holds_several = self.holds_several_places() && self.hands_back(None, draft);
        if !holds_several {
            self.wait_for_room(scheduler);
        }
    }

    /// Whether places are being given back, or are held without the user's word.
    pub(in super::super) fn is_to_give_way(&self) -> bool {
        let is_allowed = self.world.spec.rollout.capacity == Capacity::InPlace;
        match self.phase() {
            Some(CapacityPhase::Restoring) => true,
            Some(CapacityPhase::InPlace) => !is_allowed,
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited) => false,
        }
    }

    /// Gives places back; once at most one is held the canary waits for room, or is rolled back if that was why.
    pub(in super::super) fn give_way(mut self, draft: &mut Draft) -> Option<Step<()>> {
        if self.holds_several_places() && self.hands_back(None, draft) {
            return Some(self.keep_handing_back(draft));
        }
        let room = self.room().cloned();
        if let Some(reason) = room.as_ref().and_then(|room| room.reason.clone()) {
            return self.roll_back(&reason, draft);
        }
        self.wait_for_room(&room.map(|room| room.message).unwrap_or_default());
        self.carry_on(draft)
    }

    /// Whether giving all places back at once would leave the users to too few pods.
    pub(in super::super) fn holds_several_places(&self) -> bool {
        self.room().is_some_and(|room| match room.phase {
            CapacityPhase::Restoring => room.drained > 1 || !self.has_stable_back(),
            CapacityPhase::InPlace | CapacityPhase::Waiting | CapacityPhase::Limited => room.drained > 1,
        })
    }

    /// Whether the pods that stable was given back are ready. One that finds no node, for others are faster, is not waited for for ever.
    fn has_stable_back(&self) -> bool {
        self.stable_ready() >= self.stable_pods()
            || self.room().is_some_and(|room| self.is_past(room, self.coming_up()))
    }

    /// Gives back the next place, if the one before is taken; whether several are held still.
    pub(in super::super) fn hands_back(&mut self, reason: Option<&str>, draft: &mut Draft) -> bool {
        let now = Time(self.world.now);
        if let Some(room) = self.rollout.capacity.as_mut().filter(|room| room.phase != CapacityPhase::Restoring) {
            room.phase = CapacityPhase::Restoring;
            room.since = now.clone();
            room.reason = reason.map(|reason| reason.chars().take(MAX_MESSAGE).collect());
            let in_vain = room.drained_in_vain.as_ref().map(|_| room.message.as_str());
            let why = reason.or(in_vain).unwrap_or("another plan is asked for");
            let line = format!("{} gets {} back one by one: {why}", self.stable, counted_pods(room.drained));
            draft.notes.push(Note::warning(Reason::RestoringStable, line));
        }
        while self.has_stable_back()
            && let Some(room) = self.rollout.capacity.as_mut().filter(|room| room.drained > 1)
        {
            room.drained -= 1;
            room.pods -= 1;
            room.since = now.clone();
        }
        self.holds_several_places()
    }

    /// Both revisions as they are while places are given back.
    pub(in super::super) fn keep_handing_back(mut self, draft: &mut Draft) -> Step<()> {
        self.share_by_pods();
        draft.requeue = draft.requeue.min(LOOK);
        self.keep_both(draft);
        let why = self.restoring();
        self.record(draft);
        Err(Blocked::Waiting(why))
    }
}
