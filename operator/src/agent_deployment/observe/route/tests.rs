//! What is read of an HTTPRoute.

use gateway_api::httproutes::HttpRoute;
use kube::core::Status;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_crds::labels;
use slipway_operator_core::agent_deployment::world::RouteRival;

use super::{is_unknown_kind, rival, route_problem};

#[test]
fn a_cluster_without_routes_is_told_from_one_that_fails() {
    let answer = |text: &str, code| {
        let status = Status::failure(text, "Failed to parse error data").with_code(code);
        is_unknown_kind(&kube::Error::Api(Box::new(status)))
    };
    assert!(answer("404 page not found\n", 404));
    assert!(!answer("too many requests", 429));
}

/// A route attached to `agents` and `internal`, of which the first one says so much.
fn route(conditions: &[(&str, &str, &str, &str)]) -> HttpRoute {
    let condition = |(kind, status, reason, message): &(&str, &str, &str, &str)| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    let said =
        json!({"parentRef": {"name": "agents"}, "controllerName": "example.com/gateway", "conditions": conditions});
    let parents = if conditions.is_empty() { json!([]) } else { json!([said]) };
    serde_json::from_value(json!({
        "metadata": {"name": "support"},
        "spec": {"parentRefs": [{"name": "agents"}, {"name": "internal"}]},
        "status": {"parents": parents},
    }))
    .expect("an HTTPRoute")
}

#[test]
fn a_route_that_a_gateway_has_taken_in_has_no_problem() {
    let conditions = [("Accepted", "True", "Accepted", ""), ("ResolvedRefs", "True", "ResolvedRefs", "")];
    assert_eq!(route_problem(&route(&conditions)), None);
}

#[rstest]
#[case::no_such_gateway(
    &[],
    "no Gateway has accepted HTTPRoute support (parents: agents, internal): check that the Gateway exists, that a controller serves it, and that one of its listeners admits routes of this namespace"
)]
#[case::not_admitted(
    &[("Accepted", "False", "NotAllowedByListeners", "namespace team is not allowed")],
    "Gateway agents does not serve HTTPRoute support: Accepted NotAllowedByListeners namespace team is not allowed"
)]
#[case::no_backend(
    &[
        ("Accepted", "True", "Accepted", ""),
        ("ResolvedRefs", "False", "BackendNotFound", "service team/support-0a1b2c3d4e not found"),
    ],
    "Gateway agents does not serve HTTPRoute support: ResolvedRefs BackendNotFound service team/support-0a1b2c3d4e not found"
)]
fn a_route_that_no_gateway_serves_says_so_in_the_gateways_words(
    #[case] conditions: &[(&str, &str, &str, &str)],
    #[case] expected: &str,
) {
    assert_eq!(route_problem(&route(conditions)).as_deref(), Some(expected));
}

/// A route whose fields these own: manager, subresource, fields.
fn owned_by(entries: &[(&str, Option<&str>, Value)]) -> HttpRoute {
    let entry = |(manager, subresource, fields): &(&str, Option<&str>, Value)| {
        json!({"manager": manager, "operation": "Update", "subresource": subresource, "fieldsType": "FieldsV1",
            "apiVersion": "gateway.networking.k8s.io/v1", "fieldsV1": fields})
    };
    let entries: Vec<Value> = entries.iter().map(entry).collect();
    let object = json!({"metadata": {"name": "support", "managedFields": entries}, "spec": {}});
    serde_json::from_value(object).expect("an HTTPRoute")
}

fn seen(manager: &str, fields: &str) -> Option<RouteRival> {
    Some(RouteRival { manager: manager.to_owned(), fields: fields.to_owned() })
}

#[test]
fn whoever_overwrites_what_the_operator_wrote_is_named_with_what_it_took() {
    let ours = (labels::FIELD_MANAGER, None, json!({"f:spec": {"f:parentRefs": {}}}));
    let taken = json!({"f:spec": {"f:hostnames": {}, "f:parentRefs": {}, "f:rules": {}}});
    let expected = seen("argocd-controller", "spec.hostnames, spec.rules");
    assert_eq!(rival(&owned_by(&[ours, ("argocd-controller", None, taken)])), expected);
}

#[test]
fn gateways_and_labels_and_equal_words_contest_nothing() {
    let ours = (labels::FIELD_MANAGER, None, json!({"f:spec": {"f:parentRefs": {}, "f:rules": {}}}));
    let gateway = ("traefik", Some("status"), json!({"f:status": {"f:parents": {}}}));
    let labelled = ("kubectl-label", None, json!({"f:metadata": {"f:labels": {"f:team": {}}}}));
    let alike = ("kustomize-controller", None, json!({"f:spec": {"f:rules": {}}}));
    assert_eq!(rival(&owned_by(&[ours, gateway, labelled, alike])), None);
    assert_eq!(rival(&owned_by(&[])), None);
}
