//! Chat templates of checkpoints: how a model wants a conversation written. Rendered byte for byte as transformers
//! renders them.
//!
//! A template is a program in Jinja that comes with a checkpoint
//! (<https://huggingface.co/docs/transformers/chat_templating_writing>). [`checkpoint`] reads it, [`environment`] is
//! what it finds, and [`python`] writes values as Python does. `make template-parity` renders templates of many models
//! with both.

pub mod checkpoint;
mod environment;
mod markup;
mod python;
mod tags;

use std::{collections::BTreeMap, error::Error};

use minijinja::{Environment, ErrorKind, Value, context};

use crate::clock::Timestamp;
use environment::{Raised, strftime_now};

pub use checkpoint::{Checkpoint, ReadCheckpointError};

/// What one rendering of a template may cost, in steps of its program: a thousand for each of a thousand messages, and
/// room.
const FUEL: u64 = 10_000_000;

/// The name of the one template in its environment.
const NAME: &str = "chat_template";

/// A template, ready to render.
pub struct ChatTemplate {
    source: String,
    environment: Environment<'static>,
    /// Names of the checkpoint's special tokens (`bos_token`, ...) with their texts.
    special_tokens: BTreeMap<String, Value>,
}

/// Fields of a message with what the model thought before it answered. Templates read the first, or the second.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];

/// What a template renders: values of JSON, in the order of their keys.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The conversation: a list of objects with `role` and `content`.
    pub messages: Value,
    /// The tools as JSON Schema of functions, if there are any.
    pub tools: Option<Value>,
    /// Whether the text ends where the model's turn begins.
    pub generation_prompt: bool,
    /// The present time, for templates that tell the date. They are told it in UTC.
    pub now: Timestamp,
    /// What else a template may look at, such as `enable_thinking`.
    pub extra: BTreeMap<String, Value>,
}

/// A template is malformed.
#[derive(Debug, thiserror::Error)]
#[error("the chat template is malformed at line {line}: {problem}")]
pub struct CompileError {
    /// The line, from one.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// Why a template rendered nothing.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The template refuses the conversation, in its own words.
    #[error("the model's chat template refuses the conversation: {reason}")]
    Refused {
        /// The template's words.
        reason: String,
    },
    /// The template takes too many steps.
    #[error("the chat template takes more than {FUEL} steps; send a shorter conversation")]
    TooLong,
    /// The template fails.
    #[error("the chat template fails at line {line}: {problem}")]
    Failed {
        /// The line, from one.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// A text is not JSON.
#[derive(Debug, thiserror::Error)]
#[error("the text is not JSON")]
pub struct JsonError(#[source] serde_json::Error);

/// Reads JSON, and keeps the order of its keys: templates write objects as they find them.
///
/// # Errors
/// [`JsonError`].
pub fn json(text: &str) -> Result<Value, JsonError> {
    serde_json::from_str(text).map_err(JsonError)
}

/// Writes a value as `json.dumps` does, which most models have seen; nothing where JSON has no such value.
pub fn dumps(value: &Value) -> Option<String> {
    python::Dumps::new(false, None, None, false).dumps(value).ok()
}

impl ChatTemplate {
    /// Compiles a template. The special tokens are those of the checkpoint, by their names.
    ///
    /// # Errors
    /// [`CompileError`].
    pub fn compile(source: &str, special_tokens: &BTreeMap<String, String>) -> Result<Self, CompileError> {
        let malformed = |error: minijinja::Error| CompileError {
            line: error.line().unwrap_or_default(),
            problem: error.detail().unwrap_or("it cannot be read").to_owned(),
        };
        let mut environment = environment::environment().map_err(malformed)?;
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned(NAME, tags::rewritten(source)).map_err(malformed)?;
        let special_tokens = special_tokens.iter().map(|(name, text)| (name.clone(), Value::from(text.as_str())));
        Ok(Self { source: source.to_owned(), environment, special_tokens: special_tokens.collect() })
    }

    /// The template's text, as it is compiled.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a prompt.
    ///
    /// # Errors
    /// [`RenderError`].
    pub fn render(&self, prompt: &Prompt) -> Result<String, RenderError> {
        let Prompt { messages, tools, generation_prompt, now, extra } = prompt;
        let own = context! {
            messages => with_thoughts(messages).map_err(|error| failed(&error))?,
            tools,
            documents => Value::from(()),
            add_generation_prompt => generation_prompt,
            strftime_now => strftime_now(*now),
        };
        let tokens = Value::from_pairs(self.special_tokens.clone());
        let extra = Value::from_pairs(extra.clone());
        let template = self.environment.get_template(NAME).map_err(|error| failed(&error))?;
        template.render(context! { ..own, ..extra, ..tokens }).map_err(|error| failed(&error))
    }
}

/// Messages whose thoughts are under the names that templates read, whatever name they came with.
fn with_thoughts(messages: &Value) -> Result<Value, minijinja::Error> {
    let named = |message: Value| {
        let thoughts = THOUGHTS.iter().filter_map(|name| message.get_attr(name).ok());
        let Some(thoughts) = thoughts.into_iter().find(|value| !value.is_undefined() && !value.is_none()) else {
            return Ok(message);
        };
        let own = message.try_iter()?.map(|key| Ok((key.clone(), message.get_item(&key)?)));
        let mut pairs = vec![(Value::from("thinking"), thoughts.clone())];
        pairs.extend(own.collect::<Result<Vec<_>, minijinja::Error>>()?);
        pairs.push((Value::from("reasoning_content"), thoughts));
        Ok(Value::from_pairs(pairs))
    };
    messages.try_iter()?.map(named).collect::<Result<Vec<_>, _>>().map(Value::from)
}

/// What a failed rendering says.
fn failed(error: &minijinja::Error) -> RenderError {
    if let Some(Raised { reason }) = causes(error).find_map(|cause| cause.downcast_ref()) {
        return RenderError::Refused { reason: reason.clone() };
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return RenderError::TooLong;
    }
    let problem = causes(error).last().map_or_else(|| error.to_string(), ToString::to_string);
    RenderError::Failed { line: error.line().unwrap_or_default(), problem }
}

fn causes(error: &minijinja::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| Error::source(*cause))
}

#[cfg(test)]
mod tests;
