//! What keeps a canary at its step, other than the judge. Pure.

use std::fmt;

use jiff::SignedDuration;

use super::plugin::Named;

/// How long a route counts as contested once somebody else was last seen to have written it: longer than tools that put
/// their own version back take for a round.
pub const CONTEST_REMEMBERED: SignedDuration = SignedDuration::from_mins(5);

/// A canary that has had its share for longer than its step may take, though nothing was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Hash of the revision's plan.
    pub revision: String,
    /// Its share in percent.
    pub weight: i32,
    /// The longest soak of its step, in seconds.
    pub max_seconds: u64,
    /// What keeps it: the reason in one word, and the same with numbers.
    pub message: String,
    /// Whose canary it is.
    pub named: Named,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { revision, weight, max_seconds, message, named } = self;
        write!(
            f,
            "revision {revision} has had {weight} % of the traffic for longer than the {max_seconds} s of its maxSoak, \
             and no verdict is possible: {message}. It keeps its share until that is fixed. {}",
            named.decided()
        )
    }
}

/// Somebody else who writes the route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contested {
    /// Name of the route.
    pub route: String,
    /// Its name as a field manager.
    pub manager: String,
    /// What it wrote.
    pub fields: String,
}

impl fmt::Display for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, manager, fields } = self;
        write!(
            f,
            "spec.rollout.traffic.gatewayAPI: {manager} has written {fields} of HTTPRoute {route}, which the operator \
             owns. The operator restores its own values. No canary gets more traffic until nobody else has written the \
             route for {} minutes: remove the route from what {manager} applies, and remove what it added",
            CONTEST_REMEMBERED.as_secs() / 60
        )
    }
}
