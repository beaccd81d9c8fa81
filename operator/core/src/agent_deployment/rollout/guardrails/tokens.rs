//! The words of a query in PromQL. Pure.
//!
//! As promql/parser/lex.go of Prometheus reads them, and stricter: what only a dialect knows, or reads in another way,
//! is refused.

use std::ops::Range;

use super::refusal::ScopeError;

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name: of a metric, a label, a function, or a word of the language.
    Name,
    /// A text in quotes.
    Text,
    /// A number or a duration.
    Number,
    /// A sign.
    Sign,
}

/// A word, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) at: Range<usize>,
}

impl Token<'_> {
    /// Whether it is this sign.
    pub(super) fn is(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    /// Whether it is one of these words of the language, which knows no case.
    pub(super) fn is_word(&self, words: &[&str]) -> bool {
        self.kind == Kind::Name && words.iter().any(|word| self.text.eq_ignore_ascii_case(word))
    }
}

/// Signs, longer ones first.
const SIGNS: [&str; 22] = [
    "==", "!=", "<=", ">=", "=~", "!~", "(", ")", "{", "}", "[", "]", ",", "+", "-", "*", "/", "%", "^", "<", ">", "=",
];

/// Reads all words.
pub(super) fn tokens(query: &str) -> Result<Vec<Token<'_>>, ScopeError> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = query[at..].chars().next() {
        let rest = &query[at..];
        let (kind, length) = match first {
            ' ' | '\t' | '\n' | '\r' => {
                at += 1;
                continue;
            }
            '#' => {
                at += comment(rest, at)?;
                continue;
            }
            '"' | '\'' | '`' => (Kind::Text, text(rest, first, at)?),
            c if is_name(c) => {
                (Kind::Name, rest.find(|c: char| !is_name(c) && !c.is_ascii_digit()).unwrap_or(rest.len()))
            }
            c if c.is_ascii_digit() || c == '.' => (Kind::Number, number(rest)),
            '@' => (Kind::Sign, 1),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Kind::Sign, sign.len()),
                None => return Err(ScopeError::Character { found: first, at: at + 1 }),
            },
        };
        found.push(Token { kind, text: &rest[..length], at: at..at + length });
        at += length;
    }
    Ok(found)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == ':'
}

/// Bytes of a comment. A carriage return within it is refused: it ends the comment for Prometheus, and not for others.
fn comment(rest: &str, at: usize) -> Result<usize, ScopeError> {
    let end = rest.find('\n').unwrap_or(rest.len());
    match rest[..end].find('\r') {
        Some(found) if found + 1 < end || end == rest.len() => {
            Err(ScopeError::Character { found: '\r', at: at + found + 1 })
        }
        Some(_) | None => Ok(end),
    }
}

/// Bytes of a text with its quotes. A quote after a backslash does not end it, but in backticks nothing else does.
/// There, VictoriaMetrics takes a backslash before the last quote for an escape, so that is refused.
fn text(rest: &str, quote: char, at: usize) -> Result<usize, ScopeError> {
    let mut is_escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote != '`' => is_escaped = true,
            '\n' if quote != '`' => break,
            '`' if quote == '`' && rest[..index].ends_with('\\') => {
                return Err(ScopeError::Character { found: '\\', at: at + index });
            }
            c if c == quote => return Ok(index + 1),
            _ => {}
        }
    }
    Err(ScopeError::Unterminated { at: at + 1 })
}

/// Bytes of a number or a duration. A sign belongs to an exponent only before a digit: it must hide no name.
fn number(rest: &str) -> usize {
    let is_hexadecimal = rest.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    let mut before = ' ';
    let mut characters = rest.char_indices().peekable();
    while let Some((index, c)) = characters.next() {
        let has_digit = characters.peek().is_some_and(|(_, next)| next.is_ascii_digit());
        let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !is_hexadecimal && has_digit;
        if !(is_sign || c.is_ascii_alphanumeric() || matches!(c, '.' | '_')) {
            return index;
        }
        before = c;
    }
    rest.len()
}
