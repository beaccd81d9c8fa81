//! What servers of the OpenAI API elsewhere refuse: whose fault it is, and what is asked again with less.

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::backend::{EngineFault, OpenAiServer};
use slipway_runtime_config::Upstream;
use slipway_vocabulary::evidence::Metric;

use crate::{
    faults::counted_by,
    fixture::{Answer as Answered, or_hang, post},
    upstreams::{Answer, Seen, StandIn, agent, ask, client, delta, folder, secret},
};

/// The temperature of the agent's own.
const LUKEWARM: Option<u32> = Some(200);

fn refuses(body: &'static str) -> Answer {
    Answer::Refuses(StatusCode::BAD_REQUEST, body)
}

#[rstest]
#[case::open_ai(
    400,
    r#"{"error": {"message": "Too long.", "type": "invalid_request_error", "param": "messages",
        "code": "context_length_exceeded"}}"#
)]
#[case::open_ai_without_a_code(
    400,
    r#"{"error": {"message": "Your input exceeds the context window of this model."}}"#
)]
#[case::sglang(
    400,
    r#"{"object": "error", "message": "The input (9 tokens) is longer than the model's context length (8 tokens).",
        "type": "BadRequestError", "param": null, "code": 400}"#
)]
#[case::tgi(
    422,
    r#"{"error": "Input validation error: `inputs` must have less than 8 tokens. Given: 9",
        "error_type": "validation"}"#
)]
#[case::llama_cpp(400, r#"{"error": {"code": 400, "message": "Too long.", "type": "exceed_context_size_error"}}"#)]
#[case::groq(
    400,
    r#"{"error": {"message": "Please reduce the length of the messages or completion.", "param": "messages"}}"#
)]
#[case::xai(
    400,
    r#"{"code": "Client specified an invalid argument",
        "error": "This model's maximum prompt length is 8 but the request contains 9 tokens."}"#
)]
#[case::gemini(
    400,
    r#"[{"error": {"code": 400, "status": "INVALID_ARGUMENT",
        "message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}]"#
)]
#[case::anthropic(
    400,
    r#"{"type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}}"#
)]
#[case::mistral(
    400,
    r#"{"object": "error", "message": "Prompt contains 9 tokens, too large for model with 8 maximum context length"}"#
)]
#[tokio::test]
async fn every_makers_refusal_of_a_prompt_that_is_too_long_is_known(#[case] status: u16, #[case] body: &'static str) {
    let status = StatusCode::from_u16(status).expect("a status");
    let server = StandIn::new([Answer::Refuses(status, body)]);
    let client = client(&server, OpenAiServer::Chat, &Upstream::default()).await;
    let error = ask(&client).await.expect_err("it is too long");
    assert_eq!((error.fault(), error.kind(), server.seen().len()), (EngineFault::ContextLength, "context_length", 1));
}

#[rstest]
#[case::chat(
    OpenAiServer::Chat,
    concat!(
        r#"{"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 20 "#,
        r#"tokens. However, you requested 24 tokens (17 in the messages, 7 in the completion)."}}"#
    ),
    vec![7, 3]
)]
#[case::completions(
    OpenAiServer::Completions,
    concat!(
        r#"{"error": "`inputs` tokens + `max_new_tokens` must be <= 20. "#,
        r#"Given: 17 `inputs` tokens and 7 `max_new_tokens`"}"#
    ),
    vec![7, 3]
)]
#[case::the_prompt_fills_the_context(
    OpenAiServer::Chat,
    concat!(
        r#"{"error": {"message": "This model's maximum context length is 20 tokens. "#,
        r#"However, you requested 27 tokens (20 in the messages, 7 in the completion)."}}"#
    ),
    vec![7]
)]
#[case::without_numbers(
    OpenAiServer::Chat,
    r#"{"error": {"message": "Please reduce the length of the messages or completion."}}"#,
    vec![7]
)]
#[case::not_the_limit(
    OpenAiServer::Chat,
    concat!(
        r#"{"error": {"message": "This model's maximum context length is 20 tokens "#,
        r#"and your request has 9 input tokens."}}"#
    ),
    vec![7]
)]
#[tokio::test]
async fn a_limit_beyond_the_context_is_lowered_once_to_the_room_that_the_refusal_tells(
    #[case] of: OpenAiServer,
    #[case] body: &'static str,
    #[case] expected: Vec<u64>,
) {
    let server = StandIn::new([refuses(body), refuses(body)]);
    let error = ask(&client(&server, of, &Upstream::default()).await).await.expect_err("it is refused");
    let limits: Vec<_> = server.seen().iter().filter_map(|(_, _, body)| body["max_tokens"].as_u64()).collect();
    assert_eq!((error.fault(), limits), (EngineFault::ContextLength, expected));
}

/// A question with a tool of the client's, and what else is asked for.
fn question(others: &Value) -> Value {
    let tool = json!({ "type": "function", "function": { "name": "weather", "parameters": { "type": "object" } } });
    let mut body = json!({ "messages": [{ "role": "user", "content": "?" }], "tools": [tool] });
    for (name, value) in others.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

/// Asks an agent whose upstream answers so. Gives the answer, and what was counted.
async fn ask_agent(answers: Vec<Answer>, body: Value) -> (Answered, Vec<(Metric, u64, u64)>) {
    let server = StandIn::new(answers);
    let key = secret("Bearer sk-test");
    let (app, time) = agent(&server, folder(&key), LUKEWARM).await;
    let answer = or_hang(post(&app.api(), "/v1/chat/completions", body)).await;
    (answer, counted_by(&app, &time).await)
}

#[rstest]
#[case::a_tool_of_the_clients(
    json!({}),
    r#"{"error": {"message": "no", "type": "invalid_request_error", "param": "tools[1].function.parameters"}}"#
)]
#[case::a_tool_of_the_clients_by_its_name(
    json!({}),
    r#"{"error": {"message": "Invalid schema for function 'weather': no", "type": "invalid_request_error"}}"#
)]
#[case::a_message(json!({}), r#"{"error": {"message": "no", "param": "messages[1].content"}}"#)]
#[case::the_messages(json!({}), r#"{"error": {"message": "no", "param": "messages"}}"#)]
#[case::filtered(
    json!({}),
    r#"{"error": {"message": "no", "param": "prompt", "code": "content_filter",
        "innererror": {"code": "ResponsibleAIPolicyViolation"}}}"#
)]
#[case::the_clients_temperature(
    json!({ "temperature": 0.5 }),
    r#"{"error": {"message": "no", "param": "temperature"}}"#
)]
#[tokio::test]
async fn what_the_client_sent_and_an_upstream_refuses_is_a_bad_request_and_no_failure_of_the_agent(
    #[case] others: Value,
    #[case] body: &'static str,
) {
    let (answer, counts) = ask_agent(vec![refuses(body)], question(&others)).await;
    let error = answer.json()["error"].clone();
    let kinds = (answer.status, error["code"].as_str(), error["type"].as_str());
    assert_eq!(kinds, (StatusCode::BAD_REQUEST, Some("request_refused"), Some("invalid_request_error")), "{error}");
    assert_eq!(counts, [(Metric::Cancelled, 1, 0)]);
}

#[rstest]
#[case::its_tool(r#"{"error": {"message": "no", "param": "tools[0].function.parameters"}}"#)]
#[case::its_tool_by_its_name(r#"{"error": {"message": "Invalid schema for function 'calc': no"}}"#)]
#[case::a_tool_of_either(r#"{"error": {"message": "no", "param": "tools"}}"#)]
#[case::its_instructions(r#"{"error": {"message": "no", "param": "messages[0].content"}}"#)]
#[case::its_temperature(r#"{"error": {"message": "no", "param": "temperature"}}"#)]
#[case::its_model(r#"{"error": {"message": "no 'weather'", "param": "model", "code": "model_not_found"}}"#)]
#[case::nothing_named(r#"{"error": {"message": "no", "type": "invalid_request_error"}}"#)]
#[tokio::test]
async fn what_the_agent_added_and_an_upstream_refuses_is_its_own_fault(#[case] body: &'static str) {
    let (answer, counts) = ask_agent(vec![refuses(body)], question(&json!({}))).await;
    assert_eq!((answer.status, counts.contains(&(Metric::RunSuccess, 1, 1))), (StatusCode::BAD_GATEWAY, true));
}

#[tokio::test]
async fn what_is_refused_after_the_first_step_is_the_agents() {
    let call = json!({ "index": 0, "id": "call_x", "type": "function",
        "function": { "name": "calc", "arguments": "{\"expression\": \"1+1\"}" } });
    let calls = Answer::Events(vec![delta(&json!({ "tool_calls": [call] }), Some("tool_calls"))]);
    let filtered = refuses(r#"{"error": {"message": "no", "code": "content_filter"}}"#);
    let (answer, counts) = ask_agent(vec![calls, filtered], question(&json!({}))).await;
    assert_eq!((answer.status, counts.contains(&(Metric::RunSuccess, 1, 1))), (StatusCode::BAD_GATEWAY, true));
}

#[tokio::test]
async fn a_client_reads_the_upstreams_words_without_the_key() {
    let body = r#"{"error": {"message": "Bearer sk-test may not say that", "code": "content_filter"}}"#;
    let (answer, _) = ask_agent(vec![refuses(body)], question(&json!({}))).await;
    let words = "the engine refuses what the request asks for: the engine failed: HTTP status 400: [hidden] may not \
                 say that";
    assert_eq!(answer.error(), words);
}

#[tokio::test]
async fn a_filter_that_tells_so_in_the_answers_stream_is_known_by_its_code() {
    let filtered = json!({ "error": { "message": "no", "code": "content_filter" } });
    let (answer, counts) = ask_agent(vec![Answer::Events(vec![filtered])], question(&json!({}))).await;
    assert_eq!((answer.status, counts), (StatusCode::BAD_REQUEST, vec![(Metric::Cancelled, 1, 0)]));
}

#[tokio::test]
async fn an_agent_whose_limit_was_lowered_answers() {
    let refusal = concat!(
        r#"{"error": {"code": "context_length_exceeded", "message": "This model's maximum context length is 300 "#,
        r#"tokens. However, you requested 306 tokens (50 in the messages, 256 in the completion)."}}"#
    );
    let said = Answer::Events(vec![delta(&json!({ "content": "Hi." }), Some("stop"))]);
    let server = StandIn::new([refuses(refusal), said]);
    let (app, _time) = agent(&server, None, LUKEWARM).await;
    let answer = or_hang(post(&app.api(), "/v1/chat/completions", question(&json!({})))).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Hi.");
    let limits = |(_, _, body): Seen| body["max_tokens"].as_u64();
    let limits: Vec<_> = server.seen().into_iter().filter_map(limits).collect();
    assert_eq!(limits, [256, 250]);
}
