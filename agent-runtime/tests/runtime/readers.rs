//! Clients that read slowly, not at all, or vanish: a run is driven by its own task.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, BodyDataStream},
    http::{Request, StatusCode, header::CONTENT_TYPE},
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_vocabulary::evidence::{Evidence, Metric, MetricWindow};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tower::ServiceExt;

use crate::fixture::{Reply, Sidecar, get, or_hang, post, serve, sidecar, sidecar_with};

const RUNS: &str = "/v1/runs";
const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

/// An answer of more pieces than are handed over at once: the engine writes it letter by letter.
const LONG: &str = "Answer: one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
                    sixteen seventeen eighteen nineteen twenty\n\n";

/// Asks for events and gives the body, of which nothing is read yet.
async fn open(api: &Router, path: &str) -> BodyDataStream {
    let body = match path {
        RUNS => json!({ "input": "?" }),
        RESPONSES => json!({ "input": "?", "stream": true }),
        _ => json!({ "messages": [{ "role": "user", "content": "?" }], "stream": true }),
    };
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header("accept", "text/event-stream")
        .body(Body::from(body.to_string()))
        .expect("the request is well formed");
    let response = api.clone().oneshot(request).await.expect("a router does not fail");
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body().into_data_stream()
}

/// Returns once so many runs have ended.
async fn until_ended(sidecar: &Sidecar, outcome: &str, runs: u32) {
    let line = format!("slipway_runs_total{{outcome=\"{outcome}\"}} {runs}\n");
    or_hang(async {
        while !get(&sidecar.app.admin(), "/metrics").await.body.contains(&line) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The rows of a metric once the present window has ended.
async fn rows(sidecar: &Sidecar, metric: Metric) -> Vec<MetricWindow> {
    sidecar.time.advance(Duration::from_secs(10));
    let evidence = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&evidence.body).expect("the evidence reads back");
    let rows = evidence.windows.into_iter().flat_map(|window| window.metrics);
    rows.filter(|row| row.metric == metric && row.count > 0).collect()
}

#[rstest]
#[case::of_a_run_after_the_headers(RUNS, 0)]
#[case::of_a_run_after_its_begin(RUNS, 1)]
#[case::of_a_run_within_its_answer(RUNS, 2)]
#[case::of_a_chat_after_the_headers(CHAT, 0)]
#[case::of_a_chat_after_the_role(CHAT, 1)]
#[case::of_a_chat_within_its_answer(CHAT, 2)]
#[tokio::test]
async fn a_reader_that_stalls_holds_its_place_no_longer_than_a_run_may_take(#[case] path: &str, #[case] events: usize) {
    let replies = [Reply::SaysAndHangs("Answer: on and"), Reply::Says("Answer: 1\n\n")];
    let sidecar = sidecar_with(replies, |config| {
        config.max_in_flight = 1;
        config.run_timeout_milliseconds = 50;
    });
    let api = sidecar.app.api();
    let mut body = open(&api, path).await;
    for _ in 0..events {
        or_hang(body.next()).await.expect("an event comes").expect("the body arrives");
    }
    or_hang(sidecar.app.admission().idle()).await;
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
    assert_eq!(post(&api, RUNS, json!({ "input": "?" })).await.status, StatusCode::OK);
}

#[rstest]
#[case::of_a_run(RUNS)]
#[case::of_a_chat(CHAT)]
#[case::of_a_response(RESPONSES)]
#[tokio::test]
async fn a_run_ends_whichever_event_its_reader_stalls_at(#[case] path: &str) {
    let said = async |body: BodyDataStream| -> String {
        let all: Vec<_> = body.map(|bytes| bytes.expect("the body arrives").to_vec()).collect().await;
        String::from_utf8(all.concat()).expect("the body is text")
    };
    for events in 0.. {
        let replies = [Reply::Says("Action: calc[20+1]\n\n"), Reply::Dictates("Answer: twenty one\n\n")];
        let sidecar = sidecar_with(replies, |config| config.max_in_flight = 1);
        let mut body = open(&sidecar.app.api(), path).await;
        let mut read = Vec::new();
        for _ in 0..events {
            let Some(bytes) = or_hang(body.next()).await else {
                assert!(events > 4, "it stalled {events} times");
                return;
            };
            read.extend(bytes.expect("the body arrives"));
        }
        until_ended(&sidecar, "answered", 1).await;
        let whole = String::from_utf8(read).expect("the body is text") + &or_hang(said(body)).await;
        let ends = ["RUN_FINISHED", "[DONE]", "response.completed"];
        assert!(ends.iter().any(|end| whole.contains(end)), "after {events} events: {whole}");
        or_hang(sidecar.app.admission().idle()).await;
    }
}

#[tokio::test]
async fn a_reader_that_stalls_is_no_latency_of_the_engine() {
    let sidecar = sidecar([Reply::Says("Answer: 21\n\n")]);
    let mut body = open(&sidecar.app.api(), RUNS).await;
    or_hang(body.next()).await.expect("an event comes").expect("the body arrives");
    until_ended(&sidecar, "answered", 1).await;
    sidecar.time.advance(Duration::from_secs(5));
    while let Some(event) = or_hang(body.next()).await {
        event.expect("the body arrives");
    }
    for metric in [Metric::AgentRunLatency, Metric::RequestLatency] {
        let [row] = &rows(&sidecar, metric).await[..] else { panic!("one run has ended") };
        assert_eq!((row.count, row.errors, row.sum_microseconds), (1, 0, 20_000), "{metric}");
    }
}

#[tokio::test]
async fn what_a_reader_did_not_take_in_time_is_joined_and_complete() {
    let sidecar = sidecar([Reply::Spells(LONG)]);
    let body = open(&sidecar.app.api(), RUNS).await;
    until_ended(&sidecar, "answered", 1).await;
    let body: Vec<_> = or_hang(body.map(|bytes| bytes.expect("the body arrives").to_vec()).collect()).await;
    let body = String::from_utf8(body.concat()).expect("the body is text");
    let data = |event: &str| -> Value {
        let data = event.split_once("data: ").expect("every event has data").1;
        serde_json::from_str(data).expect("the data is JSON")
    };
    let events: Vec<_> = body.trim_end().split("\n\n").collect();
    let deltas: Vec<_> = events.iter().filter(|event| data(event)["type"] == "TEXT_MESSAGE_CONTENT").collect();
    let answer: String = deltas.iter().map(|event| data(event)["delta"].as_str().expect("a text").to_owned()).collect();
    assert_eq!(answer, LONG.trim().trim_start_matches("Answer: "));
    assert!(deltas.len() < 80, "the engine wrote {} pieces", LONG.len());
    assert_eq!(data(events.last().expect("there are events"))["result"]["answer"], json!(answer));
}

#[tokio::test]
async fn a_reader_that_left_events_untaken_loses_the_connection_and_not_the_run() {
    let sidecar = sidecar_with([Reply::Spells(LONG)], |config| config.run_timeout_milliseconds = 50);
    let body = open(&sidecar.app.api(), RUNS).await;
    or_hang(sidecar.app.admission().idle()).await;
    let parts: Vec<Result<_, _>> = or_hang(body.collect()).await;
    assert!(parts.last().expect("the channel held events").is_err(), "an end that looks whole");
    let [row] = &rows(&sidecar, Metric::RunSuccess).await[..] else { panic!("one run has ended") };
    assert_eq!((row.count, row.errors), (1, 0));
}

#[tokio::test]
async fn a_client_that_stalls_and_vanishes_cancels_its_run() {
    let sidecar = sidecar_with([Reply::SaysAndHangs("Answer: on and")], |config| config.max_in_flight = 1);
    let mut body = open(&sidecar.app.api(), CHAT).await;
    or_hang(body.next()).await.expect("an event comes").expect("the body arrives");
    drop(body);
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
    assert_eq!(sidecar.app.admission().in_flight(), 0);
    assert_eq!(rows(&sidecar, Metric::Cancelled).await.len(), 1);
}

#[tokio::test]
async fn what_a_cancelled_run_had_done_is_counted() {
    let replies = [Reply::Says("Action: calc[17+4]\n\n"), Reply::SaysAndHangs("Answer: on and")];
    let sidecar = sidecar(replies);
    let body = open(&sidecar.app.api(), RUNS).await;
    or_hang(sidecar.engine.until(|engine| engine.generations.len() == 2)).await;
    drop(body);
    until_ended(&sidecar, "cancelled", 1).await;
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    let has = |name: &str, value: &str| metrics.lines().any(|line| line.starts_with(name) && line.ends_with(value));
    let tokens = |kind: &str, sum: &str| {
        let is_sum = |line: &&str| line.starts_with("gen_ai_client_token_usage_sum{") && line.contains(kind);
        metrics.lines().find(is_sum).is_some_and(|line| line.ends_with(sum))
    };
    assert!(tokens("gen_ai_token_type=\"output\"", " 20.0"), "{metrics}");
    assert!(has("gen_ai_execute_tool_duration_seconds_count{", " 1"), "{metrics}");
}

#[tokio::test]
async fn a_connection_that_closes_before_the_answer_cancels_its_run() {
    let sidecar = sidecar([Reply::SaysAndHangs("Action: calc")]);
    let origin = serve(sidecar.app.api()).await;
    let mut connection =
        TcpStream::connect(origin.trim_start_matches("http://")).await.expect("the sidecar accepts connections");
    let body = r#"{"input": "?"}"#;
    let head = format!(
        "POST {RUNS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).await.expect("the sidecar reads");
    or_hang(sidecar.engine.until(|engine| engine.generations.len() == 1)).await;
    drop(connection);
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
    or_hang(sidecar.app.admission().idle()).await;
    assert_eq!(rows(&sidecar, Metric::Cancelled).await.len(), 1);
}
