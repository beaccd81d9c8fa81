//! Where objects send traffic.

use std::collections::BTreeMap;

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::api::core::v1::Service;
use slipway_crds::labels::REVISION;

/// The revision to which a Service goes.
pub(super) fn routed_to(service: &Service) -> Option<String> {
    service.spec.as_ref()?.selector.as_ref()?.get(REVISION).cloned().filter(|revision| revision != "none")
}

/// The weights of the rule that asks for no revision, by Service.
pub(super) fn weights(route: &HttpRoute) -> BTreeMap<String, i32> {
    let rules = route.spec.rules.iter().flatten().filter(|rule| rule.matches.is_none());
    let backends = rules.flat_map(|rule| rule.backend_refs.iter().flatten());
    backends.map(|backend| (backend.name.clone(), backend.weight.unwrap_or(1))).collect()
}
