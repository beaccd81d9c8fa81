//! Schemas in the order of their authors: what clients and MCP servers write is what models and engines read.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::StatusCode, response::IntoResponse, routing::post as on_post};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::{
    api::{admission::Readiness, run_names::Seal},
    app::{App, Listeners, Parts},
    backend::{OpenAi, OpenAiServer},
    clock::Clock,
};
use slipway_runtime_config::{McpServer, RuntimeConfig, TextDialect};
use tempfile::TempDir;
use tokio::{net::TcpListener, task::yield_now};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::{Answer, Reply, START, get, or_hang, post, send, serve, sidecar_with},
    mcp::server::{Fake, Revision},
    templates::{LLAMA31, QWEN3, checkpoint, use_template},
};

const ANSWER: &str = r#"{"reasoning": "17 is prime.", "answer": 17}"#;
/// A schema as a client writes it, with blanks of its own.
const FORMAT: &str = r##"{ "type":"object",
    "properties": {"reasoning": {"type": "string"},  "answer": {"$ref": "#/$defs/number"}},
    "required" :["reasoning","answer"], "$defs": {"number": {"minimum": 0, "type": "integer"}} }"##;
/// The same as engines get it.
const SENT: &str = concat!(
    r##"{"type":"object","properties":{"reasoning":{"type":"string"},"answer":{"$ref":"#/$defs/number"}},"##,
    r#""required":["reasoning","answer"],"$defs":{"number":{"minimum":0,"type":"integer"}}}"#,
);
/// The parameters of a tool, with one that is written twice.
const PARAMETERS: &str = r#"{"required":["who"], "properties": {
    "who":{"type":"number"},
    "as":{"enum":["b","a"],"description":"How","type":"string"}, "who" : {"type":"string"}},"type":"object"}"#;
/// The same as transformers writes them in prompts of Qwen's.
const SPACED: &str = concat!(
    r#"{"required": ["who"], "properties": {"who": {"type": "string"}, "#,
    r#""as": {"enum": ["b", "a"], "description": "How", "type": "string"}}, "type": "object"}"#,
);
/// And in those of Llama's.
const INDENTED: &str = r#"        "parameters": {
            "required": [
                "who"
            ],
            "properties": {
                "who": {
                    "type": "string"
                },
                "as": {
                    "enum": [
                        "b",
                        "a"
                    ],
                    "description": "How",
                    "type": "string"
                }
            },
            "type": "object"
        }
"#;

async fn complete(State(seen): State<Arc<Mutex<Vec<String>>>>, body: String) -> impl IntoResponse {
    let is_streamed = body.contains("\"stream\":true");
    seen.lock().expect("no test panics with the lock").push(body);
    let chunk = json!({
        "choices": [{ "index": 0, "text": ANSWER, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 9, "completion_tokens": 7 },
    });
    match is_streamed {
        true => ([("content-type", "text/event-stream")], format!("data: {chunk}\n\ndata: [DONE]\n\n")),
        false => ([("content-type", "application/json")], chunk.to_string()),
    }
}

/// Asks an agent without tools of its own, and returns the answer and the body that its engine got.
async fn ask_engine(of: OpenAiServer, path: &str, body: String) -> (Answer, String) {
    let (folder, seen) = (checkpoint(QWEN3), Arc::default());
    let endpoint = serve(Router::new().route("/v1/completions", on_post(complete)).with_state(Arc::clone(&seen))).await;
    let mut config = RuntimeConfig::new("support", "support-1", &endpoint);
    config.engine.dialect = TextDialect::OpenAi;
    use_template(&mut config, &folder);
    config.validate().expect("the test's configuration is valid");
    let backend = Arc::new(OpenAi::new(of, &endpoint, "agent").expect("the endpoint is a URL"));
    let (clock, _time) = Clock::manual(START);
    let app = App::new(Parts { config, pod: "support-1-x".into(), backend, clock, seal: Seal::new(|number| number) });
    let app = app.expect("it can be set up");
    app.admission().set_readiness(Readiness::Ready);
    let answer = or_hang(post_text(&app.api(), path, body)).await;
    let mut seen = seen.lock().expect("no test panics with the lock");
    (answer, seen.pop().expect("the engine was asked"))
}

async fn post_text(router: &Router, path: &str, body: String) -> Answer {
    let request = axum::http::Request::post(path).header("content-type", "application/json");
    send(router, request, body).await
}

#[rstest]
#[case::vllm(OpenAiServer::Vllm, format!(
    r#""response_format":{{"type":"json_schema","json_schema":{{"name":"answer","schema":{SENT}}}}}"#))]
#[case::sglang(OpenAiServer::SgLang, format!(r#""json_schema":{}"#, json!(SENT)))]
#[case::trtllm(OpenAiServer::TrtLlm, format!(r#""response_format":{{"type":"json","schema":{SENT}}}"#))]
#[tokio::test]
async fn an_engine_is_held_to_a_schema_in_the_clients_order(#[case] of: OpenAiServer, #[case] guide: String) {
    let format = format!(r#"{{"type": "json_schema", "json_schema": {{"schema": {FORMAT}, "name": "sum"}}}}"#);
    let chat = format!(r#"{{"response_format": {format}, "messages": [{{"role": "user", "content": "A prime?"}}]}}"#);
    let format = format!(r#"{{"type": "json_schema", "schema": {FORMAT}, "name": "sum"}}"#);
    let response = format!(r#"{{"text": {{"format": {format}}}, "input": "A prime?"}}"#);
    for (path, body) in [("/v1/chat/completions", chat), ("/v1/responses", response)] {
        let (answer, asked) = ask_engine(of, path, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert!(asked.contains(&guide), "{path}: {asked}");
        let asked: Value = serde_json::from_str(&asked).expect("it is JSON");
        let told = format!("It must fit this JSON Schema:\n{SENT}<|im_end|>");
        assert!(asked["prompt"].as_str().expect("a text").contains(&told), "{path}: {asked}");
    }
}

/// Requests that bring a tool, by their paths.
fn with_tool() -> [(&'static str, String); 3] {
    let function = format!(r#""parameters": {PARAMETERS}, "description": "Finds.", "name": "find""#);
    let messages = r#""messages": [{"role": "user", "content": "Who?"}]"#;
    let envelope = format!(r#"{{"function": {{{function}}}, "type": "function"}}"#);
    [
        ("/v1/chat/completions", format!(r#"{{"tools": [{envelope}], {messages}}}"#)),
        ("/v1/responses", format!(r#"{{"tools": [{{{function}, "type": "function"}}], "input": "Who?"}}"#)),
        ("/v1/runs", format!(r#"{{"threadId": "t", "runId": "r", "tools": [{{{function}}}], {messages}}}"#)),
    ]
}

fn function(name: &str) -> String {
    format!(
        r#"{{"type": "function", "function": {{"name": "{name}", "description": "Finds.", "parameters": {SPACED}}}}}"#
    )
}

#[rstest]
#[case::qwen(QWEN3, format!("<tools>\n{}\n</tools>", function("find")))]
#[case::llama(LLAMA31, INDENTED.to_owned())]
#[case::no_place_for_tools("{% for message in messages %}{{ message.content }}{% endfor %}",
    format!("given as JSON:\n[{}]\n", function("find")))]
#[tokio::test]
async fn a_clients_tool_is_in_the_prompt_as_the_client_wrote_it(#[case] template: &str, #[case] expected: String) {
    let folder = checkpoint(template);
    for (path, body) in with_tool() {
        let sidecar = sidecar_with([Reply::Says("Nobody.")], |config| {
            config.tools.clear();
            use_template(config, &folder);
        });
        let answer = or_hang(post_text(&sidecar.app.api(), path, body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let prompt = sidecar.engine.prompts().remove(0);
        assert!(prompt.contains(&expected), "{path}: {prompt}");
    }
}

/// The first prompt of an agent that has a server's tool.
async fn prompt_with(server: &Fake, folder: Option<&TempDir>) -> String {
    // It is ready again once the tools are known.
    server.refuse(StatusCode::UNAUTHORIZED);
    let sidecar = sidecar_with([Reply::Says("Answer: Nobody.")], |config| {
        config.tools.clear();
        config.mcp_servers = vec![McpServer::new("home", &server.url)];
        match folder {
            Some(folder) => use_template(config, folder),
            None => config.prompt_template = "{tools}\n{messages}".into(),
        }
    });
    let (api, admin, engine) = (sidecar.app.api(), sidecar.app.admin(), sidecar.engine);
    let listen = async || TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let listeners = Listeners { api: listen().await, admin: listen().await, texts: None };
    let terminate = CancellationToken::new();
    let ended = tokio::spawn(sidecar.app.serve(listeners, terminate.clone()));
    let until = async |status: StatusCode| {
        while get(&admin, "/readyz").await.status != status {
            yield_now().await;
        }
    };
    or_hang(until(StatusCode::SERVICE_UNAVAILABLE)).await;
    server.refuse(StatusCode::OK);
    or_hang(until(StatusCode::OK)).await;
    let run = or_hang(post(&api, "/v1/runs", json!({ "input": "Who?" }))).await;
    assert_eq!(run.status, StatusCode::OK, "{}", run.body);
    terminate.cancel();
    or_hang(ended).await.expect("no panic").expect("an orderly end");
    engine.prompts().remove(0)
}

#[rstest]
#[case::qwen(Some(QWEN3), format!("<tools>\n{}\n</tools>", function("home_find")))]
#[case::llama(Some(LLAMA31), INDENTED.to_owned())]
#[case::transcript(None, r#"home_find: Finds. (JSON: {"who", "as"?})"#.to_owned())]
#[tokio::test]
async fn a_servers_tool_is_in_the_prompt_as_the_server_wrote_it(
    #[case] template: Option<&str>,
    #[case] expected: String,
    #[values(false, true)] is_stream: bool,
) {
    let server = Fake::new(Revision::Modern).await;
    server.set_schema("find", PARAMETERS);
    if is_stream {
        server.stream();
    }
    let folder = template.map(checkpoint);
    let prompt = prompt_with(&server, folder.as_ref()).await;
    assert!(prompt.contains(&expected), "{prompt}");
}

#[tokio::test]
async fn a_schema_of_too_many_levels_is_refused_with_its_body() {
    let deep = format!("{}{{}}{}", r#"{"items":"#.repeat(200), "}".repeat(200));
    let body = format!(r#"{{"tools": [{{"parameters": {deep}, "name": "a"}}], "messages": []}}"#);
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/runs"] {
        let sidecar = sidecar_with([], |_| {});
        let answer = or_hang(post_text(&sidecar.app.api(), path, body.clone())).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.body);
        assert!(answer.error().contains("recursion limit exceeded"), "{path}: {}", answer.body);
    }
}
