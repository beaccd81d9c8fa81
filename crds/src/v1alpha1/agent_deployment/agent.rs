//! The agent: what it is told, which tools it has and how far it may go.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{v1alpha1::shared::LocalObjectReference, values::DurationText};

/// The agent that the sidecar runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Instruction that precedes every conversation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub system_prompt: String,
    /// Template of the text that the model receives, with the placeholders `{systemPrompt}`, `{tools}` and either `{messages}`
    /// (the whole conversation) or `{question}` (the last message); absent means the plain ReAct transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub prompt_template: Option<String>,
    /// The tools that the model may call.
    #[serde(default)]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tools: Vec<Tool>,
    /// Calls to the model in one run, at most.
    #[serde(default = "default_max_steps")]
    #[schemars(range(min = 1, max = 64))]
    pub max_steps: i32,
    /// Tokens that one call to the model may write, at most.
    #[serde(default = "default_max_output_tokens")]
    #[schemars(range(min = 1, max = 32768))]
    pub max_output_tokens: i32,
    /// Time in which a run must have answered.
    #[serde(default = "default_run_timeout")]
    pub run_timeout: DurationText,
}

/// One tool: its type by name, and the block of that name in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.type == 'HTTP') == has(self.http)")
    .message("http is required for a tool of type HTTP and allowed for no other").field_path(".http"))]
pub struct Tool {
    /// Name by which the model calls the tool.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z][a-z0-9_]*$"))]
    pub name: String,
    /// What the tool does, for the model to read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub description: String,
    /// The kind of tool.
    #[serde(rename = "type")]
    pub kind: ToolType,
    /// Calls an HTTP service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTool>,
    /// Time in which one call must have answered.
    #[serde(default = "default_tool_timeout")]
    pub timeout: DurationText,
}

/// The kinds of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ToolType {
    /// Exact arithmetic, inside the sidecar.
    Calculator,
    /// An HTTP service.
    HTTP,
}

/// A tool behind an HTTP service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.retries == 0 || self.idempotent")
    .message("retries need idempotent: true, for a call that is tried again may be made twice").field_path(".retries"))]
pub struct HttpTool {
    /// URL to call. `{argument}` names an argument of the call; it is escaped, so that it can change neither host nor path.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s]+$"))]
    pub url: String,
    /// Method. With POST, arguments without a place in the URL are sent as a JSON object.
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
    /// Secret whose keys are header names and whose values are sent with every call. Only the serving pod reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<LocalObjectReference>,
    /// Times that a failed call is tried again; needs `idempotent`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    pub retries: i32,
    /// Whether a second call does no harm.
    #[serde(default)]
    pub idempotent: bool,
    /// Where in a JSON response the answer stands, as a JSON Pointer such as `/value`; absent means the whole body as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), regex(pattern = r"^(/.*)?$"))]
    pub result_pointer: Option<String>,
}

/// HTTP methods of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum HttpMethod {
    /// Arguments stand in the URL.
    #[default]
    GET,
    /// Arguments without a place in the URL stand in the body.
    POST,
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

fn default_tool_timeout() -> DurationText {
    "10s".parse().expect("a constant that is a duration")
}
