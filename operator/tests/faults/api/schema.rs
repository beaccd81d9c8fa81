//! Structural schemas of our own kinds: what is dropped, filled in and refused. Rules are evaluated by `kube-cel`.

use std::{cell::RefCell, collections::BTreeMap};

use kube_cel::{CompiledSchema, Validator, apply_defaults, compile_schema};
use regex::Regex;
use serde_json::{Map, Value, json};

use super::refusal::Cause;

/// The schema of a kind's stored version, with its rules.
pub struct Schema {
    root: Value,
    rules: CompiledSchema,
    validator: Validator,
    patterns: RefCell<BTreeMap<String, Regex>>,
}

thread_local! {
    // A test has one thread; rules take long to compile, and last as long as the tests.
    static KNOWN: RefCell<BTreeMap<&'static str, &'static Schema>> = const { RefCell::new(BTreeMap::new()) };
}

impl Schema {
    /// The schema of one of our kinds.
    pub fn of(kind: &'static str) -> &'static Self {
        KNOWN.with_borrow_mut(|known| *known.entry(kind).or_insert_with(|| Box::leak(Box::new(Self::read(kind)))))
    }

    fn read(kind: &str) -> Self {
        let definitions = slipway_crds::definitions();
        let definition = definitions.iter().find(|definition| definition.spec.names.kind == kind).unwrap();
        let definition = serde_json::to_value(definition).unwrap();
        let root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        let rules = compile_schema(&root);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Self { root, rules, validator: Validator::new(), patterns: RefCell::default() }
    }

    /// The schema of the whole object.
    pub fn root(&'static self) -> &'static Value {
        &self.root
    }

    /// An object without fields that the schema does not have.
    pub fn pruned(&self, object: &Value) -> Value {
        let mut pruned = pruned(&self.root, object);
        for kept in ["apiVersion", "kind", "metadata"] {
            if let Some(value) = object.get(kept) {
                pruned[kept] = value.clone();
            }
        }
        pruned
    }

    /// An object with what it leaves to the schema. A null where none may be counts as left out.
    pub fn defaulted(&self, object: &Value) -> Value {
        apply_defaults(&self.root, &without_nulls(&self.root, object))
    }

    /// What is wrong with an object, and with its change.
    pub fn problems(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        for part in ["spec", "status"] {
            match (self.root["properties"].get(part), object.get(part)) {
                (Some(schema), Some(value)) => self.check(schema, value, part, &mut causes),
                (Some(_), None) if is_required(&self.root, part) => causes.push(required(part)),
                _ => {}
            }
        }
        // As the server does: rules read an object that its schema admits.
        if !causes.is_empty() {
            return causes;
        }
        let Err(errors) = self.validator.validate_compiled(&self.rules, object, old) else { return causes };
        let told = |error: &kube_cel::ValidationError| Cause {
            field: error.field_path.clone(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {}", error.message),
        };
        errors.as_slice().iter().map(told).collect()
    }

    fn check(&self, schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        if value.is_null() && schema["nullable"] == json!(true) {
            return;
        }
        let wanted = schema["type"].as_str();
        if let Some(wanted) = wanted.filter(|wanted| !is_of(wanted, value)) {
            let problem = format!("{path} in body must be of type {wanted}");
            causes.push(Cause { reason: "FieldValueTypeInvalid", ..Cause::invalid(path, value, &problem) });
            return;
        }
        if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
            let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
            let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
            causes.push(Cause { field: path.to_owned(), reason: "FieldValueNotSupported", message });
        }
        match value {
            Value::Object(members) => self.check_members(schema, members, path, causes),
            Value::Array(items) => self.check_items(schema, items, path, causes),
            Value::String(text) => self.check_text(schema, text, path, causes),
            Value::Number(number) => check_number(schema, number.as_f64().unwrap_or_default(), path, causes),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_members(&self, schema: &Value, members: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
        let properties = schema["properties"].as_object();
        let missing = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        causes.extend(
            missing.filter(|name| !members.contains_key(*name)).map(|name| required(&format!("{path}.{name}"))),
        );
        bounded(schema, ("minProperties", "maxProperties"), members.len(), path, causes);
        for (name, value) in members {
            let of_map = schema.get("additionalProperties").filter(|schema| schema.is_object());
            if let Some(schema) = properties.and_then(|properties| properties.get(name)).or(of_map) {
                self.check(schema, value, &format!("{path}.{name}"), causes);
            }
        }
    }

    fn check_items(&self, schema: &Value, items: &[Value], path: &str, causes: &mut Vec<Cause>) {
        bounded(schema, ("minItems", "maxItems"), items.len(), path, causes);
        let keys: Vec<&str> =
            schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_set = schema["x-kubernetes-list-type"] == json!("set");
        let mut seen: Vec<Value> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            self.check(&schema["items"], item, &path, causes);
            let identity =
                if keys.is_empty() { item.clone() } else { keys.iter().map(|key| item[*key].clone()).collect() };
            if (is_set || !keys.is_empty()) && seen.contains(&identity) {
                let message = format!("Duplicate value: {identity}");
                causes.push(Cause { field: path, reason: "FieldValueDuplicate", message });
            }
            seen.push(identity);
        }
    }

    fn check_text(&self, schema: &Value, text: &str, path: &str, causes: &mut Vec<Cause>) {
        bounded(schema, ("minLength", "maxLength"), text.chars().count(), path, causes);
        let Some(pattern) = schema["pattern"].as_str() else { return };
        let mut patterns = self.patterns.borrow_mut();
        let known = patterns.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).expect(pattern));
        if !known.is_match(text) {
            let problem = format!("{path} in body should match '{pattern}'");
            causes.push(Cause::invalid(path, &json!(text), &problem));
        }
    }
}

fn required(path: &str) -> Cause {
    Cause { field: path.to_owned(), reason: "FieldValueRequired", message: "Required value".to_owned() }
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|each| each == name))
}

fn is_of(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

/// What is wrong with a count that is out of its bounds.
fn bounded(schema: &Value, (least, most): (&str, &str), count: usize, path: &str, causes: &mut Vec<Cause>) {
    let bound = |name: &str| schema[name].as_u64().and_then(|bound| usize::try_from(bound).ok());
    if let Some(most) = bound(most).filter(|most| count > *most) {
        let message = format!("Too many: {count}: must have at most {most} items");
        causes.push(Cause { field: path.to_owned(), reason: "FieldValueTooMany", message });
    }
    if let Some(least) = bound(least).filter(|least| count < *least) {
        let message =
            format!("Invalid value: {count}: {path} in body should have at least {least} items or characters");
        causes.push(Cause { field: path.to_owned(), reason: "FieldValueInvalid", message });
    }
}

fn check_number(schema: &Value, number: f64, path: &str, causes: &mut Vec<Cause>) {
    let is_int32 = schema["format"] == json!("int32");
    let least = schema["minimum"].as_f64().or(is_int32.then_some(f64::from(i32::MIN)));
    let most = schema["maximum"].as_f64().or(is_int32.then_some(f64::from(i32::MAX)));
    if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
        let problem = format!("{path} in body should be between {least:?} and {most:?}");
        causes.push(Cause::invalid(path, &json!(number), &problem));
    }
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == json!(true)
}

fn pruned(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let keep = |(name, value): (&String, &Value)| {
                let known = schema["properties"].get(name);
                let of_map = schema.get("additionalProperties").filter(|schema| schema.is_object());
                match known.or(of_map) {
                    Some(schema) => Some((name.clone(), pruned(schema, value))),
                    None if preserves(schema) => Some((name.clone(), value.clone())),
                    None => None,
                }
            };
            Value::Object(members.iter().filter_map(keep).collect())
        }
        Value::Array(items) => items.iter().map(|item| pruned(&schema["items"], item)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Nulls where the schema has a default and allows no null.
fn without_nulls(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let of_map = schema.get("additionalProperties").filter(|schema| schema.is_object());
            let keep = |(name, value): (&String, &Value)| {
                let schema = schema["properties"].get(name).or(of_map).unwrap_or(&Value::Null);
                let is_left_out =
                    value.is_null() && schema["nullable"] != json!(true) && schema.get("default").is_some();
                (!is_left_out).then(|| (name.clone(), without_nulls(schema, value)))
            };
            Value::Object(members.iter().filter_map(keep).collect())
        }
        Value::Array(items) => items.iter().map(|item| without_nulls(&schema["items"], item)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
