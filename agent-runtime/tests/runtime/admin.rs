//! The admin port.

use std::time::Duration;

use axum::{Json, Router, http::StatusCode, routing};
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_agent_runtime::api::admission::Readiness;
use slipway_runtime_config::{LatencyMetric, LatencyObjective, Percentile};
use slipway_vocabulary::{
    evidence::{Evidence, Metric},
    preflight::Slowdown,
    telemetry::GpuWindow,
};

use crate::fixture::{Reply, Sidecar, get, post, serve, sidecar, sidecar_with};

fn objective(name: &str, metric: LatencyMetric, max_microseconds: u64) -> LatencyObjective {
    LatencyObjective { name: name.into(), metric, percentile: Percentile::P99, max_microseconds }
}

/// Two runs of 40 virtual milliseconds (two calls, first tokens after 10 ms each), and one that fails.
async fn after_three_runs() -> Sidecar {
    let replies = [
        Reply::Says("Action: calc[17+4]\n\n"),
        Reply::Says("Answer: 21\n\n"),
        Reply::Says("Action: calc[1/0]\n\n"),
        Reply::Says("Answer: no\n\n"),
        Reply::Says("        \n\n"),
    ];
    let sidecar = sidecar_with(replies, |config| {
        config.objectives = vec![
            objective("answer", LatencyMetric::AgentRunLatency, 50_000),
            objective("token", LatencyMetric::RequestTimeToFirstToken, 9_000),
        ];
    });
    for _ in 0..3 {
        post(&sidecar.app.api(), "/v1/runs", json!({ "input": "What is 17+4?" })).await;
    }
    sidecar
}

#[tokio::test]
async fn metrics_count_runs_calls_and_objectives() {
    let sidecar = after_three_runs().await;
    let metrics = get(&sidecar.app.admin(), "/metrics").await;
    // Series of one metric come in no fixed order.
    let mut lines: Vec<_> = metrics.body.lines().collect();
    lines.sort_unstable();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn evidence_holds_one_observation_per_run_and_metric() {
    let sidecar = after_three_runs().await;
    sidecar.time.advance(Duration::from_secs(10));
    let answer = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&answer.body).expect("the evidence reads back");
    assert_eq!((evidence.revision.as_str(), evidence.pod.as_str()), ("support-1", "support-1-x"));
    let [window] = evidence.windows.as_slice() else { panic!("one window has ended: {evidence:?}") };
    let figures: Vec<_> = window
        .metrics
        .iter()
        .map(|row| (row.metric, row.started, row.new_sessions, row.count, row.errors, row.sum_microseconds))
        .collect();
    assert_eq!(
        figures,
        [
            (Metric::AgentRunLatency, 3, 3, 3, 1, 80_000),
            (Metric::ModelTime, 3, 3, 3, 1, 80_000),
            (Metric::ToolTime, 3, 3, 3, 1, 0),
            (Metric::RequestLatency, 3, 3, 3, 1, 40_000),
            (Metric::RequestTimeToFirstToken, 3, 3, 3, 1, 20_000),
            (Metric::InterTokenLatency, 3, 3, 3, 1, 3_332),
            (Metric::ModelCallsPerRun, 3, 3, 3, 1, 4),
            (Metric::OutputTokensPerRun, 3, 3, 3, 1, 63),
            (Metric::RunSuccess, 3, 3, 3, 1, 0),
            (Metric::TimeToFirstToken, 3, 3, 3, 1, 80_000),
        ]
    );
    let id = window.id;
    let again = get(&sidecar.app.admin(), &format!("/slipway/v1/evidence?after={id}")).await;
    let again: Evidence = serde_json::from_str(&again.body).expect("the evidence reads back");
    assert_eq!(again.windows, []);
}

/// The stratum of one run of a question.
async fn stratum(system_prompt: &str, question: &str) -> String {
    let sidecar = sidecar_with([Reply::Says("Answer: 4\n\n")], |config| config.system_prompt = system_prompt.into());
    post(&sidecar.app.api(), "/v1/runs", json!({ "input": question })).await;
    sidecar.time.advance(Duration::from_secs(10));
    let answer = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&answer.body).expect("the evidence reads back");
    evidence.windows[0].metrics[0].stratum.clone()
}

#[tokio::test]
async fn revisions_of_different_prompts_are_compared_on_the_same_questions() {
    let long = "Think before you answer. ".repeat(40);
    assert_eq!(stratum("Be brief.", "What is 2+2?").await, stratum(&long, "What is 2+2?").await);
    assert_eq!(stratum("Be brief.", "What is 2+2?").await, "miss/p3/f0");
    assert_eq!(stratum("Be brief.", &"What is 2+2? ".repeat(10)).await, "miss/p7/f0");
}

#[tokio::test]
async fn pickers_find_the_load_and_nothing_else_where_a_pool_points() {
    let sidecar = sidecar_with([], |config| config.max_in_flight = 4);
    let _one = sidecar.app.admission().admit().expect("there is room");
    let load = get(&sidecar.app.api(), "/metrics").await.body;
    let lines: Vec<_> = load.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(
        lines,
        [
            "slipway_runs_in_flight 1",
            "slipway_runs_in_flight_limit 4",
            "slipway_runs_in_flight_ratio 0.25",
            "slipway_model_requests_in_flight 0",
            "slipway_ready 1",
        ]
    );
}

#[tokio::test]
async fn an_id_that_is_none_is_refused() {
    let answer = get(&sidecar([]).app.admin(), "/slipway/v1/evidence?after=yesterday").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(answer.error(), "after: is not a window's id; send the last id you have read");
}

#[tokio::test]
async fn readiness_says_what_is_waited_for_and_life_goes_on() {
    let sidecar = sidecar([]);
    let admin = sidecar.app.admin();
    let ready = async || {
        let answer = get(&admin, "/readyz").await;
        (answer.status.as_u16(), answer.body)
    };
    assert_eq!(ready().await, (200, "ok\n".into()));
    sidecar.app.admission().set_readiness(Readiness::NotReady { why: "the Triton server is not ready".into() });
    assert_eq!(ready().await, (503, "not ready: the Triton server is not ready\n".into()));
    sidecar.app.admission().set_readiness(Readiness::Draining);
    assert_eq!(ready().await, (503, "draining: 0 run(s) in flight\n".into()));
    assert_eq!(get(&admin, "/livez").await.body, "ok\n");
}

/// What the program beside the engine answers: the window that the runs are in.
async fn beside(status: StatusCode) -> String {
    let told = json!({"windows": [
        {"id": 177_000_000, "gpus": [{"gpu": 0, "samples": 50, "slowed": [["Heat", 40]], "clockMhz": 1_200}]},
        {"id": 177_000_001, "gpus": [{"gpu": 0, "samples": 3, "xids": [79]}]},
    ]});
    let answer = move || async move { (status, Json(told)) };
    serve(Router::new().route("/slipway/v1/gpus", routing::get(answer))).await
}

async fn gpus_of_windows(status: StatusCode) -> Vec<Vec<GpuWindow>> {
    let endpoint = beside(status).await;
    let sidecar = sidecar_with([], |config| config.gpus_endpoint = Some(endpoint));
    sidecar.time.advance(Duration::from_secs(10));
    let answer = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&answer.body).expect("the evidence reads back");
    evidence.check().expect("plausible");
    evidence.windows.into_iter().map(|window| window.gpus).collect()
}

#[tokio::test]
async fn evidence_holds_what_the_gpus_did_in_its_windows() {
    let hot =
        GpuWindow { samples: 50, slowed: vec![(Slowdown::Heat, 40)], clock_mhz: Some(1_200), ..GpuWindow::default() };
    assert_eq!(gpus_of_windows(StatusCode::OK).await, [vec![hot]]);
}

#[tokio::test]
async fn evidence_is_given_without_the_gpus_where_nobody_tells_of_them() {
    assert_eq!(gpus_of_windows(StatusCode::SERVICE_UNAVAILABLE).await, [Vec::new()]);
}
