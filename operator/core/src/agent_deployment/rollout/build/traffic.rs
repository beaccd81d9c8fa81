//! Where clients are sent: the Service and the HTTPRoute of an AgentDeployment. Pure.

use slipway_crds::v1alpha1::agent_deployment::TrafficType;

use super::{
    pool,
    route::{self, Share},
    serving,
};
use crate::{
    agent_deployment::world::{RouteView, World},
    plan::Child,
};

/// The revisions between which traffic is split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split<'a> {
    /// The revision that serves; absent before the first one does.
    pub stable: Option<&'a str>,
    /// The revision on trial and its share in percent.
    pub canary: Option<(&'a str, i32)>,
    /// The baseline that the canary is compared with and its share in percent. Only a gateway gives it one.
    pub baseline: Option<(&'a str, i32)>,
}

/// The objects that bring about a split.
pub fn traffic(world: &World, split: Split<'_>) -> Vec<Child> {
    // Without a gateway the Service takes pods of both revisions, by ratio or while one replaces the other pod by pod.
    let has_gateway = world.spec.rollout.traffic.r#type == TrafficType::GatewayAPI;
    let service = match split.canary {
        Some((_, weight)) if weight > 0 && !has_gateway => serving::common_service(world),
        // Nobody else is there for those who come past the gateway.
        Some((canary, 100)) => serving::stable_service(world, Some(canary)),
        Some(_) | None => serving::stable_service(world, split.stable),
    };
    let mut children = vec![Child::Service(Box::new(service))];
    children.extend(http_route(world, split).map(|route| Child::HttpRoute(Box::new(route))));
    children
}

fn http_route(world: &World, split: Split<'_>) -> Option<gateway_api::httproutes::HttpRoute> {
    let gateway = world.spec.rollout.traffic.gateway_api.as_ref()?;
    // A route to pools that nobody can make would send users nowhere.
    if world.route == RouteView::UnknownKind || pool::problem(world).is_some() {
        return None;
    }
    let stable = split.stable?;
    let beside = split.canary.into_iter().chain(split.baseline).map(|(revision, weight)| Share { revision, weight });
    let given: i32 = beside.clone().map(|share| share.weight).sum();
    let shares: Vec<Share<'_>> =
        std::iter::once(Share { revision: stable, weight: 100 - given }).chain(beside).collect();
    Some(route::http_route(world, gateway, &shares))
}
