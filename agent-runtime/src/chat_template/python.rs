//! Values as Python writes them: `str()` and `json.dumps()`. Pure.
//!
//! <https://docs.python.org/3/library/json.html#json.dumps>

use std::fmt::Write;

use minijinja::{Error, ErrorKind, Value, value::ValueKind};

/// Spaces of an indentation at most: a template's number is not ours.
pub(super) const MAX_INDENT: usize = 64;
/// Levels of lists and objects at most.
const MAX_DEPTH: usize = 256;
/// From this power of ten on, and below the other, Python writes floats with an exponent.
const EXPONENT_FROM: i32 = 16;
const EXPONENT_BELOW: i32 = -4;

/// `str(value)`.
pub(super) fn str(value: &Value) -> String {
    match float(value) {
        Some(float) => float_repr(float),
        None => value.to_string(),
    }
}

/// `str.splitlines()`, with an empty last line behind a line break.
pub(super) fn lines(text: &str) -> Vec<String> {
    let is_break = |c: char| matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    text.replace("\r\n", "\n").split(is_break).map(str::to_owned).collect()
}

/// The value if it is a float; a whole number is not.
fn float(value: &Value) -> Option<f64> {
    let is_float = value.kind() == ValueKind::Number && !value.is_integer();
    is_float.then(|| f64::try_from(value.clone()).ok()).flatten()
}

/// `repr()` of a float: the shortest digits that read back as the same number.
fn float_repr(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (EXPONENT_BELOW..EXPONENT_FROM).contains(&exponent) || float == 0.0 {
        let plain = float.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `json.dumps` with its arguments.
pub(super) struct Dumps {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl Dumps {
    pub(super) fn new(
        ensure_ascii: bool,
        indent: Option<String>,
        separators: Option<(String, String)>,
        sort_keys: bool,
    ) -> Self {
        let usual = if indent.is_some() { (",", ": ") } else { (", ", ": ") };
        let (item_separator, key_separator) = separators.unwrap_or((usual.0.to_owned(), usual.1.to_owned()));
        Self { ensure_ascii, indent, item_separator, key_separator, sort_keys }
    }

    /// The text.
    ///
    /// # Errors
    /// The value has something that JSON cannot hold, or is too deep.
    pub(super) fn dumps(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(&mut out, value, 0)?;
        Ok(out)
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "a value is too deep to be written as JSON"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.write_text(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item)).collect();
                self.write_items(out, ('[', ']'), items, depth)?;
            }
            ValueKind::Map => {
                let mut pairs = Vec::new();
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    pairs.push((Some(key_text(&key)?), item));
                }
                if self.sort_keys {
                    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.write_items(out, ('{', '}'), pairs, depth)?;
            }
            kind => {
                let problem = format!("a value of kind {kind} cannot be written as JSON");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        }
        Ok(())
    }

    fn write_items(
        &self,
        out: &mut String,
        (open, close): (char, char),
        items: Vec<(Option<String>, Value)>,
        depth: usize,
    ) -> Result<(), Error> {
        out.push(open);
        let is_empty = items.is_empty();
        for (i, (key, item)) in items.into_iter().enumerate() {
            if i > 0 {
                out.push_str(&self.item_separator);
            }
            self.begin_line(out, depth + 1);
            if let Some(key) = key {
                self.write_text(out, &key);
                out.push_str(&self.key_separator);
            }
            self.write(out, &item, depth + 1)?;
        }
        if !is_empty {
            self.begin_line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn begin_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_text(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Never fails: a `String` takes everything.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

/// A number as Python's encoder writes it, which has names for what JSON has none.
fn number(value: &Value) -> String {
    match float(value) {
        Some(float) if float.is_nan() => "NaN".to_owned(),
        Some(float) if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        Some(float) => float_repr(float),
        None => value.to_string(),
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => Ok(key.as_str().unwrap_or_default().to_owned()),
        ValueKind::None => Ok("null".to_owned()),
        ValueKind::Bool => Ok(if key.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Ok(number(key)),
        kind => Err(Error::new(ErrorKind::InvalidOperation, format!("a key of kind {kind} cannot be written as JSON"))),
    }
}
