//! Turns what the model wrote between the brackets into named arguments. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

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
    /// The same, where points of decimal numbers were kept.
    #[error("expected {expected}, got {found} argument(s), as a number keeps its point; write an object of JSON")]
    CountBesideNumbers {
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
    /// An argument that has its place in the address and is neither text, number nor boolean.
    #[error("argument {name:?} must be a text, a number or a boolean")]
    NotScalar {
        /// The parameter.
        name: String,
    },
}

/// The names of a tool's arguments, in the order of its configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters<'a> {
    pub(super) all: &'a [String],
    /// Those that an object may leave out.
    pub(super) optional: &'a [String],
}

/// Splits `input` into one argument per parameter. An object of JSON is split by its keys, and its values keep their
/// types. Any other text is split at `separator`, except at the point of a decimal number, and its arguments are texts.
///
/// # Errors
/// See [`ArgumentError`].
pub(super) fn parse(
    input: &str,
    names: Parameters<'_>,
    separator: &str,
) -> Result<BTreeMap<String, Value>, ArgumentError> {
    if let Ok(Value::Object(object)) = serde_json::from_str(input) {
        return from_object(object, names);
    }
    let parameters = names.all;
    let values: Vec<&str> = match parameters.len() {
        0 if input.is_empty() => Vec::new(),
        0 | 1 => vec![input],
        _ => split(input, separator).into_iter().map(str::trim).collect(),
    };
    if values.len() != parameters.len() {
        let expected = if parameters.is_empty() { "nothing".into() } else { parameters.join(separator) };
        let found = values.len();
        let has_numbers = parameters.len() > 1 && input.split(separator).count() != found;
        return Err(match has_numbers {
            true => ArgumentError::CountBesideNumbers { expected, found },
            false => ArgumentError::Count { expected, found },
        });
    }
    Ok(parameters.iter().cloned().zip(values.into_iter().map(Value::from)).collect())
}

/// Gives the texts of arguments that have their place in an address.
///
/// # Errors
/// [`ArgumentError::NotScalar`].
pub(super) fn texts<'a>(
    arguments: &BTreeMap<String, Value>,
    names: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<String, String>, ArgumentError> {
    let text = |name: &str, value: &Value| match value {
        Value::String(text) => Ok((name.to_owned(), text.clone())),
        Value::Number(number) => Ok((name.to_owned(), number.to_string())),
        Value::Bool(boolean) => Ok((name.to_owned(), boolean.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(ArgumentError::NotScalar { name: name.to_owned() }),
    };
    names.filter_map(|name| arguments.get(name).map(|value| text(name, value))).collect()
}

fn from_object(object: Map<String, Value>, names: Parameters<'_>) -> Result<BTreeMap<String, Value>, ArgumentError> {
    let Parameters { all, optional } = names;
    if let Some(name) = object.keys().find(|name| !all.contains(name)) {
        return Err(ArgumentError::Unknown { name: name.clone() });
    }
    match all.iter().find(|name| !object.contains_key(*name) && !optional.contains(name)) {
        Some(name) => Err(ArgumentError::Missing { name: name.clone() }),
        None => Ok(object.into_iter().collect()),
    }
}

fn split<'a>(input: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, _) in input.match_indices(separator) {
        let (before, after) = (&input[begin..at], &input[at + separator.len()..]);
        if separator != "." || !is_point(before, after) {
            parts.push(before);
            begin = at + separator.len();
        }
    }
    parts.push(&input[begin..]);
    parts
}

/// Whether a point stands within a decimal number: behind digits that no name begins and no point precedes, and before
/// a digit.
fn is_point(before: &str, after: &str) -> bool {
    let rest = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_number = rest.len() < before.len();
    let is_part_of_a_name = rest.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '.'));
    is_number && !is_part_of_a_name && after.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn read(input: &str, parameters: &[&str]) -> Result<Vec<(String, Value)>, String> {
        let parameters: Vec<_> = parameters.iter().map(|name| (*name).to_owned()).collect();
        parse(input, Parameters { all: &parameters, optional: &[] }, ".")
            .map(|map| map.into_iter().collect())
            .map_err(|error| error.to_string())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, Value)>, String> {
        Ok(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn several_arguments_are_separated_and_one_takes_everything() {
        assert_eq!(read("Bela.height", &["entity", "property"]), pairs(&[("entity", "Bela"), ("property", "height")]));
        assert_eq!(read("a.b c.", &["query"]), pairs(&[("query", "a.b c.")]));
        assert_eq!(read("", &[]), pairs(&[]));
    }

    #[rstest]
    #[case::first("3.5.EUR", "3.5", "EUR")]
    #[case::last("EUR.3.5", "EUR", "3.5")]
    #[case::both("3.5.2.25", "3.5", "2.25")]
    #[case::signed("-3.5. +0.5", "-3.5", "+0.5")]
    #[case::in_a_text("about 3.5 m.high", "about 3.5 m", "high")]
    #[case::number_in_a_name("Room7.2", "Room7", "2")]
    #[case::number_before_a_name("7.height", "7", "height")]
    fn a_decimal_number_keeps_its_point(#[case] input: &str, #[case] first: &str, #[case] second: &str) {
        assert_eq!(read(input, &["a", "b"]), pairs(&[("a", first), ("b", second)]));
    }

    #[test]
    fn an_object_names_its_arguments_and_their_types() {
        let input = json!({ "a": "b.c", "d": 7, "e": 1.5, "f": true, "g": null, "h": [1, "two"], "i": { "j": [] } });
        let names = ["a", "d", "e", "f", "g", "h", "i"];
        let expected = names.map(|name| (name.to_owned(), input[name].clone())).to_vec();
        assert_eq!(read(&input.to_string(), &names), Ok(expected));
    }

    #[test]
    fn an_address_takes_texts_numbers_and_booleans() {
        let arguments = BTreeMap::from(
            [("a", json!("x")), ("b", json!(7.5)), ("c", json!(false)), ("d", json!(["x"])), ("e", json!(null))]
                .map(|(name, value)| (name.to_owned(), value)),
        );
        let expected = [("a", "x"), ("b", "7.5"), ("c", "false")].map(|(name, text)| (name.into(), text.into()));
        assert_eq!(texts(&arguments, ["a", "b", "c"].into_iter()), Ok(BTreeMap::from(expected)));
        for name in ["d", "e"] {
            let message = texts(&arguments, [name].into_iter()).expect_err("it is no text").to_string();
            assert_eq!(message, format!("argument {name:?} must be a text, a number or a boolean"));
        }
    }

    #[rstest]
    #[case::too_few("Bela", "expected entity.property, got 1 argument(s)")]
    #[case::too_many("a.b.c", "expected entity.property, got 3 argument(s)")]
    #[case::missing(r#"{"entity": "Bela"}"#, "argument \"property\" is missing")]
    #[case::unknown(r#"{"entity": "Bela", "field": "x"}"#, "unknown argument \"field\"")]
    #[case::number(
        "12.5",
        "expected entity.property, got 1 argument(s), as a number keeps its point; write an object of JSON"
    )]
    fn what_does_not_fit_is_explained(#[case] input: &str, #[case] expected: &str) {
        assert_eq!(read(input, &["entity", "property"]), Err(expected.into()));
    }

    #[test]
    fn an_object_may_leave_out_what_is_optional() {
        let all = ["city", "unit"].map(str::to_owned);
        let names = Parameters { all: &all, optional: &all[1..] };
        let object = BTreeMap::from([("city".to_owned(), json!("Bern"))]);
        assert_eq!(parse(r#"{"city": "Bern"}"#, names, "."), Ok(object));
        assert_eq!(parse("{}", names, "."), Err(ArgumentError::Missing { name: "city".into() }));
    }

    #[test]
    fn a_tool_without_parameters_takes_nothing() {
        assert_eq!(read("x", &[]), Err("expected nothing, got 1 argument(s)".into()));
    }
}
