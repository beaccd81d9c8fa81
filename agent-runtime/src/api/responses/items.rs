//! The input of a response as messages, and what cannot be one. Pure.

use serde::Deserialize;
use serde_json::Value;

use crate::{
    agent::{ClientCall, Conversation, ConversationError, Message, Role},
    api::{
        chat::{Content, read_arguments, read_content},
        error::ApiError,
    },
};

/// Kinds of parts that are texts.
const TEXTS: [&str; 4] = ["input_text", "output_text", "text", "refusal"];
const THOUGHTS: [&str; 2] = ["reasoning_text", "summary_text"];

/// One item. Which fields it has depends on its type.
#[derive(Debug, Deserialize)]
struct Item {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<Content>,
    summary: Option<Content>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    output: Option<Content>,
}

/// Messages, each with the index of the item that it begins with.
#[derive(Debug, Default)]
struct Messages {
    all: Vec<(usize, Message)>,
    /// Of reasoning items that belong to the next message.
    thoughts: String,
}

/// What a request says, and all that was said.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) conversation: Conversation,
    /// All of it but the request's own instructions, which count for its own response alone.
    pub(super) messages: Vec<Message>,
}

/// Reads an input that continues earlier messages.
///
/// # Errors
/// 400 that names the item and what to do.
pub(super) fn read(input: Value, instructions: Option<String>, earlier: Vec<Message>) -> Result<Said, ApiError> {
    let (new, is_text) = match input {
        Value::String(text) => (vec![(0, Message::new(Role::User, text))], true),
        Value::Array(items) => (read_items(items)?, false),
        Value::Null => return Err(ApiError::invalid("input", "is missing; send a text or a list of items")),
        _ => return Err(ApiError::invalid("input", "is neither a text nor a list of items; send one of the two")),
    };
    let instructions: Vec<_> = instructions.into_iter().map(|text| Message::new(Role::System, text)).collect();
    let before = instructions.len() + earlier.len();
    let (indices, new): (Vec<_>, Vec<_>) = new.into_iter().unzip();
    let messages = [earlier, new].concat();
    let all = [instructions, messages.clone()].concat();
    let path = |index: usize| match index.checked_sub(before).and_then(|index| indices.get(index)) {
        Some(index) if !is_text => format!("input[{index}]"),
        Some(_) | None => "input".to_owned(),
    };
    let conversation = Conversation::new(all).map_err(|error| refusal(error, path))?;
    Ok(Said { conversation, messages })
}

fn refusal(error: ConversationError, path: impl Fn(usize) -> String) -> ApiError {
    let (field, problem) = match error {
        ConversationError::Empty => ("input".to_owned(), "is empty; write the question".to_owned()),
        ConversationError::InstructionsOnly => {
            ("input".to_owned(), "has instructions only; send at least one message of the user's".to_owned())
        }
        ConversationError::NoQuestion => {
            ("input".to_owned(), "ends with an assistant's message; end with the user's question".to_owned())
        }
        ConversationError::EmptyMessage { index } => {
            (path(index), "has no text; leave it out or write its text".to_owned())
        }
        ConversationError::NoSuchCall { index, call } => {
            let problem = format!(
                "{call:?} names no open function_call before it; send the call too, or the previous_response_id of the \
                 response that has it"
            );
            (format!("{}.call_id", path(index)), problem)
        }
        ConversationError::NoResult { call } => {
            let problem = format!("has no function_call_output for the call {call:?}; send one for each function_call");
            ("input".to_owned(), problem)
        }
    };
    ApiError::invalid(&field, problem)
}

fn read_items(items: Vec<Value>) -> Result<Vec<(usize, Message)>, ApiError> {
    let mut messages = Messages::default();
    for (i, item) in items.into_iter().enumerate() {
        let path = format!("input[{i}]");
        let item: Item = serde_json::from_value(item)
            .map_err(|problem| ApiError::invalid(&path, format!("has another shape than an item should: {problem}")))?;
        messages.push(i, &path, item)?;
    }
    Ok(messages.all)
}

impl Messages {
    fn push(&mut self, i: usize, path: &str, item: Item) -> Result<(), ApiError> {
        let Item { kind, role, content, summary, call_id, name, arguments, output } = item;
        let missing =
            |field: &str, what: &str| ApiError::invalid(&format!("{path}.{field}"), format!("is missing; {what}"));
        match kind.as_deref().unwrap_or("message") {
            "message" => {
                let role = read_role(path, role.as_deref())?;
                let content = content.ok_or_else(|| missing("content", "write the message's text"))?;
                let text = read_content(&format!("{path}.content"), content, &TEXTS)?;
                let thoughts = std::mem::take(&mut self.thoughts);
                let thoughts = if role == Role::Assistant { thoughts } else { String::new() };
                self.all.push((i, Message { thoughts, ..Message::new(role, text) }));
            }
            "function_call" => {
                let id = call_id.ok_or_else(|| missing("call_id", "send the call as it was handed to you"))?;
                let name = name.ok_or_else(|| missing("name", "send the call as it was handed to you"))?;
                let arguments = read_arguments(&format!("{path}.arguments"), arguments.unwrap_or_default())?;
                self.push_call(i, ClientCall { id, name, arguments });
            }
            "function_call_output" => {
                let answers = call_id.ok_or_else(|| missing("call_id", "name the call that it answers"))?;
                let output = output.ok_or_else(|| missing("output", "write what the function gave"))?;
                let text = read_content(&format!("{path}.output"), output, &TEXTS)?;
                self.all.push((i, Message { answers, ..Message::new(Role::Tool, text) }));
            }
            // An encrypted one says nothing here.
            "reasoning" => {
                let content =
                    content.or(summary).map(|content| read_content(&format!("{path}.content"), content, &THOUGHTS));
                self.thoughts = content.transpose()?.unwrap_or_default();
            }
            "item_reference" => {
                let problem = "is \"item_reference\", and items have no store of their own; send the item itself, or \
                               previous_response_id";
                return Err(ApiError::invalid(&format!("{path}.type"), problem));
            }
            other => {
                let problem = format!(
                    "is {other:?}; send \"message\", \"function_call\", \"function_call_output\" or \"reasoning\""
                );
                return Err(ApiError::invalid(&format!("{path}.type"), problem));
            }
        }
        Ok(())
    }

    /// Calls, and the text before them, are one turn of the model's.
    fn push_call(&mut self, i: usize, call: ClientCall) {
        match self.all.last_mut() {
            Some((_, last)) if last.role == Role::Assistant && self.thoughts.is_empty() => last.calls.push(call),
            Some(_) | None => {
                let thoughts = std::mem::take(&mut self.thoughts);
                let turn = Message { thoughts, calls: vec![call], ..Message::new(Role::Assistant, String::new()) };
                self.all.push((i, turn));
            }
        }
    }
}

fn read_role(path: &str, role: Option<&str>) -> Result<Role, ApiError> {
    match role {
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        Some("system" | "developer") => Ok(Role::System),
        other => {
            let found = other.map_or_else(|| "is missing".to_owned(), |role| format!("{role:?} is not a role"));
            let problem = format!("{found}; use \"system\", \"developer\", \"user\" or \"assistant\"");
            Err(ApiError::invalid(&format!("{path}.role"), problem))
        }
    }
}
