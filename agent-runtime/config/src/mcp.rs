//! Servers of the Model Context Protocol, whose tools an agent may call.

use serde::{Deserialize, Serialize};

use crate::CircuitBreaker;

/// A server of tools, at an address that speaks MCP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpServer {
    /// The server's name, in messages to people.
    pub name: String,
    /// The address of its one endpoint.
    pub url: String,
    /// The socket that a server of the pod's own is at. The host of `url` is asked for by name alone then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// What the names of its tools begin with, for the model; may be empty.
    pub prefix: String,
    /// The tools that the model may call, by the server's names. None means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// A directory whose files are request headers, as an HTTP tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<String>,
    /// A directory with certificates in PEM, as an HTTP tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<String>,
    /// Networks that the server may be in, as an HTTP tool has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_networks: Vec<String>,
    /// Calls in flight of all its tools together. Absent means 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// When the server is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<CircuitBreaker>,
    /// How long one attempt may take, in milliseconds.
    pub timeout_milliseconds: u64,
    /// Whether a tool may be called again that the server says only reads, or may be repeated.
    #[serde(default)]
    pub trust_annotations: bool,
    /// Further attempts with such tools, as an HTTP tool has them. Needs `trustAnnotations`.
    #[serde(default)]
    pub retries: u32,
}

impl McpServer {
    /// A server at this address; its tools' names begin with its own.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            socket: None,
            prefix: format!("{name}_"),
            tools: Vec::new(),
            headers_from: None,
            authorities_from: None,
            allowed_networks: Vec::new(),
            max_in_flight: None,
            circuit_breaker: None,
            timeout_milliseconds: 10_000,
            trust_annotations: false,
            retries: 0,
        }
    }
}
