//! Canaries that are held at their step by a cause that yields no verdict. Pure.
//!
//! Without data nothing is decided, however long that takes: `onInconclusive` is for weak evidence, not for missing
//! evidence. But once the longest soak of the step is over, people are notified.

use jiff::SignedDuration;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{OnInconclusive, RolloutVerdict},
};

use super::canary::Canary;
use crate::why::{Held, Why};

impl Canary<'_> {
    /// The same for people, where a canary with a share has been kept at its step for too long.
    pub(super) fn held_for_long(&self, why: Why) -> Why {
        let revision = self.target.hash.clone();
        let message = match &why {
            Why::RouteUnavailable { .. } | Why::RouteContested(_) => format!("{}: {why}", why.reason()),
            Why::CanaryJudged { reason, message, .. } if self.is_silence(*reason) => match reason {
                Reason::GuardrailBlocking => format!("{reason}: {message}"),
                // The judge begins with the word itself.
                _ => message.clone(),
            },
            _ => return why,
        };
        match self.exceeded_soak() {
            Some(max_seconds) => {
                let (weight, named) = (self.weight(), self.world.named());
                Why::RolloutHeld(Held { revision, weight, max_seconds, message, named })
            }
            None => why,
        }
    }

    /// What the judge says, and what a person can do where it leaves the decision to one.
    pub(super) fn with_remedy(&self, reason: Reason, message: String) -> String {
        let waits =
            reason == Reason::VerdictUnreachable && self.world.spec.rollout.on_inconclusive == OnInconclusive::Pause;
        if waits { format!("{message}. {}", self.world.named().decided()) } else { message }
    }

    /// Whether it never yields a verdict, however long it lasts.
    fn is_silence(&self, reason: Reason) -> bool {
        let rollout = &self.world.spec.rollout;
        match reason {
            Reason::NoTraffic
            | Reason::EvidenceUnreachable
            | Reason::TrafficSplitMismatch
            | Reason::NodeAtFault
            | Reason::GuardrailBlocking => true,
            // Nothing continues under suspicion, whatever the spec says. Pause already reports it.
            Reason::VerdictUnreachable => {
                let is_kept = self.rollout.verdict == Some(RolloutVerdict::Hold);
                is_kept && rollout.on_inconclusive != OnInconclusive::Pause
            }
            _ => false,
        }
    }

    /// The longest soak of the step, in seconds, if the canary has had its share for longer.
    fn exceeded_soak(&self) -> Option<u64> {
        let max_seconds = self.planned()?.max_soak_seconds;
        let since = self.rollout.weight_since.as_ref().filter(|_| self.weight() > 0)?;
        let longest = SignedDuration::from_secs(i64::try_from(max_seconds).ok()?);
        (self.world.now.duration_since(since.0) > longest).then_some(max_seconds)
    }
}
