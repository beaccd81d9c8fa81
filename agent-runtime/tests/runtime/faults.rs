//! What a client did wrong is not a fault of the agent.

use std::time::Duration;

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::{app::App, clock::ManualClock};
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

async fn counted(sidecar: &Sidecar) -> Vec<(Metric, u64, u64)> {
    counted_by(&sidecar.app, &sidecar.time).await
}

/// Runs that were counted with their errors, by metric.
pub async fn counted_by(app: &App, time: &ManualClock) -> Vec<(Metric, u64, u64)> {
    time.advance(Duration::from_secs(10));
    let evidence = get(&app.admin(), "/slipway/v1/evidence").await;
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

#[rstest]
#[case::the_client_sent_almost_all_that_fits(100, "", 75, StatusCode::BAD_REQUEST)]
#[case::there_was_room(200, "", 75, StatusCode::BAD_GATEWAY)]
#[case::the_agents_instructions_are_the_most_of_it(
    100,
    "Be brief, and never say more than what was asked for, in one line.",
    5,
    StatusCode::BAD_GATEWAY
)]
#[case::nobody_says_how_much_fits(0, "", 75, StatusCode::BAD_GATEWAY)]
#[tokio::test]
async fn a_later_prompt_beyond_the_context_is_the_clients_fault_where_the_first_left_no_room(
    #[case] context: u32,
    #[case] system_prompt: &str,
    #[case] characters: usize,
    #[case] expected: StatusCode,
) {
    let sidecar = sidecar_with([Reply::Says("Action: calc[17+4]\n\n"), Reply::Refuses(TOO_LONG)], |config| {
        config.max_tokens_per_step = 20;
        config.system_prompt = system_prompt.into();
    });
    if context > 0 {
        sidecar.engine.holds(context);
    }
    let answer = post(&sidecar.app.api(), "/v1/runs", json!({ "input": "x".repeat(characters) })).await;
    let counts =
        if expected == StatusCode::BAD_REQUEST { (Metric::Cancelled, 1, 0) } else { (Metric::RunSuccess, 1, 1) };
    assert_eq!((answer.status, counted(&sidecar).await.contains(&counts)), (expected, true));
}

#[tokio::test]
async fn an_engine_that_fails_is_a_failure_of_the_agent() {
    let sidecar = strict([Reply::Refuses("CUDA out of memory")]);
    let answer = post(&sidecar.app.api(), "/v1/runs", json!({ "input": "?" })).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert!(counted(&sidecar).await.contains(&(Metric::RunSuccess, 1, 1)));
}
