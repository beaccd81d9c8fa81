//! The HTTPRoute of an AgentDeployment: weights between revisions, and a way to each of them by name. Pure.

use gateway_api::httproutes::{
    HttpRoute, HttpRouteParentRefs, HttpRouteRules, HttpRouteRulesBackendRefs, HttpRouteRulesMatches,
    HttpRouteRulesMatchesHeaders, HttpRouteRulesMatchesHeadersType, HttpRouteRulesTimeouts, HttpRouteSpec,
};
use kube::Resource;
use slipway_crds::v1alpha1::agent_deployment::{GatewayReference, GatewayTraffic};

use super::{pool, serving::SERVICE_PORT};
use crate::{
    agent_deployment::{
        metadata::{owned, revision_name, serving_labels},
        world::World,
    },
    inference_pool::InferencePool,
};

/// Header by which a client asks for one revision; every answer carries it too.
const REVISION_HEADER: &str = "x-slipway-revision";
/// How much longer than a run its request to a pod may take: for the run's last events, and for connections.
const BACKEND_MARGIN_SECONDS: u64 = 10;
/// How much longer than a request to a pod the client's may take, so that a gateway can still say that the pod was too
/// slow.
const REQUEST_MARGIN_SECONDS: u64 = 5;
/// The most that a duration of the Gateway API says with one unit (GEP-2257).
const MAX_SECONDS: u64 = 99_999;

/// A live revision and its share of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share<'a> {
    /// Hash of the revision's plan.
    pub revision: &'a str,
    /// Percent of the traffic that names no revision.
    pub weight: i32,
}

/// The route. Rules by header come first: an exact header match outranks none whatever the order, and readers see it
/// so.
pub fn http_route(world: &World, gateway: &GatewayTraffic, shares: &[Share<'_>]) -> HttpRoute {
    let mut rules: Vec<HttpRouteRules> = shares.iter().map(|share| by_name(world, share.revision)).collect();
    rules.push(weighted(world, shares));
    for rule in &mut rules {
        rule.timeouts = Some(timeouts(longest_run_seconds(world, shares)));
    }
    HttpRoute {
        metadata: owned(world, world.name.clone(), serving_labels(world, None)),
        spec: HttpRouteSpec {
            parent_refs: Some(gateway.parent_refs.iter().map(parent).collect()),
            hostnames: Some(gateway.hostnames.clone()).filter(|names| !names.is_empty()),
            rules: Some(rules),
        },
        status: None,
    }
}

/// The longest run that a revision behind the route allows. The spec's own counts too: a revision's record may be lost.
fn longest_run_seconds(world: &World, shares: &[Share<'_>]) -> u64 {
    let recorded =
        shares.iter().filter_map(|share| world.revision(share.revision)).map(|revision| &revision.plan.agent);
    let agents = recorded.chain([&world.spec.agent]);
    agents.map(|agent| agent.run_timeout.seconds_rounded_up()).max().unwrap_or(0)
}

/// A gateway's own default would cut runs: Envoy Gateway's is 15 s. What it must be told follows from the longest run.
fn timeouts(longest_run_seconds: u64) -> HttpRouteRulesTimeouts {
    let seconds = |margin: u64| Some(format!("{}s", longest_run_seconds.saturating_add(margin).min(MAX_SECONDS)));
    HttpRouteRulesTimeouts {
        backend_request: seconds(BACKEND_MARGIN_SECONDS),
        request: seconds(BACKEND_MARGIN_SECONDS + REQUEST_MARGIN_SECONDS),
    }
}

fn parent(reference: &GatewayReference) -> HttpRouteParentRefs {
    // What the API server would fill in is written, so that a comparison with what is there finds no difference.
    HttpRouteParentRefs {
        group: Some("gateway.networking.k8s.io".to_owned()),
        kind: Some("Gateway".to_owned()),
        name: reference.name.clone(),
        namespace: reference.namespace.clone(),
        port: None,
        section_name: reference.section_name.clone(),
    }
}

fn by_name(world: &World, revision: &str) -> HttpRouteRules {
    let header = HttpRouteRulesMatchesHeaders {
        name: REVISION_HEADER.to_owned(),
        r#type: Some(HttpRouteRulesMatchesHeadersType::Exact),
        value: revision.to_owned(),
    };
    HttpRouteRules {
        matches: Some(vec![HttpRouteRulesMatches { headers: Some(vec![header]), ..Default::default() }]),
        backend_refs: Some(vec![backend(world, revision, 1)]),
        ..Default::default()
    }
}

/// A revision without a share is left out: a backend of weight 0 is one that some gateways connect to late.
fn weighted(world: &World, shares: &[Share<'_>]) -> HttpRouteRules {
    let backends = shares.iter().filter(|share| share.weight > 0);
    HttpRouteRules {
        backend_refs: Some(backends.map(|share| backend(world, share.revision, share.weight)).collect()),
        ..Default::default()
    }
}

fn backend(world: &World, revision: &str, weight: i32) -> HttpRouteRulesBackendRefs {
    let (group, kind, port) = if pool::is_asked_for(world) {
        (InferencePool::group(&()), InferencePool::kind(&()), None)
    } else {
        ("".into(), "Service".into(), Some(SERVICE_PORT))
    };
    HttpRouteRulesBackendRefs {
        group: Some(group.into_owned()),
        kind: Some(kind.into_owned()),
        name: revision_name(world, revision),
        port,
        weight: Some(weight),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::default(60, "70s", "75s")]
    #[case::longest(3_600, "3610s", "3615s")]
    #[case::beyond_what_can_be_said(1_000_000, "99999s", "99999s")]
    fn a_gateway_waits_longer_than_a_run_takes_and_longest_for_the_whole_request(
        #[case] run: u64,
        #[case] backend_request: &str,
        #[case] request: &str,
    ) {
        let expected = HttpRouteRulesTimeouts {
            backend_request: Some(backend_request.to_owned()),
            request: Some(request.to_owned()),
        };
        assert_eq!(timeouts(run), expected);
    }
}
