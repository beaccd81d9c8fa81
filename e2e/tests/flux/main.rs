//! Flux follows a repository: what its Kustomization says of a rollout, and what it leaves alone. Run by hand, because
//! Flux is built for it: `e2e/run.sh flux`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod controllers;

use std::{path::Path, time::Duration};

use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{commands::Command, v1alpha1::AgentDeployment};
use slipway_e2e::{
    agents::{READY_LIMIT, namespace_with_servers, workload_source},
    autoscaler::{autoscaler, wait_for_pods, wait_until_it_measures},
    gitops::{agent, jobs, kubectl, manifest, scale_to, slipway},
    metrics_server::MetricsServer,
    namespace::Namespace,
    repository::{FOLDER, Repository},
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
    a_retry_and_an_abort_are_not_put_back(&flux, &bench, &bad).await;
    flux.follow(&name, true);
    let reverted = repository.revert();
    flux.refresh(&name);
    flux.wait(&name, &reverted, "True", READY_LIMIT).await;
    assert_eq!((jobs(&bench.namespace).await, load.stop().await.unwrap().1.failed()), (before, 0));
    assert_eq!(rollout_of(&agent(&bench.namespace, AGENT).await).stable, Some(canary));

    scaling_is_not_put_back(&flux, &bench.namespace).await;
    an_autoscaler_is_not_put_back(&flux, (&repository, folder.path()), &bench).await;
    an_approval_and_a_promotion_are_not_put_back(&flux, &repository, &bench).await;
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

/// What was rolled back is tried once more, and then a person takes it back: both words stay, and both are obeyed.
async fn a_retry_and_an_abort_are_not_put_back(flux: &Flux, bench: &Bench, commit: &str) {
    let name = bench.namespace.name();
    flux.follow(name, false);
    flux.wait(name, commit, "True", READY_LIMIT).await;
    slipway(&bench.namespace, "retry", AGENT);
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("traffic", |rollout| rollout.weight == Some(20)).await.unwrap();
    slipway(&bench.namespace, "abort", AGENT);
    let rejected = bench.wait_for_rejection(&canary).await.unwrap().rejected;
    let reason = rejected.iter().find(|rejected| rejected.plan == canary).map(|rejected| rejected.reason.as_str());
    assert_eq!(reason, Some("at 20 % of the traffic: annotation slipway.dev/abort names it"));
    flux.reconcile(name).await;
    let aborted = agent(&bench.namespace, AGENT).await;
    words_name(&aborted, [Command::Retry, Command::Abort], &canary);
    assert_eq!(rollout_of(&aborted).canary, None, "it stays rolled back");
}

/// Each command's annotation names a plan.
fn words_name(agent: &AgentDeployment, commands: [Command; 2], plan: &str) {
    let words = commands.map(|command| agent.annotations().get(command.annotation()).map(String::as_str));
    assert_eq!(words, [Some(plan); 2], "{:?}", agent.annotations());
}

async fn scaling_is_not_put_back(flux: &Flux, namespace: &Namespace) {
    scale_to(namespace, 2).await;
    flux.reconcile(namespace.name()).await;
    assert_eq!(agent(namespace, AGENT).await.spec.serving.replicas, 2);
}

/// The autoscaler is in Git beside the agent, and writes the agent's /scale. It removes the pod that a person added,
/// adds one under load, and Flux finds nothing to correct.
async fn an_autoscaler_is_not_put_back(flux: &Flux, (repository, folder): (&Repository, &Path), bench: &Bench) {
    let name = bench.namespace.name();
    let _metrics = MetricsServer::start(folder);
    let commit = repository.commit_to(&[(&format!("{FOLDER}/autoscaler"), &autoscaler(1))], "scale by CPU");
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

    wait_until_it_measures(&bench.namespace).await;
}

/// The agent as it serves, with a campaign whose choice a person approves. Fewer requests in flight are measured, so
/// the choice is another one.
fn measured(bench: &Bench) -> Value {
    let mut manifest = bench.with(&[("medianMilliseconds", "195")]);
    manifest["spec"]["search"]["concurrency"] = json!([32]);
    let prompts = json!({"name": "turns", "prompts": workload_source("prompts.jsonl")});
    manifest["spec"]["profiling"] = json!({"workloads": [prompts], "approval": "Manual"});
    manifest
}

/// A choice that waits is approved, and its canary takes over by another word of the plugin's, for nobody asks it.
async fn an_approval_and_a_promotion_are_not_put_back(flux: &Flux, repository: &Repository, bench: &Bench) {
    let name = bench.namespace.name();
    bench.namespace.give_workload().await.unwrap();
    flux.follow(name, false);
    let commit = repository.commit(&measured(bench), "measure");
    flux.refresh(name);
    flux.wait(name, &commit, "True", READY_LIMIT).await;
    let waits = bench.wait_for("a choice that waits", |rollout| rollout.proposed.is_some()).await.unwrap();
    let proposed = waits.proposed.unwrap().plan_hash;

    slipway(&bench.namespace, "approve", AGENT);
    assert_eq!(bench.wait_for_canary().await.unwrap(), proposed);
    flux.reconcile(name).await;
    slipway(&bench.namespace, "promote", AGENT);
    bench.wait_for_promotion(&proposed).await.unwrap();
    flux.reconcile(name).await;
    let promoted = agent(&bench.namespace, AGENT).await;
    words_name(&promoted, [Command::Approve, Command::Promote], &proposed);
    assert_eq!(rollout_of(&promoted).stable, Some(proposed), "it stays in place");
}
