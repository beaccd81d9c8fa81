//! The request of a response, in terms of the chat's. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use slipway_runtime_config::Sampling;

use crate::{
    agent::{ClientTool, Conversation, Message, Wishes},
    api::{
        chat::{FieldNames, ToolBody, WishFields, read_others},
        error::ApiError,
        kept_runs::Remembered,
        sampling::{self, Asked},
        service::Abilities,
        whole_number,
    },
    ordered_value::{OrderedMap, OrderedValue},
};

use super::items::{self, Said};

/// Fields that would change the answer and cannot be honored; each with what to do instead.
const REFUSED: [(&str, &str); 5] = [
    ("background", "send stream: true, and read the answer as it comes"),
    ("conversation", "send previous_response_id, or the whole conversation as input"),
    ("prompt", "write what it stands for into instructions"),
    ("max_tool_calls", "the agent's maxSteps bounds its calls; leave it out"),
    ("context_management", "the oldest results of tools are left out by themselves; leave the field out"),
];
const NAMES: FieldNames = FieldNames {
    format: "text.format",
    format_kind: "text.format.type",
    format_schema: "text.format.schema",
    schema_path: &["schema"],
    strict_path: &["strict"],
    logprobs: "include",
};
/// What of `include` asks for probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";

/// The body as it is sent.
#[derive(Debug, Deserialize)]
pub(in crate::api) struct ResponseBody {
    model: Option<String>,
    input: Option<Value>,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    store: Option<bool>,
    stream: Option<bool>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    max_output_tokens: Option<u32>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    top_k: Option<i64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    seed: Option<i64>,
    tools: Option<Vec<ToolBody>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    /// What the answer is to be: its `format`. A struct would be read from a list too.
    text: Option<OrderedMap>,
    include: Option<Vec<String>>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    top_logprobs: Option<u32>,
    truncation: Option<String>,
    metadata: Option<BTreeMap<String, String>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// A request that can be served.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) model: Option<String>,
    pub(super) conversation: Conversation,
    pub(super) max_tokens: Option<u32>,
    pub(super) sampling: Sampling,
    pub(super) wishes: Wishes,
    pub(super) is_streamed: bool,
    pub(super) is_stored: bool,
    /// What shows the response later, and continues it.
    pub(super) remembered: Remembered,
    /// Fields that have no effect.
    pub(super) ignored: Vec<String>,
}

impl ResponseBody {
    /// The response that this one continues.
    pub(super) fn previous(&self) -> Option<&str> {
        self.previous_response_id.as_deref()
    }

    /// Checks every field, for an agent of these abilities. `earlier` is what was said up to the previous response.
    ///
    /// # Errors
    /// 400 that names the field and what to do.
    pub(super) fn validate(mut self, earlier: Vec<Message>, abilities: &Abilities) -> Result<Asking, ApiError> {
        if self.max_output_tokens == Some(0) {
            return Err(ApiError::invalid("max_output_tokens", "is 0; must be at least 1"));
        }
        if let Some(truncation) = self.truncation.as_deref().filter(|truncation| *truncation != "disabled") {
            let problem = format!("{truncation:?} is not supported; send \"disabled\", and a shorter input");
            return Err(ApiError::invalid("truncation", problem));
        }
        let mut ignored = read_others(std::mem::take(&mut self.others), &REFUSED)?;
        ignored.extend(self.unread().map(str::to_owned));
        let (asked, beyond) = self.sampling().split(abilities.sampling);
        let sampling = sampling::read(asked)?;
        ignored.extend(beyond.into_iter().map(str::to_owned));
        ignored.sort();
        let input = self.input.take().unwrap_or_default();
        let Said { conversation, messages } = items::read(input, self.instructions.clone(), earlier)?;
        let choice = self.tool_choice.clone();
        let format = self.of_text("format");
        let wishes = self.wishes(abilities)?;
        let echo = self.echo(&wishes, choice, format, asked);
        Ok(Asking {
            model: self.model,
            conversation,
            max_tokens: self.max_output_tokens,
            sampling,
            wishes,
            is_streamed: self.stream.unwrap_or(false),
            is_stored: self.store.unwrap_or(true),
            remembered: Remembered { messages, echo },
            ignored,
        })
    }

    fn sampling(&self) -> Asked {
        let Self { temperature, top_p, top_k, presence_penalty, frequency_penalty, seed, .. } = *self;
        Asked { temperature, top_p, top_k, presence_penalty, frequency_penalty, seed }
    }

    /// A field of `text`.
    fn of_text(&self, name: &str) -> Option<OrderedValue> {
        self.text.as_ref()?.get(name).filter(|value| !value.is_null()).cloned()
    }

    /// Parts of known fields that have no effect.
    fn unread(&self) -> impl Iterator<Item = &'static str> + use<> {
        let is_other = self.include.iter().flatten().any(|include| include != LOGPROBS);
        let has_verbosity = self.of_text("verbosity").is_some();
        [("include", is_other), ("text.verbosity", has_verbosity)]
            .into_iter()
            .filter(|(_, is)| *is)
            .map(|(name, _)| name)
    }

    fn wishes(&mut self, abilities: &Abilities) -> Result<Wishes, ApiError> {
        let tools = self.tools.take();
        if let Some(i) = tools.iter().flatten().position(|tool| tool.is_function() && !tool.is_named()) {
            return Err(ApiError::invalid(
                &format!("tools[{i}].name"),
                "is missing; give the tool's name and parameters",
            ));
        }
        let top = self.top_logprobs.filter(|top| *top > 0);
        let is_included = self.include.iter().flatten().any(|include| include == LOGPROBS);
        let fields = WishFields {
            tools,
            tool_choice: self.tool_choice.take(),
            parallel_tool_calls: self.parallel_tool_calls,
            response_format: self.of_text("format"),
            stop: None,
            logprobs: Some(is_included || top.is_some()),
            top_logprobs: top,
        };
        fields.read_as(&NAMES, abilities)
    }

    /// The fields that the response repeats. Those that were not sent have the API's defaults.
    fn echo(
        &self,
        wishes: &Wishes,
        choice: Option<Value>,
        format: Option<OrderedValue>,
        asked: Asked,
    ) -> Map<String, Value> {
        let echo = json!({
            "instructions": self.instructions,
            "previous_response_id": self.previous_response_id,
            "tools": wishes.tools.iter().map(tool).collect::<Vec<_>>(),
            "tool_choice": choice.unwrap_or_else(|| json!("auto")),
            "parallel_tool_calls": !wishes.is_one_call,
            "text": { "format": format.map_or_else(|| json!({ "type": "text" }), Value::from) },
            "metadata": self.metadata.clone().unwrap_or_default(),
            "max_output_tokens": self.max_output_tokens,
            "store": self.store.unwrap_or(true),
            "temperature": asked.temperature.unwrap_or(1.0),
            "top_p": asked.top_p.unwrap_or(1.0),
            "presence_penalty": asked.presence_penalty.unwrap_or(0.0),
            "frequency_penalty": asked.frequency_penalty.unwrap_or(0.0),
            "top_logprobs": wishes.logprobs.unwrap_or(0),
            "truncation": "disabled",
            "background": false,
            "max_tool_calls": null,
            "reasoning": null,
            "user": null,
            "service_tier": "default",
            "safety_identifier": null,
            "prompt_cache_key": null,
        });
        match echo {
            Value::Object(echo) => echo,
            _ => Map::new(),
        }
    }
}

fn tool(tool: &ClientTool) -> Value {
    let ClientTool { name, description, parameters } = tool;
    json!({ "type": "function", "name": name, "description": description, "parameters": parameters, "strict": null })
}
