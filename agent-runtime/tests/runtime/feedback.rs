//! What clients say of runs.

use std::time::Duration;

use axum::{Router, http::StatusCode};
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

/// The id of a new run.
async fn run(api: &Router) -> Value {
    post(api, "/v1/runs", json!({"input": "What is 1?"})).await.json()["id"].clone()
}

/// The id of a new completion.
async fn completion(api: &Router) -> Value {
    let chat = json!({"model": "support", "messages": [{"role": "user", "content": "What is 1?"}]});
    post(api, "/v1/chat/completions", chat).await.json()["id"].clone()
}

#[tokio::test]
async fn feedback_on_runs_and_completions_is_counted() {
    let sidecar = sidecar(std::iter::repeat_n(Reply::Says("Answer: 1\n\n"), 4));
    let api = sidecar.app.api();
    let said = [json!({"success": true}), json!({"score": 0.75}), json!({"success": false}), json!({"score": 0.4})];
    for (index, mut body) in said.into_iter().enumerate() {
        body["run"] = if index % 2 == 0 { run(&api).await } else { completion(&api).await };
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
#[case::no_parts(
    json!({"run": "run-42", "success": true}),
    "run: \"run-42\" is not the id of a run; send the id of the answer, as in run-..., chatcmpl-... or resp_..."
)]
#[case::no_run(
    json!({"run": "42", "success": true}),
    "run: \"42\" is not the id of a run; send the id of the answer, as in run-..., chatcmpl-... or resp_..."
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
    let message = "the run belongs to revision 0123456789, but this pod serves support-1: send the feedback with the header x-slipway-revision: 0123456789. It cannot be counted if no route reads the header or that revision is gone";
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::CONFLICT, message));
    assert_eq!(judged(&sidecar).await, None);
}

/// Otherwise a client that knows the shape of an id could end a canary, and one with an id could by repeating it.
#[tokio::test]
async fn feedback_counts_once_and_for_runs_that_were_served_here() {
    let sidecar = sidecar([Reply::Says("Answer: 1\n\n")]);
    let api = sidecar.app.api();
    let served = run(&api).await;
    let served = served.as_str().expect("an id is a text");
    let failed = async |run: &str| {
        let answer = post(&api, "/v1/feedback", json!({"run": run, "success": false})).await;
        (answer.status, answer.error())
    };
    assert_eq!(
        post(&api, "/v1/feedback", json!({"run": served, "success": false})).await.status,
        StatusCode::NO_CONTENT
    );
    let repeated = "feedback on this run was counted before, and each run counts once".to_owned();
    assert_eq!(failed(served).await, (StatusCode::CONFLICT, repeated.clone()));
    let guessed = format!("{}5", &served[..served.len() - 1]);
    let unknown = format!("this pod served no run {guessed:?}; send the id of the answer as it was given");
    assert_eq!(failed(&guessed).await, (StatusCode::NOT_FOUND, unknown));
    let elsewhere = served.replace("649ce3d40a000", "649ce3d40a001");
    let other_pod = "the run was one of another pod: send the feedback again on a new connection, until it reaches that pod; \
                     once that pod is gone it cannot be counted";
    assert_eq!(failed(&elsewhere).await, (StatusCode::MISDIRECTED_REQUEST, other_pod.to_owned()));
    let as_completion = served.replace("run-", "chatcmpl-");
    assert_eq!(failed(&as_completion).await, (StatusCode::CONFLICT, repeated));
    assert_eq!(judged(&sidecar).await, Some((1, 1, 0)));
}
