//! Tools as a model is shown them. Pure.

use serde_json::Value;
use slipway_runtime_config::Tool;

use crate::ordered_value::{OrderedMap, OrderedValue};

/// What a model may know of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownTool {
    /// The name by which it is called.
    pub name: String,
    /// What it is for; may be empty, and have several lines.
    pub description: String,
    /// What it takes.
    pub input: ToolInput,
}

/// What a tool takes.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput {
    /// Texts of these names.
    Texts(Vec<String>),
    /// The text of this one argument alone.
    Text(&'static str),
    /// What fits this schema, and has no other properties.
    Typed(Value),
    /// What fits this schema, whose other keywords its service checks. It is shown as the service writes it.
    Served(OrderedValue),
}

impl From<&Tool> for ShownTool {
    fn from(tool: &Tool) -> Self {
        let Tool { name, description, input_schema, kind } = tool;
        let input = match (input_schema, kind.plain_argument()) {
            (Some(schema), _) => ToolInput::Typed(schema.clone()),
            (None, Some(argument)) => ToolInput::Text(argument),
            (None, None) => ToolInput::Texts(kind.argument_names().into_iter().map(str::to_owned).collect()),
        };
        Self { name: name.clone(), description: description.clone(), input }
    }
}

impl ShownTool {
    /// One line for a prompt that has no place for more: `name: description`. Where the model must write JSON, it is
    /// told so.
    pub fn line(&self) -> String {
        let Self { name, description, input } = self;
        let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let input = match input {
            ToolInput::Texts(_) | ToolInput::Text(_) | ToolInput::Typed(_) => String::new(),
            ToolInput::Served(schema) => format!("(JSON: {{{}}})", arguments(schema)),
        };
        let parts = [description, input];
        match parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ").as_str() {
            "" => name.clone(),
            words => format!("{name}: {words}"),
        }
    }
}

/// The arguments of a schema, those that may be missing with a question mark.
fn arguments(schema: &OrderedValue) -> String {
    let required = schema.get("required").and_then(OrderedValue::as_array).unwrap_or_default();
    let written = |(name, _): (&str, &OrderedValue)| match required.iter().any(|one| one.as_str() == Some(name)) {
        true => format!("{name:?}"),
        false => format!("{name:?}?"),
    };
    let properties = schema.get("properties").and_then(OrderedValue::as_object);
    properties.into_iter().flat_map(OrderedMap::iter).map(written).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_one_line_in_a_transcript() {
        let line = |description: &str, input| {
            ShownTool { name: "lookup".into(), description: description.into(), input }.line()
        };
        assert_eq!(line("", ToolInput::Texts(Vec::new())), "lookup");
        assert_eq!(line("Looks facts up.", ToolInput::Text("expression")), "lookup: Looks facts up.");
        let schema = r#"{"type": "object", "properties": {"unit": {}, "city": {}}, "required": ["city"]}"#;
        let schema = serde_json::from_str(schema).expect("it is JSON");
        let expected = r#"lookup: Two lines. (JSON: {"unit"?, "city"})"#;
        assert_eq!(line("Two\nlines.\n", ToolInput::Served(schema)), expected);
        assert_eq!(line("", ToolInput::Served(json!({ "type": "object" }).into())), "lookup: (JSON: {})");
    }
}
