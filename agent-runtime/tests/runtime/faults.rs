//! What a client did wrong is not a fault of the agent.

use std::time::Duration;

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_runtime_config::{LatencyMetric, LatencyObjective, Percentile};
use slipway_vocabulary::evidence::{Evidence, Metric};

use crate::fixture::{Reply, Sidecar, get, post, sidecar_with};

const TOO_LONG: &str = "This model's maximum context length is 8 tokens. However, your request has 9 input tokens.";

/// A sidecar that misses its objective however fast it is.
fn strict(replies: impl IntoIterator<Item = Reply>) -> Sidecar {
    sidecar_with(replies, |config| {
        let (name, metric, percentile) = ("answer".into(), LatencyMetric::AgentRunLatency, Percentile::P99);
        config.objectives = vec![LatencyObjective { name, metric, percentile, max_microseconds: 1 }];
    })
}

/// Runs that were counted with their errors, by metric.
async fn counted(sidecar: &Sidecar) -> Vec<(Metric, u64, u64)> {
    sidecar.time.advance(Duration::from_secs(10));
    let evidence = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&evidence.body).expect("the evidence reads back");
    let rows = evidence.windows.iter().flat_map(|window| &window.metrics).filter(|row| row.count > 0);
    rows.map(|row| (row.metric, row.count, row.errors)).collect()
}

#[rstest]
#[case::chat("/v1/chat/completions", json!({ "messages": [{ "role": "user", "content": "too long" }] }))]
#[case::streamed("/v1/chat/completions",
    json!({ "messages": [{ "role": "user", "content": "too long" }], "stream": true }))]
#[case::run("/v1/runs", json!({ "input": "too long" }))]
#[tokio::test]
async fn a_conversation_beyond_the_context_is_a_bad_request_and_no_failure_of_the_agent(
    #[case] path: &str,
    #[case] request: Value,
) {
    let sidecar = strict([Reply::Refuses(TOO_LONG)]);
    let answer = post(&sidecar.app.api(), path, request).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        answer.json()["error"],
        json!({
            "message": format!(
                "messages: they do not fit the model's context; send a shorter conversation (the engine failed: {TOO_LONG})"
            ),
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        })
    );
    assert_eq!(counted(&sidecar).await, [(Metric::Cancelled, 1, 0)]);
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    for line in [
        "slipway_runs_total{outcome=\"context_length_exceeded\"} 1\n",
        "slipway_runs_total{outcome=\"model_error\"} 0\n",
        "slipway_slo_events_total{objective=\"answer\",good=\"false\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
}

#[tokio::test]
async fn what_the_agent_added_to_a_prompt_is_its_own_fault() {
    let sidecar = strict([Reply::Says("Action: calc[17+4]\n\n"), Reply::Refuses(TOO_LONG)]);
    let answer = post(&sidecar.app.api(), "/v1/runs", json!({ "input": "?" })).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert!(counted(&sidecar).await.contains(&(Metric::RunSuccess, 1, 1)));
}

#[tokio::test]
async fn an_engine_that_fails_is_a_failure_of_the_agent() {
    let sidecar = strict([Reply::Refuses("CUDA out of memory")]);
    let answer = post(&sidecar.app.api(), "/v1/runs", json!({ "input": "?" })).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert!(counted(&sidecar).await.contains(&(Metric::RunSuccess, 1, 1)));
}
