//! The program as a server over HTTP. IO.

use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    sync::{Arc, atomic::Ordering},
};

use async_stream::stream;
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use futures::{Stream, StreamExt};
use serde_json::json;

use crate::ordered_value::{OrderedMap, OrderedValue};

use super::peer::{Gone, Peer};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;

#[derive(Clone)]
struct Shared {
    peer: Arc<Peer>,
    /// Names this run of the program: what was agreed on with another one counts no more.
    session: Arc<str>,
}

/// The one endpoint.
pub(super) fn router(peer: Arc<Peer>) -> Router {
    let session = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let shared = Shared { peer, session: session.into() };
    Router::new().route("/mcp", post(take).get(announce)).with_state(shared)
}

/// A message of the client's.
async fn take(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let Ok(message) = serde_json::from_slice::<OrderedMap>(&body) else {
        return refusal(StatusCode::BAD_REQUEST, INVALID_REQUEST, "the body is not a message of JSON-RPC");
    };
    if !shared.knows(&headers) {
        return refusal(StatusCode::NOT_FOUND, INVALID_REQUEST, "the session has ended");
    }
    let method = message.get("method").and_then(OrderedValue::as_str).unwrap_or_default().to_owned();
    let id = message.get("id").cloned();
    match (method.as_str(), id) {
        ("initialize", Some(id)) => shared.shake_hands(id, message).await,
        ("subscriptions/listen", Some(id)) => events(shared.subscribe(id, message)),
        ("server/discover", Some(id)) => match shared.peer.discover(message).await {
            Some(response) => answer(id, response),
            None => refusal(StatusCode::OK, METHOD_NOT_FOUND, "the server does not say which revisions it knows"),
        },
        ("", _) => StatusCode::ACCEPTED.into_response(),
        (_, Some(id)) => answer(id, shared.peer.ask(message).await),
        // Cancelled is what nobody waits for.
        ("notifications/cancelled", None) => StatusCode::ACCEPTED.into_response(),
        ("notifications/initialized", None) if shared.peer.is_initialized.swap(true, Ordering::Relaxed) => {
            StatusCode::ACCEPTED.into_response()
        }
        (_, None) => match shared.peer.tell(message).await {
            Ok(()) => StatusCode::ACCEPTED.into_response(),
            Err(Gone) => gone(),
        },
    }
}

/// The stream of what the program says by itself.
async fn announce(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if !shared.knows(&headers) {
        return refusal(StatusCode::NOT_FOUND, INVALID_REQUEST, "the session has ended");
    }
    let mut said = shared.peer.listen();
    events(stream! {
        while let Ok(message) = said.recv().await {
            yield message.to_string();
        }
    })
}

impl Shared {
    /// Whether a request belongs to this run of the program, as far as it says.
    fn knows(&self, headers: &HeaderMap) -> bool {
        headers.get(SESSION).is_none_or(|session| session.as_bytes() == self.session.as_bytes())
    }

    /// A session that is this run of the program.
    async fn shake_hands(&self, id: OrderedValue, request: OrderedMap) -> Response {
        let response = self.peer.shake_hands(request).await;
        ([(SESSION, self.session.to_string())], answer(id, response)).into_response()
    }

    /// What the program says by itself, and at last the end of the subscription.
    fn subscribe(self, id: OrderedValue, request: OrderedMap) -> impl Stream<Item = String> + Send {
        let mut said = self.peer.listen();
        stream! {
            let peer = Arc::clone(&self.peer);
            let mut asked = Box::pin(peer.ask(request));
            loop {
                tokio::select! {
                    message = said.recv() => match message {
                        Ok(message) => yield message.to_string(),
                        Err(_) => return,
                    },
                    response = &mut asked => {
                        if let Ok(response) = response {
                            yield with_id(id, response).to_string();
                        }
                        return;
                    }
                }
            }
        }
    }
}

fn events(messages: impl Stream<Item = String> + Send + 'static) -> Response {
    let events = messages.map(|message| Ok::<_, Infallible>(format!("data: {message}\n\n")));
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response()
}

fn answer(id: OrderedValue, response: Result<OrderedMap, Gone>) -> Response {
    match response {
        Ok(response) => json_response(StatusCode::OK, &with_id(id, response)),
        Err(Gone) => gone(),
    }
}

fn with_id(id: OrderedValue, mut response: OrderedMap) -> OrderedValue {
    response.insert("jsonrpc", json!("2.0").into());
    response.insert("id", id);
    OrderedValue::Object(response)
}

fn gone() -> Response {
    refusal(StatusCode::BAD_GATEWAY, INVALID_REQUEST, "the server has ended")
}

fn refusal(status: StatusCode, code: i64, message: &str) -> Response {
    json_response(status, &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": code, "message": message } }))
}

fn json_response(status: StatusCode, body: &impl ToString) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
