//! What a chat completion asks for beside an answer: tools, format, stops, probabilities. Pure.

use serde::Deserialize;
use serde_json::Value;
use slipway_runtime_config::{Schema, Unknown};

use crate::{
    agent::{AnswerFormat, ClientTool, ToolChoice, Wishes},
    api::{error::ApiError, service::Abilities, whole_number},
    ordered_value::{OrderedMap, OrderedValue},
};

/// The most tools, stops and likely tokens of a request, as in the OpenAI API.
const MAX_TOOLS: usize = 128;
const MAX_STOPS: usize = 4;
const MAX_TOP_LOGPROBS: u32 = 20;
/// Most characters of a tool's name.
const MAX_NAME: usize = 64;
/// Most characters of a stop: what may become one is held back.
const MAX_STOP: usize = 256;

/// The fields, as they are sent.
#[derive(Debug, Default, Deserialize)]
pub(in crate::api) struct WishFields {
    pub(in crate::api) tools: Option<Vec<ToolBody>>,
    pub(in crate::api) tool_choice: Option<Value>,
    pub(in crate::api) parallel_tool_calls: Option<bool>,
    pub(in crate::api) response_format: Option<OrderedValue>,
    pub(in crate::api) stop: Option<Stop>,
    pub(in crate::api) logprobs: Option<bool>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    pub(in crate::api) top_logprobs: Option<u32>,
}

/// How an API names fields whose names differ between APIs.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct FieldNames {
    /// The answer's format.
    pub(in crate::api) format: &'static str,
    /// Its kind.
    pub(in crate::api) format_kind: &'static str,
    /// Its schema.
    pub(in crate::api) format_schema: &'static str,
    /// Where the schema stands in the format.
    pub(in crate::api) schema_path: &'static [&'static str],
    /// Where the format says that answers adhere to the schema strictly.
    pub(in crate::api) strict_path: &'static [&'static str],
    /// What asks for probabilities.
    pub(in crate::api) logprobs: &'static str,
}

impl FieldNames {
    const CHAT: Self = Self {
        format: "response_format",
        format_kind: "response_format.type",
        format_schema: "response_format.json_schema.schema",
        schema_path: &["json_schema", "schema"],
        strict_path: &["json_schema", "strict"],
        logprobs: "logprobs",
    };
}

/// A tool of the client's.
#[derive(Debug, Deserialize)]
pub(in crate::api) struct ToolBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    function: Option<Function>,
    /// As AG-UI has tools: without an envelope.
    name: Option<String>,
    description: Option<String>,
    parameters: Option<OrderedValue>,
}

#[derive(Debug, Deserialize)]
struct Function {
    name: String,
    description: Option<String>,
    parameters: Option<OrderedValue>,
}

/// Where an answer ends.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "send a text or a list of texts")]
pub(in crate::api) enum Stop {
    One(String),
    Several(Vec<String>),
}

impl WishFields {
    /// Reads them for an agent of these abilities.
    ///
    /// # Errors
    /// 400 that names the field and what to do.
    pub(super) fn read(self, abilities: &Abilities) -> Result<Wishes, ApiError> {
        self.read_as(&FieldNames::CHAT, abilities)
    }

    /// The same for an API with other names of fields.
    ///
    /// # Errors
    /// 400 that names the field and what to do.
    pub(in crate::api) fn read_as(self, names: &FieldNames, abilities: &Abilities) -> Result<Wishes, ApiError> {
        let Self { tools, tool_choice, parallel_tool_calls, response_format, stop, logprobs, top_logprobs } = self;
        let tools = tools.unwrap_or_default();
        if let Some(i) = tools.iter().position(|tool| tool.kind.is_none()) {
            let problem = "is missing; tools that a client brings are of type \"function\"";
            return Err(ApiError::invalid(&format!("tools[{i}].type"), problem));
        }
        let tools = read_tools(tools, abilities)?;
        let choice = read_choice(tool_choice.unwrap_or_default(), &tools)?;
        let response_format = response_format.unwrap_or_default();
        let format = read_format(&response_format, names, abilities)?;
        Ok(Wishes {
            tools,
            choice,
            is_one_call: parallel_tool_calls == Some(false),
            is_guided: abilities.takes_formats && format != AnswerFormat::Text,
            is_strict: response_format.at(names.strict_path) == Some(&OrderedValue::Bool(true)),
            format,
            stops: read_stops(stop)?,
            logprobs: read_logprobs(names.logprobs, logprobs.unwrap_or(false), top_logprobs, abilities)?,
        })
    }
}

/// Transcripts have one grammar for all turns.
fn needs_chat_template(field: &str, abilities: &Abilities) -> Result<(), ApiError> {
    if abilities.has_chat_template {
        return Ok(());
    }
    let problem = "is not supported: this agent's prompts are ReAct transcripts, which have no place for it; leave it \
                   out, or serve the agent with its checkpoint's chat template";
    Err(ApiError::invalid(field, problem))
}

/// Reads the client's tools.
///
/// # Errors
/// 400 that names the tool and its field.
pub(in crate::api) fn read_tools(tools: Vec<ToolBody>, abilities: &Abilities) -> Result<Vec<ClientTool>, ApiError> {
    if tools.is_empty() {
        return Ok(Vec::new());
    }
    needs_chat_template("tools", abilities)?;
    if tools.len() > MAX_TOOLS {
        return Err(ApiError::invalid("tools", format!("has {}; send at most {MAX_TOOLS}", tools.len())));
    }
    let mut read: Vec<ClientTool> = Vec::new();
    for (i, tool) in tools.into_iter().enumerate() {
        let path = tool.path(i);
        let tool = read_tool(i, tool)?;
        check_name(&format!("{path}.name"), &tool.name, &read, abilities)?;
        read.push(tool);
    }
    Ok(read)
}

impl ToolBody {
    /// Whether it says which tool it is.
    pub(in crate::api) fn is_named(&self) -> bool {
        self.function.is_some() || self.name.is_some()
    }

    /// Whether it is a function, as far as it says what it is.
    pub(in crate::api) fn is_function(&self) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind == "function")
    }

    /// Where the name and parameters of the tool at this index stand.
    fn path(&self, index: usize) -> String {
        match (&self.function, &self.name) {
            (None, Some(_)) => format!("tools[{index}]"),
            (Some(_), _) | (None, None) => format!("tools[{index}].function"),
        }
    }
}

fn read_tool(i: usize, tool: ToolBody) -> Result<ClientTool, ApiError> {
    let path = tool.path(i);
    let ToolBody { kind, function, name, description, parameters } = tool;
    let function = function.or_else(|| name.map(|name| Function { name, description, parameters }));
    let kind = kind.unwrap_or_else(|| "function".to_owned());
    if kind != "function" {
        let problem = format!("is {kind:?}; tools that a client brings are of type \"function\"");
        return Err(ApiError::invalid(&format!("tools[{i}].type"), problem));
    }
    let Some(Function { name, description, parameters }) = function else {
        return Err(ApiError::invalid(&path, "is missing; give the tool's name and parameters"));
    };
    let parameters = parameters.filter(|parameters| !parameters.is_null());
    let parameters = parameters.unwrap_or_else(no_parameters);
    if !parameters.is_object() {
        let problem = "is not an object; write the JSON Schema of the tool's arguments";
        return Err(ApiError::invalid(&format!("{path}.parameters"), problem));
    }
    Ok(ClientTool { name, description: description.unwrap_or_default(), parameters })
}

/// The schema of a tool that takes nothing.
fn no_parameters() -> OrderedValue {
    let kind = OrderedValue::String("object".to_owned());
    OrderedValue::object([("type", kind), ("properties", OrderedValue::object([]))])
}

fn check_name(field: &str, name: &str, before: &[ClientTool], abilities: &Abilities) -> Result<(), ApiError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
        let problem = format!("{name:?} is not a name; use 1 to {MAX_NAME} letters, digits, '_', '-' and '.'");
        return Err(ApiError::invalid(field, problem));
    }
    if abilities.own_tools.contains(name) {
        return Err(ApiError::invalid(field, format!("{name:?} is a tool of the agent's; choose another name")));
    }
    if before.iter().any(|tool| tool.name == name) {
        return Err(ApiError::invalid(field, format!("{name:?} is there twice; give each tool a name of its own")));
    }
    Ok(())
}

fn read_choice(choice: Value, tools: &[ClientTool]) -> Result<ToolChoice, ApiError> {
    let choice = match &choice {
        Value::Null => ToolChoice::Auto,
        Value::String(word) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            other => return Err(no_choice(&format!("{other:?}"))),
        },
        // The Responses API has no envelope around the name.
        other => match other.pointer("/function/name").or_else(|| other.get("name")).and_then(Value::as_str) {
            Some(name) if tools.iter().any(|tool| tool.name == name) => ToolChoice::Named(name.to_owned()),
            Some(name) => return Err(ApiError::invalid("tool_choice", format!("{name:?} is none of the tools"))),
            None => return Err(no_choice("of another shape")),
        },
    };
    if choice == ToolChoice::Required && tools.is_empty() {
        return Err(ApiError::invalid("tool_choice", "is \"required\" without tools; it means tools of yours"));
    }
    Ok(choice)
}

fn no_choice(found: &str) -> ApiError {
    let problem = format!(
        "is {found}; send \"auto\", \"none\", \"required\" or {{\"type\": \"function\", \"function\": {{\"name\": ...}}}}"
    );
    ApiError::invalid("tool_choice", problem)
}

fn read_format(format: &OrderedValue, names: &FieldNames, abilities: &Abilities) -> Result<AnswerFormat, ApiError> {
    let kind = match format {
        OrderedValue::Null => return Ok(AnswerFormat::Text),
        OrderedValue::Object(format) if format.is_empty() => return Ok(AnswerFormat::Text),
        format => format.get("type").and_then(OrderedValue::as_str).unwrap_or_default(),
    };
    let format = match kind {
        "text" => return Ok(AnswerFormat::Text),
        "json_object" => AnswerFormat::JsonObject,
        "json_schema" => read_schema(format, names, abilities)?,
        other => {
            let problem = format!("{other:?} is not a format; send \"text\", \"json_object\" or \"json_schema\"");
            return Err(ApiError::invalid(names.format_kind, problem));
        }
    };
    needs_chat_template(names.format, abilities)?;
    Ok(format)
}

/// Checks a schema where the answer will be compared with it. An engine that is held to one knows more keywords.
fn read_schema(format: &OrderedValue, names: &FieldNames, abilities: &Abilities) -> Result<AnswerFormat, ApiError> {
    let field = names.format_schema;
    let schema = format.at(names.schema_path).filter(|schema| schema.is_object());
    let Some(schema) = schema else { return Err(ApiError::invalid(field, "is missing; write a JSON Schema")) };
    if !abilities.takes_formats {
        let refused = |error: slipway_runtime_config::SchemaError| ApiError::invalid(field, error);
        Schema::of_value(&schema.clone().into(), "schema", Unknown::Refused).map_err(refused)?;
    }
    Ok(AnswerFormat::JsonSchema(schema.clone()))
}

fn read_stops(stop: Option<Stop>) -> Result<Vec<String>, ApiError> {
    let stops = match stop {
        None => Vec::new(),
        Some(Stop::One(stop)) => vec![stop],
        Some(Stop::Several(stops)) => stops,
    };
    if stops.len() > MAX_STOPS {
        return Err(ApiError::invalid("stop", format!("has {}; send at most {MAX_STOPS}", stops.len())));
    }
    if stops.iter().any(|stop| stop.is_empty() || stop.chars().count() > MAX_STOP) {
        return Err(ApiError::invalid("stop", format!("has an empty text or one beyond {MAX_STOP} characters")));
    }
    Ok(stops)
}

fn read_logprobs(
    field: &str,
    is_asked: bool,
    top: Option<u32>,
    abilities: &Abilities,
) -> Result<Option<u32>, ApiError> {
    if let Some(top) = top.filter(|top| *top > MAX_TOP_LOGPROBS) {
        return Err(ApiError::invalid("top_logprobs", format!("is {top}; send at most {MAX_TOP_LOGPROBS}")));
    }
    match (is_asked, top) {
        (false, Some(1..)) => Err(ApiError::invalid("top_logprobs", "needs logprobs: true")),
        (false, _) => Ok(None),
        (true, _) if !abilities.gives_logprobs => {
            let problem = "is not supported: this agent's engine does not report them; leave it out";
            Err(ApiError::invalid(field, problem))
        }
        (true, top) => needs_chat_template(field, abilities).map(|()| Some(top.unwrap_or(0))),
    }
}

/// Takes the wishes' fields out of a body.
///
/// # Errors
/// 400 that names a field of another type.
pub(super) fn take(others: &mut OrderedMap) -> Result<WishFields, ApiError> {
    const FIELDS: [&str; 7] =
        ["tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", "logprobs", "top_logprobs"];
    let mut fields = OrderedMap::default();
    for field in FIELDS {
        let Some(value) = others.remove(field) else { continue };
        if let Err(problem) = WishFields::deserialize(OrderedValue::object([(field, value.clone())])) {
            return Err(ApiError::invalid(field, format!("has another shape than it should: {problem}")));
        }
        fields.insert(field, value);
    }
    WishFields::deserialize(OrderedValue::Object(fields)).map_err(|problem| ApiError::invalid("tools", problem))
}
