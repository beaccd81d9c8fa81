//! The tools of a server, as an agent has them: chosen, named and checked. Pure.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value};
use slipway_runtime_config::{Schema, SchemaError, Unknown};

use crate::{
    ordered_value::OrderedValue,
    tools::shown::{ShownTool, ToolInput},
};

use super::mirror::{self, Mirrored};

/// As the names of tools in a configuration.
const MAX_NAME: usize = 63;
/// Tools of one server. More would fill a model's context.
const MAX_TOOLS: usize = 128;

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remote {
    /// The server's name of it.
    pub(super) name: String,
    /// What the model is shown.
    pub(crate) shown: ShownTool,
    /// Nothing where only the server can tell what fits.
    schema: Option<Schema>,
    /// Whether a repeated call does no harm, as the server says and its configuration trusts.
    pub(crate) is_repeatable: bool,
    /// Arguments that are repeated in headers.
    pub(super) mirrored: Vec<Mirrored>,
}

/// The tools of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listing {
    /// In the server's order.
    pub(crate) tools: Vec<Remote>,
    /// Tools that cannot be used, each with the reason.
    pub(super) left_out: Vec<(String, String)>,
    /// How long the list counts, if the server says.
    pub(super) fresh_for: Option<Duration>,
}

/// Why a server's list of tools cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListingError {
    /// A page has another shape.
    #[error("the server's list of tools cannot be read: {problem}")]
    Malformed {
        /// What is wrong.
        problem: &'static str,
    },
    /// A tool that is named in the configuration.
    #[error("the server has no tool {tool:?}; it has {known}")]
    Missing {
        /// The name.
        tool: String,
        /// What it has.
        known: String,
    },
    /// A tool that is named in the configuration, and cannot be used.
    #[error("the tool {tool:?} cannot be used: {problem}")]
    Unusable {
        /// Its name.
        tool: String,
        /// Why not.
        problem: String,
    },
    /// Two names become one.
    #[error("the tools {first:?} and {second:?} would both be called {name:?}; name one of them in tools")]
    Twice {
        /// For the model.
        name: String,
        /// A name of the server's.
        first: String,
        /// Another.
        second: String,
    },
    /// Too many.
    #[error("the server has more than {MAX_TOOLS} tools; name those that the model may call in tools")]
    TooMany,
}

/// What the configuration says of a server's tools.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    /// What their names begin with.
    pub(super) prefix: &'a str,
    /// The server's names of those that may be called; all if there is none.
    pub(super) only: &'a [String],
    /// Whether what the server says of repeats counts.
    pub(super) trusts_annotations: bool,
    /// Whether arguments are repeated in headers.
    pub(super) has_mirrors: bool,
}

impl Listing {
    /// Reads the pages of a list.
    ///
    /// # Errors
    /// [`ListingError`].
    pub(super) fn read(pages: &[OrderedValue], choice: Choice<'_>) -> Result<Self, ListingError> {
        let malformed = |problem| ListingError::Malformed { problem };
        let mut written = Vec::new();
        for page in pages {
            let page =
                page.get("tools").and_then(OrderedValue::as_array).ok_or_else(|| malformed("tools is no list"))?;
            for tool in page {
                let name =
                    tool.get("name").and_then(OrderedValue::as_str).ok_or_else(|| malformed("a tool has no name"))?;
                written.push((name, tool));
            }
        }
        if let Some(missing) = choice.only.iter().find(|only| !written.iter().any(|(name, _)| name == only)) {
            let known: Vec<_> = written.iter().map(|(name, _)| *name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(ListingError::Missing { tool: missing.clone(), known });
        }
        let is_chosen = |name: &str| choice.only.is_empty() || choice.only.iter().any(|only| only == name);
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        for (name, tool) in written.into_iter().filter(|(name, _)| is_chosen(name)) {
            match Remote::read(name, tool, choice) {
                Ok(tool) => tools.push(tool),
                Err(problem) if choice.only.is_empty() => left_out.push((name.to_owned(), problem)),
                Err(problem) => return Err(ListingError::Unusable { tool: name.to_owned(), problem }),
            }
        }
        if tools.len() > MAX_TOOLS {
            return Err(ListingError::TooMany);
        }
        distinct(&tools)?;
        let fresh_for = pages.iter().filter_map(|page| page.get("ttlMs")?.as_u64()).min().map(Duration::from_millis);
        Ok(Self { tools, left_out, fresh_for })
    }

    /// Whether the lists differ in the order of keys at most. Some servers have another one each time, and a prompt
    /// that changes costs the engine's cache.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.unordered() == other.unordered()
    }

    fn unordered(&self) -> Self {
        let mut list = self.clone();
        for Remote { shown, .. } in &mut list.tools {
            if let ToolInput::Served(schema) = &mut shown.input {
                *schema = OrderedValue::from(Value::from(std::mem::take(schema)));
            }
        }
        list
    }
}

fn distinct(tools: &[Remote]) -> Result<(), ListingError> {
    let mut seen = BTreeMap::new();
    for Remote { name: second, shown, .. } in tools {
        if let Some(first) = seen.insert(&shown.name, second) {
            let (first, second) = (first.clone(), second.clone());
            return Err(ListingError::Twice { name: shown.name.clone(), first, second });
        }
    }
    Ok(())
}

impl Remote {
    /// The server's name of it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn read(name: &str, tool: &OrderedValue, choice: Choice<'_>) -> Result<Self, String> {
        let text = |member: &str| {
            tool.get(member).and_then(OrderedValue::as_str).map(str::trim).filter(|text| !text.is_empty())
        };
        let input = tool.get("inputSchema").ok_or_else(|| "it has no inputSchema".to_owned())?;
        let plain = Value::from(input.clone());
        let schema = schema(&plain)?;
        let mirrored = if choice.has_mirrors { mirror::of_schema(&plain)? } else { Vec::new() };
        let hint = |name| tool.at(&["annotations", name]).and_then(OrderedValue::as_bool).unwrap_or_default();
        let shown = ShownTool {
            name: shown_name(choice.prefix, name)?,
            description: text("description").or_else(|| text("title")).unwrap_or_default().to_owned(),
            input: ToolInput::Served(input.clone()),
        };
        Ok(Self {
            name: name.to_owned(),
            shown,
            schema,
            is_repeatable: choice.trusts_annotations && (hint("readOnlyHint") || hint("idempotentHint")),
            mirrored,
        })
    }

    /// Reads what the model wrote: an object, or the text of the only argument.
    ///
    /// # Errors
    /// What does not fit, for the model.
    pub(super) fn arguments(&self, input: &str) -> Result<Map<String, Value>, String> {
        let properties: Vec<&str> = self.schema.iter().flat_map(Schema::properties).collect();
        let arguments = match (serde_json::from_str(input), properties.as_slice(), &self.schema) {
            (Ok(Value::Object(arguments)), _, _) => arguments,
            (_, [only], Some(schema)) if !input.trim().is_empty() => {
                Map::from_iter([((*only).to_owned(), schema.value_of(only, input))])
            }
            _ if input.trim().is_empty() => Map::new(),
            (_, names, _) => return Err(format!("write an object of JSON, with the arguments {}", names.join(", "))),
        };
        if let Some(schema) = &self.schema {
            schema.check_value(&Value::Object(arguments.clone())).map_err(|problem| problem.to_string())?;
        }
        Ok(arguments)
    }
}

/// What of a schema can be checked here. A recursive one is left to the server; one that refers to somewhere else is
/// refused, because nobody could say what fits it.
fn schema(written: &Value) -> Result<Option<Schema>, String> {
    if written.get("type").is_none_or(|kind| kind != "object") {
        return Err("its inputSchema is not of type object".to_owned());
    }
    match Schema::of_value(written, "inputSchema", Unknown::Unchecked) {
        Ok(schema) => Ok(Some(schema)),
        Err(SchemaError::Recursive { .. } | SchemaError::Unsupported { .. }) => Ok(None),
        Err(
            error @ (SchemaError::NotAnObject
            | SchemaError::Shape { .. }
            | SchemaError::UnknownReference { .. }
            | SchemaError::TooLarge),
        ) => Err(error.to_string()),
    }
}

/// Models and clients take letters, digits, `_` and `-` alone.
fn shown_name(prefix: &str, name: &str) -> Result<String, String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let shown = format!("{prefix}{}", name.chars().map(plain).collect::<String>());
    if shown.len() > MAX_NAME || !shown.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(format!("its name would be {shown:?}; names have up to {MAX_NAME} characters, a letter first"));
    }
    Ok(shown)
}

#[cfg(test)]
mod tests;
