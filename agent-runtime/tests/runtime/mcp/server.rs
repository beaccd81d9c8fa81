//! A stand-in for MCP servers of both revisions, that does what a test tells it.

use std::{
    convert::Infallible,
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Response, StatusCode, header::CONTENT_TYPE},
};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use crate::fixture::serve;

/// How it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// 2026-07-28.
    Modern,
    /// With a handshake that ends in this version.
    Handshake(&'static str),
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Seen {
    http: Method,
    headers: HeaderMap,
    body: Value,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).map(|value| value.to_str().expect("it is text").to_owned())
    }

    /// The method of the message; without one that of HTTP, or nothing for an answer.
    pub fn method(&self) -> String {
        match self.body["method"].as_str() {
            Some(method) => method.to_owned(),
            None if self.http == Method::POST => String::new(),
            None => self.http.to_string(),
        }
    }

    pub fn params(&self) -> Value {
        self.body["params"].clone()
    }

    pub fn body(&self) -> Value {
        self.body.clone()
    }
}

/// The server.
pub struct Fake {
    pub url: String,
    state: Arc<Shared>,
}

struct Shared {
    script: Mutex<Script>,
    seen: watch::Sender<Vec<Seen>>,
    announcements: broadcast::Sender<()>,
    listeners: watch::Sender<usize>,
}

#[derive(Clone)]
struct Script {
    revision: Revision,
    pages: Vec<Vec<Value>>,
    /// Stands for `SCHEMA` in these, as it is written.
    schema: String,
    /// Sessions begun, and the first that still counts.
    sessions: (u32, u32),
    refusal: Option<StatusCode>,
    call: Option<(StatusCode, String)>,
    is_stream: bool,
    asks_back: bool,
    interrupts: bool,
    hangs: bool,
    announces: bool,
}

/// A tool that needs a city.
pub fn weather() -> Value {
    json!({
        "name": "weather",
        "description": "The weather of a city.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "city": { "type": "string", "x-mcp-header": "City" },
                "days": { "type": "integer" },
            },
            "required": ["city"],
        },
    })
}

/// The response to a call with this result.
pub fn call_of(result: Value) -> (StatusCode, String) {
    (StatusCode::OK, json!({ "jsonrpc": "2.0", "id": "ID", "result": result }).to_string())
}

impl Fake {
    pub async fn new(revision: Revision) -> Self {
        let script = Script {
            revision,
            pages: vec![vec![weather()]],
            schema: String::new(),
            sessions: (0, 1),
            refusal: None,
            call: None,
            is_stream: false,
            asks_back: false,
            interrupts: false,
            hangs: false,
            announces: false,
        };
        let state = Arc::new(Shared {
            script: Mutex::new(script),
            seen: watch::Sender::default(),
            announcements: broadcast::Sender::new(4),
            listeners: watch::Sender::default(),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        Self { url: format!("{}/mcp", serve(router).await), state }
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.state.script.lock().expect("no test panics with the lock")
    }

    pub fn set_tools(&self, pages: &[&[Value]]) {
        self.script().pages = pages.iter().map(|page| page.to_vec()).collect();
    }

    /// Has one tool, whose schema is written so.
    pub fn set_schema(&self, name: &str, schema: &str) {
        self.set_tools(&[&[json!({ "name": name, "description": "Finds.", "inputSchema": "SCHEMA" })]]);
        self.script().schema = schema.to_owned();
    }

    pub fn become_revision(&self, revision: Revision) {
        self.script().revision = revision;
    }

    /// Answers with streams of events.
    pub fn stream(&self) {
        self.script().is_stream = true;
    }

    /// Asks two questions on each stream.
    pub fn ask_back(&self) {
        self.script().asks_back = true;
    }

    /// Breaks the next stream off before its response.
    pub fn interrupt(&self) {
        self.script().interrupts = true;
    }

    /// Answers no call.
    pub fn hang(&self) {
        self.script().hangs = true;
    }

    /// Announces changes.
    pub fn announce(&self) {
        self.script().announces = true;
    }

    pub fn say_changed(&self) {
        self.state.announcements.send(()).expect("somebody listens");
    }

    pub fn forget_sessions(&self) {
        let mut script = self.script();
        script.sessions.1 = script.sessions.0 + 1;
    }

    /// Answers everything with this status; 200 for as usual.
    pub fn refuse(&self, status: StatusCode) {
        self.script().refusal = Some(status).filter(|status| *status != StatusCode::OK);
    }

    /// Answers calls with this.
    pub fn answer_calls(&self, answer: (StatusCode, String)) {
        self.script().call = Some(answer);
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.borrow().clone()
    }

    fn of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }

    pub fn calls(&self) -> Vec<Seen> {
        self.of("tools/call")
    }

    pub fn lists(&self) -> usize {
        self.of("tools/list").len()
    }

    pub async fn until_listed(&self, times: usize) {
        let is_so = |seen: &Vec<Seen>| seen.iter().filter(|seen| seen.method() == "tools/list").count() >= times;
        self.state.seen.subscribe().wait_for(is_so).await.expect("the server lives");
    }

    pub async fn until_told(&self, method: &str) -> Seen {
        let is_it = |seen: &Seen| seen.method() == method;
        let mut seen = self.state.seen.subscribe();
        let seen = seen.wait_for(|seen| seen.iter().any(is_it)).await.expect("the server lives");
        seen.iter().find(|seen| is_it(seen)).cloned().expect("it came")
    }

    pub async fn until_listened_to(&self) {
        self.state.listeners.subscribe().wait_for(|listeners| *listeners > 0).await.expect("the server lives");
    }
}

async fn answer(State(state): State<Arc<Shared>>, http: Method, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let seen = Seen { http, headers, body };
    state.seen.send_modify(|all| all.push(seen.clone()));
    let script = state.script.lock().expect("no test panics with the lock").clone();
    if let Some(refusal) = script.refusal {
        return plain(refusal, String::new());
    }
    match (script.revision, seen.header("mcp-protocol-version").as_deref()) {
        (Revision::Modern, Some("2026-07-28")) => modern(&state, &script, &seen).await,
        (Revision::Modern, _) => plain(StatusCode::BAD_REQUEST, error(-32020, "a header is missing")),
        (Revision::Handshake(_), Some("2026-07-28")) => plain(StatusCode::BAD_REQUEST, error(-32600, "no session")),
        (Revision::Handshake(version), _) => with_handshake(&state, &script, version, &seen).await,
    }
}

async fn modern(state: &Shared, script: &Script, seen: &Seen) -> Response<Body> {
    match seen.method().as_str() {
        "server/discover" => {
            let tools = json!({ "listChanged": script.announces });
            let versions = ["2026-07-28"];
            result(seen, &json!({ "supportedVersions": versions, "capabilities": { "tools": tools } }), script)
        }
        "subscriptions/listen" => announcements(state),
        _ => common(script, seen).await,
    }
}

async fn with_handshake(state: &Shared, script: &Script, version: &str, seen: &Seen) -> Response<Body> {
    if seen.method() == "initialize" {
        let session = {
            let mut script = state.script.lock().expect("no test panics with the lock");
            script.sessions.0 += 1;
            format!("session-{}", script.sessions.0)
        };
        let tools = json!({ "listChanged": script.announces });
        let told = json!({ "protocolVersion": version, "capabilities": { "tools": tools } });
        let mut response = result(seen, &told, script);
        response.headers_mut().insert("mcp-session-id", session.parse().expect("it is a value"));
        return response;
    }
    let session = seen.header("mcp-session-id").unwrap_or_default();
    let number = session.strip_prefix("session-").and_then(|number| number.parse::<u32>().ok());
    if number.is_none_or(|number| number < script.sessions.1) {
        return plain(StatusCode::NOT_FOUND, error(-32600, "no such session"));
    }
    match (&seen.http, seen.header("last-event-id")) {
        (&Method::GET, Some(_)) => {
            let first = state.seen.borrow().iter().find(|seen| seen.method() == "tools/call").cloned();
            stream_of(vec![event(&response_of(&first.expect("a call came"), &report()))])
        }
        (&Method::GET, None) if script.announces => announcements(state),
        (&Method::GET, None) => plain(StatusCode::METHOD_NOT_ALLOWED, String::new()),
        (&Method::DELETE, _) => plain(StatusCode::OK, String::new()),
        _ if seen.body.get("id").is_none() || seen.method().is_empty() => plain(StatusCode::ACCEPTED, String::new()),
        _ => common(script, seen).await,
    }
}

/// What both revisions have.
async fn common(script: &Script, seen: &Seen) -> Response<Body> {
    match (seen.method().as_str(), &script.call) {
        ("tools/list", _) => {
            let page: usize = seen.body["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().expect("ours"));
            let mut told = json!({ "tools": script.pages[page] });
            if page + 1 < script.pages.len() {
                told["nextCursor"] = json!((page + 1).to_string());
            }
            result(seen, &told, script)
        }
        ("tools/call", _) if script.hangs => std::future::pending().await,
        ("tools/call", _) if script.interrupts => stream_of(vec!["retry: 1\nid: event-1\ndata:\n\n".to_owned()]),
        ("tools/call", Some((status, body))) => plain(*status, body.replace("\"ID\"", &seen.body["id"].to_string())),
        ("tools/call", None) => result(seen, &report(), script),
        _ => plain(StatusCode::NOT_FOUND, error(-32601, "no such method")),
    }
}

fn report() -> Value {
    json!({ "content": [{ "type": "text", "text": "7 C in Bern" }], "isError": false })
}

fn response_of(seen: &Seen, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": seen.body["id"], "result": result })
}

fn error(code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } }).to_string()
}

fn result(seen: &Seen, told: &Value, script: &Script) -> Response<Body> {
    let response = response_of(seen, told).to_string().replace("\"SCHEMA\"", &script.schema);
    if !script.is_stream {
        return plain(StatusCode::OK, response);
    }
    let mut events = vec![": here\n\n".to_owned()];
    let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progress": 1 } });
    events.push(event(&progress));
    if script.asks_back {
        events.push(event(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" })));
        events.push(event(&json!({ "jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {} })));
    }
    events.push(event(&response));
    stream_of(events)
}

fn event(message: &impl Display) -> String {
    let data: String = message.to_string().lines().map(|line| format!("data: {line}\n")).collect();
    format!("event: message\n{data}\n")
}

fn plain(status: StatusCode, body: String) -> Response<Body> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    response.body(Body::from(body)).expect("the response is well formed")
}

fn stream_of(events: Vec<String>) -> Response<Body> {
    let events = events.into_iter().map(Ok::<_, Infallible>);
    streamed(Body::from_stream(stream::iter(events)))
}

fn streamed(body: Body) -> Response<Body> {
    Response::builder().header(CONTENT_TYPE, "text/event-stream").body(body).expect("the response is well formed")
}

/// A stream that says when the list has changed, for as long as somebody listens.
fn announcements(state: &Shared) -> Response<Body> {
    let news = state.announcements.subscribe();
    state.listeners.send_modify(|listeners| *listeners += 1);
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let events = stream::unfold(news, move |mut news| {
        let event = event(&changed);
        async move { news.recv().await.ok().map(|()| (Ok::<_, Infallible>(event), news)) }
    });
    streamed(Body::from_stream(events))
}
