//! Campaigns of agent runs, with a server where the sidecar stands.

use std::fs;

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use slipway_worker::failure;
use slipway_worker_contract::{
    AgentRunSettings, Arm, Campaign, Driver, LatencyMetric, LatencyObjective, MeasureSettings, MeasurementVerdict,
    Percentile, ProfileTask, Runs, ServeConfig,
};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::campaign::{Bench, data_file};

/// Answers at once; a question with `unrecorded` meets a tool that the trace does not know.
async fn run(Json(body): Json<Value>) -> Json<Value> {
    let unrecorded = body["input"].as_str().unwrap().contains("unrecorded");
    Json(json!({"status": "succeeded", "usage": {"toolErrors": i32::from(unrecorded)}}))
}

async fn sidecar() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/runs", post(run));
    (url, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

fn arm() -> Arm {
    Arm { id: "a".into(), config: ServeConfig::default() }
}

/// A bench whose task drives agents; the trace has one question in four that meets an unrecorded call, if asked for.
async fn bench(endpoint: &str, campaign: impl FnOnce(Driver) -> Campaign, unrecorded: bool) -> Bench {
    let fourth = if unrecorded { "unrecorded" } else { "plain" };
    let lines = ["one", "two", "three", fourth].map(|q| format!("{{\"input\":\"{q}\",\"calls\":[]}}\n"));
    bench_with(endpoint, campaign, &lines.concat()).await
}

async fn bench_with(endpoint: &str, campaign: impl FnOnce(Driver) -> Campaign, trace: &str) -> Bench {
    let mut bench = Bench::new().await;
    fs::write(bench.path("trace.jsonl"), trace).unwrap();
    let trace = Runs::Recorded(data_file(&bench.path("trace.jsonl")));
    let agent = AgentRunSettings { endpoint: endpoint.to_owned(), trace, timeout_millis: 10_000 };
    let (name, metric, percentile) = ("runs".to_owned(), LatencyMetric::AgentRunLatency, Percentile::P95);
    bench.task = ProfileTask {
        campaign: campaign(Driver::AgentRun(agent)),
        objectives: vec![LatencyObjective { name, metric, percentile, max_microseconds: 10_000_000 }],
        error_rate_max_ppm: Some(10_000),
        measure: MeasureSettings { max_requests: 400, warm_up: 2, ..MeasureSettings::default() },
        ..bench.task.clone()
    };
    bench
}

fn explore(driver: Driver) -> Campaign {
    Campaign::Explore { arms: vec![arm()], levels: vec![3], max_measurements: 1, max_gpu_millis: 600_000, driver }
}

fn confirm(driver: Driver) -> Campaign {
    Campaign::Confirm { arm: arm(), level: 4, arrivals_per_kilosecond: 25_000, run_millis: 4_000, driver }
}

#[tokio::test]
async fn agents_in_a_closed_loop_give_a_row_of_runs() {
    let (endpoint, server) = sidecar().await;
    let row = bench(&endpoint, explore, false).await.run().await.unwrap().rows.remove(0);
    assert_eq!((row.verdict, row.errors, row.level), (MeasurementVerdict::Feasible, 0, 3));
    assert!(row.count >= 180, "{}", row.count);
    assert!(row.latencies.iter().all(|latency| latency.metric == LatencyMetric::AgentRunLatency));
    server.abort();
}

#[tokio::test]
async fn a_call_that_the_trace_does_not_have_fails_its_run() {
    let (endpoint, server) = sidecar().await;
    let row = bench(&endpoint, explore, true).await.run().await.unwrap().rows.remove(0);
    assert_eq!(row.verdict, MeasurementVerdict::Infeasible);
    assert!(row.errors > 50, "{}", row.errors);
    assert!(
        row.reason.contains(" failed; ") && row.reason.contains("a tool call had no recorded result"),
        "{}",
        row.reason
    );
    server.abort();
}

#[tokio::test]
async fn a_confirm_run_sends_at_its_rate_and_reports_one_row() {
    let (endpoint, server) = sidecar().await;
    let result = bench(&endpoint, confirm, false).await.run().await.unwrap();
    let row = &result.rows[0];
    // 25 a second, which a machine that stalls for two seconds still serves; six standard deviations of a Poisson
    // count.
    assert!((40..160).contains(&row.count), "{}", row.count);
    assert_eq!((result.rows.len(), row.verdict), (1, MeasurementVerdict::Feasible), "{}", row.reason);
    assert_eq!(result.reason, "the point was run at 25000 arrivals in 1,000 s");
    server.abort();
}

#[tokio::test]
async fn a_trace_without_results_is_refused() {
    let bench = bench_with("http://127.0.0.1:9", explore, "{\"input\":\"one\"}\n").await;
    let text = failure::chain(&bench.run().await.unwrap_err());
    assert!(
        text.starts_with("the profile's trace cannot be replayed: line 1 of the trace is not a recorded run"),
        "{text}"
    );
    assert!(text.contains("missing field `calls`"), "{text}");
}

#[tokio::test]
async fn a_trace_that_was_edited_since_the_campaign_was_planned_is_not_measured() {
    let bench = bench("http://127.0.0.1:9", explore, false).await;
    fs::write(bench.path("trace.jsonl"), "{\"input\":\"another\",\"calls\":[]}\n").unwrap();
    let text = failure::chain(&bench.run().await.unwrap_err());
    assert!(text.starts_with("the profile's trace cannot be replayed: failed to load the trace: "), "{text}");
    assert!(text.contains("trace.jsonl has changed since the campaign was planned: its digest is "), "{text}");
}
