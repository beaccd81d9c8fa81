//! What the judge says of a canary, and what happens when it says nothing.

use serde::{Deserialize, Serialize};

/// Last verdict of the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum RolloutVerdict {
    /// The canary stays at its step.
    Hold,
    /// The canary goes to the next step.
    Advance,
    /// All traffic returns to stable.
    Rollback,
    /// The canary becomes stable.
    Promote,
}

impl RolloutVerdict {
    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "Hold",
            Self::Advance => "Advance",
            Self::Rollback => "Rollback",
            Self::Promote => "Promote",
        }
    }
}

/// What happens when there is no verdict in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum OnInconclusive {
    /// The rollout stays at its step and reports it. A later verdict still counts.
    #[default]
    Pause,
    /// The canary is rolled back.
    Rollback,
    /// The canary advances to the next step, unless harm is suspected.
    Promote,
}

impl OnInconclusive {
    /// Whether it is what an absent field means.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_verdict_is_called_as_it_is_written() {
        for verdict in
            [RolloutVerdict::Hold, RolloutVerdict::Advance, RolloutVerdict::Rollback, RolloutVerdict::Promote]
        {
            assert_eq!(serde_json::to_value(verdict).unwrap(), verdict.as_str());
        }
    }
}
