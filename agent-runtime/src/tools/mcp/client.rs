//! Requests to a server of MCP, and their answers, over HTTP. IO.
//!
//! Each request is a POST of its own; its answer is a body of JSON or a stream of events. Dropping a request closes its
//! connection: that cancels it with the revision without a handshake. With earlier ones the server is told.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use reqwest::{
    Client as Http, Method, RequestBuilder, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, mpsc};

use crate::{
    events::Events,
    ordered_value::OrderedValue,
    outbound::{pause, retry_after},
    tools::service::{self, Service, ServiceError},
    trace_context::TraceContext,
};

use super::{
    error::McpError,
    message::{self, LIST_CHANGED, MODERN, Message},
    mirror::encoded,
};

/// Most bytes of an answer: results are for a model's context.
const MAX_ANSWER_BYTES: u64 = 4 * 1024 * 1024;
/// Most bytes of a refusal.
const MAX_REFUSAL_BYTES: u64 = 64 * 1024;
/// How often an answer's stream is taken up again that a server has interrupted.
const MAX_RESUMPTIONS: u32 = 16;
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// How a server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Speech {
    /// Every request says everything.
    Modern,
    /// A handshake begins.
    Handshake,
    /// What a handshake has agreed on.
    Agreed {
        /// The revision.
        version: HeaderValue,
        /// The server's name of the session, if it has sessions.
        session: Option<HeaderValue>,
    },
}

/// A request.
#[derive(Clone, Debug, Default)]
pub(super) struct Question<'a> {
    pub(super) method: &'static str,
    pub(super) params: Map<String, Value>,
    /// The tool that it names.
    pub(super) name: Option<&'a str>,
    /// Arguments that are repeated in headers.
    pub(super) mirrored: Vec<(HeaderName, HeaderValue)>,
    /// The span that it is answered in.
    pub(super) trace: Option<&'a TraceContext>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) result: OrderedValue,
    /// The session that begins with it.
    pub(super) session: Option<HeaderValue>,
}

/// A request that nobody waits for any more.
#[derive(Debug)]
pub(super) struct Abandoned {
    speech: Speech,
    id: u64,
}

/// Asks one server.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) service: Service,
    url: String,
    ids: AtomicU64,
    abandoned: mpsc::Sender<Abandoned>,
    /// Told when the server says that its list of tools has changed.
    pub(super) changed: Arc<Notify>,
}

/// Tells when a request is dropped before its answer.
struct Open<'a> {
    abandoned: &'a mpsc::Sender<Abandoned>,
    request: Option<Abandoned>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take()
            && let Err(error) = self.abandoned.try_send(request)
        {
            // Of many that hang at one server, it is not told of all.
            tracing::debug!(%error, "an MCP server is not told of a call that was given up");
        }
    }
}

impl Client {
    pub(super) fn new(service: Service, url: String, abandoned: mpsc::Sender<Abandoned>) -> Self {
        Self { service, url, ids: AtomicU64::new(1), abandoned, changed: Arc::default() }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, speech: &Speech, question: Question<'_>) -> Result<Reply, McpError> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let is_told = matches!(speech, Speech::Agreed { .. });
        let request = is_told.then(|| Abandoned { speech: speech.clone(), id });
        let mut open = Open { abandoned: &self.abandoned, request };
        let reply = self.exchange(speech, id, question).await;
        open.request = None;
        reply
    }

    async fn exchange(&self, speech: &Speech, id: u64, question: Question<'_>) -> Result<Reply, McpError> {
        let response = self.post(speech, id, question).await?;
        let session = response.headers().get(SESSION).cloned();
        let result = if is_stream(&response) {
            self.follow(speech, id, response).await?
        } else {
            let body = service::read(response, MAX_ANSWER_BYTES).await?;
            self.find(speech, id, &body).await?.ok_or_else(|| not_mcp("it has no response to the request"))?
        };
        Ok(Reply { result, session })
    }

    /// Sends what wants no answer.
    pub(super) async fn tell(
        &self,
        speech: &Speech,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<(), McpError> {
        self.send(speech, message::notification(method, params)).await
    }

    /// Says that nobody waits for an answer any more.
    pub(super) async fn tell_abandoned(&self, Abandoned { speech, id }: Abandoned) -> Result<(), McpError> {
        let params = message::object(json!({ "requestId": id, "reason": "the call was given up" }));
        self.tell(&speech, "notifications/cancelled", params).await
    }

    /// Ends a session.
    pub(super) async fn leave(&self, speech: &Speech) -> Result<(), McpError> {
        let Speech::Agreed { session: Some(_), .. } = speech else { return Ok(()) };
        let request = self.request(Method::DELETE, speech, BOTH).await?;
        service::send(request).await.map(|_| ()).map_err(McpError::Service)
    }

    /// Opens the stream on which a server says that its list has changed, if it has one.
    pub(super) async fn open_announcements(&self, speech: &Speech) -> Result<Response, McpError> {
        let response = match speech {
            Speech::Modern => {
                let params = message::object(json!({ "notifications": { "toolsListChanged": true } }));
                let question = Question { method: "subscriptions/listen", params, ..Question::default() };
                self.post(speech, self.ids.fetch_add(1, Ordering::Relaxed), question).await?
            }
            Speech::Handshake | Speech::Agreed { .. } => {
                let request = self.request(Method::GET, speech, STREAM).await?;
                accepted(service::send(request).await?).await?
            }
        };
        if is_stream(&response) { Ok(response) } else { Err(not_mcp("announcements are no stream of events")) }
    }

    /// Reads announcements until the list has changed, or the stream ends.
    pub(super) async fn until_changed(&self, speech: &Speech, mut response: Response) -> Result<(), McpError> {
        let mut events = Events::default();
        while let Some(chunk) = response.chunk().await.map_err(service::broken)? {
            for data in events.push(&chunk).map_err(|error| not_mcp(&error.to_string()))? {
                for message in message::read(&data).unwrap_or_default() {
                    match message {
                        Message::Notification { method } if method == LIST_CHANGED => return Ok(()),
                        Message::Request { id, method } => self.answer(speech, &id, &method).await?,
                        Message::Notification { .. } | Message::Response { .. } => {}
                    }
                }
            }
        }
        Err(McpError::EndedEarly)
    }

    async fn post(&self, speech: &Speech, id: u64, question: Question<'_>) -> Result<Response, McpError> {
        let Question { method, mut params, name, mirrored, trace } = question;
        let mut request = self.request(Method::POST, speech, BOTH).await?;
        if *speech == Speech::Modern {
            params.insert("_meta".to_owned(), message::meta());
            request = request.header(METHOD, method);
            if let Some(name) = name {
                request = request.header(NAME, encoded(name));
            }
            request = request.headers(HeaderMap::from_iter(mirrored));
        }
        if let Some(trace) = trace {
            let mut headers = HeaderMap::new();
            trace.write(&mut headers);
            request = request.headers(headers);
            message::add_trace(&mut params, trace);
        }
        let request = request.header(CONTENT_TYPE, JSON).body(message::request(id, method, params));
        accepted(service::send(request).await?).await
    }

    async fn send(&self, speech: &Speech, body: String) -> Result<(), McpError> {
        let request = self.request(Method::POST, speech, BOTH).await?.header(CONTENT_TYPE, JSON).body(body);
        accepted(service::send(request).await?).await.map(|_| ())
    }

    /// Answers a server's question, so that it does not take us for gone.
    async fn answer(&self, speech: &Speech, id: &Value, method: &str) -> Result<(), McpError> {
        match speech {
            Speech::Agreed { .. } => self.send(speech, message::answer(id, method)).await,
            // Servers of the revision without a handshake ask nothing.
            Speech::Modern | Speech::Handshake => Ok(()),
        }
    }

    /// A request with the headers of the Secret and of the protocol.
    async fn request(
        &self,
        method: Method,
        speech: &Speech,
        accept: HeaderValue,
    ) -> Result<RequestBuilder, ServiceError> {
        let client: Http = self.service.client().await?;
        let mut headers = self.service.headers().await?;
        headers.insert(ACCEPT, accept);
        match speech {
            Speech::Modern => {
                headers.insert(VERSION, HeaderValue::from_static(MODERN));
            }
            Speech::Handshake => {}
            Speech::Agreed { version, session } => {
                headers.insert(VERSION, version.clone());
                if let Some(session) = session {
                    headers.insert(SESSION, session.clone());
                }
            }
        }
        Ok(client.request(method, &self.url).headers(headers))
    }

    /// Follows the stream of an answer to its response. Earlier revisions let a server interrupt it.
    async fn follow(&self, speech: &Speech, id: u64, mut response: Response) -> Result<OrderedValue, McpError> {
        let mut events = Events::default();
        let mut left = MAX_ANSWER_BYTES;
        for _ in 0..=MAX_RESUMPTIONS {
            while let Some(chunk) = response.chunk().await.map_err(service::broken)? {
                let too_long = ServiceError::TooLong { limit: MAX_ANSWER_BYTES };
                left = u64::try_from(chunk.len()).ok().and_then(|read| left.checked_sub(read)).ok_or(too_long)?;
                for data in events.push(&chunk).map_err(|error| not_mcp(&error.to_string()))? {
                    if !data.is_empty()
                        && let Some(result) = self.find(speech, id, &data).await?
                    {
                        return Ok(result);
                    }
                }
            }
            let last = events.last_id().and_then(|last| HeaderValue::from_str(last).ok());
            let (Speech::Agreed { .. }, Some(last)) = (speech, last) else { break };
            tokio::time::sleep(events.retry().unwrap_or(pause(1, id))).await;
            let request = self.request(Method::GET, speech, STREAM).await?.header(LAST_EVENT, last);
            response = accepted(service::send(request).await?).await?;
        }
        Err(McpError::EndedEarly)
    }

    /// Finds the response in a body or an event, and does what other messages ask for.
    async fn find(&self, speech: &Speech, id: u64, bytes: &[u8]) -> Result<Option<OrderedValue>, McpError> {
        let mut found = None;
        for message in message::read(bytes).map_err(|error| not_mcp(&error.to_string()))? {
            match message {
                Message::Response { id: of, outcome: Ok(result) } if of == id => found = Some(result),
                Message::Response { id: of, outcome: Err(error) } if of == id || of.is_null() => {
                    return Err(McpError::Refused { status: 200, error: Some(error), retry_after: None });
                }
                Message::Request { id, method } => self.answer(speech, &id, &method).await?,
                Message::Notification { method } if method == LIST_CHANGED => self.changed.notify_one(),
                Message::Response { .. } | Message::Notification { .. } => {}
            }
        }
        Ok(found)
    }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// An answer with a status of success; of any other, what the server says.
async fn accepted(response: Response) -> Result<Response, McpError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = retry_after::read(response.headers(), jiff::Timestamp::now());
    let body = service::read(response, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let errors = message::read(&body).unwrap_or_default().into_iter().find_map(|message| match message {
        Message::Response { outcome, .. } => outcome.err(),
        Message::Request { .. } | Message::Notification { .. } => None,
    });
    Err(McpError::Refused { status: status.as_u16(), error: errors, retry_after })
}

pub(super) fn not_mcp(problem: &str) -> McpError {
    McpError::NotMcp { problem: problem.to_owned() }
}
