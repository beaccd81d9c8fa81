//! The contract with engines' own servers, against a stand-in that speaks the same protocol over a real connection.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::backend::{
    Backend, BackendError, EngineFault, FinishReason, Generation, Guide, OpenAi, OpenAiServer, Piece, RequestPart,
    TokenLogprob,
};
use tokio::{net::TcpListener, sync::watch};

use crate::fixture::or_hang;

/// What the stand-in does with a completion.
#[derive(Clone)]
enum Behavior {
    /// Sends these bytes, each part by itself, and ends.
    Sends(Vec<Vec<u8>>),
    /// Sends these and never ends.
    SendsAndHangs(Vec<Vec<u8>>),
    /// Answers with this status and text.
    Refuses(StatusCode, &'static str),
    /// Answers like a server whose context holds eight tokens, one a character.
    HoldsEight,
}

/// What was seen of clients.
#[derive(Clone, Debug, Default)]
struct Seen {
    requests: Vec<(Option<String>, Value)>,
    cancelled: usize,
}

#[derive(Clone)]
struct StandIn {
    behavior: Behavior,
    health: StatusCode,
    seen: watch::Sender<Seen>,
}

impl StandIn {
    fn new(behavior: Behavior) -> Self {
        Self { behavior, health: StatusCode::OK, seen: watch::Sender::default() }
    }
}

/// Counts an answer that a client did not wait for.
struct Guard(watch::Sender<Seen>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_modify(|seen| seen.cancelled += 1);
    }
}

async fn complete(State(server): State<Arc<StandIn>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let id = headers.get("x-request-id").map(|id| id.to_str().expect("a text").to_owned());
    let asked = body.clone();
    server.seen.send_modify(|seen| seen.requests.push((id, body)));
    let (parts, hangs) = match server.behavior.clone() {
        Behavior::Refuses(status, text) => return (status, text).into_response(),
        Behavior::Sends(parts) => (parts, false),
        Behavior::SendsAndHangs(parts) => (parts, true),
        Behavior::HoldsEight => match room(&asked) {
            room if room < asked["max_tokens"].as_i64().expect("a number") => {
                return (StatusCode::BAD_REQUEST, Json(json!({ "message": TOO_LONG, "code": 400 }))).into_response();
            }
            _ => (vec![chunk("5", 1, Some("length")), event("[DONE]")], false),
        },
    };
    let guard = hangs.then(|| Guard(server.seen.clone()));
    let body = async_stream::stream! {
        let _guard = guard;
        for part in parts {
            yield Ok::<_, std::io::Error>(part);
            // Parts of one write would arrive as one.
            tokio::task::yield_now().await;
        }
        if hangs {
            std::future::pending::<()>().await;
        }
    };
    ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
}

/// In the words of vLLM 0.10.
const TOO_LONG: &str =
    "This model's maximum context length is 8 tokens. However, your request has too many input tokens.";

/// How many tokens the context has for an answer.
fn room(asked: &Value) -> i64 {
    8 - i64::try_from(asked["prompt"].as_str().expect("a text").chars().count()).expect("prompts are short")
}

async fn tokenize(Json(asked): Json<Value>) -> Json<Value> {
    Json(json!({ "count": 8 - room(&asked), "max_model_len": 8, "tokens": [] }))
}

async fn start(server: StandIn) -> OpenAi {
    start_as(OpenAiServer::Vllm, server).await
}

async fn start_as(of: OpenAiServer, server: StandIn) -> OpenAi {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    let health = |State(server): State<Arc<StandIn>>| async move { server.health };
    let router = Router::new().route("/v1/completions", post(complete)).route("/health", get(health));
    let router = router.route("/tokenize", post(tokenize));
    tokio::spawn(axum::serve(listener, router.with_state(Arc::new(server))).into_future());
    OpenAi::new(of, &endpoint, "agent").expect("the endpoint is a URL")
}

async fn generate(server: StandIn) -> Result<Vec<Piece>, BackendError> {
    generate_as(OpenAiServer::Vllm, server).await
}

async fn generate_as(of: OpenAiServer, server: StandIn) -> Result<Vec<Piece>, BackendError> {
    let generation = Generation {
        id: "run-1".into(),
        prompt: "Question: é?\n".into(),
        max_tokens: 7,
        stop_words: vec!["\n\n".into()],
        ..Generation::default()
    };
    let pieces: Vec<_> = or_hang(start_as(of, server).await.generate(generation).collect()).await;
    pieces.into_iter().collect()
}

/// Asks for an answer as one, and gives what was asked as well.
async fn ask_for_whole(of: OpenAiServer, answer: Value) -> (Value, Result<Vec<Piece>, BackendError>) {
    let text = answer.to_string().into_bytes();
    let (first, second) = text.split_at(text.len() / 2);
    let server = StandIn::new(Behavior::Sends(vec![first.to_vec(), second.to_vec()]));
    let seen = server.seen.subscribe();
    let stop_words = vec!["\n\n".into()];
    let generation =
        Generation { prompt: "?".into(), max_tokens: 7, stop_words, wants_whole: true, ..Generation::default() };
    let pieces: Vec<_> = or_hang(start_as(of, server).await.generate(generation).collect()).await;
    let asked = seen.borrow().requests[0].1.clone();
    (asked, pieces.into_iter().collect())
}

fn event(data: impl ToString) -> Vec<u8> {
    format!("data: {}\n\n", data.to_string()).into_bytes()
}

/// An event as vLLM sends it, with all tokens so far.
fn chunk(text: &str, tokens: u32, finish: Option<&str>) -> Vec<u8> {
    let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish, "stop_reason": null});
    let usage = json!({"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens});
    event(
        json!({"id": "cmpl-run-1", "object": "text_completion", "created": 1, "model": "agent", "choices": [choice], "usage": usage}),
    )
}

/// An event of a server that counts at the end only.
fn uncounted(text: &str, finish: Option<&str>) -> Vec<u8> {
    event(json!({"choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": null}))
}

fn usage(tokens: u32) -> Vec<u8> {
    event(
        json!({"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens}}),
    )
}

fn piece(text: &str, output_tokens: u32, finish: Option<FinishReason>) -> Piece {
    Piece { text: text.into(), output_tokens, finish, ..Piece::default() }
}

/// The same from a server that has counted the prompt's tokens by then.
fn counted(text: &str, output_tokens: u32, finish: Option<FinishReason>) -> Piece {
    Piece { prompt_tokens: Some(4), ..piece(text, output_tokens, finish) }
}

#[tokio::test]
async fn a_generation_asks_for_the_likeliest_tokens_as_a_stream_with_their_count() {
    let server = StandIn::new(Behavior::Sends(vec![chunk("5", 1, Some("length")), event("[DONE]")]));
    let seen = server.seen.subscribe();
    generate(server).await.expect("the generation succeeds");
    let body = json!({
        "model": "agent", "prompt": "Question: é?\n", "max_tokens": 7, "temperature": 0, "stop": ["\n\n"], "stream": true,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    });
    assert_eq!(seen.borrow().requests, [(Some("run-1".to_owned()), body)]);
}

#[rstest]
#[case::counted_all_along(
    vec![chunk("Answer: ", 2, None), chunk("ü", 4, Some("stop")), usage(4), event("[DONE]")],
    vec![counted("Answer: ", 2, None), counted("ü", 4, Some(FinishReason::Stop))]
)]
#[case::counted_at_the_end(
    vec![uncounted("Answer: ", None), uncounted("ü", Some("length")), usage(7), event("[DONE]")],
    vec![piece("Answer: ", 1, None), counted("ü", 7, Some(FinishReason::Length))]
)]
#[case::never_counted(
    vec![uncounted("Answer: ", None), uncounted("ü", Some("stop")), event("[DONE]")],
    vec![piece("Answer: ", 1, None), piece("ü", 2, Some(FinishReason::Stop))]
)]
#[case::closed_without_a_last_event(
    vec![chunk("5", 1, Some("stop"))],
    vec![counted("5", 1, Some(FinishReason::Stop))]
)]
#[tokio::test]
async fn pieces_arrive_with_all_tokens_so_far_and_the_last_once_all_are_counted(
    #[case] events: Vec<Vec<u8>>,
    #[case] pieces: Vec<Piece>,
) {
    assert_eq!(generate(StandIn::new(Behavior::Sends(events))).await.expect("the generation succeeds"), pieces);
}

#[rstest]
#[case::of_vllm(OpenAiServer::Vllm, "42 ü", "stop", counted("42 ü", 3, Some(FinishReason::Stop)))]
#[case::of_sglang_which_leaves_the_stop_word(
    OpenAiServer::SgLang,
    "42\n\nmore",
    "stop",
    counted("42", 3, Some(FinishReason::Stop))
)]
#[case::cut_at_the_limit(OpenAiServer::Vllm, "42", "length", counted("42", 3, Some(FinishReason::Length)))]
#[tokio::test]
async fn an_answer_that_nobody_looks_at_before_its_end_is_asked_for_as_one(
    #[case] server: OpenAiServer,
    #[case] text: &str,
    #[case] finish: &str,
    #[case] piece: Piece,
) {
    let usage = json!({ "prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7 });
    let choice = json!({ "index": 0, "text": text, "logprobs": null, "finish_reason": finish });
    let (asked, pieces) = ask_for_whole(server, json!({ "choices": [choice], "usage": usage })).await;
    assert_eq!((&asked["stream"], asked.get("stream_options")), (&json!(false), None));
    assert_eq!(pieces.expect("the generation succeeds"), [Piece { is_whole: true, ..piece }]);
}

#[rstest]
#[case::an_error(json!({ "error": { "message": "CUDA out of memory", "code": 500 } }), "engine")]
#[case::no_end(json!({ "choices": [{ "index": 0, "text": "4", "finish_reason": null }] }), "ended_early")]
#[case::nothing_of_a_completion(json!("42"), "protocol")]
#[tokio::test]
async fn an_answer_as_one_that_is_none_is_a_failure(#[case] answer: Value, #[case] kind: &str) {
    let (_, failed) = ask_for_whole(OpenAiServer::Vllm, answer).await;
    assert_eq!(failed.expect_err("there is no answer").kind(), kind);
}

#[tokio::test]
async fn a_server_of_any_make_is_asked_for_a_stream_all_the_same() {
    let server = StandIn::new(Behavior::Sends(vec![chunk("5", 1, Some("length")), event("[DONE]")]));
    let seen = server.seen.subscribe();
    let generation = Generation { max_tokens: 7, wants_whole: true, ..Generation::default() };
    let backend = start_as(OpenAiServer::Completions, server).await;
    let pieces: Vec<_> = or_hang(backend.generate(generation).collect()).await;
    let pieces: Result<Vec<_>, _> = pieces.into_iter().collect();
    assert_eq!(pieces.expect("the generation succeeds"), [counted("5", 1, Some(FinishReason::Length))]);
    assert_eq!(seen.borrow().requests[0].1["stream"], json!(true));
}

#[tokio::test]
async fn sglang_is_asked_to_leave_stop_words_in_the_text() {
    let server = StandIn::new(Behavior::Sends(vec![chunk("5", 1, Some("length")), event("[DONE]")]));
    let seen = server.seen.subscribe();
    generate_as(OpenAiServer::SgLang, server).await.expect("the generation succeeds");
    let (_, body) = &seen.borrow().requests[0];
    assert_eq!((&body["stop"], &body["no_stop_trim"]), (&json!(["\n\n"]), &json!(true)));
}

/// It sends every piece as it comes, so that a client would have the first half of a stop word already.
#[rstest]
#[case::the_word_comes_in_pieces(
    vec![chunk("42\n", 2, None), chunk("\nmore", 3, Some("stop")), usage(3), event("[DONE]")],
    vec![counted("42", 2, None), counted("", 3, Some(FinishReason::Stop))]
)]
#[case::what_looked_like_one_is_not_lost(
    vec![chunk("42\n", 2, None), chunk("x\n", 3, Some("stop")), usage(3), event("[DONE]")],
    vec![counted("42", 2, None), counted("\nx\n", 3, Some(FinishReason::Stop))]
)]
#[tokio::test]
async fn text_of_sglang_is_cut_at_a_stop_word(#[case] events: Vec<Vec<u8>>, #[case] pieces: Vec<Piece>) {
    let found = generate_as(OpenAiServer::SgLang, StandIn::new(Behavior::Sends(events))).await;
    assert_eq!(found.expect("the generation succeeds"), pieces);
}

#[tokio::test]
async fn an_answer_may_be_cut_within_a_character() {
    let whole = [chunk("ü", 1, None), chunk("é", 2, Some("stop")), event("[DONE]")].concat();
    let bytes: Vec<Vec<u8>> = whole.iter().map(|byte| vec![*byte]).collect();
    assert_eq!(
        generate(StandIn::new(Behavior::Sends(bytes))).await.expect("the generation succeeds"),
        [counted("ü", 1, None), counted("é", 2, Some(FinishReason::Stop))]
    );
}

#[tokio::test]
async fn a_generation_that_is_dropped_ends_at_the_server() {
    let server = StandIn::new(Behavior::SendsAndHangs(vec![chunk("Answer", 1, None)]));
    let mut seen = server.seen.subscribe();
    let backend = start(server).await;
    let generation = Generation {
        id: "run-1".into(),
        prompt: "?".into(),
        max_tokens: 7,
        stop_words: Vec::new(),
        ..Generation::default()
    };
    let mut pieces = backend.generate(generation);
    let first = or_hang(pieces.next()).await.expect("a piece").expect("no error");
    assert_eq!(first, counted("Answer", 1, None));
    assert_eq!(seen.borrow().cancelled, 0);
    drop(pieces);
    or_hang(seen.wait_for(|seen| seen.cancelled == 1)).await.expect("the server lives");
}

#[rstest]
#[case::is_aborted(vec![chunk("x", 1, Some("abort"))],
    "the engine's answer cannot be read: finish_reason is \"abort\"; expected \"stop\" or \"length\"")]
#[case::fails(vec![chunk("x", 1, None), event(json!({"error": {"message": "EngineCore died", "code": 500}}))],
    "the engine failed: EngineCore died")]
#[case::fails_as_earlier_versions(vec![event(json!({"object": "error", "message": "EngineCore died", "code": 400}))],
    "the engine failed: EngineCore died")]
#[case::ends(vec![chunk("x", 1, None)], "the engine ended the stream in the middle of a generation")]
#[case::ends_in_order(vec![chunk("x", 1, None), event("[DONE]")], "the engine ended the stream in the middle of a generation")]
#[case::is_no_json(vec![event("?")],
    "the engine's answer cannot be read: an event is not a completion: expected value at line 1 column 1")]
#[tokio::test]
async fn an_answer_that_cannot_be_read_says_why(#[case] events: Vec<Vec<u8>>, #[case] message: &str) {
    let error = generate(StandIn::new(Behavior::Sends(events))).await.expect_err("the generation fails");
    assert_eq!(error.to_string(), message);
}

#[rstest]
#[case(
    StatusCode::NOT_FOUND,
    r#"{"error": {"message": "The model `agent` does not exist.", "code": 404}}"#,
    "the engine failed: HTTP status 404: The model `agent` does not exist."
)]
#[case(
    StatusCode::BAD_REQUEST,
    r#"{"object": "error", "message": "This model's maximum context length is 8 tokens."}"#,
    "the engine failed: HTTP status 400: This model's maximum context length is 8 tokens."
)]
#[case(
    StatusCode::INTERNAL_SERVER_ERROR,
    "Internal Server Error\n",
    "the engine failed: HTTP status 500: Internal Server Error"
)]
#[case(StatusCode::SERVICE_UNAVAILABLE, "", "vLLM's server is not ready")]
#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words(
    #[case] status: StatusCode,
    #[case] text: &'static str,
    #[case] message: &str,
) {
    let error = generate(StandIn::new(Behavior::Refuses(status, text))).await.expect_err("it is refused");
    assert_eq!(error.to_string(), message);
}

/// Asks a server whose context holds eight tokens, and gives the limits that it was asked with.
async fn ask_for(prompt: &str, max_tokens: u32) -> (Result<Vec<Piece>, BackendError>, Vec<i64>) {
    let server = StandIn::new(Behavior::HoldsEight);
    let seen = server.seen.subscribe();
    let generation = Generation {
        id: "run-1".into(),
        prompt: prompt.into(),
        max_tokens,
        stop_words: Vec::new(),
        ..Generation::default()
    };
    let pieces: Vec<_> = or_hang(start(server).await.generate(generation).collect()).await;
    let limits =
        seen.borrow().requests.iter().map(|(_, body)| body["max_tokens"].as_i64().expect("a number")).collect();
    (pieces.into_iter().collect(), limits)
}

#[tokio::test]
async fn a_limit_beyond_the_context_becomes_what_the_context_leaves() {
    let (fits, limits) = ask_for("five?", 3).await;
    assert_eq!((fits.is_ok(), limits), (true, vec![3]));
    let (clamped, limits) = ask_for("five?", 7).await;
    assert_eq!((clamped.is_ok(), limits), (true, vec![7, 3]));
}

#[tokio::test]
async fn a_prompt_beyond_the_context_is_the_clients_fault() {
    let (refused, limits) = ask_for("too long", 7).await;
    let error = refused.expect_err("nothing is left");
    assert_eq!((error.fault(), error.kind(), limits), (EngineFault::ContextLength, "context_length", vec![7]));
    let other = generate(StandIn::new(Behavior::Refuses(StatusCode::BAD_REQUEST, "no such LoRA"))).await;
    assert_eq!(other.expect_err("it is refused").fault(), EngineFault::Request(RequestPart::Unnamed));
}

/// Asks a server with a format and probabilities, and gives the request and the outcome.
async fn ask_with_wishes(of: OpenAiServer, behavior: Behavior) -> (Value, Result<Vec<Piece>, BackendError>) {
    let server = StandIn::new(behavior);
    let seen = server.seen.subscribe();
    let generation = Generation {
        id: "run-1".into(),
        prompt: "?".into(),
        max_tokens: 7,
        guide: Some(Guide::JsonSchema(json!({ "type": "object" }).into())),
        logprobs: Some(2),
        ..Generation::default()
    };
    let pieces: Vec<_> = or_hang(start_as(of, server).await.generate(generation).collect()).await;
    let body = seen.borrow().requests[0].1.clone();
    (body, pieces.into_iter().collect())
}

#[tokio::test]
async fn formats_and_probabilities_are_asked_for_in_the_servers_words() {
    let likely = json!({
        "choices": [{
            "index": 0, "text": "{}", "finish_reason": "stop",
            "logprobs": { "tokens": ["{}"], "token_logprobs": [-0.25], "top_logprobs": [{ "a": -2, "{}": -0.25 }] },
        }],
        "usage": { "prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": { "cached_tokens": 3 } },
    });
    let (body, pieces) = ask_with_wishes(OpenAiServer::Vllm, Behavior::Sends(vec![event(likely)])).await;
    let named = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": { "type": "object" } } });
    assert_eq!((&body["response_format"], &body["logprobs"]), (&named, &json!(2)));
    let number = |value: Value| value.as_number().expect("a number").clone();
    let top = vec![("{}".to_owned(), number(json!(-0.25))), ("a".to_owned(), number(json!(-2)))];
    let token = TokenLogprob { token: "{}".into(), logprob: number(json!(-0.25)), top };
    let piece = Piece { cached_tokens: Some(3), logprobs: vec![token], ..counted("{}", 1, Some(FinishReason::Stop)) };
    assert_eq!(pieces.expect("the generation succeeds"), [piece]);
    let sent = vec![chunk("{}", 1, Some("stop")), event("[DONE]")];
    let (body, _) = ask_with_wishes(OpenAiServer::SgLang, Behavior::Sends(sent)).await;
    assert_eq!(body["json_schema"], json!("{\"type\":\"object\"}"));
}

#[tokio::test]
async fn tokens_are_asked_with_and_given_in_the_servers_words() {
    let with_tokens = |text: &str, tokens: &[u32], finish: Value| {
        event(json!({
            "choices": [{ "index": 0, "text": text, "finish_reason": finish, "token_ids": tokens }],
            "usage": { "prompt_tokens": 2, "completion_tokens": tokens.len() },
        }))
    };
    let sent = vec![with_tokens("5", &[53], Value::Null), with_tokens("", &[258], json!("stop")), event("[DONE]")];
    let server = StandIn::new(Behavior::Sends(sent));
    let seen = server.seen.subscribe();
    let generation = Generation { tokens: Some(vec![257, 63]), max_tokens: 7, ..Generation::default() };
    let pieces: Vec<_> = or_hang(start(server).await.generate(generation).collect()).await;
    let tokens = pieces.into_iter().map(|piece| piece.expect("the generation succeeds").tokens);
    assert_eq!(tokens.collect::<Vec<_>>(), [vec![53], vec![258]]);
    let body = seen.borrow().requests[0].1.clone();
    assert_eq!((&body["prompt"], &body["return_token_ids"]), (&json!([257, 63]), &json!(true)));
}

#[tokio::test]
async fn a_wish_that_the_server_refuses_is_the_clients_fault() {
    let text = r#"{"error": {"message": "The schema has no grammar.", "code": 400}}"#;
    let (_, refused) = ask_with_wishes(OpenAiServer::Vllm, Behavior::Refuses(StatusCode::BAD_REQUEST, text)).await;
    assert_eq!(refused.expect_err("it is refused").fault(), EngineFault::Wish);
    let (_, died) =
        ask_with_wishes(OpenAiServer::Vllm, Behavior::Refuses(StatusCode::INTERNAL_SERVER_ERROR, text)).await;
    assert_eq!(died.expect_err("it is refused").fault(), EngineFault::Engine);
}

#[tokio::test]
async fn readiness_is_the_servers_health() {
    let server = StandIn::new(Behavior::Sends(Vec::new()));
    assert!(start(server.clone()).await.ready().await.is_ok());
    let sick = StandIn { health: StatusCode::SERVICE_UNAVAILABLE, ..server };
    let error = start(sick).await.ready().await.expect_err("it is not ready");
    assert_eq!((error.to_string().as_str(), error.is_unavailable()), ("vLLM's server is not ready", true));
    let nobody = OpenAi::new(OpenAiServer::Vllm, "http://127.0.0.1:9", "agent").expect("a URL");
    let error = nobody.ready().await.expect_err("nobody is there");
    assert_eq!(
        (error.to_string().as_str(), error.kind()),
        ("the engine at http://127.0.0.1:9 cannot be reached", "unreachable")
    );
}

#[test]
fn an_address_that_is_none_names_the_field() {
    let error = OpenAi::new(OpenAiServer::Vllm, "vllm", "agent").err().expect("no URL");
    assert_eq!(error.to_string(), "triton.endpoint: \"vllm\" is not an address; write it as http://127.0.0.1:8000");
}
