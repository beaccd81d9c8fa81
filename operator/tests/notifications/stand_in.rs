//! A receiver's server on this machine: keeps what it is sent, and answers as a test says.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use tokio::{net::TcpListener, sync::mpsc};

/// How the stand-in takes one request.
#[derive(Debug, Clone, Copy)]
pub enum Manner {
    /// With this status.
    Status(u16),
    /// With 429 and `Retry-After` in seconds.
    Busy(u32),
    /// Never.
    Hang,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

#[derive(Clone)]
struct Shared {
    manners: Arc<Mutex<VecDeque<Manner>>>,
    usual: Manner,
    sink: mpsc::UnboundedSender<Received>,
}

/// The server. It ends with the test's runtime.
pub struct StandIn {
    pub url: String,
    received: mpsc::UnboundedReceiver<Received>,
}

impl StandIn {
    /// Takes requests in these manners in turn, then in the last one for ever.
    pub async fn start(manners: &[Manner]) -> Self {
        let (sink, received) = mpsc::unbounded_channel();
        let usual = manners.last().copied().expect("at least one manner");
        let shared = Shared { manners: Arc::new(Mutex::new(manners.iter().copied().collect())), usual, sink };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let router = Router::new().route("/hook", post(take)).with_state(shared);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, received }
    }

    /// The next request; waits for it.
    pub async fn next(&mut self) -> Received {
        let request = tokio::time::timeout(crate::PATIENCE, self.received.recv()).await;
        request.expect("a request comes in time").expect("the stand-in runs as long as the test")
    }

    /// The requests that have come and were not looked at.
    pub fn rest(&mut self) -> usize {
        std::iter::from_fn(|| self.received.try_recv().ok()).count()
    }
}

async fn take(State(shared): State<Shared>, headers: HeaderMap, body: String) -> Response {
    let manner = shared.manners.lock().expect("no test panics with the lock").pop_front().unwrap_or(shared.usual);
    shared.sink.send(Received { headers, body }).expect("the test listens");
    match manner {
        Manner::Status(status) => (StatusCode::from_u16(status).expect("a status"), "invalid_payload").into_response(),
        Manner::Busy(seconds) => (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, seconds.to_string())]).into_response(),
        Manner::Hang => pending().await,
    }
}
