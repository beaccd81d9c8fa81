//! Reads and writes protobuf text, as Triton's config.pbtxt is written, without the schema.
//!
//! Format: <https://protobuf.dev/reference/protobuf/textformat-spec/>. Extension names, `Any` and numbers' values are
//! not interpreted; a value that is not a message stays the text that it was.

use std::fmt;

/// One `name: value` or `name { ... }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Its value; a list is several fields of one name.
    pub value: Value,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A quoted string, unescaped.
    Text(String),
    /// A number, boolean or enum name, as written.
    Bare(String),
    /// Fields in braces.
    Message(Vec<Field>),
}

/// Says where a text is not protobuf text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}, found {found}")]
pub struct SyntaxError {
    line: usize,
    expected: &'static str,
    found: String,
}

/// Parses a document.
///
/// # Errors
/// [`SyntaxError`] with the line.
pub fn parse(text: &str) -> Result<Vec<Field>, SyntaxError> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0 };
    let fields = parser.fields()?;
    match parser.peek() {
        None => Ok(fields),
        Some(_) => Err(parser.unexpected("a field name")),
    }
}

/// Writes fields as a document, two spaces a level.
pub fn write(fields: &[Field]) -> String {
    let mut text = String::new();
    write_level(fields, 0, &mut text);
    text
}

/// Returns the first value of a name.
pub fn get<'a>(fields: &'a [Field], name: &str) -> Option<&'a Value> {
    fields.iter().find(|f| f.name == name).map(|f| &f.value)
}

/// Returns the first value of a name if it is a scalar: a string's text, or a bare word.
pub fn scalar<'a>(fields: &'a [Field], name: &str) -> Option<&'a str> {
    match get(fields, name)? {
        Value::Text(text) | Value::Bare(text) => Some(text),
        Value::Message(_) => None,
    }
}

fn write_level(fields: &[Field], depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for Field { name, value } in fields {
        match value {
            Value::Text(value) => text.push_str(&format!("{indent}{name}: {}\n", quoted(value))),
            Value::Bare(value) => text.push_str(&format!("{indent}{name}: {value}\n")),
            Value::Message(inner) => {
                text.push_str(&format!("{indent}{name} {{\n"));
                write_level(inner, depth + 1, text);
                text.push_str(&format!("{indent}}}\n"));
            }
        }
    }
}

fn quoted(value: &str) -> String {
    let mut text = String::from('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Mark(char),
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
}

impl Parser {
    fn fields(&mut self) -> Result<Vec<Field>, SyntaxError> {
        let mut fields = Vec::new();
        while let Some(Token::Word(name)) = self.peek().cloned() {
            self.next += 1;
            let colon = self.accept(':');
            if self.accept('[') {
                self.list(&name, &mut fields)?;
            } else {
                let value = self.value(colon)?;
                fields.push(Field { name, value });
            }
            let _ = self.accept(',') || self.accept(';');
        }
        Ok(fields)
    }

    fn list(&mut self, name: &str, fields: &mut Vec<Field>) -> Result<(), SyntaxError> {
        while !self.accept(']') {
            let value = self.value(true)?;
            fields.push(Field { name: name.to_owned(), value });
            // A comma after the last element is not in the specification, and Triton's own examples have it not; it
            // is accepted because the meaning is plain.
            let _ = self.accept(',');
        }
        Ok(())
    }

    fn value(&mut self, scalar_allowed: bool) -> Result<Value, SyntaxError> {
        for (open, close, expected) in [('{', '}', "a field name or }"), ('<', '>', "a field name or >")] {
            if self.accept(open) {
                let fields = self.fields()?;
                return if self.accept(close) { Ok(Value::Message(fields)) } else { Err(self.unexpected(expected)) };
            }
        }
        match self.peek().cloned() {
            Some(Token::Word(word)) if scalar_allowed => {
                self.next += 1;
                Ok(Value::Bare(word))
            }
            Some(Token::Text(mut text)) if scalar_allowed => {
                self.next += 1;
                // Adjacent strings are one.
                while let Some(Token::Text(more)) = self.peek().cloned() {
                    text.push_str(&more);
                    self.next += 1;
                }
                Ok(Value::Text(text))
            }
            _ => Err(self.unexpected(if scalar_allowed { "a value" } else { ": or {" })),
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn accept(&mut self, mark: char) -> bool {
        let accepted = self.peek() == Some(&Token::Mark(mark));
        self.next += usize::from(accepted);
        accepted
    }

    fn unexpected(&self, expected: &'static str) -> SyntaxError {
        let (line, found) = match self.tokens.get(self.next) {
            Some((line, token)) => (*line, token.to_string()),
            None => (self.tokens.last().map_or(1, |(line, _)| *line), "the end of the file".to_owned()),
        };
        SyntaxError { line, expected, found }
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => line += 1,
            c if c.is_whitespace() => {}
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '"' | '\'' => tokens.push((line, Token::Text(string(c, line, &mut chars)?))),
            c if is_word(c) => {
                let mut word = String::from(c);
                while let Some(more) = chars.next_if(|c| is_word(*c)) {
                    word.push(more);
                }
                tokens.push((line, Token::Word(word)));
            }
            c => tokens.push((line, Token::Mark(c))),
        }
    }
    Ok(tokens)
}

fn string(quote: char, line: usize, chars: &mut impl Iterator<Item = char>) -> Result<String, SyntaxError> {
    let mut text = String::new();
    let unterminated = || SyntaxError { line, expected: "a closing quote", found: "the end of the line".to_owned() };
    loop {
        match chars.next() {
            None | Some('\n') => return Err(unterminated()),
            Some(c) if c == quote => return Ok(text),
            Some('\\') => match chars.next().ok_or_else(unterminated)? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                c => text.push(c),
            },
            Some(c) => text.push(c),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+' | '/')
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Text(text) => write!(f, "the string {text:?}"),
            Self::Mark(mark) => write!(f, "{mark:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tritons_forms_of_lists_and_messages_are_understood() {
        let text = r#"
            name: "agent" # the served name
            input [ { name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }, { name: 'n', dims: -1 } ]
            instance_group { kind: KIND_CPU; count: 2 }
            dims: [ 1, 2 ]
            parameters { key: "a" "b" value: { string_value: "x\"y\n" } }
        "#;
        let fields = parse(text).unwrap();
        assert_eq!(scalar(&fields, "name"), Some("agent"));
        assert_eq!(fields.iter().filter(|f| f.name == "input").count(), 2);
        assert_eq!(fields.iter().filter(|f| f.name == "dims").count(), 2);
        let Some(Value::Message(parameter)) = get(&fields, "parameters") else { panic!("a message") };
        assert_eq!(scalar(parameter, "key"), Some("ab"));
        assert_eq!(parse(&write(&fields)).unwrap(), fields);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("name: \"a\"\nmax_batch_size: }", "line 2: expected a value, found '}'"),
            ("a {\n b: 1\n", "line 2: expected a field name or }, found the end of the file"),
            ("a \"b\"", "line 1: expected : or {, found the string \"b\""),
            ("a: \"b", "line 1: expected a closing quote, found the end of the line"),
            ("count: ${instances}", "line 1: expected a value, found '$'"),
        ] {
            let found = parse(text).map(|f| write(&f)).unwrap_err().to_string();
            assert_eq!(found, expected);
        }
    }

    fn fields() -> impl Strategy<Value = Vec<Field>> {
        let scalar = prop_oneof![".*".prop_map(Value::Text), "[A-Z_0-9]{1,8}".prop_map(Value::Bare)];
        let value = scalar.prop_recursive(3, 20, 4, |inner| {
            prop::collection::vec(("[a-z_]{1,8}", inner), 0..4)
                .prop_map(|f| Value::Message(f.into_iter().map(|(name, value)| Field { name, value }).collect()))
        });
        prop::collection::vec(("[a-z_]{1,8}", value), 0..6)
            .prop_map(|f| f.into_iter().map(|(name, value)| Field { name, value }).collect())
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(fields in fields()) {
            prop_assert_eq!(parse(&write(&fields)).unwrap(), fields);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = parse(&text);
        }
    }
}
