//! What the body of a write says: whether it is read at all, and what of it was said.

use serde_json::{Value, json};

use super::{
    admission,
    refusal::{Cause, Refusal},
    store::Key,
};

/// The object as its kind reads it.
///
/// # Errors
/// When the kind cannot read it.
pub fn read(key: &Key, object: Value) -> Result<Value, Refusal> {
    check_type(key, &object)?;
    let pruned = key.kind.pruned(object);
    let mut object = pruned.map_err(|error| {
        Refusal::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            key.kind.kind, key.kind.version, key.kind.kind
        ))
    })?;
    if !admission::has_amounts(key.kind, &object) {
        return Err(Refusal::bad_request("quantities must be a number with a suffix"));
    }
    // Members of metadata that are empty are left out.
    if let Some(members) = object["metadata"].as_object_mut() {
        let is_empty = |value: &Value| *value == json!([]) || *value == json!({});
        members.retain(|_, value| !is_empty(value));
    }
    if object["metadata"].get("name").is_none() {
        object["metadata"]["name"] = json!(key.name);
    }
    Ok(object)
}

/// Whether an object is of the type that is asked for.
///
/// # Errors
/// When it is of another one.
pub fn check_type(key: &Key, object: &Value) -> Result<(), Refusal> {
    let wanted = (key.kind.api_version(), key.kind.kind);
    let found =
        (object["apiVersion"].as_str().unwrap_or_default().to_owned(), object["kind"].as_str().unwrap_or_default());
    if wanted == found {
        return Ok(());
    }
    if key.kind.is_custom() && wanted.0 == found.0 {
        let cause = Cause::invalid("kind", &object["kind"], &format!("must be {}", key.kind.kind));
        let mut refusal = Refusal::invalid(&key.kind, &key.name, &[cause]);
        refusal.details["kind"] = object["kind"].clone();
        return Err(refusal);
    }
    Err(Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {found:?}",
        key.kind.kind
    )))
}

/// An application of a field that the schema lacks fails as a whole, and is nothing that the server drops.
///
/// # Errors
/// With the fields.
pub fn check_declared(key: &Key, applied: &Value) -> Result<(), Refusal> {
    let Some(schema) = key.kind.schema() else { return Ok(()) };
    let unknown = schema.undeclared(applied);
    if unknown.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = unknown.iter().map(|path| format!("{path}: field not declared in schema")).collect();
    let said = if let [one] = lines.as_slice() { one.clone() } else { format!("errors:\n  {}", lines.join("\n  ")) };
    let namespace = applied["metadata"]["namespace"].as_str().unwrap_or_default();
    let (place, kind) = (format!("{namespace}/{}", key.name), key.kind);
    let of = format!("{place}; {}, Kind={}", kind.api_version(), kind.kind);
    let message = format!("failed to create typed patch object ({of}): {said}");
    Err(Refusal { code: 500, reason: "", ..Refusal::bad_request(message) })
}

/// Of what a type read, what was said: its zeros and empty lists are nobody's words.
pub fn said(read: &Value, words: &Value) -> Value {
    match (read, words) {
        (Value::Object(members), Value::Object(words)) => {
            let kept = members.iter().filter_map(|(name, value)| Some((name.clone(), said(value, words.get(name)?))));
            Value::Object(kept.collect())
        }
        (Value::Array(items), Value::Array(words)) if items.len() == words.len() => {
            items.iter().zip(words).map(|(item, words)| said(item, words)).collect()
        }
        _ => read.clone(),
    }
}

/// Whether an object is of the place that is asked for.
///
/// # Errors
/// When it has another name, or is of another namespace.
pub fn check_place(key: &Key, object: &Value) -> Result<(), Refusal> {
    let metadata = &object["metadata"];
    if metadata.get("namespace").is_some_and(|namespace| *namespace != json!(key.namespace) && !namespace.is_null()) {
        return Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if metadata.get("name").is_some_and(|name| *name != json!(key.name) && !name.is_null()) {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            metadata["name"], key.name
        )));
    }
    Ok(())
}
