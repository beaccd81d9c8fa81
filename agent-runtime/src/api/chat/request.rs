//! The request of a chat completion. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};
use slipway_runtime_config::Sampling;

use crate::agent::{ClientCall, Conversation, Message, Role, Wishes};

use super::{
    super::{
        error::ApiError,
        sampling::{self, Asked},
        service::Abilities,
    },
    wishes,
};

/// Fields that would change the answer and cannot be honored; each with what to do instead. A value that asks for
/// nothing (null, false, an empty list) is accepted, because clients send those by default.
const REFUSED: [(&str, &str); 7] = [
    ("functions", "send tools"),
    ("function_call", "send tool_choice"),
    ("logit_bias", "the engine does not take it"),
    ("modalities", "the agent answers in text; leave the field out"),
    ("audio", "the agent answers in text; leave the field out"),
    ("prediction", "the engine does not take it"),
    ("web_search_options", "searching is a tool of the agent's configuration"),
];

/// Most names that an answer lists of the fields that had no effect, and the longest of them: they come from the
/// client.
const MAX_IGNORED: usize = 32;
const MAX_IGNORED_LENGTH: usize = 64;

/// The body as it is sent.
#[derive(Debug, Deserialize)]
pub(in crate::api) struct ChatRequest {
    model: Option<String>,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_completion_tokens: Option<u32>,
    max_tokens: Option<u32>,
    n: Option<u32>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    seed: Option<i64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// One message.
#[derive(Debug, Deserialize)]
pub(in crate::api) struct ChatMessage {
    role: String,
    content: Option<Content>,
    reasoning_content: Option<String>,
    #[serde(alias = "toolCalls")]
    tool_calls: Option<Vec<CallBody>>,
    #[serde(alias = "toolCallId")]
    tool_call_id: Option<String>,
}

impl ChatMessage {
    /// Instructions.
    pub(in crate::api) fn system(text: String) -> Self {
        let content = Some(Content::Text(text));
        Self { role: "system".to_owned(), content, reasoning_content: None, tool_calls: None, tool_call_id: None }
    }

    /// Whether it is something that was said. AG-UI has messages of what clients show beside it.
    pub(in crate::api) fn is_said(&self) -> bool {
        !matches!(self.role.as_str(), "reasoning" | "activity")
    }
}

/// A call that the assistant ended with.
#[derive(Debug, Deserialize)]
struct CallBody {
    id: String,
    function: CalledFunction,
}

#[derive(Debug, Deserialize)]
struct CalledFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

/// A request that can be served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chat {
    pub(super) model: Option<String>,
    pub(super) conversation: Conversation,
    pub(super) max_tokens: Option<u32>,
    pub(super) sampling: Sampling,
    pub(super) wishes: Wishes,
    /// Present when the answer is to be streamed.
    pub(super) streaming: Option<UsageChunk>,
    /// Fields that have no effect: the engine decodes as its configuration says, nothing is stored, and clients add
    /// fields of other vendors.
    pub(super) ignored: Vec<String>,
}

/// Whether a stream ends with a chunk that tells the usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum UsageChunk {
    Yes,
    No,
}

impl ChatRequest {
    /// Checks every field, for an agent of these abilities.
    ///
    /// # Errors
    /// 400 that names the field and what to do.
    pub(super) fn validate(self, abilities: &Abilities) -> Result<Chat, ApiError> {
        let Self { model, messages, stream, stream_options, max_completion_tokens, max_tokens, n, .. } = self;
        let Self { temperature, top_p, top_k, presence_penalty, frequency_penalty, seed, mut others, .. } = self;
        let asked = Asked { temperature, top_p, top_k, presence_penalty, frequency_penalty, seed };
        let wishes = wishes::take(&mut others)?.read(abilities)?;
        let mut ignored = read_others(others)?;
        let sampling = if abilities.takes_sampling { sampling::read(asked)? } else { Sampling::default() };
        if !abilities.takes_sampling {
            ignored.extend(asked.names().map(str::to_owned));
            ignored.sort();
        }
        if n.is_some_and(|n| n != 1) {
            return Err(ApiError::invalid("n", "the agent gives one answer; leave the field out or send 1"));
        }
        let limits = [("max_completion_tokens", max_completion_tokens), ("max_tokens", max_tokens)];
        if let Some((field, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
            return Err(ApiError::invalid(field, "is 0; must be at least 1"));
        }
        let include_usage = stream_options.and_then(|options| options.include_usage).unwrap_or(false);
        let usage = if include_usage { UsageChunk::Yes } else { UsageChunk::No };
        Ok(Chat {
            model,
            conversation: read_conversation(messages)?,
            max_tokens: max_completion_tokens.or(max_tokens),
            sampling,
            wishes,
            streaming: stream.unwrap_or(false).then_some(usage),
            ignored,
        })
    }
}

/// Refuses what would change the answer, and names the rest.
fn read_others(others: Map<String, Value>) -> Result<Vec<String>, ApiError> {
    let mut ignored = Vec::new();
    for (field, value) in others {
        if let Some((_, remedy)) = REFUSED.iter().find(|(refused, _)| *refused == field) {
            if !asks_for_nothing(&field, &value) {
                return Err(ApiError::invalid(&field, format!("is not supported; {remedy}")));
            }
        } else if !value.is_null() && is_listed(&field) && ignored.len() < MAX_IGNORED {
            ignored.push(field);
        }
    }
    Ok(ignored)
}

/// Whether a field's name can stand in a header's list.
fn is_listed(field: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=MAX_IGNORED_LENGTH).contains(&field.len()) && field.chars().all(is_plain)
}

fn asks_for_nothing(field: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty() || (field == "modalities" && value == &serde_json::json!(["text"])),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text == "none" || text == "auto",
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Bool(true) => false,
    }
}

/// Reads messages into a conversation; also used by `/v1/runs`.
pub(in crate::api) fn read_conversation(messages: Vec<ChatMessage>) -> Result<Conversation, ApiError> {
    let messages = messages.into_iter().enumerate().map(|(i, message)| read_message(i, message));
    let messages = messages.collect::<Result<_, _>>()?;
    Conversation::new(messages).map_err(|problem| ApiError::invalid("messages", problem))
}

fn read_message(i: usize, message: ChatMessage) -> Result<Message, ApiError> {
    let ChatMessage { role, content, reasoning_content, tool_calls, tool_call_id } = message;
    let role = match role.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        "tool" => Role::Tool,
        other => {
            let problem = format!("{other:?} is not a role; use \"system\", \"user\", \"assistant\" or \"tool\"");
            return Err(ApiError::invalid(&format!("messages[{i}].role"), problem));
        }
    };
    let text = match content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => read_parts(i, parts)?,
        // As clients send an assistant's turn back that had no text.
        None if role == Role::Assistant => String::new(),
        None => {
            return Err(ApiError::invalid(&format!("messages[{i}].content"), "is missing; write the message's text"));
        }
    };
    let calls = match role {
        Role::Assistant => read_calls(i, tool_calls.unwrap_or_default())?,
        Role::System | Role::User | Role::Tool => Vec::new(),
    };
    let answers = match (role, tool_call_id) {
        (Role::Tool, Some(id)) => id,
        (Role::Tool, None) => {
            let problem = "is missing; name the call that the message answers";
            return Err(ApiError::invalid(&format!("messages[{i}].tool_call_id"), problem));
        }
        (Role::System | Role::User | Role::Assistant, _) => String::new(),
    };
    Ok(Message { role, text, thoughts: reasoning_content.unwrap_or_default(), calls, answers })
}

/// A template may write the arguments as an object, so they have to be one.
fn read_calls(i: usize, calls: Vec<CallBody>) -> Result<Vec<ClientCall>, ApiError> {
    let read = |(j, CallBody { id, function: CalledFunction { name, arguments } }): (usize, CallBody)| {
        let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
        if serde_json::from_str::<Map<String, Value>>(&arguments).is_err() {
            let field = format!("messages[{i}].tool_calls[{j}].function.arguments");
            return Err(ApiError::invalid(&field, "is not an object of JSON"));
        }
        Ok(ClientCall { id, name, arguments })
    };
    calls.into_iter().enumerate().map(read).collect()
}

fn read_parts(i: usize, parts: Vec<Part>) -> Result<String, ApiError> {
    let mut texts = Vec::new();
    for (j, Part { kind, text, refusal }) in parts.into_iter().enumerate() {
        match (kind.as_str(), text.or(refusal)) {
            ("text" | "refusal", Some(text)) => texts.push(text),
            ("image_url" | "input_audio" | "file" | "video_url", _) => {
                let problem = format!("is {kind:?}, and this agent reads text alone; send parts of type \"text\"");
                return Err(ApiError::invalid(&format!("messages[{i}].content[{j}].type"), problem));
            }
            (kind, _) => {
                let problem = format!("{kind:?} with its content cannot be read; send parts of type \"text\"");
                return Err(ApiError::invalid(&format!("messages[{i}].content[{j}].type"), problem));
            }
        }
    }
    Ok(texts.join("\n"))
}
