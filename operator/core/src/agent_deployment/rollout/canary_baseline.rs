//! The baseline beside a canary: when there is one, its share and its pods. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{CapacityPhase, RolloutBaseline},
};

use super::{baseline::is_asked_for, build, canary::Canary, progress::settled, revision::baseline_of};
use crate::{
    agent_deployment::parts::Parts,
    plan::{Child, Note},
    why::{Step, Why, counted_pods},
};

impl Canary<'_> {
    /// Name of the baseline, as long as there is to be one: never where pods of stable make room.
    pub(super) fn baseline(&self) -> Option<String> {
        let is_beside_stable = match self.phase() {
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited) => true,
            Some(CapacityPhase::InPlace | CapacityPhase::Restoring) => false,
        };
        let is_wanted = is_beside_stable && self.planned().is_some() && is_asked_for(self.world);
        is_wanted.then(|| baseline_of(&self.target.hash))
    }

    fn baseline_weight(&self) -> i32 {
        self.rollout.baseline.as_ref().map_or(0, |baseline| baseline.weight)
    }

    /// Whether the canary, and the baseline if there is to be one, have a share.
    pub(super) fn has_shares(&self, weight: i32) -> bool {
        let of_baseline = if self.baseline().is_some() { weight } else { 0 };
        (self.weight(), self.baseline_weight()) == (weight, of_baseline)
    }

    /// Gives the canary, and the baseline if there is one, a share.
    pub(super) fn give_shares(&mut self, weight: i32) {
        self.set_weight(weight);
        if let Some(baseline) = self.rollout.baseline.as_mut().filter(|baseline| baseline.weight != weight) {
            baseline.weight = weight;
            self.note_other_shares();
        }
    }

    /// Takes into the rollout what is seen of the baseline. Nobody is sent to one that cannot answer, or that is not
    /// wanted any more.
    pub(super) fn look_after_baseline(&mut self) -> Parts {
        let had = self.baseline_weight();
        let wanted = self.wanted();
        self.rollout.baseline = self.baseline().map(|revision| {
            let ready = self.world.serving.get(&revision).map_or(0, |view| view.ready.min(wanted));
            let weight = if ready > 0 { had } else { 0 };
            RolloutBaseline { revision, weight, pods: wanted, ready_pods: ready }
        });
        if self.baseline_weight() != had {
            self.note_other_shares();
        }
        Parts::of_notes(self.news_of_baseline())
    }

    fn news_of_baseline(&self) -> Option<Note> {
        let known = self.world.status.rollout.as_ref().and_then(|rollout| rollout.baseline.as_ref());
        let known = known.map(|known| &known.revision);
        let baseline = self.rollout.baseline.as_ref().filter(|baseline| Some(&baseline.revision) != known)?;
        let line = format!(
            "baseline {} starts with {} of the serving plan; plan {} is compared with it",
            baseline.revision,
            counted_pods(baseline.pods),
            self.target.hash
        );
        Some(Note::normal(Reason::BaselineStarting, line))
    }

    /// How far the pods of the canary have come, and after them those of the baseline.
    pub(super) fn progress(&self) -> Step<()> {
        let (serving, wanted) = (&self.world.serving, self.wanted());
        settled(&self.target.hash, serving.get(&self.target.hash), wanted)?;
        let Some(baseline) = self.baseline() else { return Ok(()) };
        settled(&baseline, serving.get(&baseline), wanted).map_err(|blocked| blocked.map(with_remedy))
    }

    /// What the baseline needs.
    pub(super) fn baseline_children(&self) -> Vec<Child> {
        let (Some(baseline), Some(stable)) = (&self.rollout.baseline, self.world.revision(self.stable)) else {
            return Vec::new();
        };
        build::serving::revision_children(self.world, &baseline.revision, &stable.plan, baseline.pods)
    }
}

/// It runs what serves already: that it does not start is not a fault of the canary's.
fn with_remedy(why: Why) -> Why {
    match why {
        Why::RevisionFailing { revision, failure } => {
            let remedy = "It runs the serving plan: check what has changed around it, or set \
                          spec.rollout.baseline to Stable";
            Why::RevisionFailing { revision, failure: format!("{}. {remedy}", failure.trim_end_matches('.')) }
        }
        why => why,
    }
}
