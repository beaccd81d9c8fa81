//! How far a campaign is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Phase of the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ProfilePhase {
    /// Configurations are being compared.
    Exploring,
    /// The best candidate is being run at its target load.
    Confirming,
    /// A configuration was chosen.
    Chosen,
    /// No configuration meets the objectives.
    Infeasible,
    /// The campaign failed.
    Failed,
}

impl ProfilePhase {
    /// Whether the campaign measures nothing more.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        match self {
            Self::Exploring | Self::Confirming => false,
            Self::Chosen | Self::Infeasible | Self::Failed => true,
        }
    }
}
