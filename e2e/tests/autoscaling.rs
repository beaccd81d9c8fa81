//! An agent has as many pods as its model requests need, and says so when somebody else scales it.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_e2e::{
    agents::namespace_with_servers,
    cluster,
    rollouts::{AGENT, Bench},
};

/// Time in which pods come or go, with the delay before the latter.
const LIMIT: Duration = Duration::from_secs(240);

/// Waits until so many pods are asked for and ready; gives why.
async fn wait_for_pods(bench: &Bench, wanted: i32) -> String {
    let all_ready = format!("{wanted}/{wanted}");
    bench
        .namespace
        .wait(AGENT, &format!("{wanted} pods"), LIMIT, |agent: &AgentDeployment| {
            let status = agent.status.clone().unwrap_or_default();
            let is_ready = status.ready_replicas.as_deref() == Some(&all_ready);
            match status.autoscaling {
                Some(scaled) if is_ready && scaled.replicas == wanted => Ok(scaled.message),
                other => Err(format!("{:?} ready, {other:?}", status.ready_replicas)),
            }
        })
        .await
        .unwrap()
}

/// 50 requests a second of 0.23 s each are 11 in flight.
#[tokio::test]
async fn pods_follow_the_requests_at_the_model_and_no_request_fails() {
    let namespace = namespace_with_servers("autoscaling").await.unwrap();
    let scaling = json!({"minReplicas": 1, "maxReplicas": 3, "targetRequestsInFlight": 6, "scaleDownDelay": "30s"});
    let bench = Bench::start_in(namespace, |agent| agent["spec"]["serving"]["autoscaling"] = scaling).await.unwrap();
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap().len(), 1);

    let load = bench.start_load().await.unwrap();
    println!("with load: {}", wait_for_pods(&bench, 3).await);
    load.next_intervals(2).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    println!("{} requests, {} failed", summary.ok(), summary.failed());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));

    println!("without load: {}", wait_for_pods(&bench, 1).await);
    let told = bench.namespace.event_reasons(AGENT).await.unwrap();
    assert!(told.contains(&"ScaledUp".to_owned()) && told.contains(&"ScaledDown".to_owned()), "{told:?}");

    let resource = format!("agd/{AGENT}");
    let scale = ["--namespace", bench.namespace.name(), "scale", &resource, "--replicas=2"];
    assert!(cluster::kubectl(&scale).unwrap().status.success());
    let contest = "through /scale, which has no effect while spec.serving.autoscaling is set";
    println!("{}", bench.namespace.wait_for_message(AGENT, "ReplicasContested", contest, LIMIT).await.unwrap());
    wait_for_pods(&bench, 1).await;
}
