//! Classes of failure, which decide whether the operator tries again.

use serde::{Deserialize, Serialize};

/// Classifies why a Job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FailureClass {
    /// The model, its engine or its cache does not fit the GPU's or the container's memory.
    InsufficientMemory,
    /// The GPU or the builder cannot compute in the precision asked for.
    UnsupportedPrecision,
    /// The model, its files or what was built from them is missing, damaged or refused by the server.
    BadModel,
    /// The image does not hold what its backend needs, or holds another version of it.
    ImageMismatch,
    /// The network, the store or the node failed; nothing is wrong with the request.
    Infrastructure,
}

impl FailureClass {
    /// Says whether another attempt of the same Job can end differently.
    pub fn retries(self) -> bool {
        match self {
            Self::Infrastructure => true,
            Self::InsufficientMemory | Self::UnsupportedPrecision | Self::BadModel | Self::ImageMismatch => false,
        }
    }

    /// Returns the name used in conditions and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientMemory => "InsufficientMemory",
            Self::UnsupportedPrecision => "UnsupportedPrecision",
            Self::BadModel => "BadModel",
            Self::ImageMismatch => "ImageMismatch",
            Self::Infrastructure => "Infrastructure",
        }
    }

    /// Returns the exit code with which the worker ends after such a failure.
    ///
    /// Exit code 2 is the command line's own (a usage error), 1 is an unclassified failure.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::InsufficientMemory => 10,
            Self::UnsupportedPrecision => 11,
            Self::BadModel => 12,
            Self::ImageMismatch => 13,
            Self::Infrastructure => 14,
        }
    }
}
