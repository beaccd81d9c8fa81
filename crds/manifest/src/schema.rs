//! The structural schema: types, bounds, enumerations, and fields that it does not know. Pure.
//!
//! A definition's schema uses a part of OpenAPI v3 only (Kubernetes, "Specifying a structural schema"). What ours use
//! of it is here. A test reads that they use nothing else.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Map, Value};

use crate::problem::{Bound, Finding, Problem, TooMuch, type_of};

/// Names that are closer than this are taken for one misspelled (Jaro-Winkler similarity).
const ALIKE: f64 = 0.8;

/// Members of every object.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// A structural schema, with its patterns compiled.
#[derive(Debug, Clone)]
pub struct Structure {
    schema: Value,
    patterns: BTreeMap<String, Regex>,
}

impl Structure {
    /// Reads a definition's `openAPIV3Schema`. A pattern that is not a regular expression admits every text.
    #[must_use]
    pub fn new(schema: Value) -> Self {
        let mut patterns = BTreeMap::new();
        compile_patterns(&schema, &mut patterns);
        Self { schema, patterns }
    }

    /// The schema as it was read.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Problems of an object's structure, in the order of its fields. Its metadata is left out.
    #[must_use]
    pub fn findings(&self, object: &Value) -> Vec<Finding> {
        let mut walk = Walk { patterns: &self.patterns, found: Vec::new() };
        walk.visit(&self.schema, object, "");
        walk.found
    }
}

fn compile_patterns(schema: &Value, patterns: &mut BTreeMap<String, Regex>) {
    if let Some(pattern) = schema["pattern"].as_str()
        && let Ok(regex) = Regex::new(pattern)
    {
        patterns.insert(pattern.to_owned(), regex);
    }
    let properties = schema["properties"].as_object().into_iter().flat_map(Map::values);
    let below = properties.chain(schema.get("items")).chain(schema.get("additionalProperties"));
    below.for_each(|below| compile_patterns(below, patterns));
}

struct Walk<'a> {
    patterns: &'a BTreeMap<String, Regex>,
    found: Vec<Finding>,
}

impl Walk<'_> {
    fn note(&mut self, path: &str, problem: Problem) {
        self.found.push(Finding { path: path.to_owned(), problem });
    }

    fn visit(&mut self, schema: &Value, value: &Value, path: &str) {
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        if let Some(expected) = mistaken_type(schema, value) {
            return self.note(path, Problem::Type { expected, found: type_of(value) });
        }
        if let Some(supported) = schema["enum"].as_array().filter(|supported| !supported.contains(value)) {
            self.note(path, Problem::Unsupported { value: value.clone(), supported: supported.clone() });
        }
        match value {
            Value::Object(members) => self.object(schema, members, path),
            Value::Array(items) => self.array(schema, items, path),
            Value::String(text) => self.string(schema, text, path),
            Value::Number(_) => self.number(schema, value, path),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn object(&mut self, schema: &Value, members: &Map<String, Value>, path: &str) {
        if let Some(most) = schema["maxProperties"].as_u64().filter(|most| members.len() as u64 > *most) {
            self.note(path, Problem::TooMuch(TooMuch::Members { count: members.len(), most }));
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !members.contains_key(*name)) {
            self.note(&below(path, name), Problem::Required);
        }
        for (name, member) in members {
            let path = below(path, name);
            match schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
                // Schemas need not have what every object has, and its rules are the same for all kinds.
                _ if OF_EVERY_OBJECT.contains(&path.as_str()) => {}
                Some(schema) => self.visit(schema, member, &path),
                None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                None => self.note(&path, Problem::UnknownField { nearest: nearest(name, &schema["properties"]) }),
            }
        }
    }

    fn array(&mut self, schema: &Value, items: &[Value], path: &str) {
        let count = items.len();
        if let Some(least) = schema["minItems"].as_u64().filter(|least| (count as u64) < *least) {
            self.note(path, Problem::Range { value: count.into(), bound: Bound::Items(least) });
        }
        if let Some(most) = schema["maxItems"].as_u64().filter(|most| count as u64 > *most) {
            self.note(path, Problem::TooMuch(TooMuch::Items { count, most }));
        }
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.visit(&schema["items"], item, &path);
            if let Some(key) = key_of(schema, item).filter(|key| !seen.insert(key.to_string())) {
                self.note(&path, Problem::Duplicate(key));
            }
        }
    }

    fn string(&mut self, schema: &Value, text: &str, path: &str) {
        let characters = text.chars().count() as u64;
        if let Some(least) = schema["minLength"].as_u64().filter(|least| characters < *least) {
            self.note(path, Problem::Range { value: text.into(), bound: Bound::Characters(least) });
        }
        if let Some(most) = schema["maxLength"].as_u64().filter(|most| characters > *most) {
            self.note(path, Problem::TooMuch(TooMuch::Characters(most)));
        }
        let Some(pattern) = schema["pattern"].as_str() else { return };
        if self.patterns.get(pattern).is_some_and(|regex| !regex.is_match(text)) {
            self.note(path, Problem::Pattern { value: text.into(), pattern: pattern.to_owned() });
        }
    }

    fn number(&mut self, schema: &Value, value: &Value, path: &str) {
        let is_past = |bound: &Value, is_past: fn(f64, f64) -> bool| {
            bound.as_f64().zip(value.as_f64()).is_some_and(|(bound, value)| is_past(value, bound))
        };
        if is_past(&schema["minimum"], |value, bound| value < bound) {
            let bound = Bound::AtLeast(whole(&schema["minimum"]));
            self.note(path, Problem::Range { value: value.clone(), bound });
        }
        if is_past(&schema["maximum"], |value, bound| value > bound) {
            let bound = Bound::AtMost(whole(&schema["maximum"]));
            self.note(path, Problem::Range { value: value.clone(), bound });
        }
    }
}

/// The path of a member; the object's own has none before it.
fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The type that the schema has in place of the value's.
fn mistaken_type(schema: &Value, value: &Value) -> Option<String> {
    let expected = schema["type"].as_str()?;
    let is_right = match expected {
        "number" => value.is_number(),
        "integer" => fits(schema, value),
        expected => expected == type_of(value),
    };
    let format = schema["format"].as_str().filter(|_| expected == "integer" && value.is_number());
    (!is_right).then(|| format.unwrap_or(expected).to_owned())
}

/// Whether a value is a whole number of the schema's format.
fn fits(schema: &Value, value: &Value) -> bool {
    match schema["format"].as_str() {
        Some("int32") => value.as_i64().is_some_and(|value| i32::try_from(value).is_ok()),
        _ => value.is_i64() || value.is_u64(),
    }
}

/// A bound as people write it: schemas have 1.0 where they mean 1.
fn whole(bound: &Value) -> Value {
    match bound.as_f64() {
        // Bounds of schemas are far below where floats skip whole numbers.
        Some(number) if number.fract() == 0.0 && number.abs() < 1e15 => (number as i64).into(),
        _ => bound.clone(),
    }
}

/// What tells an item from the others of its list, where the schema says that something must.
fn key_of(schema: &Value, item: &Value) -> Option<Value> {
    match schema["x-kubernetes-list-type"].as_str()? {
        "set" => Some(item.clone()),
        "map" => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array()?.iter().filter_map(Value::as_str);
            let members = keys.filter_map(|key| Some((key.to_owned(), item.get(key)?.clone())));
            Some(Value::Object(members.collect()))
        }
        _ => None,
    }
}

/// The name of a known field that a misspelled one is closest to.
fn nearest(name: &str, properties: &Value) -> Option<String> {
    let known = properties.as_object()?.keys();
    let rated = known.map(|known| (strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase()), known));
    let best = rated.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(similarity, _)| *similarity >= ALIKE).map(|(_, known)| known.clone())
}
