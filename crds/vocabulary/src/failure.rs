//! What a failure is, and so whether the operator tries again.

use serde::{Deserialize, Serialize};

/// Classes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum FailureClass {
    /// GPU or host memory was too small.
    InsufficientMemory,
    /// The hardware lacks the precision.
    UnsupportedPrecision,
    /// The model contradicts its configuration, or the builder rejects it.
    BadModel,
    /// The image lacks what the build needs, or does not exist.
    ImageMismatch,
    /// The cluster failed, not the build.
    Infrastructure,
}

impl FailureClass {
    /// The name in the API, in conditions and in metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientMemory => "InsufficientMemory",
            Self::UnsupportedPrecision => "UnsupportedPrecision",
            Self::BadModel => "BadModel",
            Self::ImageMismatch => "ImageMismatch",
            Self::Infrastructure => "Infrastructure",
        }
    }

    /// Whether another attempt of the same Job can end differently.
    #[must_use]
    pub const fn retries(self) -> bool {
        match self {
            Self::Infrastructure => true,
            Self::InsufficientMemory | Self::UnsupportedPrecision | Self::BadModel | Self::ImageMismatch => false,
        }
    }
}
