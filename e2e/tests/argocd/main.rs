//! Argo CD follows a repository: what it says of a rollout, and what it leaves alone. Run by hand, because Argo CD is
//! built for it: `e2e/run.sh argocd`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod argo;
mod server;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{commands::Command, v1alpha1::AgentDeployment};
use slipway_e2e::{
    agents::{READY_LIMIT, facts_agent, namespace_with_servers, workload_source},
    autoscaler::{autoscaler, wait_for_pods, wait_until_it_measures},
    campaigns::CAMPAIGN_LIMIT,
    gitops::{agent, eventually, jobs, manifest, scale_to, slipway},
    metrics_server::MetricsServer,
    namespace::Namespace,
    repository::Repository,
    rollouts::{AGENT, Bench, ROLLOUT_LIMIT, rollout_of},
};

use self::{
    argo::{ArgoCd, Seen, Source},
    server::OnCall,
};

/// For how long nothing may be put back: several rounds of Argo CD.
const ROUNDS: Duration = Duration::from_secs(45);
/// The agent whose choices are approved.
const FACTS_AGENT: &str = "facts-agent";
/// The ConfigMap of a wave after the agent's.
const LATER: &str = "later";

fn healths(history: &[Seen]) -> Vec<&str> {
    let mut healths: Vec<&str> = history.iter().map(|seen| seen.health.as_str()).collect();
    healths.dedup();
    healths
}

#[tokio::test]
async fn an_application_is_healthy_once_the_canary_has_won_and_degraded_once_it_was_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = namespace_with_servers("argocd-rollout").await.unwrap();
    let (argo, repository) = (ArgoCd::start(folder.path()), Repository::create(folder.path()));
    let name = namespace.name().to_owned();
    let first = repository.commit(&manifest(&name), "serve an agent");
    argo.follow(&name, &name, &repository);
    let history = argo.wait(&name, &first, "Healthy", READY_LIMIT).await;
    assert_eq!(healths(&history), ["Progressing", "Healthy"], "{history:?}");

    let stable = rollout_of(&agent(&namespace, AGENT).await).stable.unwrap();
    let bench = Bench { namespace, manifest: manifest(&name), stable };
    let load = bench.start_load().await.unwrap();
    let good = repository.commit(&bench.with(&[("medianMilliseconds", "195")]), "tune the engine");
    argo.refresh(&name);
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("traffic", |rollout| rollout.weight == Some(20)).await.unwrap();
    a_pause_is_not_put_back(&argo, &bench.namespace, &good).await;
    let history = argo.wait(&name, &good, "Healthy", ROLLOUT_LIMIT).await;
    assert_eq!(healths(&history), ["Progressing", "Healthy"], "{history:?}");
    assert_eq!(rollout_of(&agent(&bench.namespace, AGENT).await).stable, Some(canary.clone()), "it is the canary's");

    let bad = repository.commit(&bench.with(&[("medianMilliseconds", "400")]), "slow the engine down");
    argo.refresh(&name);
    let history = argo.wait(&name, &bad, "Degraded", ROLLOUT_LIMIT).await;
    assert_eq!(healths(&history), ["Progressing", "Degraded"], "{history:?}");
    let message = &history.last().unwrap().message;
    println!("{message}");
    // Which share it had by then is the machine's matter.
    assert!(message.contains("was rolled back at ") && message.contains(" % of the traffic: "), "{message}");

    let before = jobs(&bench.namespace).await;
    let reverted = repository.revert();
    argo.refresh(&name);
    argo.wait(&name, &reverted, "Healthy", READY_LIMIT).await;
    assert_eq!((jobs(&bench.namespace).await, load.stop().await.unwrap().1.failed()), (before, 0));
    assert_eq!(rollout_of(&agent(&bench.namespace, AGENT).await).stable, Some(canary));

    scaling_is_no_difference(&argo, &bench.namespace, &reverted).await;
    an_autoscaler_makes_no_difference(&argo, (&repository, folder.path()), &bench).await;
    argo.forget(&name);
    bench.namespace.delete().await.unwrap();
}

/// An annotation of a person's stays although Argo CD heals, and its health says that somebody is waited for.
async fn a_pause_is_not_put_back(argo: &ArgoCd, namespace: &Namespace, commit: &str) {
    let name = namespace.name();
    slipway(namespace, "pause", AGENT);
    argo.wait(name, commit, "Suspended", READY_LIMIT).await;
    let history = argo.watch(name, ROUNDS).await;
    assert_eq!(healths(&history), ["Suspended"], "{history:?}");
    slipway(namespace, "resume", AGENT);
    argo.wait(name, commit, "Progressing", READY_LIMIT).await;
}

async fn scaling_is_no_difference(argo: &ArgoCd, namespace: &Namespace, commit: &str) {
    let name = namespace.name();
    scale_to(namespace, 2).await;
    argo.wait(name, commit, "Healthy", READY_LIMIT).await;
    let history = argo.watch(name, ROUNDS).await;
    assert!(history.iter().all(|seen| seen.sync == "Synced"), "{history:?}");
    assert_eq!(agent(namespace, AGENT).await.spec.serving.replicas, 2);
}

/// The autoscaler is in Git beside the agent, and writes the agent's /scale: two pods where Git names no number. Argo
/// CD finds nothing to heal.
async fn an_autoscaler_makes_no_difference(argo: &ArgoCd, (repository, folder): (&Repository, &Path), bench: &Bench) {
    let name = bench.namespace.name();
    let _metrics = MetricsServer::start(folder);
    scale_to(&bench.namespace, 1).await;
    let serving = bench.with(&[("medianMilliseconds", "195")]);
    let commit = repository.commit(&beside(serving, autoscaler(2)), "scale by CPU");
    argo.refresh(name);
    argo.wait(name, &commit, "Healthy", READY_LIMIT).await;
    wait_for_pods(bench, 2).await;
    wait_until_it_measures(&bench.namespace).await;
    argo.wait(name, &commit, "Healthy", READY_LIMIT).await;
    let history = argo.watch(name, ROUNDS).await;
    assert!(history.iter().all(|seen| seen.sync == "Synced"), "{history:?}");
    assert_eq!(agent(&bench.namespace, AGENT).await.spec.serving.replicas, 2);
    assert_eq!(argo.health(name, "HorizontalPodAutoscaler"), "Healthy");
}

/// An agent and another object in one manifest.
fn beside(agent: Value, other: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [agent, other]})
}

/// An agent, and a ConfigMap of the next wave that names the commit.
fn in_waves(agent: Value, note: &str) -> Value {
    let next = json!({"argocd.argoproj.io/sync-wave": "1"});
    let later = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": LATER, "annotations": next},
                       "data": {"note": note}});
    beside(agent, later)
}

async fn note_of(namespace: &Namespace) -> Option<String> {
    namespace.api::<ConfigMap>().get_opt(LATER).await.unwrap()?.data?.remove("note")
}

/// What the ConfigMap of the next wave says, at each health of the agent under a commit until it has the last one.
async fn notes(argo: &ArgoCd, namespace: &Namespace, commit: &str, last: &str) -> Vec<(String, Option<String>)> {
    let deadline = Instant::now() + ROLLOUT_LIMIT;
    let mut notes: Vec<(String, Option<String>)> = Vec::new();
    while notes.last().is_none_or(|(health, _)| health != last) {
        assert!(Instant::now() < deadline, "waited for {last} of {commit}: {notes:?}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The ConfigMap first: it may follow the agent's health at once.
        let note = note_of(namespace).await;
        let Seen { revision, health, .. } = argo.look(namespace.name());
        if revision == commit && !health.is_empty() && notes.last() != Some(&(health.clone(), note.clone())) {
            notes.push((health, note));
        }
    }
    notes
}

#[tokio::test]
async fn a_later_wave_waits_until_the_agent_is_healthy_and_never_follows_a_commit_that_was_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = namespace_with_servers("argocd-waves").await.unwrap();
    let (argo, repository) = (ArgoCd::start(folder.path()), Repository::create(folder.path()));
    let name = namespace.name().to_owned();
    let first = repository.commit(&in_waves(manifest(&name), "first"), "serve an agent");
    argo.follow(&name, &name, &repository);
    let seen = notes(&argo, &namespace, &first, "Healthy").await;
    assert!(seen.iter().all(|(health, note)| health == "Healthy" || note.is_none()), "{seen:?}");
    argo.wait(&name, &first, "Healthy", READY_LIMIT).await;
    assert_eq!(note_of(&namespace).await.as_deref(), Some("first"));

    let stable = rollout_of(&agent(&namespace, AGENT).await).stable.unwrap();
    let bench = Bench { namespace, manifest: manifest(&name), stable };
    let load = bench.start_load().await.unwrap();
    let slow = bench.with(&[("medianMilliseconds", "400")]);
    let bad = repository.commit(&in_waves(slow, "second"), "slow the engine down");
    argo.refresh(&name);
    let seen = notes(&argo, &bench.namespace, &bad, "Degraded").await;
    assert!(seen.iter().all(|(_, note)| note.as_deref() == Some("first")), "{seen:?}");
    let history = argo.watch(&name, ROUNDS).await;
    assert_eq!(healths(&history), ["Degraded"], "{history:?}");

    let reverted = repository.revert();
    argo.refresh(&name);
    argo.wait(&name, &reverted, "Healthy", READY_LIMIT).await;
    assert_eq!(load.stop().await.unwrap().1.failed(), 0);
    assert_eq!(note_of(&bench.namespace).await.as_deref(), Some("first"));
    argo.forget(&name);
    bench.namespace.delete().await.unwrap();
}

/// The branch that production follows.
const PRODUCTION: &str = "production";

#[tokio::test]
async fn production_gets_a_commit_once_staging_is_healthy_with_it_and_never_one_that_staging_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let (argo, repository) = (ArgoCd::start(folder.path()), Repository::create(folder.path()));
    let stages = [
        namespace_with_servers("argocd-staging").await.unwrap(),
        namespace_with_servers("argocd-production").await.unwrap(),
    ];
    let [staging, production] = stages.each_ref().map(|namespace| namespace.name().to_owned());
    let commit = |edit: &dyn Fn(&mut Value), message: &str| {
        let [mut of_staging, mut of_production] = [manifest(&staging), manifest(&production)];
        edit(&mut of_staging);
        edit(&mut of_production);
        repository.commit_to(&[("staging", &of_staging), ("production", &of_production)], message)
    };
    let first = commit(&|_| (), "serve an agent");
    repository.promote(&first, PRODUCTION);
    let [of_main, of_production] = [
        Source { folder: "staging", ..Source::default() },
        Source { folder: "production", branch: PRODUCTION, ..Source::default() },
    ];
    argo.follow_source(&staging, &staging, &repository, of_main);
    argo.follow_source(&production, &production, &repository, of_production);
    argo.wait(&staging, &first, "Healthy", READY_LIMIT).await;
    argo.wait(&production, &first, "Healthy", READY_LIMIT).await;
    let [of_staging, of_production] = stages.map(|namespace| {
        let manifest = manifest(namespace.name());
        Bench { namespace, manifest, stable: String::new() }
    });
    let serves = |bench: &Bench| {
        let agents = bench.namespace.api::<AgentDeployment>();
        async move { rollout_of(&agents.get(AGENT).await.unwrap()).stable }
    };
    let loads = (of_staging.start_load().await.unwrap(), of_production.start_load().await.unwrap());
    let served_first = serves(&of_production).await;

    let good = commit(&|manifest| slow_to(manifest, "195"), "tune the engine");
    argo.refresh(&staging);
    argo.refresh(&production);
    argo.wait(&staging, &good, "Healthy", ROLLOUT_LIMIT).await;
    assert_eq!((argo.look(&production).revision, serves(&of_production).await), (first, served_first.clone()));
    repository.promote(&good, PRODUCTION);
    argo.refresh(&production);
    argo.wait(&production, &good, "Healthy", ROLLOUT_LIMIT).await;
    let promoted = serves(&of_production).await;
    assert_ne!(promoted, served_first);

    let bad = commit(&|manifest| slow_to(manifest, "400"), "slow the engine down");
    argo.refresh(&staging);
    argo.refresh(&production);
    argo.wait(&staging, &bad, "Degraded", ROLLOUT_LIMIT).await;
    let seen = argo.look(&production);
    assert_eq!((seen.revision, seen.health.as_str(), serves(&of_production).await), (good, "Healthy", promoted));
    assert_eq!((loads.0.stop().await.unwrap().1.failed(), loads.1.stop().await.unwrap().1.failed()), (0, 0));
    for (argo_name, bench) in [(&staging, of_staging), (&production, of_production)] {
        argo.forget(argo_name);
        bench.namespace.delete().await.unwrap();
    }
}

/// The engine's median time, which is another revision.
fn slow_to(manifest: &mut Value, milliseconds: &str) {
    manifest["spec"]["engine"]["custom"]["options"]["medianMilliseconds"] = json!(milliseconds);
}

#[tokio::test]
async fn an_application_is_suspended_until_somebody_on_call_approves_a_choice_at_argo_cds_server() {
    let folder = tempfile::tempdir().unwrap();
    let namespace = namespace_with_servers("argocd-approval").await.unwrap();
    namespace.give_workload().await.unwrap();
    let (argo, repository) = (ArgoCd::start(folder.path()), Repository::create(folder.path()));
    let name = namespace.name().to_owned();
    let first = repository.commit(&approved_agent(&["FP32"]), "serve an agent");
    argo.follow_source(&name, &name, &repository, Source { project: "agents", ..Source::default() });
    argo.wait(&name, &first, "Healthy", CAMPAIGN_LIMIT).await;

    let second = repository.commit(&approved_agent(&["FP32", "INT8"]), "measure INT8 too");
    argo.refresh(&name);
    let history = argo.wait(&name, &second, "Suspended", CAMPAIGN_LIMIT).await;
    assert_eq!(healths(&history), ["Progressing", "Suspended"], "{history:?}");
    let message = &history.last().unwrap().message;
    assert!(message.contains("waits for approval") && message.contains("fp32 -> int8"), "{message}");

    let on_call = OnCall::log_in(folder.path()).await;
    an_action_approves_and_is_not_put_back(&argo, &on_call, &namespace, &second).await;
    what_was_built_and_measured_is_healthy_too(&on_call, &name).await;
    argo.forget(&name);
    namespace.delete().await.unwrap();
}

/// The role allows the actions and nothing else. An action writes the annotation that the plugin would.
async fn an_action_approves_and_is_not_put_back(argo: &ArgoCd, on_call: &OnCall, namespace: &Namespace, commit: &str) {
    let name = namespace.name();
    let waiting = agent(namespace, FACTS_AGENT).await;
    let proposed = rollout_of(&waiting).proposed.unwrap().plan_hash;
    assert_eq!(on_call.possible_actions(name), ["abort", "approve"]);
    let refused = on_call.argocd(&["app", "sync", name]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("PermissionDenied"), "{told}");

    on_call.run_action(name, "approve");
    let approved = agent(namespace, FACTS_AGENT).await;
    assert_eq!(approved.annotations().get(Command::Approve.annotation()), Some(&proposed));
    argo.wait(name, commit, "Healthy", READY_LIMIT).await;
    let seen = argo.compare(name).await;
    assert_eq!((seen.sync.as_str(), seen.health.as_str()), ("Synced", "Healthy"), "{seen:?}");
    let served = agent(namespace, FACTS_AGENT).await;
    assert_eq!(served.annotations().get(Command::Approve.annotation()), Some(&proposed), "it is not healed away");
    assert_eq!(served.status.unwrap().selected.unwrap().display_name, "int8");
}

/// The agent owns its Profiles. Nobody owns Engines, for agents share them: the project shows those too.
async fn what_was_built_and_measured_is_healthy_too(on_call: &OnCall, application: &str) {
    let healths_of = |nodes: &Value, kind: &str| -> Vec<String> {
        let nodes = nodes.as_array().into_iter().flatten().filter(|node| node["kind"] == kind);
        nodes.map(|node| node["health"]["status"].as_str().unwrap_or("unknown").to_owned()).collect()
    };
    let are_healthy = async || {
        let tree = on_call.tree(application).await;
        let healths = [healths_of(&tree["nodes"], "Profile"), healths_of(&tree["orphanedNodes"], "Engine")];
        let is_so = |healths: &Vec<String>| !healths.is_empty() && healths.iter().all(|health| health == "Healthy");
        if healths.iter().all(is_so) { Ok(()) } else { Err(format!("Profiles and Engines are {healths:?}")) }
    };
    eventually("Profiles and Engines that are Healthy", READY_LIMIT, are_healthy).await;
}

/// An agent whose choices a person approves.
fn approved_agent(precision: &[&str]) -> Value {
    let mut agent = facts_agent().unwrap();
    agent["spec"]["search"] = json!({"precision": precision, "concurrency": [4]});
    let reply = json!({"name": "reply", "metric": "RequestLatency", "percentile": "p50", "max": "30s"});
    agent["spec"]["slo"] = json!({"objectives": [reply], "optimizeFor": "Throughput"});
    agent["spec"]["profiling"] = json!({
        "workloads": [{"name": "turns", "prompts": workload_source("prompts.jsonl")}],
        "approval": "Manual",
    });
    agent
}
