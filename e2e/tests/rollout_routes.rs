//! Traffic that others decide: a person who aborts a rollout, another writer of the route, and an operator that dies
//! while it takes traffic back. Also shares that are numbers of pods.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::agent_deployment::RolloutStatus;
use slipway_e2e::{
    agents::namespace_with_servers,
    cluster,
    load::pod::{Load, LoadPlan},
    rollouts::{
        AGENT, Bench, kill_operator,
        watch::{Watch, shares_of, unready_with_traffic, verdicts},
    },
};

/// Whose writes to the route are the operator's to undo.
const RIVAL: &str = "another-tool";

/// A rollout whose first step lasts longer than the scenario needs.
fn lasting(bench: &Bench, options: &[(&str, &str)]) -> Value {
    let mut manifest = bench.with(options);
    manifest["spec"]["rollout"]["steps"][0]["minSoak"] = json!("5m");
    manifest
}

async fn wait_for_weight(bench: &Bench, weight: i32) -> RolloutStatus {
    bench.wait_for(&format!("{weight} %"), |rollout| rollout.weight == Some(weight)).await.unwrap()
}

#[tokio::test]
async fn a_canary_that_a_person_aborts_goes_and_no_request_fails() {
    let bench = Bench::start("rollout-abort").await.unwrap();
    let stable_pods = bench.pod_uids(&bench.stable).await.unwrap();
    let load = bench.start_load().await.unwrap();
    let watch = Watch::start(&bench.namespace);

    let mut manifest = lasting(&bench, &[("medianMilliseconds", "195")]);
    bench.apply(&manifest).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    wait_for_weight(&bench, 20).await;
    load.next_intervals(3).await.unwrap();
    manifest["spec"]["rollout"]["abort"] = json!(canary);
    bench.apply(&manifest).await.unwrap();
    let aborted = bench.wait_for_rejection(&canary).await.unwrap();
    // Its pods go half a minute after its traffic: clients are counted until they are gone.
    while !bench.pod_uids(&canary).await.unwrap().is_empty() {
        load.next_intervals(1).await.unwrap();
    }
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 0]);
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    assert_eq!(aborted.rejected[0].reason, "at 20 % of the traffic: spec.rollout.abort names it");
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), stable_pods);
    let (_, summary) = load.stop().await.unwrap();
    println!(
        "{} requests, {} of them of the canary, {} failed",
        summary.ok(),
        summary.ok_of(&canary),
        summary.failed()
    );
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    assert!(summary.ok_of(&canary) > 0, "{summary:?}");
}

/// The status says first what is to be, the route follows: between the two, clients are still sent to what was found to
/// do harm.
#[tokio::test]
async fn an_operator_that_dies_while_it_rolls_back_takes_all_traffic_back() {
    let bench = Bench::start("rollout-killed-back").await.unwrap();
    let load = bench.start_load().await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("errorPercent", "20")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    wait_for_weight(&bench, 20).await;
    let is_rejected = |rollout: &RolloutStatus| rollout.rejected.iter().any(|rejected| rejected.plan == canary);
    bench.wait_for("the verdict in the status", is_rejected).await.unwrap();
    kill_operator().unwrap();
    // Once more, by when the next one has begun to look.
    load.next_intervals(1).await.unwrap();
    kill_operator().unwrap();
    bench.wait_for_rejection(&canary).await.unwrap();
    while !bench.pod_uids(&canary).await.unwrap().is_empty() {
        load.next_intervals(1).await.unwrap();
    }
    let after = load.next_intervals(2).await.unwrap();

    let history = watch.stop().await.unwrap();
    let shares = shares_of(&history, &canary);
    assert!([[0, 20, 0].as_slice(), &[0, 20, 50, 0]].contains(&shares.as_slice()), "{shares:?}");
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!(summary.failed_of(&bench.stable), 0, "{summary:?}");
    for interval in &after {
        assert_eq!((interval.failed(), interval.ok_of(&canary)), (0, 0), "{interval:?}");
    }
}

/// Gives stable everything, as a tool does that has the route as it was before in its repository.
fn write_route(bench: &Bench) {
    let namespace = ["--namespace", bench.namespace.name()];
    let route = cluster::kubectl(&[&namespace[..], &["get", "httproute", AGENT, "-o", "json"]].concat()).unwrap();
    assert!(route.status.success(), "{}", String::from_utf8_lossy(&route.stderr));
    let route: Value = serde_json::from_slice(&route.stdout).unwrap();
    let mut rules = route["spec"]["rules"].clone();
    let stable = format!("{AGENT}-{}", bench.stable);
    for backend in rules.as_array_mut().unwrap().last_mut().unwrap()["backendRefs"].as_array_mut().unwrap() {
        backend["weight"] = json!(if backend["name"] == stable.as_str() { 100 } else { 0 });
    }
    let patch = json!({"spec": {"rules": rules}}).to_string();
    let manager = format!("--field-manager={RIVAL}");
    let command = ["patch", "httproute", AGENT, "--type=merge", "--patch", &patch, &manager];
    let output = cluster::kubectl(&[&namespace[..], &command].concat()).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_route_that_somebody_else_writes_is_told_and_no_canary_gains_by_it() {
    let namespace = namespace_with_servers("rollout-contested").await.unwrap();
    // A revision that is as good is shown to be so in half the time.
    let widen = |manifest: &mut Value| manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
    let bench = Bench::start_in(namespace, widen).await.unwrap();
    let load = bench.start_load().await.unwrap();
    let watch = Watch::start(&bench.namespace);
    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    wait_for_weight(&bench, 20).await;

    // For longer than the step asks for.
    for _ in 0..6 {
        write_route(&bench);
        load.next_intervals(1).await.unwrap();
    }
    let limit = Duration::from_secs(60);
    let message = bench.namespace.wait_for_message(AGENT, "Reconciling", RIVAL, limit).await.unwrap();
    println!("contested: {message}");
    assert!(message.contains("spec.rules"), "{message}");
    let told = bench.namespace.wait_for_event(AGENT, "RouteContested", limit).await.unwrap();
    assert!(told.contains(RIVAL), "{told}");
    let contested = wait_for_weight(&bench, 20).await;
    assert_eq!((contested.step, contested.canary.as_deref()), (Some(1), Some(canary.as_str())));

    // Left alone for five minutes, it goes on.
    bench.wait_for_promotion(&canary).await.unwrap();
    load.next_intervals(1).await.unwrap();
    let history = watch.stop().await.unwrap();
    // Each write of the other takes the share away until the operator puts it back.
    let shares = shares_of(&history, &canary);
    let gained: Vec<i64> = shares.iter().copied().filter(|share| *share > 20).collect();
    assert_eq!(gained, [50, 100], "{shares:?} {:?}", verdicts(&history));
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let (_, summary) = load.stop().await.unwrap();
    println!("{} requests, {} failed", summary.ok(), summary.failed());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}

/// Clients that come through the Service, with a connection for each request.
async fn clients_of_the_service(bench: &Bench) -> Load<'_> {
    let url = format!("http://{AGENT}");
    let plan = LoadPlan { agent: AGENT.to_owned(), url, host: None, keeps_connections: false, rate: 50 };
    bench.namespace.start_load(&plan).await.unwrap()
}

/// One pod beside two is a third, whatever smaller share was declared.
#[tokio::test]
async fn without_a_gateway_numbers_of_pods_are_the_shares() {
    let namespace = namespace_with_servers("rollout-pods").await.unwrap();
    let bench = Bench::start_in(namespace, |manifest| {
        manifest["spec"]["serving"]["replicas"] = json!(2);
        manifest["spec"]["rollout"]["traffic"] = json!({"type": "ReplicaRatio"});
        manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
    });
    let bench = bench.await.unwrap();
    let load = clients_of_the_service(&bench).await;
    load.next_intervals(1).await.unwrap();

    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    assert_eq!(wait_for_weight(&bench, 20).await.canary_share.as_deref(), Some("33%"));
    load.next_intervals(1).await.unwrap();
    let third = load.next_intervals(1).await.unwrap();
    let (of_canary, all) = (third[0].ok_of(&canary), third[0].ok());
    println!("{of_canary} of {all} requests reached one canary pod beside two");
    assert!((all / 4..all * 5 / 12).contains(&of_canary), "{of_canary} of {all}");
    bench.wait_for_promotion(&canary).await.unwrap();
    load.next_intervals(2).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    println!("{} requests, {} failed", summary.ok(), summary.failed());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}
