//! A plan that was rolled back, and how a person tries one once more. Pure.

use std::fmt;

use super::plugin::Named;

/// A plan that did harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Hash of the plan.
    pub revision: String,
    /// Which harm, at which share, with numbers.
    pub reason: String,
    /// How it is tried once more.
    pub retry: Retry,
}

/// How a person tries a plan once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Whose plan it is.
    pub named: Named,
    /// The token that the field takes.
    pub token: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, reason, retry } = self;
        write!(f, "revision {revision} was rolled back {reason}. Change the spec, {retry}")
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { named, token } = self;
        write!(f, "run {}, or set spec.rollout.retry to {token}", named.command("retry"))
    }
}
