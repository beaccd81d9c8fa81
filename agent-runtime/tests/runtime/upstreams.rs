//! Servers of the OpenAI API elsewhere, of any make: what they are sent, what is read of them, and how they are
//! reached.

use std::{
    collections::VecDeque,
    fs,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::get as on_get,
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::{
    api::{admission::Readiness, run_names::Seal},
    app::{App, Parts},
    backend::{Backend, BackendError, FinishReason, Generation, OpenAi, OpenAiServer, Piece},
    clock::{Clock, ManualClock},
    outbound::Lookup,
};
use slipway_runtime_config::{RuntimeConfig, Sampling, TextDialect, Upstream};
use tempfile::TempDir;

use crate::{
    certificates::{AUTHORITY, tls_service},
    fixture::{START, calculator, or_hang, post, serve},
};

/// What the stand-in answers to one request for a generation.
#[derive(Clone)]
pub enum Answer {
    /// The events of an answer, and its end.
    Events(Vec<Value>),
    /// One event, after which the connection ends.
    BreaksOff(Value),
    /// A refusal.
    Refuses(StatusCode, &'static str),
    /// The same, with a pause that it asks for in seconds.
    Wants(StatusCode, &'static str),
    /// A refusal that never ends.
    Floods,
}

/// What the stand-in was sent: the path, the key and the body.
pub type Seen = (String, Option<String>, Value);

/// An upstream that follows a script.
#[derive(Clone)]
pub struct StandIn {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    models: StatusCode,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl StandIn {
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self { answers, models: StatusCode::OK, seen: Arc::default() }
    }

    pub async fn start(&self) -> String {
        let models = |State(server): State<Self>| async move { server.models };
        let router = Router::new().route("/v1/models", on_get(models)).fallback(generate);
        serve(router.with_state(self.clone())).await
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics with the lock").clone()
    }
}

async fn generate(State(server): State<StandIn>, uri: Uri, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let key = headers.get("authorization").map(|key| key.to_str().expect("a text").to_owned());
    server.seen.lock().expect("no test panics with the lock").push((uri.path().to_owned(), key, body));
    let answer = server.answers.lock().expect("no test panics with the lock").pop_front();
    let event = |event: &Value| format!("data: {event}\n\n");
    let stream = |text: String| ([("content-type", "text/event-stream")], text).into_response();
    match answer.expect("the script has an answer for every request") {
        Answer::Events(events) => stream(events.iter().map(event).collect::<String>() + "data: [DONE]\n\n"),
        Answer::BreaksOff(first) => stream(event(&first)),
        Answer::Refuses(status, text) => (status, text).into_response(),
        Answer::Wants(status, seconds) => (status, [("retry-after", seconds)]).into_response(),
        Answer::Floods => {
            let part = || Ok::<_, std::io::Error>("x".repeat(1024));
            let body = Body::from_stream(futures::stream::repeat_with(part));
            (StatusCode::BAD_REQUEST, body).into_response()
        }
    }
}

pub fn delta(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn text(text: &str, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "text": text, "finish_reason": finish }] })
}

fn usage(prompt: u32, completion: u32) -> Value {
    json!({ "choices": [], "usage": { "prompt_tokens": prompt, "completion_tokens": completion } })
}

/// An answer of one word.
fn hello() -> Answer {
    Answer::Events(vec![text("Hello.", Some("stop")), usage(3, 2)])
}

/// A mounted Secret with a key.
pub fn secret(key: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("authorization"), key).expect("it is written");
    folder
}

pub fn folder(folder: &TempDir) -> Option<String> {
    Some(folder.path().to_str().expect("a path is text").to_owned())
}

pub async fn client(server: &StandIn, of: OpenAiServer, upstream: &Upstream) -> OpenAi {
    let to = (upstream, Lookup::of_system());
    OpenAi::elsewhere(of, &server.start().await, "large", to).expect("the upstream can be set up")
}

pub async fn ask(client: &OpenAi) -> Result<Vec<Piece>, BackendError> {
    let sampling = Sampling { temperature_thousandths: Some(700), top_k: Some(5), ..Sampling::default() };
    let generation = Generation {
        id: "run-1".into(),
        prompt: "Question: ?\n".into(),
        max_tokens: 7,
        stop_words: vec!["\n\n".into()],
        sampling,
        ..Generation::default()
    };
    or_hang(client.generate(generation).collect::<Vec<_>>()).await.into_iter().collect()
}

/// An agent with instructions, a tool and perhaps a temperature of its own, at a chat upstream.
pub async fn agent(
    server: &StandIn,
    headers_from: Option<String>,
    temperature_thousandths: Option<u32>,
) -> (App, ManualClock) {
    let upstream = Upstream { headers_from, allowed_networks: vec!["127.0.0.1/32".into()], ..Upstream::default() };
    let endpoint = server.start().await;
    let mut config = RuntimeConfig::new("support", "support-1", &endpoint);
    config.engine.dialect = TextDialect::Chat;
    config.engine.model_name = "large".into();
    config.engine.upstream = Some(upstream.clone());
    config.system_prompt = "Be brief.".into();
    config.sampling = Sampling { temperature_thousandths, ..Sampling::default() };
    config.tools = vec![calculator()];
    config.validate().expect("the test's configuration is valid");
    let backend = OpenAi::elsewhere(OpenAiServer::Chat, &endpoint, "large", (&upstream, Lookup::of_system()));
    let backend = Arc::new(backend.expect("the upstream can be set up"));
    let (clock, time) = Clock::manual(START);
    let app = App::new(Parts { config, pod: "support-1-x".into(), backend, clock, seal: Seal::new(|number| number) });
    let app = app.expect("it can be set up");
    app.admission().set_readiness(Readiness::Ready);
    (app, time)
}

fn retries(retries: u32) -> Upstream {
    Upstream { retries, ..Upstream::default() }
}

#[tokio::test]
async fn an_agent_at_a_chat_upstream_shows_its_tools_and_gets_calls_thoughts_and_answers_back() {
    let call = json!({ "index": 0, "id": "call_x", "type": "function",
        "function": { "name": "calc", "arguments": "{\"expression\": \"17*23\"}" } });
    let server = StandIn::new([
        Answer::Events(vec![
            delta(&json!({ "role": "assistant", "reasoning_content": "A product." }), None),
            delta(&json!({ "content": "Let me see." }), None),
            delta(&json!({ "tool_calls": [call] }), Some("tool_calls")),
            usage(20, 9),
        ]),
        Answer::Events(vec![delta(&json!({ "content": "It is 391." }), Some("stop")), usage(30, 4)]),
    ]);
    let key = secret("Bearer sk-test\n");
    let (app, _time) = agent(&server, folder(&key), None).await;
    let question = json!({ "messages": [{ "role": "user", "content": "What is 17*23?" }] });
    let answer = or_hang(post(&app.api(), "/v1/chat/completions", question)).await.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "Let me see.\n\nIt is 391.");
    assert_eq!(answer["choices"][0]["message"]["reasoning_content"], "A product.");
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]), (&json!(50), &json!(13)));

    let tools = json!([{ "type": "function", "function": {
        "name": "calc",
        "description": "Evaluates an expression.",
        "parameters": { "type": "object", "properties": { "expression": { "type": "string" } },
            "required": ["expression"] },
    } }]);
    let body = |messages: Value| {
        json!({ "model": "large", "messages": messages, "tools": tools, "max_tokens": 256, "stream": true,
            "stream_options": { "include_usage": true } })
    };
    let asked = json!([{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "What is 17*23?" }]);
    let called = json!([
        { "role": "assistant", "content": "Let me see.", "tool_calls": [{ "type": "function", "id": "c00010000",
            "function": { "name": "calc", "arguments": "{\"expression\":\"17*23\"}" } }] },
        { "role": "tool", "tool_call_id": "c00010000", "content": "391" },
    ]);
    let whole: Vec<Value> =
        [asked.clone(), called].iter().flat_map(|part| part.as_array().expect("a list")).cloned().collect();
    let sent = |messages: Value| ("/v1/chat/completions".to_owned(), Some("Bearer sk-test".to_owned()), body(messages));
    assert_eq!(server.seen(), [sent(asked), sent(json!(whole))]);
}

#[tokio::test]
async fn completions_of_any_make_are_sent_what_the_api_has_and_cut_at_stop_words() {
    let server = StandIn::new([Answer::Events(vec![text("An ans", None), text("wer.\n\nMore", Some("length"))])]);
    let client = client(&server, OpenAiServer::Completions, &Upstream::default()).await;
    let pieces = ask(&client).await.expect("it answers");
    let said: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
    let end = pieces.last().and_then(|piece| piece.finish);
    assert_eq!((said.as_str(), end), ("An answer.", Some(FinishReason::Stop)));
    let body = json!({ "model": "large", "prompt": "Question: ?\n", "max_tokens": 7, "stream": true,
        "stream_options": { "include_usage": true }, "temperature": 0.7, "stop": ["\n\n"] });
    assert_eq!(server.seen(), [("/v1/completions".to_owned(), None, body)]);
}

#[rstest]
#[case::too_many(StatusCode::TOO_MANY_REQUESTS)]
#[case::bad_gateway(StatusCode::BAD_GATEWAY)]
#[case::unavailable(StatusCode::SERVICE_UNAVAILABLE)]
#[case::gateway_timeout(StatusCode::GATEWAY_TIMEOUT)]
#[tokio::test]
async fn a_request_without_an_answer_is_repeated(#[case] status: StatusCode) {
    let server = StandIn::new([Answer::Refuses(status, ""), Answer::Refuses(status, ""), hello()]);
    let client = client(&server, OpenAiServer::Completions, &retries(2)).await;
    assert_eq!(ask(&client).await.expect("it answers")[0].text, "Hello.");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn an_answer_that_has_begun_is_not_asked_for_again() {
    let server = StandIn::new([Answer::BreaksOff(text("Hel", None)), hello()]);
    let client = client(&server, OpenAiServer::Completions, &retries(5)).await;
    let error = ask(&client).await.expect_err("it breaks off");
    assert_eq!((error.kind(), server.seen().len()), ("ended_early", 1));
}

#[rstest]
#[case::the_requests_fault(Answer::Refuses(StatusCode::BAD_REQUEST, "no"), "request")]
#[case::a_failure(Answer::Refuses(StatusCode::INTERNAL_SERVER_ERROR, "no"), "engine")]
#[case::a_long_pause(Answer::Wants(StatusCode::TOO_MANY_REQUESTS, "600"), "busy")]
#[tokio::test]
async fn a_request_is_not_repeated_where_that_would_not_help(#[case] answer: Answer, #[case] kind: &str) {
    let server = StandIn::new([answer, hello()]);
    let client = client(&server, OpenAiServer::Completions, &retries(5)).await;
    let error = ask(&client).await.expect_err("it is refused");
    assert_eq!((error.kind(), server.seen().len()), (kind, 1));
}

#[tokio::test]
async fn a_key_is_that_of_the_secret_now_and_a_refusal_tells_none_of_it() {
    let wrong = Answer::Refuses(StatusCode::UNAUTHORIZED, r#"{"error": {"message": "Incorrect API key: sk-old"}}"#);
    let server = StandIn::new([wrong, hello()]);
    let key = secret("Bearer sk-old");
    let upstream = Upstream { headers_from: folder(&key), retries: 5, ..Upstream::default() };
    let client = client(&server, OpenAiServer::Completions, &upstream).await;
    let error = ask(&client).await.expect_err("the key is wrong");
    let told = "the upstream refuses its credentials (HTTP status 401); correct the files of headersFrom";
    assert_eq!((error.kind(), error.to_string().as_str()), ("denied", told));
    fs::write(key.path().join("authorization"), "Bearer sk-new").expect("it is written");
    assert!(ask(&client).await.is_ok());
    let keys: Vec<_> = server.seen().into_iter().filter_map(|(_, key, _)| key).collect();
    assert_eq!(keys, ["Bearer sk-old", "Bearer sk-new"]);
    fs::write(key.path().join("authorization"), "two\nlines").expect("it is written");
    assert_eq!(ask(&client).await.expect_err("it is no header").kind(), "headers");
}

#[rstest]
#[case::whole(
    r#"{"error": {"message": "no model for Bearer sk-test, nor sk-test"}}"#,
    "the engine failed: HTTP status 400: no model for [hidden], nor [hidden]"
)]
#[case::no_json("sk-test is unknown", "the engine failed: HTTP status 400: [hidden] is unknown")]
#[case::a_part(
    r#"{"error": {"message": "Incorrect API key provided: sk-te**"}}"#,
    "the engine failed: HTTP status 400: its words are left out, because they are about an API key; correct the files \
     of headersFrom"
)]
#[tokio::test]
async fn what_an_upstream_says_is_told_without_the_key(#[case] refusal: &'static str, #[case] expected: &str) {
    let server = StandIn::new([Answer::Refuses(StatusCode::BAD_REQUEST, refusal)]);
    let key = secret("Bearer sk-test");
    let upstream = Upstream { headers_from: folder(&key), ..Upstream::default() };
    let error = ask(&client(&server, OpenAiServer::Completions, &upstream).await).await.expect_err("it is refused");
    assert_eq!(error.to_string(), expected);
}

#[rstest]
#[case::completions(OpenAiServer::Completions)]
#[case::chat(OpenAiServer::Chat)]
#[tokio::test]
async fn an_error_in_the_middle_of_an_answer_is_told_without_the_key(#[case] of: OpenAiServer) {
    let event = json!({ "error": { "message": "sk-test has no quota" } });
    let server = StandIn::new([Answer::Events(vec![event])]);
    let key = secret("Bearer sk-test");
    let upstream = Upstream { headers_from: folder(&key), ..Upstream::default() };
    let error = ask(&client(&server, of, &upstream).await).await.expect_err("it fails");
    assert_eq!(error.to_string(), "the engine failed: [hidden] has no quota");
}

#[tokio::test]
async fn of_a_refusal_without_end_the_beginning_is_read() {
    let server = StandIn::new([Answer::Floods]);
    let client = client(&server, OpenAiServer::Completions, &Upstream::default()).await;
    let error = ask(&client).await.expect_err("it is refused");
    assert_eq!(error.to_string(), format!("the engine failed: HTTP status 400: {}", "x".repeat(400)));
}

#[tokio::test]
async fn a_request_waits_while_as_many_as_allowed_are_in_flight() {
    let server = StandIn::new([hello(), hello()]);
    let upstream = Upstream { max_in_flight: Some(1), ..Upstream::default() };
    let client = client(&server, OpenAiServer::Completions, &upstream).await;
    let generation = || Generation { prompt: "?".into(), max_tokens: 1, ..Generation::default() };
    let mut first = client.generate(Generation { stop_words: vec!["none".into()], ..generation() });
    let mut second = client.generate(generation());
    assert!(or_hang(first.next()).await.is_some(), "the first has its place");
    assert!(futures::poll!(second.next()).is_pending());
    drop(first);
    assert!(or_hang(second.next()).await.is_some(), "the place is free");
}

#[tokio::test]
async fn an_upstream_is_known_by_the_authorities_of_its_folder_alone() {
    let events = format!("data: {}\n\ndata: [DONE]\n\n", text("Hello.", Some("stop")));
    let endpoint = tls_service(move || Some(events.clone())).await;
    let trusted = tempfile::tempdir().expect("a folder");
    fs::write(trusted.path().join("ca.crt"), AUTHORITY).expect("it is written");
    let to = |authorities_from| {
        let upstream = Upstream { authorities_from, ..Upstream::default() };
        let to = (&upstream, Lookup::of_system());
        OpenAi::elsewhere(OpenAiServer::Completions, &endpoint, "large", to).expect("it can be set up")
    };
    assert_eq!(ask(&to(folder(&trusted))).await.expect("it is trusted")[0].text, "Hello.");
    assert_eq!(ask(&to(None)).await.expect_err("no public authority knows it").kind(), "unreachable");
    let empty = tempfile::tempdir().expect("a folder");
    assert_eq!(ask(&to(folder(&empty))).await.expect_err("no certificate").kind(), "certificates");
}

#[tokio::test]
async fn a_name_that_leads_into_the_pod_is_not_asked() {
    let upstream = Upstream::default();
    let lookup = Lookup::of(|_| vec!["127.0.0.1".parse().expect("an address")]);
    let client = OpenAi::elsewhere(OpenAiServer::Chat, "http://llm.example:1", "large", (&upstream, lookup));
    let error = ask(&client.expect("it can be set up")).await.expect_err("it is the pod itself");
    let causes = slipway_agent_runtime::failure::with_causes(&error);
    assert!(causes.contains("127.0.0.1 is a loopback address"), "{causes}");
}

#[tokio::test]
async fn a_model_that_knows_the_limit_by_its_later_name_alone_is_asked_by_that() {
    let refusal =
        r#"{"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}"#;
    let said = || Answer::Events(vec![delta(&json!({ "content": "Hi." }), Some("stop"))]);
    let server = StandIn::new([Answer::Refuses(StatusCode::BAD_REQUEST, refusal), said(), said()]);
    let client = client(&server, OpenAiServer::Chat, &Upstream::default()).await;
    assert_eq!([ask(&client).await.is_ok(), ask(&client).await.is_ok()], [true, true]);
    let limits = |(_, _, body): Seen| (body["max_tokens"].as_u64(), body["max_completion_tokens"].as_u64());
    let limits: Vec<_> = server.seen().into_iter().map(limits).collect();
    assert_eq!(limits, [(Some(7), None), (None, Some(7)), (None, Some(7))]);
}

#[rstest]
#[case::refused_by_either_name(StatusCode::BAD_REQUEST, "max_completion_tokens is too large", OpenAiServer::Chat, 2)]
#[case::a_failure(StatusCode::INTERNAL_SERVER_ERROR, "max_completion_tokens", OpenAiServer::Chat, 1)]
#[case::no_chat(StatusCode::BAD_REQUEST, "max_completion_tokens", OpenAiServer::Completions, 1)]
#[case::too_long(StatusCode::BAD_REQUEST, "maximum context length; lower max_completion_tokens", OpenAiServer::Chat, 1)]
#[tokio::test]
async fn a_limit_that_is_merely_named_changes_nothing(
    #[case] status: StatusCode,
    #[case] words: &'static str,
    #[case] of: OpenAiServer,
    #[case] asked: usize,
) {
    let refuses = Answer::Refuses(status, words);
    let server = StandIn::new([refuses.clone(), refuses.clone(), refuses.clone(), refuses]);
    let client = client(&server, of, &Upstream::default()).await;
    assert!(ask(&client).await.is_err());
    assert_eq!(server.seen().len(), asked);
    assert!(ask(&client).await.is_err());
    let (_, _, body) = server.seen().swap_remove(asked);
    assert_eq!(body["max_tokens"], 7, "the first name is tried again");
}

#[rstest]
#[case::it_lists_its_models(StatusCode::OK, Ok(()))]
#[case::it_has_no_list(StatusCode::NOT_FOUND, Ok(()))]
#[case::it_is_busy(StatusCode::TOO_MANY_REQUESTS, Ok(()))]
#[case::the_key_is_wrong(StatusCode::FORBIDDEN, Err("denied"))]
#[case::it_is_down(StatusCode::BAD_GATEWAY, Err("not_ready"))]
#[tokio::test]
async fn an_upstream_is_ready_that_answers_and_takes_the_key(
    #[case] models: StatusCode,
    #[case] expected: Result<(), &str>,
) {
    let server = StandIn { models, ..StandIn::new([]) };
    let client = client(&server, OpenAiServer::Chat, &Upstream::default()).await;
    assert_eq!(or_hang(client.ready()).await.map_err(|error| error.kind()), expected);
}
