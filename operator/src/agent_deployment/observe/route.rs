//! The HTTPRoute, and whether a Gateway serves it. Reads IO.

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Client, ResourceExt};
use slipway_crds::v1alpha1::AgentDeployment;

use super::{KnownKinds, ObserveError, list};
use crate::{
    agent_deployment::world::{OwnedObject, RouteView},
    plan::RemovalKind,
};

/// The route, where the cluster knows routes. Where none is asked for, one of an earlier spec may be left; a cluster without
/// routes is not asked for them, for each such answer is a warning in the log.
///
/// # Errors
/// When the API server does not answer.
pub async fn observe(
    client: &Client,
    kinds: KnownKinds,
    selector: &str,
    object: &AgentDeployment,
) -> Result<RouteView, ObserveError> {
    if object.spec.rollout.traffic.gateway_api.is_none() && !kinds.routes {
        return Ok(RouteView::UnknownKind);
    }
    let namespace = object.namespace().unwrap_or_default();
    let routes = match list::<HttpRoute>(client, &namespace, selector).await {
        Ok(routes) => routes,
        Err(ObserveError::List { source, .. }) if is_unknown_kind(&source) => return Ok(RouteView::UnknownKind),
        Err(error) => return Err(error),
    };
    let Some(route) = routes.into_iter().find(|route| route.metadata.deletion_timestamp.is_none()) else {
        return Ok(RouteView::Absent);
    };
    let (Some(uid), Some(resource_version)) = (route.uid(), route.resource_version()) else {
        return Ok(RouteView::Absent);
    };
    let object = OwnedObject { kind: RemovalKind::HttpRoute, name: route.name_any(), uid, resource_version };
    Ok(RouteView::Present { object, problem: route_problem(&route) })
}

/// Whether the API server serves no such kind: a list answers 404 for no other reason. Of a group that it has never heard of it says
/// so in plain text, which has no reason for programs.
fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Why no Gateway serves a route as it stands: what its controllers say, or that none has said anything.
fn route_problem(route: &HttpRoute) -> Option<String> {
    let names: Vec<&str> = route.spec.parent_refs.iter().flatten().map(|parent| parent.name.as_str()).collect();
    let parents = route.status.as_ref().map(|status| status.parents.as_slice()).unwrap_or_default();
    if parents.is_empty() {
        return Some(format!(
            "no Gateway has taken HTTPRoute {} in: is {} there, does a controller serve it, and does a listener of it admit \
             routes of this namespace?",
            route.name_any(),
            names.join(", ")
        ));
    }
    parents.iter().find_map(|parent| {
        let refused = parent.conditions.iter().find(|condition| {
            matches!(condition.type_.as_str(), "Accepted" | "ResolvedRefs") && condition.status != "True"
        })?;
        let Condition { type_, reason, message, .. } = refused;
        Some(format!(
            "Gateway {} does not serve HTTPRoute {}: {type_} {reason} {message}",
            parent.parent_ref.name,
            route.name_any()
        ))
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::is_unknown_kind;

    #[test]
    fn a_cluster_without_routes_is_told_from_one_that_fails() {
        let answer = |text: &str, code| {
            let status = Status::failure(text, "Failed to parse error data").with_code(code);
            is_unknown_kind(&kube::Error::Api(Box::new(status)))
        };
        assert!(answer("404 page not found\n", 404));
        assert!(!answer("too many requests", 429));
    }
}
