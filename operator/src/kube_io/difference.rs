//! Whether an object already is what it should be, so that an unchanged object costs no write. Pure.

use serde_json::Value;
use slipway_crds::labels;

/// Whether everything that `wanted` says holds in `observed`.
///
/// The API server fills in defaults, so `observed` may say more. Whatever `wanted` no longer says would go unnoticed: for that,
/// objects carry the hash of what was applied last.
pub fn holds(wanted: &Value, observed: &Value) -> bool {
    match (wanted, observed) {
        (Value::Object(wanted), Value::Object(observed)) => wanted.iter().all(|(key, value)| match observed.get(key) {
            Some(found) => holds(value, found),
            None => is_empty(value),
        }),
        (Value::Array(wanted), Value::Array(observed)) => {
            wanted.len() == observed.len()
                && wanted.iter().zip(observed).all(|(wanted, observed)| holds(wanted, observed))
        }
        (wanted, observed) => wanted == observed,
    }
}

/// The API server leaves out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The hash under which an object was applied last.
pub fn applied_hash(observed: &Value) -> Option<&str> {
    observed.get("metadata")?.get("annotations")?.get(labels::APPLIED_HASH)?.as_str()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::defaults_of_the_server(json!({"a": 1}), json!({"a": 1, "b": 2}), true)]
    #[case::changed_value(json!({"a": 1}), json!({"a": 2}), false)]
    #[case::missing_member(json!({"a": {"b": 1}}), json!({"a": {}}), false)]
    #[case::shorter_list(json!([1]), json!([1, 2]), false)]
    #[case::defaults_within_a_list(json!([{"name": "x"}]), json!([{"name": "x", "protocol": "TCP"}]), true)]
    #[case::empty_is_absent(json!({"a": {}}), json!({}), true)]
    fn an_object_holds_when_nothing_that_is_wanted_differs(
        #[case] wanted: Value,
        #[case] observed: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(holds(&wanted, &observed), expected);
    }
}
