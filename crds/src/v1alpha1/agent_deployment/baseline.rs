//! The baseline of a canary: the choice in the spec, and its state in the status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RolloutStatus;

/// What a canary is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Baseline {
    /// The pods of stable.
    #[default]
    Stable,
    /// Fresh pods of stable's plan, as many as the canary has and with the same weight.
    MirrorBaseline,
}

impl Baseline {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RolloutStatus {
    /// Gives the baseline that the canary is compared with: the one that has traffic.
    pub fn compared_baseline(&self) -> Option<&RolloutBaseline> {
        self.baseline.as_ref().filter(|baseline| baseline.weight > 0)
    }
}

/// Fresh pods of stable's plan beside a canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutBaseline {
    /// Name of the baseline: the hash of the canary's plan with `-base`. Its pods carry it as label, and the header
    /// `x-slipway-revision` reaches them by it. They run stable's plan.
    #[schemars(length(max = 63))]
    pub revision: String,
    /// Weight of the baseline in percent: that of the canary. It is 0 until all pods of the baseline are ready, and
    /// while none is.
    pub weight: i32,
    /// Wanted number of pods: as many as the canary has.
    pub pods: i32,
    /// Number of pods that are ready.
    pub ready_pods: i32,
}
