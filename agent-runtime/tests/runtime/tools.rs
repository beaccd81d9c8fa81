//! HTTP tools against a real server.

use std::{
    fs,
    path::Path as FilePath,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, Method, StatusCode, Uri, header::LOCATION},
    response::IntoResponse,
    routing::get,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_agent_runtime::tools::{Registry, Request};
use slipway_runtime_config::{HttpMethod, HttpTool, Parameter, ResultPick, Tool, ToolKind};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use crate::fixture::{or_hang, serve};

/// Answers by path: what was asked, or the behavior that the path names.
async fn server(calls: Arc<AtomicUsize>) -> String {
    let answer = async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        match uri.path() {
            "/redirect" => (StatusCode::FOUND, [(LOCATION, "/elsewhere")]).into_response(),
            "/long" => "x".repeat(5_000).into_response(),
            "/text" => "  42\n".into_response(),
            "/object" => json!({ "a": { "b": [1, "two"], "c": null } }).to_string().into_response(),
            "/down" => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            "/down-twice" if call < 2 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            "/down-twice" => "up".into_response(),
            "/hangs" => std::future::pending().await,
            _ => {
                let key = headers.get("x-api-key").and_then(|key| key.to_str().ok()).unwrap_or("none").to_owned();
                let body = String::from_utf8_lossy(&body).into_owned();
                format!("{method} {uri} key={key} {body}").into_response()
            }
        }
    };
    serve(Router::new().fallback(answer)).await
}

/// A tool at a path of a server that counts its calls.
struct Fixture {
    tools: Registry,
    calls: Arc<AtomicUsize>,
}

async fn fixture(path: &str, change: impl FnOnce(&mut HttpTool)) -> Fixture {
    let calls = Arc::new(AtomicUsize::new(0));
    let mut http = HttpTool::new(&format!("{}{path}", server(Arc::clone(&calls)).await));
    change(&mut http);
    let tool = Tool { name: "tool".into(), description: String::new(), input_schema: None, kind: ToolKind::Http(http) };
    Fixture { tools: Registry::new(&[tool]).expect("the tool can be set up"), calls }
}

impl Fixture {
    async fn call(&self, input: &str) -> Result<String, (&'static str, String)> {
        let result = or_hang(self.tools.call(Request::new("tool", input))).await;
        result.map_err(|error| (error.kind(), error.observation()))
    }
}

fn parameters(names: &[&str]) -> Vec<Parameter> {
    names.iter().map(|name| Parameter { name: (*name).into() }).collect()
}

#[tokio::test]
async fn arguments_fill_the_url_and_cannot_leave_their_place() {
    let tool = fixture("/v1/{a}?q={b}", |http| http.parameters = parameters(&["a", "b"])).await;
    assert_eq!(tool.call("Bela.height").await, Ok("GET /v1/Bela?q=height key=none".into()));
    let hostile = tool.call(r#"{"a": "x/admin", "b": "x&y=1#z"}"#).await;
    assert_eq!(hostile, Ok("GET /v1/x%2Fadmin?q=x%26y%3D1%23z key=none".into()));
    for dots in ["..", "../../admin"] {
        let refused = tool.call(&json!({ "a": dots, "b": "x" }).to_string()).await;
        let message = "wrong arguments: an argument is empty or a dot path, which the address cannot hold";
        assert_eq!(refused, Err(("arguments", message.into())));
    }
}

#[tokio::test]
async fn a_post_sends_the_other_arguments_as_json() {
    let tool = fixture("/v1/{a}", |http| {
        http.method = HttpMethod::Post;
        http.parameters = parameters(&["a", "b", "c"]);
        http.argument_separator = "|".into();
    })
    .await;
    let expected = r#"POST /v1/x key=none {"b":"y","c":"z \"q\""}"#;
    assert_eq!(tool.call("x | y | z \"q\"").await, Ok(expected.into()));
}

#[tokio::test]
async fn a_post_keeps_the_types_of_json() {
    let tool = fixture("/v1/{a}", |http| {
        http.method = HttpMethod::Post;
        http.parameters = parameters(&["a", "b"]);
    })
    .await;
    for value in [json!("x"), json!(7), json!(-1.5), json!(true), json!(null), json!([1, "two"]), json!({ "c": [] })] {
        let expected = format!("POST /v1/7 key=none {}", json!({ "b": value }));
        assert_eq!(tool.call(&json!({ "a": 7, "b": value }).to_string()).await, Ok(expected));
    }
    assert_eq!(tool.call("7.2.5").await, Ok(r#"POST /v1/7.2 key=none {"b":"5"}"#.into()));
    let refused = tool.call(&json!({ "a": ["x"], "b": 1 }).to_string()).await;
    let message = "wrong arguments: argument \"a\" must be a text, a number or a boolean";
    assert_eq!(refused, Err(("arguments", message.into())));
}

#[tokio::test]
async fn headers_come_from_the_mounted_secret_as_it_is_now() {
    let secret = tempfile::tempdir().expect("a temporary directory can be made");
    let write = |name: &str, content: &str| fs::write(secret.path().join(name), content).expect("the file is written");
    let path = secret.path().to_str().expect("the path is text").to_owned();
    write("x-api-key", "first\n");
    write("..data", "not a header");
    let tool = fixture("/v1", |http| http.headers_from = Some(path)).await;
    assert_eq!(tool.call("").await, Ok("GET /v1 key=first".into()));
    write("x-api-key", "second");
    assert_eq!(tool.call("").await, Ok("GET /v1 key=second".into()));
    write("x-api-key", "two\nlines");
    assert_eq!(tool.call("").await, Err(("credentials", "the tool's credentials cannot be read".into())));
    let gone: &FilePath = secret.path();
    fs::remove_dir_all(gone).expect("the directory is removed");
    assert_eq!(tool.call("").await, Err(("credentials", "the tool's credentials cannot be read".into())));
}

#[rstest]
#[case("", "{\"a\":{\"b\":[1,\"two\"],\"c\":null}}")]
#[case("/a/b/1", "two")]
#[case("/a/b", "[1,\"two\"]")]
#[tokio::test]
async fn a_pointer_picks_the_observation(#[case] pointer: &str, #[case] expected: &str) {
    let tool = fixture("/object", |http| http.result = ResultPick::JsonPointer(pointer.into())).await;
    assert_eq!(tool.call("").await, Ok(expected.into()));
}

#[tokio::test]
async fn text_is_taken_without_the_space_around_it() {
    assert_eq!(fixture("/text", |_| {}).await.call("").await, Ok("42".into()));
}

#[rstest]
#[case::redirect("/redirect", "status", "HTTP status 302")]
#[case::long("/long", "answer", "the answer is longer than 4096 bytes")]
#[case::not_json("/text-echo", "answer", "the answer is not JSON")]
#[case::nothing("/object", "answer", "the answer has nothing at /a/c")]
#[case::down("/down", "status", "HTTP status 503")]
#[case::hangs("/hangs", "timeout", "no answer within 50 ms")]
#[tokio::test]
async fn a_failed_call_says_why(#[case] path: &str, #[case] kind: &'static str, #[case] message: &str) {
    let tool = fixture(path, |http| {
        http.result = ResultPick::JsonPointer("/a/c".into());
        http.max_response_bytes = 4_096;
        http.timeout_milliseconds = if path == "/hangs" { 50 } else { 60_000 };
    })
    .await;
    assert_eq!(tool.call("").await, Err((kind, message.into())));
    assert_eq!(tool.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn idempotent_calls_are_repeated_until_the_service_is_back() {
    let tool = fixture("/down-twice", |http| (http.idempotent, http.retries) = (true, 3)).await;
    assert_eq!(tool.call("").await, Ok("up".into()));
    assert_eq!(tool.calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn repeats_are_bounded_and_the_last_failure_is_told() {
    let tool = fixture("/down", |http| (http.idempotent, http.retries) = (true, 2)).await;
    assert_eq!(tool.call("").await, Err(("status", "HTTP status 503".into())));
    assert_eq!(tool.calls.load(Ordering::SeqCst), 3);
}

/// A service that answers nobody before it is told to, and counts who waits.
struct Crowded {
    waiting: watch::Sender<usize>,
    release: Arc<Notify>,
}

impl Crowded {
    async fn tool() -> (Self, Registry) {
        let (waiting, release) = (watch::Sender::new(0), Arc::new(Notify::new()));
        let this = Self { waiting: waiting.clone(), release: Arc::clone(&release) };
        let answer = async move || {
            waiting.send_modify(|waiting| *waiting += 1);
            release.notified().await;
            waiting.send_modify(|waiting| *waiting -= 1);
            "42"
        };
        let at_once = async || "at once";
        let origin = serve(Router::new().route("/held", get(answer)).route("/free", get(at_once))).await;
        let tool = |name: &str| {
            let http = HttpTool { timeout_milliseconds: 60_000, ..HttpTool::new(&format!("{origin}/{name}")) };
            Tool { name: name.into(), description: String::new(), input_schema: None, kind: ToolKind::Http(http) }
        };
        (this, Registry::new(&[tool("held"), tool("free")]).expect("the tools can be set up"))
    }

    async fn until_waiting(&self, calls: usize) {
        or_hang(self.waiting.subscribe().wait_for(|waiting| *waiting == calls)).await.expect("the service lives");
    }
}

#[tokio::test]
async fn of_one_tool_sixty_four_calls_are_under_way_and_the_others_wait() {
    let (service, tools) = Crowded::tool().await;
    let tools = Arc::new(tools);
    let mut calls = JoinSet::new();
    for _ in 0..70 {
        let tools = Arc::clone(&tools);
        calls.spawn(async move { tools.call(Request::new("held", "")).await.map_err(|error| error.to_string()) });
    }
    service.until_waiting(64).await;
    for _ in 0..5 {
        // Another tool is not held up, and a call of its own is there and back before more of the first have come.
        assert_eq!(
            or_hang(tools.call(Request::new("free", ""))).await.map_err(|error| error.to_string()),
            Ok("at once".into())
        );
    }
    assert_eq!(*service.waiting.borrow(), 64);
    let mut answered = 0;
    while !calls.is_empty() {
        assert!(*service.waiting.borrow() <= 64);
        service.release.notify_one();
        let answer = or_hang(calls.join_next()).await.expect("a call is left").expect("no panic");
        assert_eq!(answer, Ok("42".into()));
        answered += 1;
    }
    assert_eq!(answered, 70);
}

#[tokio::test]
async fn a_wrong_number_of_arguments_calls_nothing() {
    let tool = fixture("/v1/{a}/{b}", |http| http.parameters = parameters(&["a", "b"])).await;
    let expected = Err(("arguments", "wrong arguments: expected a.b, got 1 argument(s)".into()));
    assert_eq!(tool.call("Bela").await, expected);
    assert_eq!(tool.calls.load(Ordering::SeqCst), 0);
}
