//! Who reaches the pods of a revision, and whom they reach, where the operator's configuration asks for it. Pure.
//!
//! A policy is for the cluster's network to enforce, and not every network does. What must be shut is shut without one.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
        NetworkPolicySpec,
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
        util::intstr::IntOrString,
    },
};
use slipway_backends::triton;
use slipway_vocabulary::serving::Server;
use url::Url;

use super::pod::{ADMIN_PORT, API_PORT};
use crate::agent_deployment::{
    metadata::{owned, revision_name, selector, serving_labels},
    rollout::revision::RevisionPlan,
    world::World,
};

/// Label with the name of a namespace, which the API server sets.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Port of DNS.
const DNS_PORT: i32 = 53;

/// The policy of a revision, where there is to be one. Anybody may call the agent. The operator and the scrapers that
/// the platform team names read its counts. It may reach the ports of its upstream, of its tools, of the issuer of
/// clients' tokens and of the receiver of its traces, because policies know no host names. The platform team names the
/// ports of pods behind these, where they differ from their Services'.
pub fn network_policy(world: &World, hash: &str, plan: &RevisionPlan) -> Option<NetworkPolicy> {
    let settings = &world.settings.network_policies;
    if !settings.agents {
        return None;
    }
    let server = plan.served.artifact().map(|artifact| artifact.engine.served_by.server());
    let metrics = (server == Some(Server::Triton)).then(|| i32::from(triton::METRICS_PORT));
    let counts = std::iter::once(ADMIN_PORT).chain(metrics).map(tcp).collect();
    let observers = settings.operator_namespace.iter().chain(&settings.metrics_namespaces).cloned().collect();
    let ingress = vec![
        NetworkPolicyIngressRule { from: None, ports: Some(vec![tcp(API_PORT)]) },
        NetworkPolicyIngressRule { from: Some(vec![namespaces(observers)]), ports: Some(counts) },
    ];
    let dns = ["UDP", "TCP"].map(|protocol| port(protocol, DNS_PORT));
    let called = called_ports(plan).into_iter().chain(settings.agent_ports.iter().map(|&port| i32::from(port)));
    let ports = dns.into_iter().chain(called.collect::<BTreeSet<_>>().into_iter().map(tcp)).collect();
    Some(NetworkPolicy {
        metadata: owned(world, revision_name(world, hash), serving_labels(world, Some(hash))),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector { match_labels: Some(selector(world, hash)), ..Default::default() }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: Some(ingress),
            egress: Some(vec![NetworkPolicyEgressRule { to: None, ports: Some(ports) }]),
        }),
    })
}

/// Ports of the upstream, of the servers of tools, of the issuer of clients' tokens, and of the receiver of traces.
fn called_ports(plan: &RevisionPlan) -> BTreeSet<i32> {
    let of_http = plan.agent.tools.iter().filter_map(|tool| Some(&tool.http.as_ref()?.url));
    let of_tools = of_http.chain(plan.agent.tools.iter().filter_map(|tool| tool.mcp.as_ref()?.url.as_ref()));
    let issuer = plan.authentication.as_ref().and_then(|clients| clients.jwt.as_ref()?.keys.url.as_ref());
    let receiver = plan.tracing.as_ref().map(|tracing| &tracing.endpoint);
    let upstream = plan.served.upstream().map(|upstream| &upstream.url);
    let urls = of_tools.chain(issuer).chain(receiver).chain(upstream);
    urls.filter_map(|url| Url::parse(url).ok()?.port_or_known_default()).map(i32::from).collect()
}

fn namespaces(names: Vec<String>) -> NetworkPolicyPeer {
    let is_one_of =
        LabelSelectorRequirement { key: NAMESPACE_NAME.to_owned(), operator: "In".to_owned(), values: Some(names) };
    let selector = LabelSelector { match_expressions: Some(vec![is_one_of]), ..Default::default() };
    NetworkPolicyPeer { namespace_selector: Some(selector), ..Default::default() }
}

fn tcp(number: i32) -> NetworkPolicyPort {
    port("TCP", number)
}

fn port(protocol: &str, number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort { protocol: Some(protocol.to_owned()), port: Some(IntOrString::Int(number)), end_port: None }
}
