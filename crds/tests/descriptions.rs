//! What users read of fields: `kubectl explain` shows the descriptions of the definitions.

use pretty_assertions::assert_eq;
use serde_json::Value;

/// Marks of Rust: a path, and a link of its documentation.
const RUST: [&str; 2] = ["::", "[`"];

/// Every description below a value that has a mark of Rust, with the path to it.
fn rust_below(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str().filter(|_| name == "description") {
                    Some(text) if RUST.iter().any(|mark| text.contains(mark)) => found.push(format!("{path}: {text}")),
                    Some(_) => {}
                    None => rust_below(member, &format!("{path}.{name}"), found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| rust_below(item, path, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn no_description_that_users_read_has_rust_in_it() {
    let mut found = Vec::new();
    for definition in slipway_crds::definitions() {
        let kind = definition.spec.names.kind.clone();
        let definition = serde_json::to_value(&definition).unwrap_or_default();
        assert!(definition["spec"]["versions"][0]["schema"].is_object(), "{kind} has a schema");
        rust_below(&definition, &kind, &mut found);
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn rust_in_a_description_is_found_wherever_it_is() {
    let schema = serde_json::json!({
        "description": "As [`Plan`] has it.",
        "oneOf": [{"description": "Of crate::values."}],
        "properties": {"description": {"description": "A `Vec::new()`."}, "name": {"description": "A name."}},
    });
    let mut found = Vec::new();
    rust_below(&schema, "Example", &mut found);
    assert_eq!(
        found,
        [
            "Example: As [`Plan`] has it.",
            "Example.oneOf: Of crate::values.",
            "Example.properties.description: A `Vec::new()`.",
        ]
    );
}
