//! Flux follows a repository: what its Kustomization says of a rollout, and what it leaves alone. Run by hand, because
//! Flux is built for it: `e2e/run.sh flux`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod controllers;

use std::time::Duration;

use kube::ResourceExt;
use pretty_assertions::assert_eq;
use slipway_e2e::{
    agents::{READY_LIMIT, namespace_with_servers},
    gitops::{agent, jobs, manifest, scale_to_two, slipway},
    namespace::Namespace,
    repository::Repository,
    rollouts::{AGENT, Bench, ROLLOUT_LIMIT, rollout_of},
};

use self::controllers::{Flux, Seen};

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
    flux.forget(&name);
    bench.namespace.delete().await.unwrap();
}

/// An annotation of the plugin's stays although Flux applies the manifest again and again.
async fn a_pause_is_not_put_back(namespace: &Namespace) {
    slipway(namespace, "pause", AGENT);
    tokio::time::sleep(ROUNDS).await;
    let paused = agent(namespace, AGENT).await;
    assert!(paused.annotations().contains_key("slipway.dev/pause"), "{:?}", paused.annotations());
    assert_eq!(rollout_of(&paused).weight, Some(20), "it waits");
    slipway(namespace, "resume", AGENT);
}

async fn scaling_is_not_put_back(namespace: &Namespace) {
    scale_to_two(namespace).await;
    tokio::time::sleep(ROUNDS).await;
    assert_eq!(agent(namespace, AGENT).await.spec.serving.replicas, 2);
}
