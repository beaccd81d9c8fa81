//! Turns what the model wrote between the brackets into named arguments. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

/// Why the text does not fit the tool's parameters. Written for the model, which reads it as an observation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// Another number of arguments than parameters.
    #[error("expected {expected}, got {found} argument(s)")]
    Count {
        /// The parameters, as they should be written.
        expected: String,
        /// How many were found.
        found: usize,
    },
    /// An object that lacks a parameter.
    #[error("argument {name:?} is missing")]
    Missing {
        /// The parameter.
        name: String,
    },
    /// An object with something nobody asked for.
    #[error("unknown argument {name:?}")]
    Unknown {
        /// The key.
        name: String,
    },
    /// An argument that is neither text, number nor boolean.
    #[error("argument {name:?} must be a text, a number or a boolean")]
    NotScalar {
        /// The parameter.
        name: String,
    },
}

/// Splits `input` into one argument per parameter: an object of JSON by its keys, anything else at `separator`.
///
/// # Errors
/// See [`ArgumentError`].
pub(super) fn parse(
    input: &str,
    parameters: &[String],
    separator: &str,
) -> Result<BTreeMap<String, String>, ArgumentError> {
    if let Ok(Value::Object(object)) = serde_json::from_str(input) {
        return from_object(object, parameters);
    }
    let values: Vec<&str> = match parameters.len() {
        0 if input.is_empty() => Vec::new(),
        0 | 1 => vec![input],
        _ => input.split(separator).map(str::trim).collect(),
    };
    if values.len() != parameters.len() {
        let expected = if parameters.is_empty() { "nothing".into() } else { parameters.join(separator) };
        return Err(ArgumentError::Count { expected, found: values.len() });
    }
    Ok(parameters.iter().cloned().zip(values.into_iter().map(String::from)).collect())
}

fn from_object(
    object: serde_json::Map<String, Value>,
    parameters: &[String],
) -> Result<BTreeMap<String, String>, ArgumentError> {
    let mut arguments = BTreeMap::new();
    for (name, value) in object {
        if !parameters.contains(&name) {
            return Err(ArgumentError::Unknown { name });
        }
        let text = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(boolean) => boolean.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return Err(ArgumentError::NotScalar { name }),
        };
        arguments.insert(name, text);
    }
    match parameters.iter().find(|name| !arguments.contains_key(*name)) {
        Some(name) => Err(ArgumentError::Missing { name: name.clone() }),
        None => Ok(arguments),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn read(input: &str, parameters: &[&str]) -> Result<Vec<(String, String)>, String> {
        let parameters: Vec<_> = parameters.iter().map(|name| (*name).to_owned()).collect();
        parse(input, &parameters, ".").map(|map| map.into_iter().collect()).map_err(|error| error.to_string())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        Ok(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn several_arguments_are_separated_and_one_takes_everything() {
        assert_eq!(read("Bela.height", &["entity", "property"]), pairs(&[("entity", "Bela"), ("property", "height")]));
        assert_eq!(read("a.b c.", &["query"]), pairs(&[("query", "a.b c.")]));
        assert_eq!(read("", &[]), pairs(&[]));
    }

    #[test]
    fn an_object_names_its_arguments() {
        let read = read(r#"{"property": "a.b", "entity": 7}"#, &["entity", "property"]);
        assert_eq!(read, pairs(&[("entity", "7"), ("property", "a.b")]));
    }

    #[rstest]
    #[case::too_few("Bela", "expected entity.property, got 1 argument(s)")]
    #[case::too_many("a.b.c", "expected entity.property, got 3 argument(s)")]
    #[case::missing(r#"{"entity": "Bela"}"#, "argument \"property\" is missing")]
    #[case::unknown(r#"{"entity": "Bela", "field": "x"}"#, "unknown argument \"field\"")]
    #[case::nested(r#"{"entity": ["Bela"]}"#, "argument \"entity\" must be a text, a number or a boolean")]
    fn what_does_not_fit_is_explained(#[case] input: &str, #[case] expected: &str) {
        assert_eq!(read(input, &["entity", "property"]), Err(expected.into()));
    }

    #[test]
    fn a_tool_without_parameters_takes_nothing() {
        assert_eq!(read("x", &[]), Err("expected nothing, got 1 argument(s)".into()));
    }
}
