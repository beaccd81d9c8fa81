//! A canary whose pods stop being ready while users are sent to them. Pure.
//!
//! For a share without a ready pod a gateway answers itself, with errors that no pod counts: the judge sees nothing,
//! and users nothing else. So the share goes back to stable at once, and the canary after it if its pods do not come
//! back.

use jiff::{SignedDuration, Timestamp};
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{CapacityPhase, TrafficType},
};

use super::{build, canary::Canary, nodes::LeftOut};
use crate::{
    agent_deployment::{parts::Parts, world::Crash},
    plan::Note,
};

impl Canary<'_> {
    /// Gives the share of a canary without a ready pod to stable, if that can answer.
    pub(super) fn spare_users(&mut self) -> Parts {
        let (weight, stable) = (self.weight(), self.stable);
        if weight == 0 || !self.is_beside_stable() || self.stable_ready() == 0 || self.ready_pods() > 0 {
            return Parts::default();
        }
        // What is told of the GPUs is read only while the canary has a share. That they were hot explains no failure.
        let broken = self.broken_nodes();
        if broken.is_some() || self.rollout.reason.as_deref() == Some(Reason::NodeAtFault.as_str()) {
            self.rollout.reason = broken.as_ref().map(|_| Reason::NodeAtFault.as_str().to_owned());
            self.rollout.message = broken.map(|words| words.chars().take(512).collect());
        }
        let line =
            format!("plan {} has no ready pod: stable {stable} gets its {weight} % until it has one", self.target.hash);
        self.give_shares(0);
        Parts::of_notes([Note::warning(Reason::RevisionFailing, line)])
    }

    /// Since when its share is stable's for want of ready pods.
    pub(super) fn spared_since(&self) -> Option<Timestamp> {
        let since = self.rollout.weight_since.as_ref().filter(|_| self.weight() == 0 && self.is_beside_stable());
        since.map(|since| since.0)
    }

    /// Why a canary goes whose pods are not ready under traffic, without any statistics.
    pub(super) fn unready_under_traffic(&self) -> Option<String> {
        if self.broken_nodes().is_some() {
            return None;
        }
        self.crashed_under_traffic().or_else(|| self.unready_for_too_long())
    }

    /// The nodes whose GPUs broke under the canary's pods; as it was found, once its share is gone. The plan did not
    /// make its pods fail.
    pub(super) fn broken_nodes(&self) -> Option<String> {
        if self.weight() == 0 {
            let is_known = self.rollout.reason.as_deref() == Some(Reason::NodeAtFault.as_str());
            return self.rollout.message.clone().filter(|_| is_known);
        }
        let broken = LeftOut::broken(self.world.evidence.get(&self.target.hash)?);
        (!broken.is_nobody()).then(|| format!("{}: {broken}; cordon the node and delete the pod", Reason::NodeAtFault))
    }

    fn crashed_under_traffic(&self) -> Option<String> {
        let is_meant = self.weight() > 0 || self.spared_since().is_some();
        let view = self.world.serving.get(&self.target.hash).filter(|_| is_meant)?;
        // One from before its share says only that it needed two attempts to start.
        let since = self.rollout.weight_since.as_ref().map(|since| since.0);
        let is_under_traffic = |crash: &&Crash| view.ready < view.wanted && since.is_none_or(|since| crash.at >= since);
        let crash = view.crash.as_ref().filter(is_under_traffic)?;
        Some(format!("one of its pods failed under traffic: {}", crash.text))
    }

    /// A pod that finds no node is not a fault of the plan's: capacity decides.
    fn unready_for_too_long(&self) -> Option<String> {
        let limit = SignedDuration::from_secs(i64::from(build::serving::PROGRESS_DEADLINE_SECONDS));
        let is_over = self.world.now.duration_since(self.spared_since()?) >= limit && self.ready_pods() == 0;
        let view = self.world.serving.get(&self.target.hash).filter(|view| is_over && view.unscheduled.is_none())?;
        let failure = view.failure.as_ref().map(|failure| format!(": {failure}")).unwrap_or_default();
        Some(format!("none of its pods was ready again within {} min{failure}", limit.as_mins()))
    }

    fn ready_pods(&self) -> i32 {
        self.world.serving.get(&self.target.hash).map_or(0, |view| view.ready)
    }

    /// Whether it has a share of its own beside stable's, and not the place of pods of stable.
    fn is_beside_stable(&self) -> bool {
        let is_split = self.world.spec.rollout.traffic.r#type != TrafficType::BlueGreen;
        is_split && !matches!(self.phase(), Some(CapacityPhase::InPlace | CapacityPhase::Restoring))
    }
}
