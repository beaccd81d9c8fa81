//! Where traces are sent is part of a revision's pods. It is not measured.

use pretty_assertions::assert_eq;
use slipway_agent_config::refusal;
use slipway_crds::v1alpha1::{
    agent_deployment::{Serving, Stage, Tracing},
    profile::ProfilePhase,
};

use super::{
    clients::config,
    cluster::{Cluster, world},
    profiling::{ended, profiled},
};

fn tracing(endpoint: &str) -> Option<Tracing> {
    let yaml = format!("{{endpoint: {endpoint:?}, sampled: 10%}}");
    Some(serde_norway::from_str(&yaml).expect("a receiver of traces"))
}

#[test]
fn traces_come_with_a_revision_that_is_judged() {
    let silent = world().serving();
    let stable = silent.stable();
    let mut traced = silent.edited(|spec| spec.serving.tracing = tracing("http://collector:4318"));
    traced.settle();
    let canary = traced.canary();
    assert_ne!(canary, stable);
    assert_eq!(config(&traced, &stable).tracing, None, "pods that tell nobody stay as they are");
    let of_canary = config(&traced, &canary).tracing.expect("it tells the collector");
    let told = (of_canary.endpoint.as_str(), of_canary.sampled_per_million, of_canary.namespace.as_deref());
    assert_eq!(told, ("http://collector:4318", 100_000, Some(traced.world.namespace.as_str())));
}

#[test]
fn traces_change_no_measurement() {
    let measured = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let profiles = measured.world.profiles.len();
    let engine =
        |cluster: &Cluster| cluster.world.status.selected.clone().and_then(|selected| selected.engine().cloned());
    let chosen = engine(&measured);
    let mut traced = measured.edited(|spec| spec.serving.tracing = tracing("http://collector:4318"));
    traced.settle();
    assert_eq!((traced.world.profiles.len(), engine(&traced)), (profiles, chosen));
    assert_eq!(traced.running_jobs(), Vec::<String>::new());
    assert_eq!(traced.world.status.stage, Some(Stage::RollingOut));
}

/// What is wrong with the serving of a spec.
fn problem(change: impl FnOnce(&mut Serving)) -> Option<String> {
    let mut spec = world().world.spec.clone();
    change(&mut spec.serving);
    refusal("support", &spec).map(|(_, problem)| problem)
}

#[test]
fn a_receiver_and_an_issuer_in_the_pod_itself_are_refused_before_anything_is_built() {
    let words = "127.0.0.1 is a loopback address; name another host, or add its network to allowedNetworks";
    let of_tracing = |endpoint: &str| problem(|serving| serving.tracing = tracing(endpoint));
    assert_eq!(of_tracing("http://127.0.0.1:4318"), Some(format!("tracing.endpoint: {words}")));
    assert_eq!(of_tracing("http://10.1.2.3:4318"), None);
    let of_issuer = |url: &str| {
        let yaml = format!("{{jwt: {{issuer: a, audiences: [b], keys: {{url: {url:?}}}}}}}");
        problem(|serving| serving.authentication = Some(serde_norway::from_str(&yaml).expect("an authentication")))
    };
    assert_eq!(of_issuer("https://127.0.0.1/jwks"), Some(format!("authentication.jwt.keys.url: {words}")));
    assert_eq!(of_issuer("https://kubernetes.default.svc/openid/v1/jwks"), None);
}
