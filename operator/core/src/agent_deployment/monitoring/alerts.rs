//! The alerting rules of what serves. Pure.

use super::build;
use crate::{
    agent_deployment::{
        parts::Parts,
        world::{OwnedObject, World},
    },
    plan::RemovalKind,
};

/// There are rules once a revision serves: before, nothing is counted.
pub(in crate::agent_deployment) fn decide(world: &World) -> Parts {
    let is_wanted = world.spec.alerts.burn_rate;
    let rules = world.stable().filter(|_| is_wanted).and_then(|_| build::alerts::child(world));
    let kept = rules.as_ref().map(|_| RemovalKind::from(build::alerts::kind(world)));
    let others = world.rules.objects.iter().filter(|object| Some(object.kind) != kept);
    Parts::of_removals(others.map(OwnedObject::removal)).and(Parts::of_children(rules))
}
