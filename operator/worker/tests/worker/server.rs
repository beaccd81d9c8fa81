//! A web server with ranges, a required token, and connections that break when told to.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;

/// What the server serves and what it saw.
#[derive(Default)]
pub struct Site {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    breaks: Mutex<BTreeMap<String, usize>>,
    refusals: Mutex<BTreeMap<String, Vec<StatusCode>>>,
    retry_after: Mutex<Option<u32>>,
    token: Mutex<Option<String>>,
    requests: Mutex<Vec<String>>,
}

/// A running server.
pub struct Server {
    pub site: Arc<Site>,
    pub url: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start() -> Self {
        let site = Arc::new(Site::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&site));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { site, url, task }
    }

    pub fn file(&self, path: &str, bytes: impl Into<Vec<u8>>) -> &Self {
        self.site.files.lock().unwrap().insert(path.into(), bytes.into());
        self
    }

    /// The next answer for `path` ends after `bytes` bytes of its body.
    pub fn break_once(&self, path: &str, bytes: usize) -> &Self {
        self.site.breaks.lock().unwrap().insert(path.into(), bytes);
        self
    }

    /// The next answers for `path` are these statuses.
    pub fn refuse(&self, path: &str, statuses: &[StatusCode]) -> &Self {
        self.site.refusals.lock().unwrap().insert(path.into(), statuses.iter().rev().copied().collect());
        self
    }

    /// Refusals ask to be left alone for so many seconds.
    pub fn retry_after(&self, seconds: u32) -> &Self {
        *self.site.retry_after.lock().unwrap() = Some(seconds);
        self
    }

    pub fn require_token(&self, token: &str) -> &Self {
        *self.site.token.lock().unwrap() = Some(format!("Bearer {token}"));
        self
    }

    /// `path` or `path from-byte` of each request so far.
    pub fn requests(&self) -> Vec<String> {
        self.site.requests.lock().unwrap().clone()
    }
}

async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let text = |name| request.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let start = text(header::RANGE).and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
    let seen = start.map_or_else(|| path.clone(), |start| format!("{path} {start}"));
    site.requests.lock().unwrap().push(seen);
    if let Some(status) = site.refusals.lock().unwrap().get_mut(&path).and_then(Vec::pop) {
        let seconds = *site.retry_after.lock().unwrap();
        let headers = seconds.map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        return headers.map_or_else(|| status.into_response(), |headers| (status, headers).into_response());
    }
    let token = site.token.lock().unwrap().clone();
    if token.is_some() && text(header::AUTHORIZATION) != token {
        return (StatusCode::UNAUTHORIZED, [("x-error-message", "Access to this model is restricted")]).into_response();
    }
    let Some(bytes) = site.files.lock().unwrap().get(&path).cloned() else {
        return (StatusCode::NOT_FOUND, [("x-error-code", "RevisionNotFound")]).into_response();
    };
    let status = if start.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let rest = Bytes::from(bytes).slice(start.unwrap_or(0)..);
    let body = match site.breaks.lock().unwrap().remove(&path) {
        None => Body::from(rest),
        Some(at) => broken_after(rest.slice(..at)),
    };
    (status, body).into_response()
}

/// Sends `bytes`, then breaks the connection. The error comes from another task: while the connection waits for it, the
/// bytes are flushed.
fn broken_after(bytes: Bytes) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        for part in [Ok(bytes), Err(io::Error::other("told to break"))] {
            sender.send(part).await.unwrap();
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}
