//! What clients say of runs.

use std::time::Duration;

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_vocabulary::evidence::{Evidence, Metric};

use crate::fixture::{Reply, Sidecar, get, post, sidecar};

async fn judged(sidecar: &Sidecar) -> Option<(u64, u64, u64)> {
    sidecar.time.advance(Duration::from_secs(10));
    let evidence = get(&sidecar.app.admin(), "/slipway/v1/evidence").await.json();
    let evidence: Evidence = serde_json::from_value(evidence).expect("evidence");
    let mut rows = evidence.windows.into_iter().flat_map(|window| window.metrics);
    let row = rows.find(|row| row.metric == Metric::TaskSuccess)?;
    Some((row.count, row.errors, row.sum_microseconds))
}

#[tokio::test]
async fn feedback_on_runs_and_completions_is_counted() {
    let sidecar = sidecar([Reply::Says("Answer: 1\n\n"), Reply::Says("Answer: 2\n\n")]);
    let api = sidecar.app.api();
    let run = post(&api, "/v1/runs", json!({"input": "What is 1?"})).await.json();
    let chat = json!({"model": "support", "messages": [{"role": "user", "content": "What is 2?"}]});
    let chat = post(&api, "/v1/chat/completions", chat).await.json();
    let said = [
        json!({"run": run["id"], "success": true}),
        json!({"run": run["id"], "score": 0.75}),
        json!({"run": chat["id"], "success": false}),
        json!({"run": chat["id"], "score": 0.4}),
    ];
    for body in said {
        assert_eq!(post(&api, "/v1/feedback", body).await.status, StatusCode::NO_CONTENT);
    }
    assert_eq!(judged(&sidecar).await, Some((4, 2, 1_750_000)));
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_tasks_judged_total{success=\"false\"} 2"), "{metrics}");
}

#[rstest]
#[case::no_verdict(json!({"run": "run-support-1-1-1"}), "success: is missing; send success or score")]
#[case::two(json!({"run": "run-support-1-1-1", "success": true, "score": 1}), "success: is sent with score; send one of the two")]
#[case::beyond(json!({"run": "run-support-1-1-1", "score": 5}), "score: is 5; must be from 0 to 1")]
#[case::no_run(
    json!({"run": "42", "success": true}),
    "run: \"42\" is not the id of a run; send the id of the answer, as in run-... or chatcmpl-..."
)]
#[tokio::test]
async fn feedback_that_says_nothing_is_refused(#[case] body: Value, #[case] message: &str) {
    let sidecar = sidecar([]);
    let answer = post(&sidecar.app.api(), "/v1/feedback", body).await;
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::BAD_REQUEST, message));
    assert_eq!(judged(&sidecar).await, None);
}

#[tokio::test]
async fn feedback_on_a_run_of_another_revision_is_not_counted_here() {
    let sidecar = sidecar([]);
    let body = json!({"run": "run-0123456789-61f-2", "success": false});
    let answer = post(&sidecar.app.api(), "/v1/feedback", body).await;
    let message = "the run belongs to revision 0123456789, but this pod serves support-1: send the feedback with the header x-slipway-revision: 0123456789; it cannot be counted if no route reads the header or that revision is gone";
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::CONFLICT, message));
    assert_eq!(judged(&sidecar).await, None);
}
