//! How soon an unusable route is read again: neither Gateways nor routes are watched. Pure.
//!
//! A missing gateway is missing for all AgentDeployments, so they look less and less often, and not all at once.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::identity::content_hash;

use super::route;
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::World,
    },
    plan::SOON,
    why::Why,
};

/// Longest time between two looks, before it is spread.
const LONGEST: Duration = Duration::from_secs(60);

/// Since when no gateway serves the route, as it is written down, and when to look again. It follows from the route
/// alone: a rollout that waits for something else meanwhile does not make an old problem a new one.
pub(super) fn recorded(world: &World) -> Planned<Option<Time>> {
    match route::problem(world) {
        Some(Why::RouteUnavailable { .. }) => {
            let known = world.status.rollout.as_ref().and_then(|rollout| rollout.route_unavailable_since.clone());
            let since = known.unwrap_or(Time(world.now));
            let wait = unavailable(world.now.duration_since(since.0), &world.owner.uid);
            Parts::look_within(wait).with(Some(since))
        }
        // Weights that somebody else has changed are restored at every look.
        Some(Why::RouteContested(_)) => Parts::look_within(SOON).with(None),
        Some(_) | None => Parts::default().with(None),
    }
}

/// As long as it has lasted, within bounds, and up to a quarter more or less by the UID of the object.
fn unavailable(lasted: SignedDuration, uid: &str) -> Duration {
    let lasted = Duration::try_from(lasted).unwrap_or_default();
    let wait = lasted.clamp(SOON, LONGEST);
    wait.mul_f64(0.75 + spread(uid) / 2.0)
}

/// A number from 0 to 1 that stays with the object.
fn spread(uid: &str) -> f64 {
    let hash = content_hash(&uid).map(|hash| hash.short().to_owned()).unwrap_or_default();
    let digits = hash.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
    f64::from(digits.unwrap_or_default()) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(lasted: i64, uid: &str) -> u128 {
        unavailable(SignedDuration::from_secs(lasted), uid).as_millis()
    }

    #[test]
    fn the_longer_it_lasts_the_less_often_it_is_looked_at() {
        for (lasted, wait) in [(-3, 5), (0, 5), (5, 5), (20, 20), (59, 59), (60, 60), (86_400, 60)] {
            let found = milliseconds(lasted, "uid-1");
            assert!((wait * 750..=wait * 1_250).contains(&found), "{lasted} s: {found} ms");
        }
    }

    #[test]
    fn agents_of_one_missing_gateway_do_not_look_at_once() {
        let waits: Vec<u128> = (0..100).map(|agent| milliseconds(600, &format!("uid-{agent}"))).collect();
        let in_second = |second: u128| waits.iter().filter(|wait| **wait / 1_000 == second).count();
        let most = (45..=75).map(in_second).max();
        assert!(most.is_some_and(|most| most <= 12), "{waits:?}");
        assert_eq!(milliseconds(600, "uid-1"), milliseconds(600, "uid-1"));
    }
}
