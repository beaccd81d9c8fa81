//! Why the baseline of drift begins again. Pure.

use std::fmt;

use slipway_analysis::drift::Incomparable;

/// Why a baseline begins again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restart {
    /// The memory is gone.
    MemoryMissing {
        /// Name of the ConfigMap.
        config_map: String,
    },
    /// The memory cannot be read.
    MemoryUnreadable {
        /// Name of the ConfigMap.
        config_map: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A campaign confirmed the serving choice, which is compared with itself from then on.
    Measured {
        /// Number of the measurement.
        number: i32,
    },
    /// Nothing with traffic can be compared with it any more.
    Incomparable(Incomparable),
}

impl Restart {
    /// The cause as the status records it. Announcements follow from it, and not from the message.
    pub fn code(&self) -> String {
        match self {
            Self::MemoryMissing { .. } => "MemoryMissing".to_owned(),
            Self::MemoryUnreadable { .. } => "MemoryUnreadable".to_owned(),
            Self::Measured { number } => format!("Measured/{number}"),
            Self::Incomparable(Incomparable { field, baseline, current }) => {
                let known = |value: &Option<String>| value.clone().unwrap_or_default();
                format!("Incomparable/{field}/{}/{}", known(baseline), known(current))
            }
        }
    }
}

impl fmt::Display for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemoryMissing { config_map } => write!(f, "ConfigMap {config_map} is missing"),
            Self::MemoryUnreadable { config_map, problem } => {
                write!(f, "ConfigMap {config_map} cannot be read: {problem}")
            }
            Self::Measured { number } => write!(f, "measurement {number} confirmed the serving choice"),
            Self::Incomparable(difference) => write!(f, "{difference}, which cannot be compared"),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_codes_stay() {
        let config_map = || "support-drift".to_owned();
        let engine = |digest: &str| Some(digest.to_owned());
        let difference = |current| Incomparable { field: "engine".to_owned(), baseline: engine("sha256:1"), current };
        let causes = [
            Restart::MemoryMissing { config_map: config_map() },
            Restart::MemoryUnreadable { config_map: config_map(), problem: "it is not JSON".to_owned() },
            Restart::Measured { number: 3 },
            Restart::Incomparable(difference(engine("sha256:2"))),
            Restart::Incomparable(difference(None)),
        ];
        let codes = [
            "MemoryMissing",
            "MemoryUnreadable",
            "Measured/3",
            "Incomparable/engine/sha256:1/sha256:2",
            "Incomparable/engine/sha256:1/",
        ];
        assert_eq!(causes.map(|cause| cause.code()), codes);
    }
}
