//! The tools an agent may call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One tool, called by the model under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tool {
    /// The name the model writes, such as `lookup` in `Action: lookup[Bela.height]`.
    pub name: String,
    /// What the tool is for; rendered into the prompt by `{tools}`.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments, as MCP has it: an object. Absent means that all are texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// What a call does.
    pub kind: ToolKind,
}

/// What a call of a tool does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "an agent has few tools, and each is read once")]
pub enum ToolKind {
    /// Evaluates an arithmetic expression exactly, inside the sidecar.
    Calculator,
    /// Calls an HTTP service.
    Http(HttpTool),
}

impl ToolKind {
    /// The arguments of a tool without a schema, in the order in which the model writes them. All are texts.
    pub fn argument_names(&self) -> Vec<&str> {
        match self {
            Self::Calculator => self.plain_argument().into_iter().collect(),
            Self::Http(http) => http.parameters.iter().map(|parameter| parameter.name.as_str()).collect(),
        }
    }

    /// The argument whose text alone is the input of a call, for a tool that reads no JSON.
    pub fn plain_argument(&self) -> Option<&'static str> {
        match self {
            Self::Calculator => Some("expression"),
            Self::Http(_) => None,
        }
    }
}

/// An HTTP service as a tool.
///
/// The host is part of the configuration and no argument can change it; redirects to another host are not followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpTool {
    /// Address with placeholders in its path or query, such as `http://facts.agents.svc/{entity}?field={property}`.
    pub url: String,
    /// The HTTP method.
    #[serde(default)]
    pub method: HttpMethod,
    /// The arguments of a call, in the order in which the model writes them.
    #[serde(default)]
    pub parameters: Vec<Parameter>,
    /// What separates two arguments in the model's text; an object of JSON is understood as well.
    #[serde(default = "default_separator")]
    pub argument_separator: String,
    /// A directory whose files are request headers (file name = header, content = value): a mounted Secret.
    /// It is read at every call, so a rotated credential is used at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<String>,
    /// A directory whose files hold certificates in PEM: of the authorities that may have signed the service's
    /// certificate, instead of the public ones. It is read at every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<String>,
    /// Networks that the service may be in, such as `10.0.0.0/8` or `Public`; see [`AllowedNetworks`]. None means any
    /// but the pod's own, its node's and a cloud's metadata.
    ///
    /// [`AllowedNetworks`]: crate::AllowedNetworks
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_networks: Vec<String>,
    /// Calls under way at once; others wait as long as one attempt may take. Absent means 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// When the service is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<CircuitBreaker>,
    /// How long one attempt may take, in milliseconds.
    #[serde(default = "default_timeout")]
    pub timeout_milliseconds: u64,
    /// Further attempts after a failure to connect, a timeout, 429, 502, 503 or 504. Needs `idempotent`.
    #[serde(default)]
    pub retries: u32,
    /// Whether a call may be repeated without harm; true for tools that only read.
    #[serde(default)]
    pub idempotent: bool,
    /// The longest response body that is read, in bytes; a longer one is a tool error.
    #[serde(default = "default_max_response_bytes")]
    pub max_response_bytes: u64,
    /// Which part of the response becomes the observation.
    #[serde(default)]
    pub result: ResultPick,
}

impl HttpTool {
    /// A tool that gets this address; everything else is at its default.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.into(),
            method: HttpMethod::default(),
            parameters: Vec::new(),
            argument_separator: default_separator(),
            headers_from: None,
            authorities_from: None,
            allowed_networks: Vec::new(),
            max_in_flight: None,
            circuit_breaker: None,
            timeout_milliseconds: default_timeout(),
            retries: 0,
            idempotent: false,
            max_response_bytes: default_max_response_bytes(),
            result: ResultPick::default(),
        }
    }
}

/// When a service that keeps failing is left alone for a while: its calls fail at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CircuitBreaker {
    /// Attempts in a row without a connection, without an answer in time, or with status 502, 503 or 504.
    pub failures: u32,
    /// For how long, in milliseconds. Then one call tries. Where it fails, the pause doubles, up to eight times its
    /// length.
    pub pause_milliseconds: u64,
}

/// HTTP methods a tool can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// Every argument has its place in the URL.
    #[default]
    Get,
    /// Arguments without a place in the URL are sent as an object of JSON.
    Post,
}

/// One argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameter {
    /// The argument's name, as it stands in the URL's placeholder or the body.
    pub name: String,
}

/// Which part of a response becomes the observation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResultPick {
    /// The whole body as text.
    #[default]
    Text,
    /// The value at this JSON Pointer (RFC 6901), such as `/value`; the empty pointer is the whole document.
    JsonPointer(String),
}

fn default_separator() -> String {
    ".".into()
}

fn default_timeout() -> u64 {
    5_000
}

fn default_max_response_bytes() -> u64 {
    64 * 1024
}
