//! The rules of names, as far as they say something of a file. Pure.

use serde_json::Value;

use crate::problem::{Finding, Problem};

/// Most characters of an object's name (RFC 1123, as in `k8s.io/apimachinery/pkg/util/validation`).
const MOST: usize = 253;
const REMEDY: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                      and must start and end with an alphanumeric character";

/// Problems of an object's metadata.
#[must_use]
pub fn findings(metadata: &Value) -> Vec<Finding> {
    let at = |problem| vec![Finding { path: "metadata.name".to_owned(), problem }];
    match (&metadata["name"], &metadata["generateName"]) {
        (Value::String(name), _) if !is_subdomain(name) => at(Problem::Name { value: name.clone(), remedy: REMEDY }),
        (Value::String(_), _) | (Value::Null, Value::String(_)) => Vec::new(),
        _ => at(Problem::Required),
    }
}

fn is_subdomain(name: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_alphanumeric)
            && label.ends_with(is_alphanumeric)
            && label.chars().all(|c| is_alphanumeric(c) || c == '-')
    };
    name.len() <= MOST && name.split('.').all(is_label)
}
