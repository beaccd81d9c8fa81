//! A server of MCP, as an agent uses it: which revision it speaks, what it has, and calls of its tools. IO.

use std::sync::{Arc, PoisonError, RwLock};

use reqwest::header::HeaderValue;
use serde_json::json;
use slipway_runtime_config::McpServer as Config;
use tokio::sync::{Mutex, mpsc};

use crate::{
    ordered_value::OrderedValue,
    outbound::Lookup,
    tools::{
        registry::Request,
        service::{self, PrepareServiceError, Service, Settings},
    },
};

use super::{
    client::{Abandoned, Client, Question, Speech, not_mcp},
    content::{self, Outcome},
    error::McpError,
    listing::{Choice, Listing, Remote},
    message::{self, MODERN, WITH_HANDSHAKE},
};

/// Requests that were given up, and that wait to be cancelled at the server.
const MAX_ABANDONED: usize = 64;
/// Pages of a list of tools.
const MAX_PAGES: usize = 64;
/// Characters of a result: as many as an HTTP tool's answer may have.
const MAX_RESULT_BYTES: usize = 64 * 1024;

/// A server whose tools an agent may call.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) name: String,
    prefix: String,
    only: Vec<String>,
    trusts_annotations: bool,
    attempts: u32,
    pub(super) client: Client,
    /// What was found out of the server. Who finds out holds it; the others wait.
    connection: Mutex<Option<Arc<Connection>>>,
    pub(super) abandoned: Mutex<mpsc::Receiver<Abandoned>>,
    pub(super) listed: RwLock<Listed>,
}

/// What is known of a server's tools.
#[derive(Clone, Debug)]
pub(super) enum Listed {
    /// Nothing, and why.
    Never(String),
    /// As they were last.
    Last(Arc<Listing>),
}

/// How a server is spoken to, and what it does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) speech: Speech,
    /// Whether it says when its list of tools changes.
    pub(super) announces_changes: bool,
}

impl Server {
    pub(crate) fn new(config: &Config, lookup: &Lookup) -> Result<Self, PrepareServiceError> {
        let Config {
            name,
            url,
            socket,
            prefix,
            tools,
            headers_from,
            authorities_from,
            allowed_networks,
            max_in_flight,
            circuit_breaker,
            timeout_milliseconds,
            trust_annotations,
            retries,
        } = config;
        let service = Service::new(Settings {
            socket: socket.as_deref(),
            headers_from: headers_from.as_deref(),
            authorities_from: authorities_from.as_deref(),
            allowed_networks,
            max_in_flight: *max_in_flight,
            circuit_breaker: *circuit_breaker,
            timeout_milliseconds: *timeout_milliseconds,
            lookup,
        })?;
        let (abandoned, of_abandoned) = mpsc::channel(MAX_ABANDONED);
        Ok(Self {
            name: name.clone(),
            prefix: prefix.clone(),
            only: tools.clone(),
            trusts_annotations: *trust_annotations,
            attempts: 1 + retries,
            client: Client::new(service, url.clone(), abandoned),
            connection: Mutex::default(),
            abandoned: Mutex::new(of_abandoned),
            listed: RwLock::new(Listed::Never("they were not asked for yet".to_owned())),
        })
    }

    /// Its tools as they were last.
    ///
    /// # Errors
    /// Why they are not known, in words for people.
    pub(crate) fn listing(&self) -> Result<Arc<Listing>, String> {
        match &*self.listed.read().unwrap_or_else(PoisonError::into_inner) {
            Listed::Never(why) => Err(format!("the tools of the MCP server {:?} are not known: {why}", self.name)),
            Listed::Last(listing) => Ok(Arc::clone(listing)),
        }
    }

    /// The server's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls a tool with what the model wrote.
    pub(crate) async fn call(&self, tool: &Remote, request: Request<'_>) -> Result<String, McpError> {
        let Request { name: _, input, trace, until } = request;
        let arguments = tool.arguments(input).map_err(|problem| McpError::Arguments { problem })?;
        let attempts = if tool.is_repeatable { self.attempts } else { 1 };
        let ask = || async {
            let question = Question {
                method: "tools/call",
                params: message::object(json!({ "name": tool.name, "arguments": arguments })),
                name: Some(&tool.name),
                mirrored: tool.mirrored.iter().filter_map(|mirrored| mirrored.header(&arguments)).collect(),
                trace,
            };
            self.ask(question).await
        };
        let service = &self.client.service;
        let result = service.repeat(attempts, until, || service.attempt(ask())).await?;
        match content::read(&result) {
            Outcome::Result(text) if text.len() > MAX_RESULT_BYTES => {
                let limit = u64::try_from(MAX_RESULT_BYTES).unwrap_or(u64::MAX);
                Err(McpError::Service(service::ServiceError::TooLong { limit }))
            }
            Outcome::Result(text) => Ok(text),
            Outcome::Failed(text) => Err(McpError::Tool { text: shortened(text) }),
            Outcome::InputRequired => Err(McpError::InputRequired),
            Outcome::Unknown => Err(not_mcp("its kind of result is not known")),
        }
    }

    /// Asks for the list of tools, page by page.
    pub(super) async fn list(&self) -> Result<Listing, McpError> {
        let mut pages: Vec<OrderedValue> = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let question = Question { method: "tools/list", params: message::object(params), ..Question::default() };
            let page = self.client.service.attempt(self.ask(question)).await?;
            let next = page.get("nextCursor").and_then(OrderedValue::as_str).map(str::to_owned);
            pages.push(page);
            match next {
                None => return self.read(&pages).await,
                Some(next) if cursor.as_ref() == Some(&next) => break,
                next => cursor = next,
            }
        }
        Err(not_mcp("its list of tools has no end"))
    }

    async fn read(&self, pages: &[OrderedValue]) -> Result<Listing, McpError> {
        let connection = self.connection.lock().await.clone();
        let choice = Choice {
            prefix: &self.prefix,
            only: &self.only,
            trusts_annotations: self.trusts_annotations,
            has_mirrors: connection.is_some_and(|connection| connection.speech == Speech::Modern),
        };
        Listing::read(pages, choice).map_err(McpError::Listing)
    }

    /// Asks, and once more where the server does not know what was agreed on: it has not done anything then.
    async fn ask(&self, question: Question<'_>) -> Result<OrderedValue, McpError> {
        let connection = self.connection().await?;
        match self.client.ask(&connection.speech, question.clone()).await {
            Err(error) if connection.is_forgotten(&error) => {
                tracing::debug!(server = self.name, error = %error, "the MCP server is asked anew how to speak to it");
                self.forget(&connection).await;
                let connection = self.connection().await?;
                self.client.ask(&connection.speech, question).await.map(|reply| reply.result)
            }
            reply => reply.map(|reply| reply.result),
        }
    }

    /// How the server is spoken to. The first who asks finds out.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        let mut known = self.connection.lock().await;
        if let Some(connection) = &*known {
            return Ok(Arc::clone(connection));
        }
        let connection = Arc::new(self.find_out().await?);
        tracing::info!(server = self.name, speech = ?connection.speech, "an MCP server answers");
        *known = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Forgets what was found out, unless somebody has found it out again since.
    pub(super) async fn forget(&self, connection: &Arc<Connection>) {
        let mut known = self.connection.lock().await;
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, connection)) {
            *known = None;
        }
    }

    /// What was found out last.
    pub(super) async fn known_connection(&self) -> Option<Arc<Connection>> {
        self.connection.lock().await.clone()
    }

    /// Tries the revision without a handshake first: a server of an earlier one refuses it in its own way.
    async fn find_out(&self) -> Result<Connection, McpError> {
        let discover = Question { method: "server/discover", ..Question::default() };
        match self.client.ask(&Speech::Modern, discover).await {
            Ok(reply) if speaks_modern(&reply.result) => {
                let announces_changes = message::announces_changes(&reply.result);
                Ok(Connection { speech: Speech::Modern, announces_changes })
            }
            Ok(_) | Err(McpError::NotMcp { .. } | McpError::EndedEarly) => self.shake_hands().await,
            Err(McpError::Refused { error: Some(error), .. }) if error.is_about_versions() => {
                let has_handshake = |version: &String| WITH_HANDSHAKE.contains(&version.as_str());
                match error.versions.iter().any(has_handshake) {
                    true => self.shake_hands().await,
                    false => Err(McpError::Versions { theirs: error.versions.join(", ") }),
                }
            }
            Err(McpError::Refused { status, error, retry_after })
                if says_nothing_of_revisions(status, error.as_ref()) =>
            {
                Err(McpError::Refused { status, error, retry_after })
            }
            Err(McpError::Refused { .. }) => self.shake_hands().await,
            Err(error) => Err(error),
        }
    }

    async fn shake_hands(&self) -> Result<Connection, McpError> {
        let question = Question { method: "initialize", params: message::handshake(), ..Question::default() };
        let reply = self.client.ask(&Speech::Handshake, question).await?;
        let version = reply.result.get("protocolVersion").and_then(OrderedValue::as_str).unwrap_or_default();
        let Some(version) = WITH_HANDSHAKE.into_iter().find(|known| *known == version) else {
            return Err(McpError::Versions { theirs: version.to_owned() });
        };
        let announces_changes = message::announces_changes(&reply.result);
        let speech = Speech::Agreed { version: HeaderValue::from_static(version), session: reply.session };
        self.client.tell(&speech, "notifications/initialized", serde_json::Map::new()).await?;
        Ok(Connection { speech, announces_changes })
    }
}

impl Connection {
    /// Whether a refusal means that the server does not know what was agreed on: a session that has ended, or another
    /// server in its place.
    fn is_forgotten(&self, error: &McpError) -> bool {
        match (&self.speech, error) {
            (Speech::Agreed { session: Some(_), .. }, McpError::Refused { status, .. }) => matches!(status, 400 | 404),
            (Speech::Modern, McpError::Refused { status, error, .. }) => {
                matches!(status, 400 | 404 | 405) && !error.as_ref().is_some_and(message::RpcError::is_modern)
            }
            _ => false,
        }
    }
}

fn speaks_modern(result: &OrderedValue) -> bool {
    let versions = result.get("supportedVersions").and_then(OrderedValue::as_array);
    versions.into_iter().flatten().any(|version| version.as_str() == Some(MODERN))
}

/// A refusal for another reason than the revision: credentials, a limit, a gateway before the server.
fn says_nothing_of_revisions(status: u16, error: Option<&message::RpcError>) -> bool {
    matches!(status, 401 | 403 | 429 | 502..=504) || error.is_some_and(message::RpcError::is_modern)
}

/// As much of a tool's error as a result may have.
fn shortened(text: String) -> String {
    if text.is_empty() {
        return "the tool failed, and does not say why".to_owned();
    }
    if text.len() <= MAX_RESULT_BYTES {
        return text;
    }
    let end = (0..=MAX_RESULT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{} (cut off)", &text[..end])
}
