//! Arguments that a server wants to see in headers too, for proxies that route by them. Pure.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>, in its part on custom
//! headers from tool parameters. Only the revision without a handshake has them.

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Around a value that is encoded.
const ENCODED: (&str, &str) = ("=?base64?", "?=");
/// The largest whole number that JavaScript holds exactly.
const MAX_INTEGER: i64 = (1 << 53) - 1;

/// An argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirrored {
    header: HeaderName,
    /// The names of the objects that lead to it, and its own.
    path: Vec<String>,
}

/// Finds the arguments of a schema that are repeated.
///
/// # Errors
/// What is wrong with an annotation: its tool must not be used.
pub(super) fn of_schema(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    if annotations(schema, false) > found.len() {
        return Err(format!("{ANNOTATION} stands where no plain argument is"));
    }
    for (i, Mirrored { header, .. }) in found.iter().enumerate() {
        if found[..i].iter().any(|other| other.header == *header) {
            return Err(format!("{ANNOTATION} has the name {header} twice"));
        }
    }
    Ok(found)
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Mirrored>) -> Result<(), String> {
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        if let Some(annotation) = property.get(ANNOTATION) {
            let kind = property.get("type").and_then(Value::as_str).unwrap_or_default();
            if !matches!(kind, "string" | "integer" | "boolean") {
                return Err(format!("{ANNOTATION} of {} is for texts, integers and booleans", path.join(".")));
            }
            let header = annotation.as_str().filter(|header| !header.is_empty());
            let header = header.and_then(|header| HeaderName::try_from(format!("{PREFIX}{header}")).ok());
            let header =
                header.ok_or_else(|| format!("{ANNOTATION} of {} is not a name of a header", path.join(".")))?;
            found.push(Mirrored { header, path: path.clone() });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// How often the annotation stands anywhere. A property may have its name.
fn annotations(value: &Value, are_names: bool) -> usize {
    match value {
        Value::Object(members) => {
            let own = usize::from(!are_names && members.contains_key(ANNOTATION));
            let within = |(name, member): (&String, &Value)| annotations(member, !are_names && name == "properties");
            own + members.iter().map(within).sum::<usize>()
        }
        Value::Array(items) => items.iter().map(|item| annotations(item, false)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

impl Mirrored {
    /// The header for these arguments; nothing where they have no such value.
    pub(super) fn header(&self, arguments: &Map<String, Value>) -> Option<(HeaderName, HeaderValue)> {
        let (first, rest) = self.path.split_first()?;
        let value = rest.iter().try_fold(arguments.get(first)?, |value, name| value.get(name))?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(boolean) => boolean.to_string(),
            Value::Number(number) => {
                number.as_i64().filter(|number| (-MAX_INTEGER..=MAX_INTEGER).contains(number))?.to_string()
            }
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some((self.header.clone(), encoded(&text)))
    }
}

/// A text as the value of a header: as it is, or encoded where it could be taken for something else.
pub(super) fn encoded(text: &str) -> HeaderValue {
    let (before, after) = ENCODED;
    let is_plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte) || byte == b'\t');
    let is_safe = is_plain && text.trim() == text && !(text.starts_with(before) && text.ends_with(after));
    match HeaderValue::from_str(text) {
        Ok(value) if is_safe => value,
        Ok(_) | Err(_) => {
            let value = format!("{before}{}{after}", BASE64_STANDARD.encode(text));
            HeaderValue::from_str(&value).unwrap_or_else(|_| HeaderValue::from_static(""))
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn headers(schema: &Value, arguments: Value) -> Vec<(String, String)> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let mirrored = of_schema(schema).expect("the annotations are good");
        let headers = mirrored.iter().filter_map(|mirrored| mirrored.header(&arguments));
        headers.map(|(name, value)| (name.to_string(), value.to_str().expect("it is text").to_owned())).collect()
    }

    #[test]
    fn annotated_arguments_are_repeated_and_missing_ones_left_out() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "shard": { "type": "object", "properties": { "id": { "type": "integer", "x-mcp-header": "Shard" } } },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            "x-mcp-header": { "type": "string" },
        } });
        let all = json!({ "region": "us-west1", "shard": { "id": -7 }, "dry": true, "x-mcp-header": "y" });
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            headers(&schema, all),
            [pair("mcp-param-dry", "true"), pair("mcp-param-region", "us-west1"), pair("mcp-param-shard", "-7")]
        );
        let some = json!({ "region": null, "shard": { "id": 9_007_199_254_740_992_u64 } });
        assert_eq!(headers(&schema, some), []);
    }

    #[rstest]
    #[case("us-west1", "us-west1")]
    #[case("a b", "a b")]
    #[case("", "")]
    #[case("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?=")]
    #[case(" padded ", "=?base64?IHBhZGRlZCA=?=")]
    #[case("line1\nline2", "=?base64?bGluZTEKbGluZTI=?=")]
    #[case("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")]
    fn values_arrive_as_they_were(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(encoded(text).to_str().expect("it is text"), expected);
    }

    #[rstest]
    #[case(json!({ "properties": { "a": { "type": "number", "x-mcp-header": "A" } } }),
        "x-mcp-header of a is for texts, integers and booleans")]
    #[case(json!({ "properties": { "a": { "type": "string", "x-mcp-header": "" } } }),
        "x-mcp-header of a is not a name of a header")]
    #[case(json!({ "properties": { "a": { "type": "string", "x-mcp-header": "A\r\nB" } } }),
        "x-mcp-header of a is not a name of a header")]
    #[case(json!({ "properties": { "a": { "type": "string", "x-mcp-header": "A" },
                                   "b": { "type": "string", "x-mcp-header": "a" } } }),
        "x-mcp-header has the name mcp-param-a twice")]
    #[case(json!({ "properties": { "a": { "type": "array", "items": { "type": "string", "x-mcp-header": "A" } } } }),
        "x-mcp-header stands where no plain argument is")]
    #[case(json!({ "anyOf": [{ "properties": { "a": { "type": "string", "x-mcp-header": "A" } } }] }),
        "x-mcp-header stands where no plain argument is")]
    fn a_wrong_annotation_is_refused(#[case] schema: Value, #[case] expected: &str) {
        assert_eq!(of_schema(&schema), Err(expected.to_owned()));
    }
}
