//! What clients wish of an answer, at chat upstreams of any make: formats and probabilities.

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    fixture::post,
    upstreams::{Answer, StandIn, agent, delta},
};

const CHAT: &str = "/v1/chat/completions";

/// The body of a question whose answer is to have one height.
fn asks_for_height() -> Value {
    let schema = json!({
        "type": "object", "properties": { "height": { "type": "integer" } },
        "required": ["height"], "additionalProperties": false,
    });
    let format = json!({ "name": "height", "strict": true, "schema": schema });
    json!({
        "messages": [{ "role": "user", "content": "How high is Bela?" }],
        "response_format": { "type": "json_schema", "json_schema": format },
    })
}

fn says(text: &str) -> Answer {
    Answer::Events(vec![delta(&json!({ "content": text }), Some("stop"))])
}

/// The formats of all requests, in order.
fn formats(server: &StandIn) -> Vec<Value> {
    server.seen().into_iter().map(|(_, _, body)| body["response_format"].clone()).collect()
}

#[tokio::test]
async fn an_upstream_may_hold_the_answer_to_its_format() {
    let server = StandIn::new([says(r#"{"height": 123}"#)]);
    let (app, _) = agent(&server, None, None).await;
    let answer = post(&app.api(), CHAT, asks_for_height()).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], r#"{"height": 123}"#);
    let schema = asks_for_height()["response_format"]["json_schema"]["schema"].clone();
    let named = json!({ "name": "answer", "schema": schema, "strict": true });
    assert_eq!(formats(&server), [json!({ "type": "json_schema", "json_schema": named })]);
}

#[tokio::test]
async fn an_answer_is_checked_where_its_upstream_knows_no_formats() {
    let refuses = || Answer::Refuses(StatusCode::BAD_REQUEST, "Guided generation is not available here");
    let server = StandIn::new([refuses(), says("123 m"), refuses(), says(r#"{"height": 123}"#)]);
    let (app, _) = agent(&server, None, None).await;
    let answer = post(&app.api(), CHAT, asks_for_height()).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], r#"{"height": 123}"#);
    let has_format: Vec<_> = formats(&server).iter().map(|format| !format.is_null()).collect();
    assert_eq!(has_format, [true, false, true, false]);
    let (_, _, last) = server.seen().swap_remove(3);
    let told = last["messages"].as_array().and_then(|messages| messages.last()).map(|message| &message["content"]);
    assert_eq!(told, Some(&json!("Your answer has a mistake: it is not JSON alone. Write it again, as JSON alone.")));
}

#[tokio::test]
async fn probabilities_of_an_upstream_are_passed_on() {
    let likely = |token: &str, logprob: f64| json!({ "token": token, "logprob": logprob, "bytes": null });
    let mut first = likely("Hi", -0.5);
    first["top_logprobs"] = json!([likely("Hi", -0.5), likely("Ho", -1.5)]);
    let mut event = delta(&json!({ "content": "Hi." }), None);
    event["choices"][0]["logprobs"] = json!({ "content": [first, likely(".", -0.25)] });
    let server = StandIn::new([Answer::Events(vec![event, delta(&json!({}), Some("stop"))])]);
    let (app, _) = agent(&server, None, None).await;
    let body = json!({ "messages": [{ "role": "user", "content": "?" }], "logprobs": true, "top_logprobs": 2 });
    let answer = post(&app.api(), CHAT, body).await;
    let (_, _, sent) = server.seen().swap_remove(0);
    assert_eq!((&sent["logprobs"], &sent["top_logprobs"]), (&json!(true), &json!(2)));
    let given = &answer.json()["choices"][0]["logprobs"]["content"];
    let shown = |likely: &Value| (likely["token"].clone(), likely["logprob"].clone());
    let all: Vec<_> = given.as_array().into_iter().flatten().map(shown).collect();
    assert_eq!(all, [(json!("Hi"), json!(-0.5)), (json!("."), json!(-0.25))]);
    let top: Vec<_> = given[0]["top_logprobs"].as_array().into_iter().flatten().map(shown).collect();
    assert_eq!(top, [(json!("Hi"), json!(-0.5)), (json!("Ho"), json!(-1.5))]);
}

#[tokio::test]
async fn an_upstream_that_gives_no_probabilities_refuses_the_clients_request() {
    let refusal = r#"{"error": {"message": "'logprobs' is not supported with this model", "param": "logprobs"}}"#;
    let server = StandIn::new([Answer::Refuses(StatusCode::BAD_REQUEST, refusal)]);
    let (app, _) = agent(&server, None, None).await;
    let body = json!({ "messages": [{ "role": "user", "content": "?" }], "logprobs": true });
    let answer = post(&app.api(), CHAT, body).await;
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (StatusCode::BAD_REQUEST, &json!("request_refused")));
    let (_, _, sent) = server.seen().swap_remove(0);
    assert_eq!((&sent["logprobs"], &sent["top_logprobs"]), (&json!(true), &Value::Null));
}
