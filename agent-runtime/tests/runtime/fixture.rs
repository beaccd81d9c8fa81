//! An engine that follows a script, a tool server, and a sidecar between them.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_stream::stream;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header::CONTENT_TYPE},
};
use futures::{StreamExt, future::BoxFuture, stream::BoxStream};
use serde_json::Value;
use slipway_agent_runtime::{
    api::{admission::Readiness, run_names::Seal},
    app::{App, Parts},
    backend::{Backend, BackendError, FinishReason, Generation, Piece, SamplingFields},
    clock::{Clock, ManualClock, Timestamp},
};
use slipway_runtime_config::{HttpTool, Parameter, ResultPick, RuntimeConfig, Tool, ToolKind};
use tokio::{net::TcpListener, sync::watch};
use tower::ServiceExt;

/// The first second of window 177000000.
pub const START: Timestamp = Timestamp::from_micros(1_770_000_000_000_000);

/// What the scripted engine does with one generation.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Writes this in two pieces, ten virtual milliseconds and one token a character apart.
    Says(&'static str),
    /// Sends this in one piece after twenty virtual milliseconds, as was asked.
    SaysAsOne(&'static str),
    /// Writes this in pieces of one character each.
    Spells(&'static str),
    /// The same, and others have a turn between two letters.
    Dictates(&'static str),
    /// Writes this and is cut off by the limit on tokens.
    IsCutOff(&'static str),
    /// Writes this once `release` is called.
    WaitsAndSays(&'static str),
    /// Writes this and then nothing, for ever.
    SaysAndHangs(&'static str),
    /// Writes this and fails.
    SaysAndFails(&'static str),
    /// Says in these words that it cannot.
    Refuses(&'static str),
}

/// An engine that follows a script.
pub struct ScriptedBackend {
    replies: Mutex<VecDeque<Reply>>,
    clock: ManualClock,
    state: watch::Sender<EngineState>,
    sends_whole: AtomicBool,
    context: OnceLock<u32>,
}

/// What can be seen of the scripted engine.
#[derive(Clone, Debug, Default)]
pub struct EngineState {
    pub generations: Vec<Generation>,
    /// Generations that were dropped before their end.
    pub cancelled: usize,
    is_released: bool,
}

/// Seals that tests know.
fn seal() -> Seal {
    Seal::new(|number| 0xfeed_0000_0000_0000_u64.wrapping_add(number))
}

impl ScriptedBackend {
    pub fn new(replies: impl IntoIterator<Item = Reply>, clock: ManualClock) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().collect());
        let (state, sends_whole, context) = (watch::Sender::default(), AtomicBool::new(false), OnceLock::new());
        Arc::new(Self { replies, clock, state, sends_whole, context })
    }

    /// From now on it can send an answer as one, as engines' own servers do.
    pub fn can_send_whole(&self) {
        self.sends_whole.store(true, Ordering::Relaxed);
    }

    /// From now on it says that its context holds so many tokens.
    pub fn holds(&self, tokens: u32) {
        self.context.set(tokens).expect("it is said once");
    }

    pub fn release(&self) {
        self.state.send_modify(|state| state.is_released = true);
    }

    pub fn prompts(&self) -> Vec<String> {
        self.state.borrow().generations.iter().map(|generation| generation.prompt.clone()).collect()
    }

    /// Looks at the engine's state.
    pub fn look(&self, see: impl FnOnce(&EngineState)) {
        see(&self.state.borrow());
    }

    /// Returns once the engine is in such a state.
    pub async fn until(&self, is_so: impl FnMut(&EngineState) -> bool) {
        self.state.subscribe().wait_for(is_so).await.expect("the engine lives as long as the test");
    }
}

/// Counts a generation that was dropped before its end.
struct CancelGuard {
    state: watch::Sender<EngineState>,
    is_over: bool,
}

impl CancelGuard {
    fn is_over(&mut self) {
        self.is_over = true;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if !self.is_over {
            self.state.send_modify(|state| state.cancelled += 1);
        }
    }
}

impl Backend for ScriptedBackend {
    fn generate(&self, generation: Generation) -> BoxStream<'static, Result<Piece, BackendError>> {
        if generation.id.starts_with("warm-up") {
            let done = Piece { output_tokens: 1, finish: Some(FinishReason::Length), ..Piece::default() };
            return futures::stream::iter([Ok(done)]).boxed();
        }
        let prompt_tokens = Some(tokens(&generation.prompt));
        self.state.send_modify(|state| state.generations.push(generation));
        let reply = self.replies.lock().expect("no test panics with the lock").pop_front();
        let mut guard = CancelGuard { state: self.state.clone(), is_over: false };
        let clock = self.clock.clone();
        stream! {
            let reply = reply.expect("the script has a reply for every generation");
            if let Reply::WaitsAndSays(_) = reply {
                guard.state.subscribe().wait_for(|state| state.is_released).await.expect("the guard holds the sender");
            }
            let (text, finish) = match reply {
                Reply::SaysAsOne(text) => {
                    clock.advance(Duration::from_millis(20));
                    guard.is_over();
                    let (output_tokens, finish) = (tokens(text), Some(FinishReason::Stop));
                    let text = text.into();
                    yield Ok(Piece { text, prompt_tokens, output_tokens, is_whole: true, finish, ..Piece::default() });
                    return;
                }
                Reply::Says(text) | Reply::Spells(text) | Reply::Dictates(text) | Reply::WaitsAndSays(text) => (text, Some(FinishReason::Stop)),
                Reply::IsCutOff(text) => (text, Some(FinishReason::Length)),
                Reply::SaysAndHangs(text) | Reply::SaysAndFails(text) => (text, None),
                Reply::Refuses(words) => {
                    clock.advance(Duration::from_millis(10));
                    guard.is_over();
                    yield Err(BackendError::engine(words.into()));
                    return;
                }
            };
            let spells = matches!(reply, Reply::Spells(_) | Reply::Dictates(_));
            let cuts = if spells { 1..text.len() } else { text.len() / 2..text.len() / 2 + 1 };
            let mut written = 0;
            for cut in cuts {
                clock.advance(Duration::from_millis(10));
                let text_so_far = &text[..cut];
                let output_tokens = tokens(text_so_far);
                let text = text_so_far[written..].into();
                yield Ok(Piece { text, prompt_tokens, output_tokens, ..Piece::default() });
                written = cut;
                if let Reply::Dictates(_) = reply {
                    tokio::task::yield_now().await;
                }
            }
            let second = &text[written..];
            clock.advance(Duration::from_millis(10));
            if finish.is_some() {
                guard.is_over();
            }
            let output_tokens = tokens(text);
            yield Ok(Piece { text: second.into(), prompt_tokens, output_tokens, finish, ..Piece::default() });
            if let Reply::SaysAndFails(_) = reply {
                guard.is_over();
                yield Err(BackendError::engine("CUDA out of memory".into()));
            }
            std::future::pending::<()>().await;
        }
        .boxed()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async { Ok(()) })
    }

    fn sends_whole(&self) -> bool {
        self.sends_whole.load(Ordering::Relaxed)
    }

    fn sampling(&self) -> SamplingFields {
        SamplingFields::NONE
    }

    fn context(&self) -> Option<u32> {
        self.context.get().copied()
    }
}

fn tokens(text: &str) -> u32 {
    u32::try_from(text.len()).expect("scripts are short")
}

/// A sidecar under test.
pub struct Sidecar {
    pub app: App,
    pub engine: Arc<ScriptedBackend>,
    pub time: ManualClock,
}

/// A sidecar that serves, with an agent that has a calculator.
pub fn sidecar(replies: impl IntoIterator<Item = Reply>) -> Sidecar {
    sidecar_with(replies, |_| {})
}

/// The same with another configuration.
pub fn sidecar_with(replies: impl IntoIterator<Item = Reply>, change: impl FnOnce(&mut RuntimeConfig)) -> Sidecar {
    let (clock, time) = Clock::manual(START);
    let engine = ScriptedBackend::new(replies, time.clone());
    let mut config = RuntimeConfig::new("support", "support-1", "http://127.0.0.1:8001");
    config.tools = vec![calculator()];
    change(&mut config);
    config.validate().expect("the test's configuration is valid");
    let parts = Parts { config, pod: "support-1-x".into(), backend: Arc::clone(&engine) as _, clock, seal: seal() };
    let app = App::new(parts).expect("the test's configuration can be set up");
    app.admission().set_readiness(Readiness::Ready);
    Sidecar { app, engine, time }
}

pub fn calculator() -> Tool {
    Tool {
        name: "calc".into(),
        description: "Evaluates an expression.".into(),
        input_schema: None,
        kind: ToolKind::Calculator,
    }
}

/// A tool `lookup[Name.property]` at `origin`.
pub fn lookup(origin: &str) -> Tool {
    let http = HttpTool {
        parameters: ["name", "property"].map(|name| Parameter { name: name.into() }).into(),
        result: ResultPick::JsonPointer("/value".into()),
        ..HttpTool::new(&format!("{origin}/v1/{{name}}/{{property}}"))
    };
    Tool {
        name: "lookup".into(),
        description: "Looks a property up.".into(),
        input_schema: None,
        kind: ToolKind::Http(http),
    }
}

/// Serves a router on a loopback port and returns `http://127.0.0.1:PORT`.
pub async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let address = listener.local_addr().expect("a bound listener has an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// An answer as a test compares it.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("the body is JSON")
    }

    pub fn error(&self) -> String {
        self.json()["error"]["message"].as_str().expect("the body is an error").to_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).expect("the header is there").to_str().expect("the header is text")
    }
}

pub async fn post(router: &Router, path: &str, body: Value) -> Answer {
    send(router, Request::post(path).header(CONTENT_TYPE, "application/json"), body.to_string()).await
}

/// Posts and reads server-sent events.
pub async fn post_for_events(router: &Router, path: &str, body: Value) -> Answer {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").header("accept", "text/event-stream");
    send(router, request, body.to_string()).await
}

pub async fn get(router: &Router, path: &str) -> Answer {
    send(router, Request::get(path), String::new()).await
}

pub async fn send(router: &Router, request: axum::http::request::Builder, body: String) -> Answer {
    let request = request.body(Body::from(body)).expect("the request is well formed");
    let response = router.clone().oneshot(request).await.expect("a router does not fail");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.expect("the body arrives");
    let body = String::from_utf8(bytes.to_vec()).expect("the body is text");
    Answer { status: parts.status, headers: parts.headers, body }
}

/// Fails a test that would otherwise hang for ever; no assertion depends on it.
pub async fn or_hang<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("the test hangs")
}
