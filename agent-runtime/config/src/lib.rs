//! The configuration file of the agent runtime: what the operator writes into a ConfigMap and the sidecar reads at its
//! start. The sidecar reads its objectives and rates again whenever it changes. The crate also names the counters that
//! the sidecar exports and that the operator's alerting rules read.
//!
//! JSON, camelCase, integers with their unit in the name. Unknown fields are refused, so that a misspelt or newer field
//! never goes unnoticed. [`RuntimeConfig::from_json`] reads and validates; [`RuntimeConfig::validate`] is for writers.
//! Everything here is pure: no file, clock or network.

mod authentication;
mod chat;
mod mcp;
pub mod metrics;
mod network;
mod prompt_template;
mod sampling;
mod schema;
mod tool;
mod traces;
mod upstream;
mod url_template;
mod validate;

use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::serving::TextDialect;

pub use authentication::{Authentication, Jwt, JwtKeys, Rate, Rates, TenantRate};
pub use chat::ChatTemplate;
pub use mcp::McpServer;
pub use network::{AllowedNetworks, ForbiddenAddress, NetworkError, SpecialAddress};
pub use prompt_template::{Placeholder, PromptTemplate, PromptTemplateError, PromptValues};
pub use sampling::Sampling;
pub use schema::{InvalidArguments, Schema, SchemaError, Unknown};
pub use slipway_vocabulary::{LatencyMetric, LatencyObjective, Percentile, ToolCallDialect, recording::RecordingLevel};
pub use tool::{CircuitBreaker, HttpMethod, HttpTool, Parameter, ResultPick, Tool, ToolKind};
pub use traces::Tracing;
pub use upstream::Upstream;
pub use url_template::{ExpandUrlError, Host, UrlTemplate, UrlTemplateError};
pub use validate::{Fault, Problem, Problems};

/// Where the sidecar looks for its configuration when `--config` is not given.
pub const DEFAULT_CONFIG_PATH: &str = "/etc/slipway/agent/config.json";

/// Everything the sidecar must know about the agent it serves.
///
/// The pod's own name is not here: one ConfigMap serves all pods of a revision, and the name comes from the
/// environment (`POD_NAME`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuntimeConfig {
    /// The agent's name; clients see it as the model's id.
    pub agent_name: String,
    /// The revision this pod belongs to; stamped on every response as `x-slipway-revision`.
    pub revision: String,
    /// The engine that generates text. The file calls it `triton`, whatever serves.
    #[serde(rename = "triton")]
    pub engine: Engine,
    /// Instructions rendered into the prompt; empty means none.
    #[serde(default)]
    pub system_prompt: String,
    /// How the prompt is put together; see [`PromptTemplate`].
    #[serde(default = "default_prompt_template")]
    pub prompt_template: String,
    /// The checkpoint whose chat template writes the prompts in place of `promptTemplate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<ChatTemplate>,
    /// How tokens are chosen.
    #[serde(default, skip_serializing_if = "Sampling::is_default")]
    pub sampling: Sampling,
    /// The tools the model may call, each by a name of its own.
    #[serde(default)]
    pub tools: Vec<Tool>,
    /// Servers whose tools it may call too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// The most model calls of one run.
    #[serde(default = "default_max_steps")]
    pub max_steps: u32,
    /// The most tokens one model call may generate.
    #[serde(default = "default_max_tokens_per_step")]
    pub max_tokens_per_step: u32,
    /// How long one run may take, in milliseconds; past it the run is cancelled and answered with 504.
    #[serde(default = "default_run_timeout")]
    pub run_timeout_milliseconds: u64,
    /// How many runs this pod serves at once; further ones are answered with 429.
    #[serde(default = "default_max_in_flight")]
    pub max_in_flight: u32,
    /// How long runs in flight may go on after SIGTERM, in milliseconds, before they are cut.
    #[serde(default = "default_drain_grace")]
    pub drain_grace_milliseconds: u64,
    /// The generations made before the pod reports ready.
    #[serde(default)]
    pub warm_up: WarmUp,
    /// The latency objectives whose good and bad events are counted.
    #[serde(default)]
    pub objectives: Vec<LatencyObjective>,
    /// Whether runs are made up, and the engine's texts are replaced by what they do next. Only campaigns do so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsal: bool,
    /// Who may call. Absent means everybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Where the spans of runs are sent. Absent means nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// Where the program beside the engine tells what the GPUs do: `http://127.0.0.1:9465`. Absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_endpoint: Option<String>,
    /// What is remembered of runs.
    #[serde(default, skip_serializing_if = "RecordingLevel::is_default")]
    pub recording: RecordingLevel,
}

/// The tool that runs call which are made up.
pub const REHEARSED_TOOL: &str = "synthetic";

/// Its one argument.
pub const REHEARSED_ARGUMENT: &str = "call";

/// The engine that generates, and its protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Engine {
    /// Address of Triton's gRPC port, such as `http://127.0.0.1:8001`, of the HTTP port of an engine's own server, or
    /// of an upstream, without the `/v1` of its paths.
    pub endpoint: String,
    /// Name of the model to query.
    #[serde(default = "default_model_name")]
    pub model_name: String,
    /// Folder of the checkpoint's tokenizer, if the entry takes tokens: TensorRT-LLM's own `tensorrt_llm`. Absent if
    /// it takes text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// How an entry takes text.
    #[serde(default, skip_serializing_if = "TextDialect::is_default")]
    pub dialect: TextDialect,
    /// How a server elsewhere is reached. Absent means that the engine is beside the sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<Upstream>,
}

impl Engine {
    /// Whether the engine holds tokens to a schema, and gives their probabilities.
    pub fn takes_formats(&self) -> bool {
        self.dialect.takes_formats()
    }
}

/// The shapes that are generated once before the pod reports ready.
///
/// The shortest shape is one token after the shortest prompt; the longest is `maxTokensPerStep` tokens after a prompt
/// of this many characters. Prompt and generation together must fit the model's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WarmUp {
    /// Length of the longest prompt, in characters.
    #[serde(default = "default_longest_prompt")]
    pub longest_prompt_characters: u32,
}

impl Default for WarmUp {
    fn default() -> Self {
        Self { longest_prompt_characters: default_longest_prompt() }
    }
}

/// Why a configuration could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadConfigError {
    /// The text is not JSON of the expected shape.
    #[error("the configuration is not valid JSON of the expected shape")]
    Parse(#[source] serde_json::Error),
    /// The shape is right and values are not.
    #[error("the configuration has {} problem(s)", .0.len())]
    Invalid(#[source] Problems),
}

impl RuntimeConfig {
    /// Reads a configuration and checks every value.
    ///
    /// # Errors
    /// [`ReadConfigError::Parse`] for malformed JSON, missing or unknown fields; [`ReadConfigError::Invalid`] lists
    /// every value that cannot work, each with its field and the remedy.
    pub fn from_json(json: &[u8]) -> Result<Self, ReadConfigError> {
        let config: Self = serde_json::from_slice(json).map_err(ReadConfigError::Parse)?;
        config.validate().map_err(ReadConfigError::Invalid)?;
        Ok(config)
    }

    /// Checks every value and reports all problems at once.
    ///
    /// # Errors
    /// The list of problems, in the order of the fields.
    pub fn validate(&self) -> Result<(), Problems> {
        validate::validate(self)
    }

    /// Checks what a person has written: also that no URL has an address that tools must not call. What names lead to
    /// is only known when they are called.
    ///
    /// # Errors
    /// The list of problems: first those of [`Self::validate`].
    pub fn validate_as_written(&self) -> Result<(), Problems> {
        validate::validate_as_written(self)
    }

    /// The configuration as the ConfigMap holds it: pretty JSON with a final newline, stable for equal values.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("string keys and integers always serialize");
        json.push('\n');
        json
    }

    /// The smallest configuration that validates: no tools, no objectives, every limit at its default.
    pub fn new(agent_name: &str, revision: &str, triton_endpoint: &str) -> Self {
        Self {
            agent_name: agent_name.into(),
            revision: revision.into(),
            engine: Engine {
                endpoint: triton_endpoint.into(),
                model_name: default_model_name(),
                tokenizer: None,
                dialect: TextDialect::default(),
                upstream: None,
            },
            system_prompt: String::new(),
            prompt_template: default_prompt_template(),
            chat_template: None,
            sampling: Sampling::default(),
            tools: Vec::new(),
            mcp_servers: Vec::new(),
            max_steps: default_max_steps(),
            max_tokens_per_step: default_max_tokens_per_step(),
            run_timeout_milliseconds: default_run_timeout(),
            max_in_flight: default_max_in_flight(),
            drain_grace_milliseconds: default_drain_grace(),
            warm_up: WarmUp::default(),
            objectives: Vec::new(),
            rehearsal: false,
            authentication: None,
            tracing: None,
            gpus_endpoint: None,
            recording: RecordingLevel::default(),
        }
    }
}

fn default_model_name() -> String {
    "agent".into()
}

fn default_prompt_template() -> String {
    PromptTemplate::DEFAULT.into()
}

fn default_max_steps() -> u32 {
    8
}

fn default_max_tokens_per_step() -> u32 {
    256
}

fn default_run_timeout() -> u64 {
    30_000
}

fn default_max_in_flight() -> u32 {
    16
}

/// The default run timeout and ten seconds, so that nothing is cut by default.
fn default_drain_grace() -> u64 {
    40_000
}

fn default_longest_prompt() -> u32 {
    256
}

#[cfg(test)]
mod tests;
