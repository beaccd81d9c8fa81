//! Flux follows a repository: what its Kustomization says of a rollout, and what it leaves alone. Run by hand, because
//! Flux is built for it: `e2e/run.sh flux`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod controllers;

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::batch::v1::Job;
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_e2e::{
    agents::{READY_LIMIT, namespace_with_servers},
    cluster,
    namespace::Namespace,
    repository::Repository,
    rollouts::{AGENT, Bench, ROLLOUT_LIMIT, host, rollout_of},
};

use self::controllers::{Flux, Seen, kubectl};

/// For how long nothing may be put back: several rounds of Flux.
const ROUNDS: Duration = Duration::from_secs(45);

/// The manifest of an agent whose rollouts are short, as it is in Git: without replicas, which /scale sets.
fn manifest(namespace: &str) -> Value {
    let mut manifest: Value = serde_norway::from_str(include_str!("../../manifests/rollout/agent.yaml")).unwrap();
    manifest["spec"]["rollout"]["traffic"]["gatewayAPI"]["hostnames"] = json!([host(namespace)]);
    manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
    manifest
}

/// What was said of a commit, without messages that repeat themselves.
fn said(history: &[Seen]) -> Vec<(&str, &str)> {
    let mut said: Vec<(&str, &str)> = history.iter().map(|seen| (seen.status.as_str(), seen.reason.as_str())).collect();
    said.dedup();
    said
}

async fn agent(namespace: &Namespace) -> AgentDeployment {
    namespace.api::<AgentDeployment>().get(AGENT).await.unwrap()
}

async fn jobs(namespace: &Namespace) -> BTreeSet<String> {
    let jobs = namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
    jobs.items.iter().map(ResourceExt::name_any).collect()
}

/// Gives a command as a person does.
fn slipway(namespace: &Namespace, decision: &str) {
    let output = cluster::slipway(&["--namespace", namespace.name(), decision, AGENT]).unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
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

    let stable = rollout_of(&agent(&namespace).await).stable.unwrap();
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
    assert_eq!(rollout_of(&agent(&bench.namespace).await).stable, Some(canary.clone()), "it waited for the canary");

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
    assert_eq!(rollout_of(&agent(&bench.namespace).await).stable, Some(canary));

    scaling_is_not_put_back(&bench.namespace).await;
    flux.forget(&name);
    bench.namespace.delete().await.unwrap();
}

/// An annotation of the plugin's stays although Flux applies the manifest again and again.
async fn a_pause_is_not_put_back(namespace: &Namespace) {
    slipway(namespace, "pause");
    tokio::time::sleep(ROUNDS).await;
    let paused = agent(namespace).await;
    assert!(paused.annotations().contains_key("slipway.dev/pause"), "{:?}", paused.annotations());
    assert_eq!(rollout_of(&paused).weight, Some(20), "it waits");
    slipway(namespace, "resume");
}

async fn scaling_is_not_put_back(namespace: &Namespace) {
    kubectl(&["--namespace", namespace.name(), "scale", "agentdeployment", AGENT, "--replicas=2"]);
    let has_two = |agent: &AgentDeployment| {
        let ready = agent.status.as_ref().and_then(|status| status.ready_pods);
        if ready == Some(2) { Ok(()) } else { Err(format!("{ready:?} pods are ready")) }
    };
    namespace.wait(AGENT, "two pods", READY_LIMIT, has_two).await.unwrap();
    tokio::time::sleep(ROUNDS).await;
    assert_eq!(agent(namespace).await.spec.serving.replicas, 2);
}
