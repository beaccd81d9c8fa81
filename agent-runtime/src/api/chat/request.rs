//! The request of a chat completion. Pure.

use serde::Deserialize;
use serde_json::{Map, Value};
use slipway_runtime_config::Sampling;

use crate::{
    agent::{ClientCall, Conversation, Message, Role, Wishes},
    ordered_value::OrderedMap,
};

use super::{
    super::{
        error::ApiError,
        sampling::{self, Asked},
        service::Abilities,
        whole_number,
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

/// Kinds of parts that are not text.
const MEDIA: [&str; 7] = ["image_url", "input_audio", "file", "video_url", "input_image", "input_file", "input_video"];

/// The body as it is sent.
#[derive(Debug, Deserialize)]
pub(in crate::api) struct ChatRequest {
    model: Option<String>,
    messages: Vec<ChatMessage>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    max_completion_tokens: Option<u32>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    max_tokens: Option<u32>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    n: Option<u32>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    top_k: Option<i64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    seed: Option<i64>,
    #[serde(flatten)]
    others: OrderedMap,
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
    #[serde(rename = "type")]
    kind: Option<String>,
    function: CalledFunction,
}

#[derive(Debug, Deserialize)]
struct CalledFunction {
    name: String,
    #[serde(default)]
    arguments: String,
}

/// A text, or parts of one.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a text must be a string or a list of parts with a type")]
pub(in crate::api) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, Deserialize)]
pub(in crate::api) struct Part {
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
        let mut ignored = read_others(others.into(), &REFUSED)?;
        let (asked, beyond) = asked.split(abilities.sampling);
        let sampling = sampling::read(asked)?;
        ignored.extend(beyond.into_iter().map(str::to_owned));
        ignored.sort();
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
pub(in crate::api) fn read_others(
    others: Map<String, Value>,
    refusals: &[(&str, &str)],
) -> Result<Vec<String>, ApiError> {
    let mut ignored = Vec::new();
    for (field, value) in others {
        if let Some((_, remedy)) = refusals.iter().find(|(refused, _)| *refused == field) {
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
        Some(content) => read_content(&format!("messages[{i}].content"), content, &["text", "refusal"])?,
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

fn read_calls(i: usize, calls: Vec<CallBody>) -> Result<Vec<ClientCall>, ApiError> {
    let read = |(j, CallBody { id, kind, function: CalledFunction { name, arguments } }): (usize, CallBody)| {
        if let Some(kind) = kind.filter(|kind| kind != "function") {
            let problem = format!("is {kind:?}; calls of tools are of type \"function\"");
            return Err(ApiError::invalid(&format!("messages[{i}].tool_calls[{j}].type"), problem));
        }
        let arguments = read_arguments(&format!("messages[{i}].tool_calls[{j}].function.arguments"), arguments)?;
        Ok(ClientCall { id, name, arguments })
    };
    calls.into_iter().enumerate().map(read).collect()
}

/// Reads the arguments of a call. A template may write them as an object, so they have to be one.
///
/// # Errors
/// 400 that names the field.
pub(in crate::api) fn read_arguments(field: &str, arguments: String) -> Result<String, ApiError> {
    let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
    match serde_json::from_str::<Map<String, Value>>(&arguments) {
        Ok(_) => Ok(arguments),
        Err(_) => Err(ApiError::invalid(field, "is not an object of JSON")),
    }
}

/// Reads a text. Its parts are of these kinds, of which the first is the usual one.
///
/// # Errors
/// 400 that names the part.
pub(in crate::api) fn read_content(path: &str, content: Content, kinds: &[&str]) -> Result<String, ApiError> {
    let parts = match content {
        Content::Text(text) => return Ok(text),
        Content::Parts(parts) => parts,
    };
    let usual = kinds.first().copied().unwrap_or_default();
    let mut texts = Vec::new();
    for (j, Part { kind, text, refusal }) in parts.into_iter().enumerate() {
        let field = format!("{path}[{j}].type");
        match (kind.as_str(), text.or(refusal)) {
            (kind, Some(text)) if kinds.contains(&kind) => texts.push(text),
            (kind, _) if MEDIA.contains(&kind) => {
                let problem = format!("is {kind:?}, and this agent reads text alone; send parts of type {usual:?}");
                return Err(ApiError::invalid(&field, problem));
            }
            (kind, _) => {
                let problem = format!("{kind:?} with its content cannot be read; send parts of type {usual:?}");
                return Err(ApiError::invalid(&field, problem));
            }
        }
    }
    Ok(texts.join("\n"))
}
