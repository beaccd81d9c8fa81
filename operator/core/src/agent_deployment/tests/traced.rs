//! Where traces are sent is part of a revision's pods. It is not measured.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    agent_deployment::{Stage, Tracing},
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
    let engine = |cluster: &Cluster| cluster.world.status.selected.clone().map(|selected| selected.engine);
    let chosen = engine(&measured);
    let mut traced = measured.edited(|spec| spec.serving.tracing = tracing("http://collector:4318"));
    traced.settle();
    assert_eq!((traced.world.profiles.len(), engine(&traced)), (profiles, chosen));
    assert_eq!(traced.running_jobs(), Vec::<String>::new());
    assert_eq!(traced.world.status.stage, Some(Stage::RollingOut));
}

#[test]
fn a_receiver_in_the_pod_itself_is_refused_before_anything_is_built() {
    let refused = |endpoint: &str| {
        crate::runtime_config::problem_of_serving("support", &{
            let mut serving = world().world.spec.serving.clone();
            serving.tracing = tracing(endpoint);
            serving
        })
    };
    let expected = "tracing.endpoint: 127.0.0.1 is a loopback address; name another host, or add its network to \
                    allowedNetworks";
    assert_eq!(refused("http://127.0.0.1:4318").as_deref(), Some(expected));
    assert_eq!(refused("http://10.1.2.3:4318"), None);
}
