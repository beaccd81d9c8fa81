//! How a failure is told: its class, and so whether the operator tries again, and its causes on one line.

use std::error::Error;

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
    /// The artifact store lacks what was put there: an engine or a checkpoint.
    MissingArtifact,
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
            Self::MissingArtifact => "MissingArtifact",
            Self::Infrastructure => "Infrastructure",
        }
    }

    /// Whether another attempt of the same Job can end differently.
    #[must_use]
    pub const fn retries(self) -> bool {
        match self {
            Self::Infrastructure => true,
            Self::InsufficientMemory
            | Self::UnsupportedPrecision
            | Self::BadModel
            | Self::ImageMismatch
            | Self::MissingArtifact => false,
        }
    }
}

/// An error with its causes on one line, outermost first; a log's formatter shows the error alone. Some libraries write
/// the cause into the error itself: nothing is said twice.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words.push_str(": ");
            words.push_str(&text);
        }
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use pretty_assertions::assert_eq;

    use super::{Error, chain};

    #[derive(Debug)]
    struct Failure {
        words: &'static str,
        cause: Option<Box<Failure>>,
    }

    impl fmt::Display for Failure {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.words)
        }
    }

    impl Error for Failure {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.cause.as_deref().map(|cause| cause as &dyn Error)
        }
    }

    fn failure(words: &'static str, cause: Option<Failure>) -> Failure {
        Failure { words, cause: cause.map(Box::new) }
    }

    #[test]
    fn every_cause_is_told_outermost_first() {
        let error =
            failure("failed to connect", Some(failure("failed to read /x", Some(failure("no such file", None)))));
        assert_eq!(chain(&error), "failed to connect: failed to read /x: no such file");
    }

    #[test]
    fn a_cause_that_the_error_names_itself_is_said_once() {
        let read = failure("failed to read /x: no such file", Some(failure("no such file", None)));
        assert_eq!(
            chain(&failure("failed to connect", Some(read))),
            "failed to connect: failed to read /x: no such file"
        );
    }
}
