//! What keeps a canary at its step, other than the judge. Pure.

use std::fmt;

use jiff::SignedDuration;

/// How long a route counts as contested once somebody else was last seen to have written it: longer than tools that put their own
/// version back take for a round.
pub const CONTEST_REMEMBERED: SignedDuration = SignedDuration::from_mins(5);

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
            "spec.rollout.traffic.gatewayAPI: {manager} has written {fields} of HTTPRoute {route}, which is the operator's. Its own words \
             are put back, and no canary is given more traffic until nobody else has written it for {} minutes: take the route out of \
             what {manager} applies, and take back what it added",
            CONTEST_REMEMBERED.as_secs() / 60
        )
    }
}
