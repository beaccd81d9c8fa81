//! Who may call an agent is part of its pods, and how much each tenant gets is not. Neither is measured.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    agent_deployment::{Authentication, Stage},
    profile::ProfilePhase,
};
use slipway_runtime_config::RuntimeConfig;

use super::{
    cluster::{Cluster, world},
    profiling::{ended, profiled},
};
use crate::plan::Child;

fn authentication(yaml: &str) -> Option<Authentication> {
    Some(serde_norway::from_str(yaml).expect("an authentication"))
}

/// The configuration of the sidecars of a revision.
pub(super) fn config(cluster: &Cluster, revision: &str) -> RuntimeConfig {
    let data = cluster.plan().children.into_iter().find_map(|child| match child {
        Child::ConfigMap(object) if object.metadata.name == Some(format!("support-{revision}")) => object.data,
        _ => None,
    });
    let data = data.expect("a revision has a ConfigMap");
    RuntimeConfig::from_json(data["config.json"].as_bytes()).expect("the sidecar can use it")
}

const TOKENS: &str = "tokensFrom: {name: clients, key: tokens}";
const LIMITED: &str = "{tokensFrom: {name: clients, key: tokens}, rates: {default: {requestsPerMinute: 60}, \
                       tenants: [{name: acme, rate: {runsAtOnce: 4}}]}}";

#[test]
fn clients_with_tokens_come_with_a_revision_that_is_judged() {
    let open = world().serving();
    let stable = open.stable();
    let mut closed = open.edited(|spec| spec.serving.authentication = authentication(TOKENS));
    closed.settle();
    let canary = closed.canary();
    assert_ne!(canary, stable);
    assert_eq!(config(&closed, &stable).authentication, None, "pods that know no clients stay as they are");
    let of_canary = config(&closed, &canary).authentication.expect("it tells clients apart");
    assert_eq!(of_canary.tokens.as_deref(), Some("/etc/slipway/tokens/tokens"));
}

#[test]
fn edited_rates_reach_the_pods_that_serve_and_restart_none() {
    let before = world().edited(|spec| spec.serving.authentication = authentication(TOKENS)).serving();
    let stable = before.stable();
    let pods = before.world.serving.clone();
    let mut limited = before.edited(|spec| spec.serving.authentication = authentication(LIMITED));
    limited.settle();
    assert_eq!((limited.stable(), limited.world.status.stage), (stable.clone(), Some(Stage::Serving)));
    assert_eq!(limited.world.serving, pods);
    let rates = config(&limited, &stable).authentication.expect("it tells clients apart").rates;
    let of = |tenant: &str| (rates.of(tenant).requests_per_minute, rates.of(tenant).runs_at_once);
    assert_eq!((of("acme"), of("other")), ((Some(60), Some(4)), (Some(60), None)));
}

#[test]
fn clients_change_no_measurement() {
    let measured = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let profiles = measured.world.profiles.len();
    let engine =
        |cluster: &Cluster| cluster.world.status.selected.clone().and_then(|selected| selected.engine().cloned());
    let chosen = engine(&measured);
    let mut closed = measured.edited(|spec| spec.serving.authentication = authentication(LIMITED));
    closed.settle();
    assert_eq!((closed.world.profiles.len(), engine(&closed)), (profiles, chosen));
    assert_eq!(closed.running_jobs(), Vec::<String>::new());
    assert_eq!(closed.world.status.stage, Some(Stage::RollingOut));
}
