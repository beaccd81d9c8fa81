//! The HTTPRoute, and whether a Gateway serves it. Reads IO.

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ManagedFieldsEntry};
use kube::ResourceExt;
use slipway_crds::{labels, v1alpha1::AgentDeployment};
use slipway_operator_core::{
    agent_deployment::world::{OwnedObject, RouteRival, RouteView},
    plan::RemovalKind,
};

use super::KnownKinds;
use crate::kube_io::read::{ReadError, Reader};

/// The route, where the cluster knows routes. Where the spec asks for no route, one of an earlier spec may be left. A
/// cluster without routes is not asked for them, because each such answer is a warning in the log.
///
/// # Errors
/// When the API server does not answer.
pub async fn observe(
    reader: &Reader,
    kinds: KnownKinds,
    selector: &str,
    object: &AgentDeployment,
) -> Result<RouteView, ReadError> {
    if object.spec.rollout.traffic.gateway_api.is_none() && !kinds.routes {
        return Ok(RouteView::UnknownKind);
    }
    let namespace = object.namespace().unwrap_or_default();
    let routes = match reader.list::<HttpRoute>(&namespace, selector).await {
        Ok(routes) => routes,
        Err(ReadError::List { source, .. }) if is_unknown_kind(&source) => return Ok(RouteView::UnknownKind),
        Err(error) => return Err(error),
    };
    let Some(route) = routes.into_iter().find(|route| route.metadata.deletion_timestamp.is_none()) else {
        return Ok(RouteView::Absent);
    };
    let (Some(uid), Some(resource_version)) = (route.uid(), route.resource_version()) else {
        return Ok(RouteView::Absent);
    };
    let object = OwnedObject { kind: RemovalKind::HttpRoute, name: route.name_any(), uid, resource_version };
    Ok(RouteView::Present { object, problem: route_problem(&route), rival: rival(&route) })
}

/// Whether the API server serves no such kind: a list answers 404 for no other reason. Of a group that it has never
/// heard of it says so in plain text, which has no reason for programs.
fn is_unknown_kind(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Why no Gateway serves a route as it stands: what its controllers say, or that none has said anything.
fn route_problem(route: &HttpRoute) -> Option<String> {
    let names: Vec<&str> = route.spec.parent_refs.iter().flatten().map(|parent| parent.name.as_str()).collect();
    let parents = route.status.as_ref().map(|status| status.parents.as_slice()).unwrap_or_default();
    if parents.is_empty() {
        return Some(format!(
            "no Gateway has accepted HTTPRoute {} (parents: {}): check that the Gateway exists, that a controller serves it, and that one of its listeners admits routes of this namespace",
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

/// Who owns members of the spec that the operator owns no more, or never did. A member that both own is written alike
/// by both.
fn rival(route: &HttpRoute) -> Option<RouteRival> {
    let entries = route.metadata.managed_fields.as_deref().unwrap_or_default();
    let (ours, others): (Vec<_>, Vec<_>) =
        entries.iter().partition(|entry| entry.manager.as_deref() == Some(labels::FIELD_MANAGER));
    let owned: Vec<String> = ours.into_iter().flat_map(members).collect();
    others.into_iter().find_map(|entry| {
        let taken: Vec<String> = members(entry).into_iter().filter(|member| !owned.contains(member)).collect();
        let manager = entry.manager.as_deref().unwrap_or("an unnamed field manager");
        let fields = taken.join(", ").chars().take(128).collect();
        let is_rival = !taken.is_empty();
        is_rival.then(|| RouteRival { manager: manager.chars().take(128).collect(), fields })
    })
}

/// Members of the spec that an entry owns: `spec.rules`. Gateways own nothing but the status.
fn members(entry: &ManagedFieldsEntry) -> Vec<String> {
    let spec = entry.fields_v1.as_ref().and_then(|fields| fields.0.get("f:spec")?.as_object());
    spec.into_iter().flatten().filter_map(|(key, _)| Some(format!("spec.{}", key.strip_prefix("f:")?))).collect()
}

#[cfg(test)]
mod tests;
