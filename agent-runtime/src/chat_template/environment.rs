//! What templates find: the filters, tests, functions and methods of transformers' environment. Pure.
//!
//! <https://github.com/huggingface/transformers/blob/main/src/transformers/utils/chat_template_utils.py>

use minijinja::{
    Environment, Error, ErrorKind, State, Value,
    syntax::SyntaxConfig,
    value::{Kwargs, Rest, ValueKind, from_args},
};
use minijinja_contrib::pycompat;

use crate::clock::Timestamp;

use super::{markup, python};

/// What a template said by `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Raised {
    pub(super) reason: String,
}

/// An environment without templates.
pub(super) fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(|out, _, value| match value.as_str() {
        Some(text) => Ok(out.write_str(text)?),
        None => Ok(out.write_str(&python::str(value))?),
    });
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", tojson);
    environment.add_filter("indent", indent);
    environment.add_filter("string", |value: &Value| python::str(value));
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", is_iterable);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function(markup::SUM, markup::function);
    Ok(environment)
}

/// The function that tells templates the present time.
pub(super) fn strftime_now(now: Timestamp) -> Value {
    Value::from_function(move |format: &str| {
        let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let unusable = |error: jiff::Error| Error::new(ErrorKind::InvalidOperation, error.to_string());
        let now = jiff::Timestamp::from_microsecond(micros).map_err(unusable)?.to_zoned(jiff::tz::TimeZone::UTC);
        jiff::fmt::strtime::format(format, &now).map_err(unusable)
    })
}

fn raise_exception(reason: String) -> Result<Value, Error> {
    let raised = Error::new(ErrorKind::InvalidOperation, reason.clone());
    Err(raised.with_source(Raised { reason }))
}

/// `json.dumps`, with the arguments that transformers passes on.
fn tojson(value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let argument = |position: usize, name: &str| match positional.get(position) {
        Some(value) => Ok(Some(value.clone())),
        None if named.has(name) => named.get::<Value>(name).map(Some),
        None => Ok(None),
    };
    let ensure_ascii = argument(0, "ensure_ascii")?.is_some_and(|value| value.is_true());
    let indent = argument(1, "indent")?.filter(|value| !value.is_none()).map(indent_of).transpose()?;
    let separators = argument(2, "separators")?.filter(|value| !value.is_none()).map(separators_of).transpose()?;
    let sort_keys = argument(3, "sort_keys")?.is_some_and(|value| value.is_true());
    named.assert_all_used()?;
    python::Dumps::new(ensure_ascii, indent, separators, sort_keys).dumps(value)
}

/// Jinja's `indent`, which keeps an empty last line.
fn indent(text: &str, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let argument = |position: usize, name: &str| match positional.get(position) {
        Some(value) => Ok(Some(value.clone())),
        None => named.get::<Option<Value>>(name),
    };
    let width = argument(0, "width")?.map_or_else(|| Ok(" ".repeat(4)), indent_of)?;
    let first = argument(1, "first")?.is_some_and(|value| value.is_true());
    let blank = argument(2, "blank")?.is_some_and(|value| value.is_true());
    named.assert_all_used()?;
    let lines = python::lines(text).into_iter().enumerate().map(|(i, line)| match (i, line.is_empty()) {
        (0, _) if first => format!("{width}{line}"),
        (0, _) => line,
        (_, true) if !blank => line,
        _ => format!("{width}{line}"),
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn indent_of(value: Value) -> Result<String, Error> {
    match (value.as_str(), value.as_usize()) {
        (Some(text), _) => Ok(text.to_owned()),
        (None, Some(spaces)) => Ok(" ".repeat(spaces.min(python::MAX_INDENT))),
        (None, None) => Err(Error::new(ErrorKind::InvalidOperation, "indent is neither a text nor a number of spaces")),
    }
}

fn separators_of(value: Value) -> Result<(String, String), Error> {
    let part = |index| Ok::<_, Error>(value.get_item_by_index(index)?.to_string());
    Ok((part(0)?, part(1)?))
}

/// Python's lists, texts and dictionaries have a length and items.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Bytes | ValueKind::Undefined => true,
        ValueKind::Iterable => value.len().is_some(),
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Plain | ValueKind::Invalid => false,
        _ => false,
    }
}

/// Generators too; what is undefined is empty.
fn is_iterable(value: &Value) -> bool {
    is_sequence(value) || value.kind() == ValueKind::Iterable
}

/// Methods of Python's types: those that templates use and minijinja's collection lacks, and the collection.
fn method(state: &mut State, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else { return pycompat::unknown_method_callback(state, value, name, arguments) };
    match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(arguments)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(arguments)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "rsplit" => {
            let (separator, most): (&str, Option<usize>) = from_args(arguments)?;
            let parts = text.rsplitn(most.map_or(usize::MAX, |most| most.saturating_add(1)), separator);
            let mut parts: Vec<Value> = parts.map(Value::from).collect();
            parts.reverse();
            Ok(Value::from(parts))
        }
        _ => pycompat::unknown_method_callback(state, value, name, arguments),
    }
}
