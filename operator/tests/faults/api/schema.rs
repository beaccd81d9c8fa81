//! Structural schemas of our own kinds: what is dropped, filled in and refused. Rules are evaluated by `kube-cel`.

use std::{cell::RefCell, collections::BTreeMap};

use kube_cel::{CompiledSchema, Validator, apply_defaults, compile_schema};
use serde_json::{Value, json};
use slipway_manifest::{Finding, Problem, Structure, nulls, problem::TooMuch};

use super::refusal::Cause;

/// The schema of a kind's stored version, with its rules.
pub struct Schema {
    structure: Structure,
    rules: CompiledSchema,
    validator: Validator,
}

thread_local! {
    // A test has one thread; rules take long to compile, and last as long as the tests.
    static KNOWN: RefCell<BTreeMap<&'static str, &'static Schema>> = const { RefCell::new(BTreeMap::new()) };
}

impl Schema {
    /// The schema of one of our kinds.
    pub fn of(kind: &'static str) -> &'static Self {
        KNOWN.with_borrow_mut(|known| *known.entry(kind).or_insert_with(|| Self::read(kind, None)))
    }

    /// From now on the definition of a kind lacks this field of its status, as that of an earlier release does; nothing
    /// is lacking any more with none.
    pub fn lacks(kind: &'static str, field: Option<&str>) {
        KNOWN.with_borrow_mut(|known| known.insert(kind, Self::read(kind, field)));
    }

    fn read(kind: &str, lacking: Option<&str>) -> &'static Self {
        let definitions = slipway_crds::definitions();
        let definition = definitions.iter().find(|definition| definition.spec.names.kind == kind).unwrap();
        let definition = serde_json::to_value(definition).unwrap();
        let mut root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        if let Some(field) = lacking {
            let fields = root["properties"]["status"]["properties"].as_object_mut();
            assert!(fields.unwrap().remove(field).is_some(), "a field of the status of {kind}");
        }
        let rules = compile_schema(&root);
        assert!(!rules.has_errors(), "{:?}", rules.compilation_errors());
        Box::leak(Box::new(Self { structure: Structure::new(root), rules, validator: Validator::new() }))
    }

    /// The schema of the whole object.
    pub fn root(&self) -> &Value {
        self.structure.schema()
    }

    /// An object without fields that the schema does not have.
    pub fn pruned(&self, object: &Value) -> Value {
        let mut pruned = pruned(self.root(), object);
        for kept in ["apiVersion", "kind", "metadata"] {
            if let Some(value) = object.get(kept) {
                pruned[kept] = value.clone();
            }
        }
        pruned
    }

    /// Paths of fields that the schema does not have, such as `.status.strange` or `.status.slo[name="p95"].odd`.
    pub fn undeclared(&self, object: &Value) -> Vec<String> {
        let mut object = object.clone();
        for known in ["apiVersion", "kind", "metadata"] {
            object.as_object_mut().map(|members| members.remove(known));
        }
        let mut found = Vec::new();
        undeclared(self.root(), &object, "", &mut found);
        found.sort();
        found
    }

    /// An object with what it leaves to the schema. A null where none may be counts as left out.
    pub fn defaulted(&self, object: &Value) -> Value {
        let mut object = object.clone();
        nulls::remove(self.root(), &mut object);
        apply_defaults(self.root(), &object)
    }

    /// What is wrong with an object, and with its change. What was wrong before and has not changed passes: validation
    /// ratcheting of CustomResources, on by default since Kubernetes 1.30.
    pub fn problems(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.all_problems(object, old);
        causes.retain(|cause| !old.is_some_and(|old| is_unchanged(&cause.field, object, old)));
        causes
    }

    fn all_problems(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let findings = self.structure.findings(object);
        let mut causes: Vec<Cause> = findings.iter().map(cause).collect();
        if findings.iter().any(|finding| finding.problem.keeps_rules_unchecked()) {
            let message = "some validation rules were not checked because the object was invalid; \
                           correct the existing errors to complete validation";
            let message = format!("Invalid value: null: {message}");
            causes.push(Cause { field: String::new(), reason: "FieldValueInvalid", message });
            return causes;
        }
        let Err(errors) = self.validator.validate_compiled(&self.rules, object, old) else { return causes };
        let told = |error: &kube_cel::ValidationError| Cause {
            field: error.field_path.clone(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {}", error.message),
        };
        causes.extend(errors.as_slice().iter().map(told));
        causes
    }
}

/// Whether a field is there and the same in both. An item of a list is the same where its whole list is.
fn is_unchanged(path: &str, object: &Value, old: &Value) -> bool {
    let path = path.split('[').next().unwrap_or_default().trim_start_matches('.');
    let at = |object: &Value| path.split('.').try_fold(object.clone(), |value, name| value.get(name).cloned());
    !path.is_empty() && at(object).is_some_and(|value| at(old) == Some(value))
}

/// The cause that the API server names for a problem (`k8s.io/apimachinery/pkg/util/validation/field`: `ErrorType`).
fn cause(finding: &Finding) -> Cause {
    let reason = match finding.problem {
        Problem::Required => "FieldValueRequired",
        Problem::Type { .. } => "FieldValueTypeInvalid",
        Problem::Unsupported { .. } => "FieldValueNotSupported",
        Problem::Duplicate(_) => "FieldValueDuplicate",
        Problem::TooMuch(TooMuch::Characters(_)) => "FieldValueTooLong",
        Problem::TooMuch(TooMuch::Items { .. } | TooMuch::Members { .. }) => "FieldValueTooMany",
        Problem::UnknownField { .. }
        | Problem::Range { .. }
        | Problem::Pattern { .. }
        | Problem::Name { .. }
        | Problem::Rule { .. } => "FieldValueInvalid",
    };
    Cause { field: finding.path.clone(), reason, message: finding.detail() }
}

fn undeclared(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let path = format!("{path}.{name}");
                let of_map = schema.get("additionalProperties").filter(|schema| schema.is_object());
                match schema["properties"].get(name).or(of_map) {
                    Some(schema) => undeclared(schema, value, &path, found),
                    None if preserves(schema) => {}
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                undeclared(&schema["items"], item, &format!("{path}[{}]", place(schema, at, item)), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// How an item of a list is named: by its keys if it has any.
fn place(schema: &Value, at: usize, item: &Value) -> String {
    let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let named: Vec<String> = keys.map(|key| format!("{key}={}", item[key])).collect();
    if named.is_empty() { at.to_string() } else { named.join(",") }
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
