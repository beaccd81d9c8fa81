//! Nulls that the API server does not keep. Pure.

use serde_json::Value;

/// Removes members that are null where the schema does not allow it. The API server does so before it fills in defaults
/// (Kubernetes, "Extend the Kubernetes API with CustomResourceDefinitions", Defaulting and Nullable).
pub fn remove(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            let of = |name: &str| schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
            members.retain(|name, member| !member.is_null() || of(name)["nullable"] == true);
            members.iter_mut().for_each(|(name, member)| remove(of(name), member));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove(&schema["items"], item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
