//! What a new revision is compared with: what a user asks for, and what stands in the status of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RolloutStatus;

/// What a new revision is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Baseline {
    /// The pods that serve.
    #[default]
    Stable,
    /// Fresh pods of the serving plan, as many as the new revision has and with the same share of the traffic.
    MirrorBaseline,
}

impl Baseline {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RolloutStatus {
    /// The baseline that the canary is compared with: it has traffic.
    pub fn compared_baseline(&self) -> Option<&RolloutBaseline> {
        self.baseline.as_ref().filter(|baseline| baseline.weight > 0)
    }
}

/// Fresh pods of the stable plan beside a canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutBaseline {
    /// Name under which its pods are found, and reached by the header `x-slipway-revision`: the hash of the canary's plan with
    /// `-base`. What they run is the stable plan.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// Share of traffic that goes to it, in percent: that of the canary, or none before all its pods are ready and while none is.
    pub weight: i32,
    /// Pods that it is to have: as many as the canary.
    pub pods: i32,
    /// Pods of it that are ready.
    pub ready_pods: i32,
}
