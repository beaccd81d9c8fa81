//! Flux follows a repository: what its Kustomization says of a rollout, and what it leaves alone. Run by hand, because
//! Flux is built for it: `e2e/run.sh flux`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod controllers;
mod metrics_server;

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_e2e::{
    agents::{READY_LIMIT, namespace_with_servers},
    gitops::{agent, jobs, kubectl, manifest, scale_to_two, slipway},
    namespace::Namespace,
    repository::{FOLDER, Repository},
    rollouts::{AGENT, Bench, ROLLOUT_LIMIT, rollout_of},
};

use self::{
    controllers::{Flux, Seen},
    metrics_server::MetricsServer,
};

/// For how long nothing may be put back: several rounds of Flux.
const ROUNDS: Duration = Duration::from_secs(45);

/// What was said of a commit, without messages that repeat themselves.
fn said(history: &[Seen]) -> Vec<(&str, &str)> {
    let mut said: Vec<(&str, &str)> = history.iter().map(|seen| (seen.status.as_str(), seen.reason.as_str())).collect();
    said.dedup();
    said
}

#[tokio::test]
async fn a_kustomization_is_ready_once_the_canary_has_won_and_fails_once_it_was_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = namespace_with_servers("flux-rollout").await.unwrap();
    let name = namespace.name().to_owned();
    let repository = Repository::create(folder.path());
    let first = repository.commit(&manifest(&name), "serve an agent");
    let flux = Flux::start(folder.path()).await;
    flux.follow(&name, true);
    let history = flux.wait(&name, &first, "True", READY_LIMIT).await;
    assert_eq!(said(&history).last(), Some(&("True", "ReconciliationSucceeded")), "{history:?}");

    let stable = rollout_of(&agent(&namespace, AGENT).await).stable.unwrap();
    let bench = Bench { namespace, manifest: manifest(&name), stable };
    let load = bench.start_load().await.unwrap();
    flux.follow(&name, false);
    let good = repository.commit(&bench.with(&[("medianMilliseconds", "195")]), "tune the engine");
    flux.refresh(&name);
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("traffic", |rollout| rollout.weight == Some(20)).await.unwrap();
    a_pause_is_not_put_back(&bench.namespace).await;
    flux.follow(&name, true);
    let history = flux.wait(&name, &good, "True", ROLLOUT_LIMIT).await;
    assert_eq!(said(&history).last(), Some(&("True", "ReconciliationSucceeded")), "{history:?}");
    assert_eq!(
        rollout_of(&agent(&bench.namespace, AGENT).await).stable,
        Some(canary.clone()),
        "it waited for the canary"
    );

    let bad = repository.commit(&bench.with(&[("medianMilliseconds", "400")]), "slow the engine down");
    flux.refresh(&name);
    let history = flux.wait(&name, &bad, "False", ROLLOUT_LIMIT).await;
    assert_eq!(said(&history).last(), Some(&("False", "HealthCheckFailed")), "{history:?}");
    println!("{}", history.last().unwrap().message);

    let before = jobs(&bench.namespace).await;
    let reverted = repository.revert();
    flux.refresh(&name);
    flux.wait(&name, &reverted, "True", READY_LIMIT).await;
    assert_eq!((jobs(&bench.namespace).await, load.stop().await.unwrap().1.failed()), (before, 0));
    assert_eq!(rollout_of(&agent(&bench.namespace, AGENT).await).stable, Some(canary));

    scaling_is_not_put_back(&bench.namespace).await;
    let metrics = MetricsServer::start(folder.path());
    an_autoscaler_is_not_put_back(&flux, &repository, &bench).await;
    drop(metrics);
    flux.forget(&name);
    bench.namespace.delete().await.unwrap();
}

/// Written by hand, without the plugin.
const BY_HAND: &str = "example.com/ticket";

/// An annotation of the plugin's stays although Flux applies the manifest again and again. One of `kubectl annotate`
/// does not: Flux undoes what field managers write whose names begin with `kubectl`.
async fn a_pause_is_not_put_back(namespace: &Namespace) {
    slipway(namespace, "pause", AGENT);
    let annotation = format!("{BY_HAND}=42");
    kubectl(&["--namespace", namespace.name(), "annotate", "agentdeployment", AGENT, &annotation]);
    tokio::time::sleep(ROUNDS).await;
    let paused = agent(namespace, AGENT).await;
    assert!(paused.annotations().contains_key("slipway.dev/pause"), "{:?}", paused.annotations());
    assert!(!paused.annotations().contains_key(BY_HAND), "{:?}", paused.annotations());
    assert_eq!(rollout_of(&paused).weight, Some(20), "it waits");
    slipway(namespace, "resume", AGENT);
}

async fn scaling_is_not_put_back(namespace: &Namespace) {
    scale_to_two(namespace).await;
    tokio::time::sleep(ROUNDS).await;
    assert_eq!(agent(namespace, AGENT).await.spec.serving.replicas, 2);
}

/// By the CPU time of pods, as `kubectl top` shows it: one that nobody asks stays below, one that users ask is above.
fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": AGENT},
        "spec": {
            "scaleTargetRef": {"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "name": AGENT},
            "minReplicas": 1,
            "maxReplicas": 2,
            "metrics": [{
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "60m"}},
            }],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
        },
    })
}

async fn wait_for_pods(bench: &Bench, wanted: i32) {
    let has = |agent: &AgentDeployment| {
        let ready = agent.status.as_ref().and_then(|status| status.ready_pods);
        let seen = (agent.spec.serving.replicas, ready);
        if seen == (wanted, Some(wanted)) { Ok(()) } else { Err(format!("{seen:?} pods are wanted and ready")) }
    };
    bench.namespace.wait(AGENT, &format!("{wanted} pods"), READY_LIMIT, has).await.unwrap();
}

/// The autoscaler is in Git beside the agent, and writes the agent's /scale. It removes the pod that a person added,
/// adds one under load, and Flux finds nothing to correct.
async fn an_autoscaler_is_not_put_back(flux: &Flux, repository: &Repository, bench: &Bench) {
    let name = bench.namespace.name();
    let commit = repository.commit_to(&[(&format!("{FOLDER}/autoscaler"), &autoscaler())], "scale by CPU");
    flux.refresh(name);
    flux.wait(name, &commit, "True", READY_LIMIT).await;
    wait_for_pods(bench, 1).await;

    let load = bench.start_load().await.unwrap();
    wait_for_pods(bench, 2).await;
    tokio::time::sleep(ROUNDS).await;
    assert_eq!(agent(&bench.namespace, AGENT).await.spec.serving.replicas, 2);
    assert_eq!(flux.look(name).status, "True");
    assert_eq!(load.stop().await.unwrap().1.failed(), 0);
    wait_for_pods(bench, 1).await;

    let scaler = bench.namespace.api::<HorizontalPodAutoscaler>().get(AGENT).await.unwrap();
    let conditions = scaler.status.and_then(|status| status.conditions).unwrap_or_default();
    let active = conditions.iter().find(|condition| condition.type_ == "ScalingActive");
    assert_eq!(active.map(|condition| condition.status.as_str()), Some("True"), "{conditions:?}");
}
