//! Rollouts in which something else happens: pods are scaled, evidence cannot be read, clients go another way, and
//! manifests change before the rollout of the last one has ended.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use slipway_crds::{
    labels,
    v1alpha1::agent_deployment::{RolloutStatus, RolloutVerdict},
};
use slipway_e2e::{
    cluster,
    load::{pod::LoadPlan, report::Report},
    rollouts::{
        AGENT, Bench,
        watch::{Watch, shares_of, unready_with_traffic},
    },
};

/// Port of a pod's evidence.
const EVIDENCE_PORT: &str = "9464";

/// Waits for a verdict with a reason.
async fn wait_for_reason(bench: &Bench, verdict: RolloutVerdict, reason: &str) -> RolloutStatus {
    let is_so = |rollout: &RolloutStatus| (rollout.verdict, rollout.reason.as_deref()) == (Some(verdict), Some(reason));
    bench.wait_for(&format!("{} for {reason}", verdict.as_str()), is_so).await.unwrap()
}

/// Sets `spec.serving.replicas` through /scale, which is all that a HorizontalPodAutoscaler does.
fn scale(bench: &Bench, replicas: i32) {
    let (namespace, resource) = (bench.namespace.name(), format!("agd/{AGENT}"));
    let replicas = format!("--replicas={replicas}");
    let output = cluster::kubectl(&["--namespace", namespace, "scale", &resource, &replicas]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Packets to the evidence of a pod are dropped by the node, as a NetworkPolicy has it; undone when this goes.
struct Blocked {
    address: String,
}

impl Blocked {
    fn new(address: String) -> Self {
        let blocked = Self { address };
        blocked.change("--insert");
        blocked
    }

    fn change(&self, action: &str) {
        let rule = ["--protocol", "tcp", "--destination", &self.address, "--dport", EVIDENCE_PORT, "--jump", "DROP"];
        let command = [["iptables", action, "FORWARD"].as_slice(), &rule].concat();
        let output = cluster::on_node(&command).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.change("--delete");
    }
}

#[tokio::test]
async fn a_canary_whose_evidence_cannot_be_read_is_held_until_it_can() {
    let bench = Bench::start("rollout-unreadable").await.unwrap();
    let load = bench.start_load().await.unwrap();
    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();

    let pods = bench.namespace.pods(&format!("{}={canary}", labels::REVISION)).await.unwrap();
    let address = pods[0].status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap();
    let blocked = Blocked::new(address);
    let held = wait_for_reason(&bench, RolloutVerdict::Hold, "EvidenceUnreachable").await;
    println!("held: {}", held.message.clone().unwrap_or_default());
    assert_eq!((held.weight, held.stable.as_deref()), (Some(20), Some(bench.stable.as_str())));
    drop(blocked);

    bench.wait_for_promotion(&canary).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}

/// Stable must be able to take all traffic back at any time, so whatever removes pods waits for the end.
#[tokio::test]
async fn pods_come_in_the_middle_of_a_rollout_and_go_after_it() {
    let bench = Bench::start("rollout-scaled").await.unwrap();
    let load = bench.start_load().await.unwrap();
    let watch = Watch::start(&bench.namespace);
    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();
    let before: BTreeSet<String> = bench.pod_uids(&bench.stable).await.unwrap().into_values().collect();

    scale(&bench, 2);
    // At equal shares as many pods of either: none of them carries more than the others.
    bench.wait_for("50 %", |rollout| rollout.weight == Some(50)).await.unwrap();
    assert_eq!(bench.pod_uids(&canary).await.unwrap().len(), 2);
    scale(&bench, 1);
    load.next_intervals(1).await.unwrap();
    let kept: BTreeSet<String> = bench.pod_uids(&bench.stable).await.unwrap().into_values().collect();
    assert_eq!((kept.len(), before.is_subset(&kept)), (2, true), "{before:?} {kept:?}");
    bench.wait_for_promotion(&canary).await.unwrap();
    while bench.pod_uids(&canary).await.unwrap().len() != 1 {
        load.next_intervals(1).await.unwrap();
    }
    // The watch is another connection, and is to see it too.
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 50, 100]);
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let (_, summary) = load.stop().await.unwrap();
    println!("{} requests, {} failed", summary.ok(), summary.failed());
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}

/// A comparison says nothing where clients do not come by the weights.
#[tokio::test]
async fn clients_that_go_around_the_gateway_hold_a_canary() {
    let bench = Bench::start("rollout-around").await.unwrap();
    let url = format!("http://{AGENT}");
    let plan = LoadPlan { agent: AGENT.to_owned(), url, host: None, keeps_connections: true, rate: 50 };
    let load = bench.namespace.start_load(&plan).await.unwrap();
    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let held = wait_for_reason(&bench, RolloutVerdict::Hold, "TrafficSplitMismatch").await;
    println!("held: {}", held.message.clone().unwrap_or_default());
    assert_eq!((held.weight, held.stable.as_deref()), (Some(20), Some(bench.stable.as_str())));

    bench.apply(&bench.manifest).await.unwrap();
    bench.wait_for("the canary gone", |rollout| rollout.canary.is_none()).await.unwrap();
    let (intervals, summary) = load.stop().await.unwrap();
    // An agent is served a moment before a busy node sends connections of its Service on; gateways find pods by
    // themselves.
    let failed: u64 = intervals.iter().skip(1).map(Report::failed).sum();
    assert_eq!((failed, summary.ok_of(&canary)), (0, 0), "{summary:?}");
}

#[tokio::test]
async fn of_two_edits_in_a_row_the_second_takes_over_and_stable_serves_until_then() {
    let bench = Bench::start("rollout-edits").await.unwrap();
    let stable_pods = bench.pod_uids(&bench.stable).await.unwrap();
    let load = bench.start_load().await.unwrap();
    let watch = Watch::start(&bench.namespace);
    bench.apply(&bench.with(&[("medianMilliseconds", "196")])).await.unwrap();
    let first = bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();

    bench.apply(&bench.with(&[("medianMilliseconds", "195")])).await.unwrap();
    let is_another = |rollout: &RolloutStatus| rollout.canary.as_ref().is_some_and(|canary| *canary != first);
    let second = bench.wait_for("another canary", is_another).await.unwrap().canary.unwrap();
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), stable_pods);
    let promoted = bench.wait_for_promotion(&second).await.unwrap();
    // The watch is another connection, and is to see it too.
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &first), [0, 20, 0]);
    assert_eq!(shares_of(&history, &second), [0, 20, 50, 100]);
    assert!(promoted.rejected.is_empty(), "an edit is no verdict: {:?}", promoted.rejected);
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}
