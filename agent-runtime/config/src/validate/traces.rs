//! What makes a receiver of traces usable. Pure.

use crate::{AllowedNetworks, Tracing, UrlTemplate};

use super::{Check, check_address, kubernetes_name, validate_mounts};

/// What is added to the address.
const PATH: &str = "/v1/traces";

pub(super) fn validate(check: &mut Check, tracing: &Tracing) {
    let Tracing { endpoint, namespace, sampled_per_million, headers_from, authorities_from, allowed_networks } =
        tracing;
    const ENDPOINT: &str = "tracing.endpoint";
    match UrlTemplate::parse(endpoint) {
        Err(error) => check.fail(ENDPOINT, error.to_string()),
        Ok(url) => check.that(url.placeholders().next().is_none() && !endpoint.contains('?'), ENDPOINT, || {
            "has a placeholder or a query; write the address alone, such as http://collector:4318".into()
        }),
    }
    check.that(!endpoint.trim_end_matches('/').ends_with(PATH), ENDPOINT, || {
        format!("ends with {PATH}, which is added to it; leave that out")
    });
    if let Some(namespace) = namespace {
        kubernetes_name(check, "tracing.namespace", namespace);
    }
    check.range("tracing.sampledPerMillion", (*sampled_per_million).into(), 0..=1_000_000);
    validate_mounts(check, "tracing", endpoint, headers_from.as_deref(), authorities_from.as_deref());
    if let Err(error) = AllowedNetworks::parse(allowed_networks) {
        check.fail("tracing.allowedNetworks", error.to_string());
    }
}

/// What only a person's words must not have.
pub(super) fn validate_as_written(check: &mut Check, tracing: &Tracing) {
    check_address(check, "tracing.endpoint", &tracing.endpoint, &tracing.allowed_networks);
}
