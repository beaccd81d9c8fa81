//! JSON Schema of a tool's arguments: the part of draft 2020-12 that tools use, read once and bounded. Pure.
//!
//! <https://json-schema.org/draft/2020-12/json-schema-validation>. A keyword that is not known here is refused, because
//! arguments that it forbids would pass.

mod bounds;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use bounds::{Bounds, set_bound, within};

/// The deepest nesting of a schema and of arguments.
const MAX_DEPTH: usize = 16;
/// Schemas within a schema, references followed.
const MAX_NODES: usize = 1_000;
/// Keywords that say something to people and models alone.
const ANNOTATIONS: [&str; 11] = [
    "$schema",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$defs",
];

/// The arguments of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    root: Node,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It describes something else than named arguments.
    #[error("is not the schema of an object; begin with type: object and properties")]
    NotAnObject,
    /// A keyword has another shape.
    #[error("{path} is not {expected}")]
    Shape {
        /// Where.
        path: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A keyword that nothing here checks.
    #[error("{path} is not supported; leave it out and say it in description")]
    Unsupported {
        /// The keyword with its path.
        path: String,
    },
    /// A reference that leads nowhere.
    #[error("{path} refers to {target:?}, which is not there; references begin with #/$defs/")]
    UnknownReference {
        /// Where.
        path: String,
        /// What it names.
        target: String,
    },
    /// A reference that leads back to itself.
    #[error("{path} refers to {target:?}, which contains it; a schema cannot be recursive, so write the levels out")]
    Recursive {
        /// Where.
        path: String,
        /// What it names.
        target: String,
    },
    /// Too much.
    #[error("has more than {MAX_NODES} schemas or {MAX_DEPTH} levels, references followed; make it smaller")]
    TooLarge,
}

/// What of the arguments does not fit. Written for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} {problem}")]
pub struct InvalidArguments {
    /// Where, such as `lines[0].count`.
    pub path: String,
    /// What is wrong, and what belongs there.
    pub problem: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    types: Vec<Type>,
    choices: Option<Vec<Value>>,
    properties: BTreeMap<String, Node>,
    required: Vec<String>,
    others: Others,
    items: Option<Box<Node>>,
    bounds: Bounds,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    all_of: Vec<Node>,
}

/// What properties must be that have no schema of their own.
#[derive(Clone, Debug, Default, PartialEq)]
enum Others {
    #[default]
    Anything,
    Fit(Box<Node>),
    Forbidden,
}

impl Schema {
    /// Reads the schema of a tool's arguments.
    ///
    /// # Errors
    /// [`SchemaError`].
    pub fn of_tool(schema: &Value) -> Result<Self, SchemaError> {
        let is_object = schema.get("type").is_some_and(|kind| kind == "object") || schema.get("properties").is_some();
        if !is_object {
            return Err(SchemaError::NotAnObject);
        }
        let mut reader = Reader::new(schema, Unknown::Refused);
        let mut root = reader.node(schema, "inputSchema", 0)?;
        root.types = vec![Type::Object];
        Ok(Self { root })
    }

    /// Reads the schema of any value. Errors begin with `field`.
    ///
    /// # Errors
    /// [`SchemaError`].
    pub fn of_value(schema: &Value, field: &str, unknown: Unknown) -> Result<Self, SchemaError> {
        Ok(Self { root: Reader::new(schema, unknown).node(schema, field, 0)? })
    }

    /// All arguments are texts, and none may be missing.
    pub fn of_texts<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let text = || Node { types: vec![Type::String], ..Node::default() };
        let properties: BTreeMap<_, _> = names.map(|name| (name.to_owned(), text())).collect();
        let required = properties.keys().cloned().collect();
        Self {
            root: Node {
                types: vec![Type::Object],
                properties,
                required,
                others: Others::Forbidden,
                ..Node::default()
            },
        }
    }

    /// Allows any value.
    pub fn anything() -> Self {
        Self { root: Node::default() }
    }

    /// The names of the arguments.
    pub fn properties(&self) -> impl Iterator<Item = &str> {
        self.root.properties.keys().map(String::as_str)
    }

    /// Whether an argument must be there.
    pub fn requires(&self, name: &str) -> bool {
        self.root.required.iter().any(|required| required == name)
    }

    /// Checks arguments. A name that no property has is an error, whatever `additionalProperties` says: nothing could
    /// be sent for it.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), InvalidArguments> {
        if let Some(name) = arguments.keys().find(|name| !self.root.properties.contains_key(*name)) {
            let known: Vec<_> = self.properties().collect();
            let problem = format!("is not an argument; the arguments are {}", known.join(", "));
            return Err(InvalidArguments { path: name.clone(), problem });
        }
        self.root.check_object(arguments, "", 0)
    }

    /// Checks any value.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check_value(&self, value: &Value) -> Result<(), InvalidArguments> {
        self.root.check(value, "", 0).map_err(|error| match error.path.as_str() {
            "" => InvalidArguments { path: "the whole".to_owned(), ..error },
            _ => error,
        })
    }

    /// Gives the value that a text stands for, by what the argument may be: dialects without JSON write texts alone.
    pub fn value_of(&self, name: &str, text: &str) -> Value {
        let types = self.root.properties.get(name).map_or(&[][..], |node| &node.types);
        let is_text = types.is_empty() || types.contains(&Type::String);
        match serde_json::from_str::<Value>(text) {
            Ok(value) if !is_text => value,
            Err(_) if types.contains(&Type::Boolean) && text.eq_ignore_ascii_case("true") => Value::Bool(true),
            Err(_) if types.contains(&Type::Boolean) && text.eq_ignore_ascii_case("false") => Value::Bool(false),
            Ok(_) | Err(_) => Value::String(text.to_owned()),
        }
    }
}

/// How keywords are treated that are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// They are refused.
    Refused,
    /// They are not checked: somebody else does.
    Unchecked,
}

/// Reads one schema and what it refers to.
struct Reader<'a> {
    root: &'a Value,
    unknown: Unknown,
    references: Vec<String>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Value, unknown: Unknown) -> Self {
        Self { root, unknown, references: Vec::new(), nodes: 0 }
    }
}

impl Reader<'_> {
    fn node(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Node, SchemaError> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Err(SchemaError::TooLarge);
        }
        let object = match schema {
            Value::Bool(true) => return Ok(Node::default()),
            Value::Object(object) => object,
            _ => return Err(shape(path, "a schema")),
        };
        let mut node = Node::default();
        for (keyword, value) in object {
            self.keyword(&mut node, keyword, value, &format!("{path}.{keyword}"), depth)?;
        }
        Ok(node)
    }

    fn keyword(
        &mut self,
        node: &mut Node,
        keyword: &str,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        match keyword {
            "type" => node.types = types(value, path)?,
            "enum" => node.choices = Some(list(value, path)?.clone()),
            "const" => node.choices = Some(vec![value.clone()]),
            "required" => {
                node.required = list(value, path)?.iter().map(|name| text(name, path)).collect::<Result<_, _>>()?
            }
            "properties" => {
                let named = value.as_object().ok_or_else(|| shape(path, "an object"))?;
                let read = |(name, schema): (&String, &Value)| {
                    Ok((name.clone(), self.node(schema, &format!("{path}.{name}"), depth + 1)?))
                };
                node.properties = named.iter().map(read).collect::<Result<_, _>>()?;
            }
            "additionalProperties" if value == &Value::Bool(false) => node.others = Others::Forbidden,
            "additionalProperties" => node.others = Others::Fit(Box::new(self.node(value, path, depth + 1)?)),
            "items" => node.items = Some(Box::new(self.node(value, path, depth + 1)?)),
            "anyOf" => node.any_of = self.nodes(value, path, depth)?,
            "oneOf" => node.one_of = self.nodes(value, path, depth)?,
            "allOf" => node.all_of = self.nodes(value, path, depth)?,
            "$ref" => node.all_of.push(self.reference(&text(value, path)?, path, depth)?),
            // An older name of the same.
            "definitions" => {}
            annotation if ANNOTATIONS.contains(&annotation) => {}
            bound => match (set_bound(&mut node.bounds, bound, value, path), self.unknown) {
                (Err(SchemaError::Unsupported { .. }), Unknown::Unchecked) => {}
                (read, _) => return read,
            },
        }
        Ok(())
    }

    fn nodes(&mut self, value: &Value, path: &str, depth: usize) -> Result<Vec<Node>, SchemaError> {
        let read = |(i, schema)| self.node(schema, &format!("{path}[{i}]"), depth + 1);
        list(value, path)?.iter().enumerate().map(read).collect()
    }

    fn reference(&mut self, target: &str, path: &str, depth: usize) -> Result<Node, SchemaError> {
        if self.references.iter().any(|open| open == target) || target == "#" {
            return Err(SchemaError::Recursive { path: path.to_owned(), target: target.to_owned() });
        }
        let pointer = target.strip_prefix('#').filter(|pointer| pointer.starts_with('/'));
        let found = pointer.and_then(|pointer| self.root.pointer(pointer));
        let unknown = || SchemaError::UnknownReference { path: path.to_owned(), target: target.to_owned() };
        let schema = found.ok_or_else(unknown)?;
        self.references.push(target.to_owned());
        let node = self.node(schema, target, depth + 1);
        self.references.pop();
        node
    }
}

impl Node {
    fn check(&self, value: &Value, path: &str, depth: usize) -> Result<(), InvalidArguments> {
        if depth > MAX_DEPTH {
            return Err(invalid(path, format!("has more than {MAX_DEPTH} levels")));
        }
        if !self.types.is_empty() && !self.types.iter().any(|kind| kind.holds(value)) {
            let names: Vec<_> = self.types.iter().map(|kind| kind.words()).collect();
            return Err(invalid(path, format!("is {}; it must be {}", shown(value), names.join(" or "))));
        }
        if let Some(choices) = self.choices.as_ref().filter(|choices| !choices.contains(value)) {
            let choices: Vec<_> = choices.iter().map(Value::to_string).collect();
            return Err(invalid(path, format!("is {}; it must be one of {}", shown(value), choices.join(", "))));
        }
        match value {
            Value::Object(object) => self.check_object(object, path, depth)?,
            Value::Array(items) => self.check_items(items, path, depth)?,
            Value::String(text) => {
                let length = text.chars().count() as u64;
                within(self.bounds.lengths, length)
                    .map_err(|bound| invalid(path, format!("has {length} characters; {bound}")))?;
            }
            Value::Number(number) => self.bounds.check_number(number.as_f64().unwrap_or_default(), path)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.check_combined(value, path, depth)
    }

    fn check_object(&self, object: &Map<String, Value>, path: &str, depth: usize) -> Result<(), InvalidArguments> {
        let within = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if let Some(name) = self.required.iter().find(|name| !object.contains_key(*name)) {
            return Err(invalid(&within(name), "is missing".to_owned()));
        }
        for (name, value) in object {
            match (self.properties.get(name), &self.others) {
                (Some(node), _) => node.check(value, &within(name), depth + 1)?,
                (None, Others::Anything) => {}
                (None, Others::Fit(others)) => others.check(value, &within(name), depth + 1)?,
                (None, Others::Forbidden) => return Err(invalid(&within(name), "is not allowed".to_owned())),
            }
        }
        Ok(())
    }

    fn check_items(&self, items: &[Value], path: &str, depth: usize) -> Result<(), InvalidArguments> {
        let count = items.len() as u64;
        within(self.bounds.counts, count).map_err(|bound| invalid(path, format!("has {count} items; {bound}")))?;
        if self.bounds.are_distinct && items.iter().enumerate().any(|(i, item)| items[..i].contains(item)) {
            return Err(invalid(path, "has an item twice".to_owned()));
        }
        let Some(node) = &self.items else { return Ok(()) };
        items.iter().enumerate().try_for_each(|(i, item)| node.check(item, &format!("{path}[{i}]"), depth + 1))
    }

    fn check_combined(&self, value: &Value, path: &str, depth: usize) -> Result<(), InvalidArguments> {
        self.all_of.iter().try_for_each(|node| node.check(value, path, depth + 1))?;
        let fits = |nodes: &[Node]| nodes.iter().filter(|node| node.check(value, path, depth + 1).is_ok()).count();
        if !self.any_of.is_empty() && fits(&self.any_of) == 0 {
            return Err(invalid(path, format!("is {}, which is none of what it may be", shown(value))));
        }
        if !self.one_of.is_empty() && fits(&self.one_of) != 1 {
            return Err(invalid(path, format!("is {}, which is not exactly one of what it may be", shown(value))));
        }
        Ok(())
    }
}

impl Type {
    const ALL: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    fn holds(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

fn types(value: &Value, path: &str) -> Result<Vec<Type>, SchemaError> {
    let one = |value: &Value| {
        let found = Type::ALL.iter().find(|(name, _)| value == name).map(|(_, kind)| *kind);
        found.ok_or_else(|| shape(path, "string, number, integer, boolean, null, array or object"))
    };
    match value {
        Value::Array(names) => names.iter().map(one).collect(),
        name => Ok(vec![one(name)?]),
    }
}

fn list<'a>(value: &'a Value, path: &str) -> Result<&'a Vec<Value>, SchemaError> {
    value.as_array().ok_or_else(|| shape(path, "a list"))
}

fn text(value: &Value, path: &str) -> Result<String, SchemaError> {
    value.as_str().map(str::to_owned).ok_or_else(|| shape(path, "a text"))
}

fn shape(path: &str, expected: &'static str) -> SchemaError {
    SchemaError::Shape { path: path.to_owned(), expected }
}

fn invalid(path: &str, problem: String) -> InvalidArguments {
    InvalidArguments { path: path.to_owned(), problem }
}

/// Enough of a value to recognize it.
fn shown(value: &Value) -> String {
    const LENGTH: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
