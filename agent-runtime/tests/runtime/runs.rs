//! `/v1/runs`.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Path,
    http::{Request, StatusCode, header::CONTENT_TYPE},
    routing::get as on_get,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_vocabulary::evidence::{Evidence, Metric};
use std::time::Duration;
use tokio::sync::Barrier;
use tower::ServiceExt;

use crate::fixture::{Reply, calculator, get, lookup, or_hang, post, post_for_events, serve, sidecar, sidecar_with};

const PATH: &str = "/v1/runs";

/// Knows how tall Bela is and nothing else.
async fn facts() -> String {
    let answer = async |Path((name, property)): Path<(String, String)>| match (name.as_str(), property.as_str()) {
        ("Bela", "height") => Ok(json!({ "value": 5 }).to_string()),
        _ => Err(StatusCode::NOT_FOUND),
    };
    serve(Router::new().route("/v1/{name}/{property}", on_get(answer))).await
}

#[tokio::test]
async fn a_run_shows_its_steps_tools_and_times() {
    let origin = facts().await;
    let replies = [
        Reply::Says("Action: lookup[Bela.height]\nAction: lookup[Bela.age]\nAction: shell[ls]\n\n"),
        Reply::Says("Answer: 5 and unknown\n\n"),
    ];
    let sidecar = sidecar_with(replies, |config| config.tools = vec![lookup(&origin), calculator()]);
    let answer = post(&sidecar.app.api(), PATH, json!({ "input": "How tall is Bela?" })).await;
    assert_eq!((answer.status, answer.header("x-slipway-revision")), (StatusCode::OK, "support-1"));
    insta::assert_json_snapshot!(answer.json());
    assert_eq!(
        sidecar.engine.prompts()[1],
        "Question: How tall is Bela?\n\
         Action: lookup[Bela.height]\nAction: lookup[Bela.age]\nAction: shell[ls]\n\n\
         Observation: 5\nObservation: error: HTTP status 404\n\
         Observation: error: unknown tool \"shell\"; the tools are calc, lookup\n"
    );
}

#[tokio::test]
async fn a_run_can_be_followed_as_events() {
    let sidecar = sidecar([Reply::Says("Action: calc[1/0]\n\n"), Reply::Says("Answer: impossible\n\n")]);
    let answer = post_for_events(&sidecar.app.api(), PATH, json!({ "input": "1/0?" })).await;
    assert_eq!(answer.header(CONTENT_TYPE.as_str()), "text/event-stream");
    insta::assert_snapshot!(answer.body);
}

/// Each call of the tool waits until both have come: called one after the other, they would wait for ever.
#[tokio::test]
async fn the_tools_of_one_turn_run_at_the_same_time() {
    let both = Arc::new(Barrier::new(2));
    let wait = async move || {
        both.wait().await;
        json!({ "value": "here" }).to_string()
    };
    let origin = serve(Router::new().route("/v1/{name}/{property}", on_get(wait))).await;
    let replies = [Reply::Says("Action: lookup[a.b]\nAction: lookup[c.d]\n\n"), Reply::Says("Answer: both\n\n")];
    let sidecar = sidecar_with(replies, |config| config.tools = vec![lookup(&origin)]);
    let answer = or_hang(post(&sidecar.app.api(), PATH, json!({ "input": "?" }))).await;
    assert_eq!(answer.json()["answer"], json!("both"));
}

#[tokio::test]
async fn with_the_tools_server_gone_the_model_is_told_and_no_number_is_made_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let origin = format!("http://{}", listener.local_addr().expect("a bound listener has an address"));
    drop(listener);
    let replies = [Reply::Says("Action: lookup[Bela.height]\n\n"), Reply::Says("Answer: error: no answer\n\n")];
    let sidecar = sidecar_with(replies, |config| config.tools = vec![lookup(&origin)]);
    let run = post(&sidecar.app.api(), PATH, json!({ "input": "?" })).await.json();
    let call = &run["steps"][0]["toolCalls"][0];
    assert_eq!(
        (&call["status"], &call["observation"]),
        (&json!("error"), &json!("error: the service cannot be reached"))
    );
    assert_eq!(run["usage"]["toolErrors"], json!(1));
    assert!(sidecar.engine.prompts()[1].ends_with("Observation: error: the service cannot be reached\n"));
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_cancelled_at_the_engine() {
    let sidecar = sidecar_with([Reply::SaysAndHangs("Answer: on and")], |config| config.run_timeout_milliseconds = 50);
    let answer = post(&sidecar.app.api(), PATH, json!({ "input": "?" })).await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(answer.error(), "the run did not finish within 50 ms");
    assert_eq!(answer.json()["steps"][0]["text"], json!("Answer: on and"));
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
}

#[tokio::test]
async fn a_run_without_an_answer_says_why_and_shows_its_steps() {
    let again = || Reply::Says("Action: calc[1]\n\n");
    let sidecar = sidecar_with([again(), again()], |config| config.max_steps = 2);
    let answer = post(&sidecar.app.api(), PATH, json!({ "input": "?" })).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(answer.error(), "the agent reached no answer within 2 step(s); raise maxSteps or simplify the question");
    assert_eq!(answer.json()["steps"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_the_run_and_frees_its_place() {
    let sidecar = sidecar_with([Reply::SaysAndHangs("Answer: on and"), Reply::Says("Answer: 1\n\n")], |config| {
        config.max_in_flight = 1;
    });
    let api = sidecar.app.api();
    let request = Request::post(PATH)
        .header(CONTENT_TYPE, "application/json")
        .header("accept", "text/event-stream")
        .body(Body::from(r#"{"input": "?"}"#))
        .expect("the request is well formed");
    let mut body = api.clone().oneshot(request).await.expect("a router does not fail").into_body().into_data_stream();
    body.next().await.expect("the run begins").expect("the body arrives");
    sidecar.engine.until(|engine| engine.generations.len() == 1).await;
    drop(body);
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
    assert_eq!(post(&api, PATH, json!({ "input": "?" })).await.status, StatusCode::OK);
    sidecar.time.advance(Duration::from_secs(10));
    let evidence = get(&sidecar.app.admin(), "/slipway/v1/evidence").await;
    let evidence: Evidence = serde_json::from_str(&evidence.body).expect("the evidence reads back");
    let count = |metric| {
        let rows = evidence.windows.iter().flat_map(|window| &window.metrics);
        rows.filter(|row| row.metric == metric).map(|row| row.count).sum::<u64>()
    };
    assert_eq!((count(Metric::Cancelled), count(Metric::AgentRunLatency)), (1, 1));
}

#[rstest]
#[case(json!({}), "input: is missing; send input or messages")]
#[case(json!({ "input": "a", "messages": [] }), "input: is sent with messages; send one of the two")]
#[case(json!({ "input": " " }), "input: is empty; write the question")]
#[case(json!({ "input": 5 }), "input: invalid type: integer `5`, expected a string")]
#[case(json!({ "input": "a", "maxTokens": 0 }), "maxTokens: is 0; must be at least 1")]
#[case(json!({ "input": "a", "steps": 3 }), "steps: unknown field `steps`, expected one of `input`, `messages`, `maxTokens`")]
#[case(json!({ "messages": [{ "role": "system", "content": "a" }] }), "messages: has instructions only; send at least one user message")]
#[tokio::test]
async fn a_bad_request_names_the_field(#[case] request: Value, #[case] message: &str) {
    let answer = post(&sidecar([]).app.api(), PATH, request).await;
    let error = answer.error();
    assert_eq!((answer.status, error.starts_with(message)), (StatusCode::BAD_REQUEST, true), "{error}");
}

#[tokio::test]
async fn a_run_can_be_read_while_it_runs_and_after_its_end() {
    let sidecar = sidecar([Reply::WaitsAndSays("Answer: 1\n\n")]);
    let api = sidecar.app.api();
    let running = tokio::spawn({
        let api = api.clone();
        async move { post(&api, PATH, json!({ "input": "?" })).await.json() }
    });
    sidecar.engine.until(|engine| engine.generations.len() == 1).await;
    let path = "/v1/runs/run-support-1-649ce3d40a000-0feed000000000000";
    assert_eq!(get(&api, path).await.json()["status"], json!("running"));
    sidecar.engine.release();
    let run = or_hang(running).await.expect("the run ends");
    assert_eq!(get(&api, path).await.json(), run);
    sidecar.time.advance(Duration::from_secs(16 * 60));
    let gone = get(&api, path).await;
    assert_eq!((gone.status, gone.json()["error"]["code"].as_str()), (StatusCode::NOT_FOUND, Some("unknown_run")));
    let message = "this pod does not keep run \"run-support-1-649ce3d40a000-0feed000000000000\" of /v1/runs: ids begin with \
                   run-. Runs are kept for a quarter of an hour after their end, and a client that disconnects ends its run";
    assert_eq!(gone.error(), message);
}

#[tokio::test]
async fn a_run_that_its_client_cancels_says_so_and_is_no_error() {
    let sidecar = sidecar([Reply::SaysAndHangs("Answer: on and")]);
    let api = sidecar.app.api();
    let events = tokio::spawn({
        let api = api.clone();
        async move { post_for_events(&api, PATH, json!({ "input": "?" })).await }
    });
    sidecar.engine.until(|engine| engine.generations.len() == 1).await;
    let path = "/v1/runs/run-support-1-649ce3d40a000-0feed000000000000";
    let answer = post(&api, &format!("{path}/cancel"), json!({})).await;
    assert_eq!((answer.status, &answer.json()["status"]), (StatusCode::OK, &json!("cancelling")));
    let body = or_hang(events).await.expect("the run ends").body;
    let last = body.trim_end().rsplit_once("data: ").expect("there are events").1;
    let last: Value = serde_json::from_str(last).expect("an event is JSON");
    assert_eq!((&last["type"], &last["outcome"]), (&json!("RUN_FINISHED"), &json!({ "type": "cancelled" })));
    assert_eq!(get(&api, path).await.json()["status"], json!("cancelled"));
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_runs_total{outcome=\"cancelled\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_run_as_ag_ui_asks_for_it_has_its_thread_and_is_told_in_events() {
    let sidecar = sidecar([Reply::Says("Answer: 4\n\n")]);
    let body = json!({
        "threadId": "t", "runId": "r", "state": {}, "tools": [], "forwardedProps": {},
        "context": [{ "description": "Language", "value": "French" }],
        "messages": [
            { "id": "1", "role": "reasoning", "content": "Hm." },
            { "id": "2", "role": "user", "content": "2+2?" },
        ],
    });
    let answer = post(&sidecar.app.api(), PATH, body).await;
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|data| serde_json::from_str(data).expect("an event is JSON")).collect();
    let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    let expected = [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds, expected);
    assert_eq!((&events[0]["threadId"], &events[0]["runId"]), (&json!("t"), &json!("r")));
    assert_eq!(sidecar.engine.prompts(), ["System: Language: French\nQuestion: 2+2?\n"]);
}

#[tokio::test]
async fn a_body_that_is_no_json_or_too_long_says_so() {
    let api = sidecar([]).app.api();
    let send = async |kind: &'static str, body: String| {
        let request = Request::post(PATH).header(CONTENT_TYPE, kind).body(Body::from(body)).expect("well formed");
        let response = api.clone().oneshot(request).await.expect("a router does not fail");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.expect("the body arrives");
        let body: Value = serde_json::from_slice(&body).expect("the body is JSON");
        (status, body["error"]["code"].as_str().map(str::to_owned))
    };
    assert_eq!(send("application/json", "{".into()).await, (400, Some("invalid_json".into())));
    assert_eq!(send("text/plain", "{}".into()).await, (415, Some("invalid_content_type".into())));
    assert_eq!(send("application/json", " ".repeat(1_100_000)).await, (413, Some("invalid_json".into())));
}
