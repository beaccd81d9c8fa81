//! The agent: its instructions, its tools, and the limits of a run.

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use slipway_vocabulary::ToolCallDialect;

use crate::{
    v1alpha1::shared::{ContainerResources, LocalObjectReference},
    values::{DurationText, Penalty, Temperature, TopP},
};

/// The agent that the sidecar runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.promptTemplate) || !has(self.toolCallDialect) || self.toolCallDialect == 'ReAct'")
    .message("promptTemplate writes ReAct transcripts: remove it, so that the checkpoint's chat template is used, or \
        remove toolCallDialect").field_path(".toolCallDialect"))]
pub struct Agent {
    /// Instructions at the start of every conversation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub system_prompt: String,
    /// Template of the text that the model receives. It has the placeholders `{systemPrompt}`, `{tools}` and either
    /// `{messages}` (the whole conversation) or `{question}` (the last message). Absent means the chat template of the
    /// checkpoint where it has one, and the plain ReAct transcript where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub prompt_template: Option<String>,
    /// How the model writes its calls of tools and its thoughts. Absent means that the checkpoint's chat template
    /// tells. `ReAct` means the plain ReAct transcript, whatever the checkpoint has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_dialect: Option<ToolCallDialect>,
    /// How tokens are chosen, where a request does not say. Absent means the likeliest token. A model of Triton's must
    /// have an input for each part that is set: without one its pods do not become ready, and say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// Tools that the model may call.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tools: Vec<Tool>,
    /// Maximum number of model requests in one run.
    #[serde(default = "default_max_steps")]
    #[schemars(range(min = 1, max = 64))]
    pub max_steps: i32,
    /// Maximum number of tokens that one model request may generate.
    #[serde(default = "default_max_output_tokens")]
    #[schemars(range(min = 1, max = 32768))]
    pub max_output_tokens: i32,
    /// Time limit of a run.
    #[serde(default = "default_run_timeout")]
    pub run_timeout: DurationText,
}

/// How tokens are chosen. A request may say otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    /// Temperature, from `0` to `2`. `0` takes the likeliest token always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Temperature>,
    /// Probability that the candidates have together, above `0` and up to `1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<TopP>,
    /// Number of candidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000000))]
    pub top_k: Option<i32>,
    /// Penalty of tokens that were written before, from `-2` to `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<Penalty>,
    /// Penalty of tokens for each time that they were written before, from `-2` to `2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<Penalty>,
    /// Seed: the same one gives the same answer, as far as the engine keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub seed: Option<i32>,
}

/// One tool, or the tools of one MCP server: its type, and the block of that name in lowercase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(self.type == 'HTTP') == has(self.http)")
        .message("http is required for a tool of type HTTP and allowed for no other").field_path(".http"),
    validation = Rule::new("(self.type == 'MCP') == has(self.mcp)")
        .message("mcp is required for a tool of type MCP and allowed for no other").field_path(".mcp"),
    validation = Rule::new("self.type != 'MCP' || !has(self.description)")
        .message("tools of an MCP server are described by the server: remove description").field_path(".description"),
    validation = Rule::new("!has(self.inputSchema) || self.type == 'HTTP'")
        .message("inputSchema is for a tool of type HTTP: remove it, as other tools have arguments of their own")
        .field_path(".inputSchema"),
    validation = Rule::new("!has(self.inputSchema) || !has(self.http) || size(self.http.arguments) == 0")
        .message("inputSchema names the arguments already: remove http.arguments").field_path(".inputSchema"),
    validation = Rule::new("self.type != 'Calculator' || !(has(self.maxInFlight) || has(self.circuitBreaker))")
        .message("maxInFlight and circuitBreaker are for tools that call a service: remove them from a Calculator")
)]
pub struct Tool {
    /// Name by which the model calls the tool. Names of an MCP server's tools begin with it.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z][a-z0-9_]*$"))]
    pub name: String,
    /// Description of the tool for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub description: String,
    /// JSON Schema of the arguments, as in MCP: `type: object` with `properties`. The model sees it, and calls that do
    /// not fit it are not made. Absent means the texts that `http.arguments` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "input_schema")]
    pub input_schema: Option<serde_json::Value>,
    /// Type of the tool.
    #[serde(rename = "type")]
    pub kind: ToolType,
    /// Settings of a tool of type HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTool>,
    /// Settings of a tool of type MCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<McpServer>,
    /// Time limit of one call.
    #[serde(default = "default_tool_timeout")]
    pub timeout: DurationText,
    /// Maximum number of calls of one pod in flight. Others wait as long as `timeout`; then they fail, and the model
    /// reads that the tool is busy. Absent means 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1024))]
    pub max_in_flight: Option<i32>,
    /// When a pod leaves the service alone: its calls then fail at once, and the model reads why. Absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_breaker: Option<CircuitBreaker>,
}

/// When a service that keeps failing is left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CircuitBreaker {
    /// Number of attempts in a row that have no connection, no answer in time, or status 502, 503 or 504.
    #[serde(default = "default_failures")]
    #[schemars(range(min = 1, max = 1000))]
    pub failures: i32,
    /// For how long it is left alone. Then one call tries. If it fails, the pause doubles, up to eight times its
    /// length.
    #[serde(default = "default_pause")]
    pub pause: DurationText,
}

/// Types of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ToolType {
    /// Exact arithmetic, inside the sidecar.
    Calculator,
    /// An HTTP service.
    HTTP,
    /// A server of the Model Context Protocol, with any number of tools.
    MCP,
}

/// A tool behind an HTTP service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.retries == 0 || self.idempotent")
    .message("retries require idempotent: true, because a retried call may run twice").field_path(".retries"))]
pub struct HttpTool {
    /// URL to call. `{argument}` inserts an argument of the call. It is percent-encoded, so that it can change
    /// neither host nor path.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s]+$"))]
    pub url: String,
    /// HTTP method. With POST, arguments without a placeholder in the URL are sent as a JSON object.
    #[serde(default)]
    pub method: HttpMethod,
    /// Names of the arguments, in the order in which the model writes them.
    #[serde(default)]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 63), regex(pattern = r"^[a-zA-Z][a-zA-Z0-9_]*$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub arguments: Vec<String>,
    /// Secret with headers for every call: its keys are header names. Only the serving pod reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<LocalObjectReference>,
    /// ConfigMap with certificates in PEM of the authorities that sign the service's certificate, under any keys. The
    /// public authorities are then not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<LocalObjectReference>,
    /// Networks that the service may be in, each such as `10.0.0.0/8`, or `Public` for all addresses of the internet.
    /// Absent means any, but for loopback, link-local, multicast and unspecified addresses, and those of clouds'
    /// metadata. Every address of the host is checked before it is called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub allowed_networks: Vec<String>,
    /// Maximum number of retries of a failed call. Requires `idempotent: true`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    pub retries: i32,
    /// Whether a repeated call does no harm.
    #[serde(default)]
    pub idempotent: bool,
    /// Location of the result in a JSON response, as a JSON Pointer such as `/value`. Absent means the whole body as
    /// text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = r"^(/.*)?$"))]
    pub result_pointer: Option<String>,
}

/// Tools of a server that speaks the Model Context Protocol, over HTTP or in a container of each pod. Pods become ready
/// when they know its tools, and follow its changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.retries == 0 || self.trustAnnotations")
        .message("retries require trustAnnotations: true, because only the server says which of its tools may be called \
            twice")
        .field_path(".retries"),
    validation = Rule::new("has(self.url) != has(self.stdio)")
        .message("an MCP server is in one place: set exactly one of url and stdio"),
    validation = Rule::new(
        "has(self.url) || !(has(self.headersFrom) || has(self.authoritiesFrom) || has(self.allowedNetworks))")
        .message("headersFrom, authoritiesFrom and allowedNetworks are for the server of url: remove them, or use \
            stdio.environmentFrom for keys")
)]
pub struct McpServer {
    /// URL of the server's endpoint, such as `http://tools.shop.svc/mcp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s]+$"))]
    pub url: Option<String>,
    /// Program that is the server, on its standard input and output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdio: Option<StdioServer>,
    /// What the names of its tools begin with, for the model. Absent means the entry's name and `_`; empty means
    /// nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = r"^([a-zA-Z][a-zA-Z0-9_-]*)?$"))]
    pub prefix: Option<String>,
    /// Tools that the model may call, by the server's names. Absent means all that can be used. Without one that is
    /// named here no pod becomes ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        inner(length(min = 1, max = 128)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub tools: Vec<String>,
    /// Secret with headers for every request: its keys are header names. Only the serving pod reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<LocalObjectReference>,
    /// ConfigMap with certificates in PEM of the authorities that sign the server's certificate, under any keys. The
    /// public authorities are then not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<LocalObjectReference>,
    /// Networks that the server may be in, as `http.allowedNetworks` has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub allowed_networks: Vec<String>,
    /// Whether the server's annotations `readOnlyHint` and `idempotentHint` count: a repeated call of such a tool does
    /// no harm.
    #[serde(default)]
    pub trust_annotations: bool,
    /// Maximum number of retries of a failed call of such a tool. Requires `trustAnnotations: true`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    pub retries: i32,
}

/// An MCP server on standard input and output. It runs in a container of its own in each pod, and is started again when
/// it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StdioServer {
    /// Image with the program. It runs as user 65532, and may write to `/tmp`.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Program and its arguments, instead of the image's entry point.
    #[schemars(length(min = 1, max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Secret whose keys are environment variables of the program. Only this container reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_from: Option<LocalObjectReference>,
    /// Resources of the container.
    #[serde(default)]
    pub resources: ContainerResources,
}

/// HTTP methods of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum HttpMethod {
    /// Arguments are part of the URL.
    #[default]
    GET,
    /// Arguments without a placeholder in the URL are sent in the body.
    POST,
}

/// Any object: what of it is not supported is told by the condition `Stalled`, with its path.
fn input_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true })
}

fn default_max_steps() -> i32 {
    8
}

fn default_max_output_tokens() -> i32 {
    256
}

fn default_run_timeout() -> DurationText {
    "60s".parse().expect("a constant that is a duration")
}

fn default_failures() -> i32 {
    5
}

fn default_pause() -> DurationText {
    "30s".parse().expect("a constant that is a duration")
}

fn default_tool_timeout() -> DurationText {
    "10s".parse().expect("a constant that is a duration")
}
