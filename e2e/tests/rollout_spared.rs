//! Revisions that are slower for clients and do no harm: a plan whose slowness was measured and chosen, and one whose
//! tool has become slow for everybody.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_e2e::{
    agents::{namespace_with_servers, workload_source},
    load::report::{Report, typical},
    rollouts::{
        AGENT, Bench,
        watch::{Watch, shares_of, unready_with_traffic, verdicts},
    },
};

/// Median latency of a revision as clients saw it, in microseconds.
fn median(intervals: &[Report], revision: &str) -> u64 {
    typical(intervals, revision, |latency| latency.p50).unwrap()
}

async fn reasons(bench: &Bench) -> Vec<String> {
    bench.namespace.event_reasons(AGENT).await.unwrap()
}

/// The same step without a campaign is a regression: see `rollout`.
#[tokio::test]
async fn a_plan_that_was_measured_as_half_as_fast_and_within_the_objectives_takes_over() {
    let namespace = namespace_with_servers("rollout-measured").await.unwrap();
    namespace.give_workload().await.unwrap();
    let bench = Bench::start_in(namespace, |manifest| {
        manifest["spec"]["search"]["concurrency"] = json!([32]);
        let prompts = json!({"name": "turns", "prompts": workload_source("prompts.jsonl")});
        manifest["spec"]["profiling"] = json!({ "workloads": [prompts] });
        // Clients are fewer than the requests in flight that a campaign measures: the two ratios are alike, not equal.
        manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("25%");
    });
    let bench = bench.await.unwrap();
    let load = bench.start_load_of(25).await.unwrap();
    load.next_intervals(1).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("medianMilliseconds", "400")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for_promotion(&canary).await.unwrap();
    // The watch is another connection, and is to see it too.
    load.next_intervals(1).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 50, 100], "{:?}", verdicts(&history));
    assert!(unready_with_traffic(&history).is_empty(), "{:?}", unready_with_traffic(&history));
    let (intervals, summary) = load.stop().await.unwrap();
    let (before, after) = (median(&intervals, &bench.stable), median(&intervals, &canary));
    println!("median {before} us, then {after} us; {} requests, {} failed", summary.ok(), summary.failed());
    assert!(after > before * 3 / 2, "clients were to see the difference: {before} us, then {after} us");
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    assert!(!reasons(&bench).await.contains(&"RolledBack".to_owned()));
}

/// An agent that looks one thing up in every run.
fn with_tool(manifest: &mut Value) {
    let http = json!({
        "url": "http://facts/facts/{entity}/{property}", "arguments": ["entity", "property"], "idempotent": true,
        "resultPointer": "/value",
    });
    let lookup =
        json!({"name": "lookup", "type": "HTTP", "description": "looks something up", "http": http, "timeout": "2s"});
    manifest["spec"]["agent"]["tools"] = json!([lookup]);
    manifest["spec"]["engine"]["custom"]["options"]["lookUp"] = json!("1");
    // Half of a run is the tool's: as much of the engine's is hidden behind it.
    manifest["spec"]["rollout"]["judge"]["maxRegression"] = json!("15%");
}

#[tokio::test]
async fn a_tool_that_becomes_slow_meanwhile_condemns_nobody() {
    let namespace = namespace_with_servers("rollout-slow-tool").await.unwrap();
    namespace.request("PUT", "facts", "/facts/Ada/age", Some(&json!({"value": 36}))).await.unwrap();
    let bench = Bench::start_in(namespace, with_tool).await.unwrap();
    let load = bench.start_load_of(30).await.unwrap();
    let before = load.next_intervals(2).await.unwrap();
    let watch = Watch::start(&bench.namespace);

    bench.apply(&bench.with(&[("medianMilliseconds", "190")])).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();
    // Longer than a run took before, on a machine that is not overloaded.
    let delay = json!({"milliseconds": 1_000});
    bench.namespace.request("PUT", "facts", "/delay", Some(&delay)).await.unwrap();
    bench.wait_for_promotion(&canary).await.unwrap();
    let after = load.next_intervals(2).await.unwrap();

    let history = watch.stop().await.unwrap();
    assert_eq!(shares_of(&history, &canary), [0, 20, 50, 100], "{:?}", verdicts(&history));
    let (_, summary) = load.stop().await.unwrap();
    let (fast, slow) = (median(&before, &bench.stable), median(&after, &canary));
    println!(
        "median of a run {fast} us, {slow} us with a slow tool; {} runs, {} failed",
        summary.ok(),
        summary.failed()
    );
    assert!(slow > fast, "the tool was to be slow: {fast} us, then {slow} us");
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
    assert!(!reasons(&bench).await.contains(&"RolledBack".to_owned()));
}
