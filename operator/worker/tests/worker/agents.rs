//! Campaigns of agent runs, with a server where the sidecar stands.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use slipway_worker::{failure, http};
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
    let endpoint = endpoint.to_owned();
    let agent = AgentRunSettings { endpoint, trace, timeout_millis: 10_000, recorded_replicas: None };
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

/// A sidecar that makes the calls of made-up runs, and notes them.
#[derive(Clone)]
struct Rehearsing {
    client: reqwest::Client,
    tools: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// What a made-up run was.
#[derive(Clone, Debug)]
struct Seen {
    run: usize,
    question_words: usize,
    turns: Vec<u32>,
    /// Words of each call's result, and how long it took.
    calls: Vec<(usize, Duration)>,
}

async fn rehearse(State(sidecar): State<Rehearsing>, Json(body): Json<Value>) -> Json<Value> {
    let (question, rest) = body["input"].as_str().unwrap().split_once(" [[run ").unwrap();
    let (run, turns) = rest.strip_suffix("]]").unwrap().split_once(": ").unwrap();
    let turns: Vec<u32> = turns.split(' ').map(|tokens| tokens.parse().unwrap()).collect();
    let mut seen =
        Seen { run: run.parse().unwrap(), question_words: question.split(' ').count(), turns, calls: Vec::new() };
    for turn in 1..seen.turns.len() {
        let asked = Instant::now();
        let url = format!("http://{}/tools/synthetic?call={run}-{turn}", sidecar.tools);
        let answer = sidecar.client.get(url).send().await.unwrap().error_for_status().unwrap();
        let result = answer.text().await.unwrap();
        seen.calls.push((result.split(' ').count(), asked.elapsed()));
    }
    sidecar.seen.lock().unwrap().push(seen);
    Json(json!({"status": "succeeded", "usage": {"toolErrors": 0}}))
}

/// Two of these come at once, and then one after each other; the last of them stands first.
const RECORDED: &str = concat!(
    r#"{"arrivedMicros":900000,"inputTokens":7,"turns":[{"outputTokens":5}]}"#,
    "\n",
    r#"{"arrivedMicros":0,"inputTokens":3,"turns":[{"outputTokens":40,"calls":["#,
    r#"{"tool":"lookup","resultTokens":2,"latencyMicros":20000},{"tool":"calc","resultTokens":1,"latencyMicros":9}]},"#,
    r#"{"outputTokens":9}]}"#,
    "\n",
    r#"{"arrivedMicros":0,"inputTokens":4,"turns":[{"outputTokens":6}]}"#,
    "\n",
    r#"{"arrivedMicros":300000,"inputTokens":5,"turns":[{"outputTokens":8}]}"#,
    "\n",
);

#[tokio::test]
async fn recorded_lengths_come_again_in_their_order_with_their_lengths_and_the_latencies_of_tools() {
    // On a loopback address of its own: other tests take free ports of 127.0.0.1.
    let free = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let tools = free.local_addr().unwrap();
    drop(free);
    let sidecar = Rehearsing { client: http::local_client().unwrap(), tools, seen: Arc::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/runs", post(rehearse)).with_state(sidecar.clone());
    let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let mut bench = bench(&endpoint, confirm, false).await;
    bench.replay = tools;
    fs::write(bench.path("runs.jsonl"), RECORDED).unwrap();
    let trace = Runs::Lengths { lengths: data_file(&bench.path("runs.jsonl")), seed: 3 };
    let agent = AgentRunSettings { endpoint, trace, timeout_millis: 10_000, recorded_replicas: Some(1) };
    bench.task.campaign = confirm(Driver::AgentRun(agent));
    bench.task.measure.warm_up = 0;
    let row = bench.run().await.unwrap().rows.remove(0);
    assert_eq!((row.verdict, row.errors, row.count), (MeasurementVerdict::Feasible, 0, 100), "{}", row.reason);
    // The first run warms up. Few runs are made up several times, each time with other words.
    let seen = sidecar.seen.lock().unwrap().split_off(1);
    let of = |line: usize| seen.iter().filter(move |seen| seen.run % 4 == line);
    assert_eq!([0, 1, 2, 3].map(|line| of(line).count()), [25; 4], "one after the other, and the first after the last");
    let runs: BTreeSet<_> = seen.iter().map(|seen| seen.run).collect();
    assert_eq!((runs.len(), sidecar.seen.lock().unwrap()[0].run), (100, 0), "no run comes twice");
    let lengths = |line: usize| of(line).map(|seen| (seen.question_words, seen.turns.clone())).collect::<BTreeSet<_>>();
    let expected = [(7, vec![5]), (3, vec![40, 9]), (4, vec![6]), (5, vec![8])];
    assert_eq!([0, 1, 2, 3].map(lengths), expected.map(|of_all| BTreeSet::from([of_all])));
    let calls: Vec<_> = of(1).flat_map(|seen| &seen.calls).collect();
    let is_as_recorded = |(words, took): &&(usize, Duration)| *words == 3 && *took >= Duration::from_millis(20);
    assert_eq!((calls.len(), calls.iter().filter(|call| is_as_recorded(call)).count()), (25, 25), "{calls:?}");
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
