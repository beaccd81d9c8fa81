//! What a client asks of a run beside an answer: tools of its own, the answer's format, where to stop. Pure.

use crate::{backend::Guide, ordered_value::OrderedValue};

/// What a client asks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wishes {
    /// Tools that the client runs itself. Their calls end the run.
    pub tools: Vec<ClientTool>,
    /// Which of these the model may or must call.
    pub choice: ToolChoice,
    /// Whether only one call may end the run.
    pub is_one_call: bool,
    /// What the answer must be.
    pub format: AnswerFormat,
    /// Whether the engine can hold tokens to the format.
    pub is_guided: bool,
    /// Whether the client demands strict adherence to a schema, as the OpenAI API calls it. Answers fit their schema
    /// without it: this is for upstreams.
    pub is_strict: bool,
    /// Texts that end the answer. They are not part of it.
    pub stops: Vec<String>,
    /// How many likely tokens are wanted beside each of the answer, with their probabilities; nothing for none at all.
    pub logprobs: Option<u32>,
}

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientTool {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: OrderedValue,
}

/// Which of the client's tools the model calls. The agent's own are not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ToolChoice {
    /// Any or none.
    #[default]
    Auto,
    /// None: the model does not see them.
    None,
    /// At least one.
    Required,
    /// This one. The model sees no other.
    Named(String),
}

/// What an answer must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AnswerFormat {
    /// Any text.
    #[default]
    Text,
    /// An object of JSON.
    JsonObject,
    /// A value of JSON that this schema allows.
    JsonSchema(OrderedValue),
}

/// A call of a client's tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCall {
    /// How the client knows the call; empty before it does.
    pub id: String,
    /// The tool.
    pub name: String,
    /// An object of JSON.
    pub arguments: String,
}

impl Wishes {
    /// The client's tools that the model sees.
    pub fn offered(&self) -> impl Iterator<Item = &ClientTool> {
        self.tools.iter().filter(|tool| match &self.choice {
            ToolChoice::Auto | ToolChoice::Required => true,
            ToolChoice::None => false,
            ToolChoice::Named(name) => tool.name == *name,
        })
    }

    /// About how many bytes the prompt has for them.
    pub fn bytes(&self) -> usize {
        let of_tool = |tool: &ClientTool| tool.name.len() + tool.description.len() + bytes(&tool.parameters);
        let format = match &self.format {
            AnswerFormat::Text | AnswerFormat::JsonObject => 0,
            AnswerFormat::JsonSchema(schema) => bytes(schema),
        };
        self.tools.iter().map(of_tool).sum::<usize>() + format
    }

    /// Whether the run must end with a call.
    pub fn demands_call(&self) -> bool {
        match self.choice {
            ToolChoice::Auto | ToolChoice::None => false,
            ToolChoice::Required | ToolChoice::Named(_) => true,
        }
    }
}

impl AnswerFormat {
    /// What tokens may be held to; nothing for any text.
    pub fn guide(&self) -> Option<Guide> {
        match self {
            Self::Text => None,
            Self::JsonObject => Some(Guide::JsonObject),
            Self::JsonSchema(schema) => Some(Guide::JsonSchema(schema.clone())),
        }
    }

    /// Instructions for the model; nothing for any text.
    pub fn instruction(&self) -> Option<String> {
        match self {
            Self::Text => None,
            Self::JsonObject => Some("Answer with one JSON object alone, without any other text.".to_owned()),
            Self::JsonSchema(schema) => Some(format!(
                "Answer with one JSON value alone, without any other text. It must fit this JSON Schema:\n{schema}"
            )),
        }
    }
}

/// About how many bytes a value has as JSON.
fn bytes(value: &OrderedValue) -> usize {
    /// Of every value, beside its text: something is done for each.
    const OF_A_VALUE: usize = 8;
    OF_A_VALUE
        + match value {
            OrderedValue::Null | OrderedValue::Bool(_) | OrderedValue::Number(_) => 0,
            OrderedValue::String(text) => text.len(),
            OrderedValue::Array(all) => all.iter().map(bytes).sum(),
            OrderedValue::Object(all) => all.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
        }
}

/// A text without the fence that models put around code.
pub fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, inner)| inner.trim())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bytes_of_wishes_are_about_those_of_their_json() {
        let schema = || {
            OrderedValue::from(
                json!({"type": "object", "properties": {"names": {"enum": ["x".repeat(9_000), 1, null]}}}),
            )
        };
        let tool = ClientTool { name: "find".into(), description: "d".repeat(900), parameters: schema() };
        let wishes = Wishes { tools: vec![tool], format: AnswerFormat::JsonSchema(schema()), ..Wishes::default() };
        let written = 2 * schema().to_string().len() + 904;
        assert!(wishes.bytes().abs_diff(written) < 100, "{} of {written}", wishes.bytes());
        assert_eq!(Wishes::default().bytes(), 0);
    }

    #[test]
    fn a_fence_is_no_part_of_the_answer() {
        assert_eq!(unfenced("```json\n{\"a\": 1}\n```\n"), "{\"a\": 1}");
        assert_eq!(unfenced(" {\"a\": \"```\"} "), "{\"a\": \"```\"}");
    }
}
