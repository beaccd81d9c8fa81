//! Tools as models are trained to see them: the JSON of OpenAI's API, its keys in the order of their author. Pure.

use serde_json::{Map, Value, json};

use crate::{
    ordered_value::OrderedValue,
    tools::{ShownTool, ToolInput},
};

use super::wishes::ClientTool;

/// Keys that come first in a schema whose order is not known, in this order; the others follow in that of their
/// letters.
const ORDER: [&str; 12] = [
    "type",
    "description",
    "enum",
    "items",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "properties",
    "required",
];

/// The list of tools, as JSON: the agent's, and then the client's.
pub(super) fn for_template<'a>(own: &[String], clients: impl Iterator<Item = &'a ClientTool>) -> String {
    let clients = clients.map(|tool| written(&tool.name, &tool.description, &spaced(&tool.parameters)));
    format!("[{}]", own.iter().cloned().chain(clients).collect::<Vec<_>>().join(", "))
}

/// The same for a template that has no place for tools.
pub(super) fn described(list: &str) -> String {
    format!(
        "You may call these tools, given as JSON:\n{list}\nTo call a tool, answer with one JSON object alone, such as \
         {{\"name\": \"NAME\", \"arguments\": {{\"ARGUMENT\": \"VALUE\"}}}}, or with a list of such objects. \
         You then receive the results. Otherwise answer in plain text."
    )
}

/// One of the agent's tools, as JSON.
pub(super) fn function(tool: &ShownTool) -> String {
    let ShownTool { name, description, input } = tool;
    let parameters = match input {
        ToolInput::Typed(schema) => ordered(schema),
        ToolInput::Served(schema) => spaced(schema),
        ToolInput::Texts(names) => ordered(&texts(&names.iter().map(String::as_str).collect::<Vec<_>>())),
        ToolInput::Text(name) => ordered(&texts(&[name])),
    };
    written(name, description, &parameters)
}

fn written(name: &str, description: &str, parameters: &str) -> String {
    let (name, description) = (json!(name), json!(description));
    format!(
        "{{\"type\": \"function\", \"function\": {{\"name\": {name}, \"description\": {description}, \
         \"parameters\": {parameters}}}}}"
    )
}

fn texts(names: &[&str]) -> Value {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

/// A schema as JSON, in its own order.
fn spaced(schema: &OrderedValue) -> String {
    match schema {
        OrderedValue::Object(object) => {
            let members = object.iter().map(|(key, value)| pair(key, &spaced(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        OrderedValue::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        OrderedValue::Null | OrderedValue::Bool(_) | OrderedValue::Number(_) | OrderedValue::String(_) => {
            schema.to_string()
        }
    }
}

/// A schema of the agent's configuration as JSON. An API server sorts the keys of objects; lists keep their order, so
/// the required properties come first in theirs.
fn ordered(schema: &Value) -> String {
    match schema {
        Value::Object(object) => {
            let first = ORDER.iter().filter_map(|key| object.get_key_value(*key));
            let others = object.iter().filter(|(key, _)| !ORDER.contains(&key.as_str()));
            let member = |(key, value): (&String, &Value)| match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    pair(key, &of_properties(properties, object.get("required")))
                }
                _ => pair(key, &ordered(value)),
            };
            format!("{{{}}}", first.chain(others).map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(ordered).collect::<Vec<_>>().join(", ")),
        plain => plain.to_string(),
    }
}

fn of_properties(properties: &Map<String, Value>, required: Option<&Value>) -> String {
    let required: Vec<&str> =
        required.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let first = required.iter().filter_map(|name| properties.get_key_value(*name));
    let others = properties.iter().filter(|(name, _)| !required.contains(&name.as_str()));
    let members = first.chain(others).map(|(name, schema)| pair(name, &ordered(schema)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

fn pair(key: &str, value: &str) -> String {
    format!("{}: {value}", Value::String(key.to_owned()))
}
