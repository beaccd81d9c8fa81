//! Calls in Python's syntax, `[name(key=value), ...]`, with literals as values. Pure.

use serde_json::{Map, Value};

use super::{Arguments, WrittenCall};

/// The deepest nesting of a literal.
const MAX_DEPTH: usize = 32;

/// Reads a list of calls.
///
/// # Errors
/// What is wrong, for the model.
pub fn calls(text: &str) -> Result<Vec<WrittenCall>, String> {
    let mut reader = Reader { rest: text.trim() };
    reader.expect('[')?;
    let mut calls = Vec::new();
    while !reader.take(']') {
        calls.push(reader.call()?);
        if !reader.take(',') {
            reader.expect(']')?;
            break;
        }
    }
    match (reader.rest.trim(), calls.is_empty()) {
        ("", false) => Ok(calls),
        ("", true) => Err("the list has no calls".to_owned()),
        (rest, _) => Err(format!("after the list of calls stands {:?}", shortened(rest))),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, character: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(character) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, character: char) -> Result<(), String> {
        if self.take(character) {
            return Ok(());
        }
        Err(format!("expected {character:?} before {:?}", shortened(self.rest)))
    }

    fn name(&mut self) -> Result<String, String> {
        self.rest = self.rest.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            return Err(format!("expected a name before {:?}", shortened(self.rest)));
        }
        self.rest = rest;
        Ok(name.to_owned())
    }

    fn call(&mut self) -> Result<WrittenCall, String> {
        let name = self.name()?;
        self.expect('(')?;
        let mut pairs = Vec::new();
        while !self.take(')') {
            let key = self.name()?;
            self.expect('=')?;
            pairs.push(format!("{}:{}", Value::String(key), self.value(0)?));
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        // Put together by hand, because a map would sort its keys.
        Ok(WrittenCall { name, arguments: Arguments::Json(format!("{{{}}}", pairs.join(","))) })
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.rest = self.rest.trim_start();
        if depth > MAX_DEPTH {
            return Err(format!("a value has more than {MAX_DEPTH} levels"));
        }
        match self.rest.chars().next() {
            Some('[') => self.items('[', ']', depth).map(Value::Array),
            Some('(') => self.items('(', ')', depth).map(Value::Array),
            Some('{') => self.object(depth).map(Value::Object),
            Some('"' | '\'') => self.text().map(Value::String),
            Some(_) => self.word(),
            None => Err("the list of calls ends too early".to_owned()),
        }
    }

    fn items(&mut self, open: char, close: char, depth: usize) -> Result<Vec<Value>, String> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value(depth + 1)?);
            if !self.take(',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(items)
    }

    fn object(&mut self, depth: usize) -> Result<Map<String, Value>, String> {
        self.expect('{')?;
        let mut object = Map::new();
        while !self.take('}') {
            let key = match self.value(depth + 1)? {
                Value::String(key) => key,
                other => other.to_string(),
            };
            self.expect(':')?;
            object.insert(key, self.value(depth + 1)?);
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        Ok(object)
    }

    /// A text between quotes of either kind.
    fn text(&mut self) -> Result<String, String> {
        let mut characters = self.rest.char_indices();
        let quote = characters.next().map(|(_, quote)| quote).unwrap_or('"');
        let mut text = String::new();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    let escaped = characters.next().map(|(_, escaped)| escaped);
                    match escaped {
                        Some('n') => text.push('\n'),
                        Some('t') => text.push('\t'),
                        Some('r') => text.push('\r'),
                        Some('u') => text.push(code_point(&mut characters)),
                        Some(plain @ ('\\' | '\'' | '"')) => text.push(plain),
                        Some(other) => text.extend(['\\', other]),
                        None => break,
                    }
                }
                end if end == quote => {
                    self.rest = &self.rest[at + end.len_utf8()..];
                    return Ok(text);
                }
                plain => text.push(plain),
            }
        }
        Err("a text is not closed".to_owned())
    }

    /// A number, or one of Python's constants.
    fn word(&mut self) -> Result<Value, String> {
        let end = self.rest.find(|c: char| c.is_whitespace() || ",)]}:".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let value = match word {
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            "None" | "null" => Value::Null,
            number => serde_json::from_str::<serde_json::Number>(number)
                .map(Value::Number)
                .map_err(|_| format!("{:?} is not a value; put texts between quotes", shortened(word)))?,
        };
        self.rest = rest;
        Ok(value)
    }
}

fn code_point(characters: &mut std::str::CharIndices<'_>) -> char {
    let digits: String = characters.by_ref().take(4).map(|(_, digit)| digit).collect();
    u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
