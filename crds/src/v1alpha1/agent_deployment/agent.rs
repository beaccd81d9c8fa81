//! The agent: its instructions, its tools, and the limits of a run.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{v1alpha1::shared::LocalObjectReference, values::DurationText};

/// The agent that the sidecar runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Instructions at the start of every conversation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 16384))]
    pub system_prompt: String,
    /// Template of the text that the model receives. It has the placeholders `{systemPrompt}`, `{tools}` and either
    /// `{messages}` (the whole conversation) or `{question}` (the last message). Absent means the plain ReAct
    /// transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub prompt_template: Option<String>,
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

/// One tool: its type, and the block of that name in lowercase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(self.type == 'HTTP') == has(self.http)")
    .message("http is required for a tool of type HTTP and allowed for no other").field_path(".http"))]
pub struct Tool {
    /// Name by which the model calls the tool.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z][a-z0-9_]*$"))]
    pub name: String,
    /// Description of the tool for the model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub description: String,
    /// Type of the tool.
    #[serde(rename = "type")]
    pub kind: ToolType,
    /// Settings of a tool of type HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTool>,
    /// Time limit of one call.
    #[serde(default = "default_tool_timeout")]
    pub timeout: DurationText,
}

/// Types of tools.
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
