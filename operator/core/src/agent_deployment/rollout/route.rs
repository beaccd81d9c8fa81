//! The route: whether it carries traffic as it is to, and what of it goes. Pure.

use super::{build, route_contest};
use crate::{
    agent_deployment::{
        parts::Parts,
        world::{OwnedObject, RouteView, World},
    },
    plan::{Removal, RemovalKind},
    why::Why,
};

/// Why the route does not carry traffic as it is to, where there is to be one.
pub(super) fn problem(world: &World) -> Option<Why> {
    world.spec.rollout.traffic.gateway_api.as_ref()?;
    if let Some(problem) = build::pool::problem(world) {
        return Some(Why::RouteUnavailable { problem: problem.to_owned() });
    }
    let problem = match &world.route {
        RouteView::UnknownKind => {
            "the cluster has no HTTPRoute: install the CRDs of the Gateway API and a gateway, or set \
             spec.rollout.traffic.type to ReplicaRatio"
                .to_owned()
        }
        RouteView::Absent => return None,
        RouteView::Present { problem, .. } => match problem {
            Some(problem) => problem.clone(),
            None => return route_contest::why(world),
        },
    };
    Some(Why::RouteUnavailable { problem })
}

/// A route that nothing asks for any more goes: the Service carries everything.
pub(super) fn remove(world: &World) -> Parts {
    match &world.route {
        RouteView::Present { object, .. } if world.spec.rollout.traffic.gateway_api.is_none() => {
            Parts::of_removals([object.removal()])
        }
        RouteView::Present { .. } | RouteView::Absent | RouteView::UnknownKind => Parts::default(),
    }
}

/// Pools that nothing asks for any more go, beside what is removed already: the route has left them.
pub(super) fn remove_pools(world: &World, removed: &[Removal]) -> Parts {
    if build::pool::is_asked_for(world) {
        return Parts::default();
    }
    let is_left = |object: &&OwnedObject| {
        let is_removed = removed.iter().any(|removal| removal.uid == object.uid);
        object.kind == RemovalKind::InferencePool && !is_removed
    };
    Parts::of_removals(world.objects.values().flatten().filter(is_left).map(OwnedObject::removal))
}
