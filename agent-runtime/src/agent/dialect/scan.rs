//! Finds a dialect's marks in a text that comes in pieces. Pure.

use slipway_vocabulary::ToolCallDialect;

use super::{End, Opener, Parts, Place, Reading, Syntax, syntax};

/// Where the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Text,
    Thoughts,
    /// Behind the dialect's opener of this number.
    Call(usize),
}

/// Splits a turn into text, thoughts and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scanner {
    dialect: ToolCallDialect,
    mode: Mode,
    /// What cannot be told yet.
    pending: String,
    /// Up to where a call's body was looked at, and whether that is within a string of JSON.
    looked: usize,
    in_string: bool,
    /// Whether no text came yet.
    is_start: bool,
}

impl Scanner {
    /// Reads a turn behind a prompt.
    pub fn new(dialect: ToolCallDialect, prompt: &str) -> Self {
        let [open, _] = syntax(dialect).thoughts();
        let mode = if prompt.trim_end().ends_with(open) { Mode::Thoughts } else { Mode::Text };
        Self { dialect, mode, pending: String::new(), looked: 0, in_string: false, is_start: true }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &str) -> Parts {
        self.pending.push_str(piece);
        let mut parts = Parts::default();
        while self.advance(&mut parts) {}
        parts
    }

    /// Nothing more follows.
    pub fn finish(&mut self) -> Parts {
        let mut parts = Parts::default();
        match self.mode {
            Mode::Text => parts.text = std::mem::take(&mut self.pending),
            Mode::Thoughts => parts.thoughts = std::mem::take(&mut self.pending),
            Mode::Call(opener) => {
                let end = self.pending.len();
                self.end_call(opener, end, 0, &mut parts);
                // What follows a list that was no call.
                parts.text.push_str(&std::mem::take(&mut self.pending));
            }
        }
        parts
    }

    /// Goes on to the next mark; tells whether there was one.
    fn advance(&mut self, parts: &mut Parts) -> bool {
        match self.mode {
            Mode::Text => self.read_text(parts),
            Mode::Thoughts => self.read_thoughts(parts),
            Mode::Call(opener) => self.read_call(opener, parts),
        }
    }

    fn read_text(&mut self, parts: &mut Parts) -> bool {
        let syntax = syntax(self.dialect);
        if self.is_start {
            match at_start(syntax, &self.pending) {
                Start::Unclear => return false,
                Start::Opener(opener) => {
                    self.enter(Mode::Call(opener), self.pending.len() - self.pending.trim_start().len());
                    return true;
                }
                Start::Text => {}
            }
        }
        let [open, close] = syntax.thoughts();
        let openers = syntax.openers().iter().enumerate().filter(|(_, opener)| opener.place == Place::Anywhere);
        let marks = openers.map(|(index, opener)| (opener.mark, Mode::Call(index)));
        let marks = marks.chain([(open, Mode::Thoughts), (close, Mode::Text)]);
        // Most pieces have nothing that a mark begins with.
        let begins = |byte: u8| marks.clone().any(|(mark, _)| mark.as_bytes().first() == Some(&byte));
        if !self.pending.bytes().any(begins) {
            self.write(self.pending.len(), parts);
            return false;
        }
        let found = marks.clone().filter_map(|(mark, mode)| Some((self.pending.find(mark)?, mark.len(), mode)));
        if let Some((at, length, mode)) = found.min_by_key(|(at, ..)| *at) {
            self.write(at, parts);
            self.enter(mode, length);
            return true;
        }
        let begun = marks.map(|(mark, _)| begun(&self.pending, mark)).max().unwrap_or(0);
        self.write(self.pending.len() - begun, parts);
        false
    }

    fn read_thoughts(&mut self, parts: &mut Parts) -> bool {
        let [_, close] = syntax(self.dialect).thoughts();
        if let Some(at) = self.pending.find(close) {
            parts.thoughts.push_str(&self.pending[..at]);
            self.enter(Mode::Text, at + close.len());
            return true;
        }
        let end = self.pending.len() - begun(&self.pending, close);
        parts.thoughts.push_str(&self.pending[..end]);
        self.pending.drain(..end);
        false
    }

    fn read_call(&mut self, opener: usize, parts: &mut Parts) -> bool {
        match syntax(self.dialect).openers()[opener].end {
            End::Turn => false,
            End::Here => {
                self.end_call(opener, 0, 0, parts);
                true
            }
            End::Mark(mark) => self.look_for(mark, opener, parts),
            End::PlainMark(mark) => match self.pending.get(self.looked..).and_then(|rest| rest.find(mark)) {
                Some(at) => {
                    self.end_call(opener, self.looked + at, mark.len(), parts);
                    true
                }
                None => {
                    self.looked = self.pending.floor_char_boundary(self.pending.len().saturating_sub(mark.len()));
                    false
                }
            },
        }
    }

    /// Looks at what is new for a mark outside of JSON's strings.
    fn look_for(&mut self, mark: &str, opener: usize, parts: &mut Parts) -> bool {
        let bytes = self.pending.as_bytes();
        while let Some(byte) = bytes.get(self.looked) {
            let rest = &bytes[self.looked..];
            match (self.in_string, byte) {
                // What is escaped is no end of a string. A character of several bytes has none of these bytes.
                (true, b'\\') if rest.len() < 2 => return false,
                (true, b'\\') => self.looked += 1,
                (_, b'"') => self.in_string = !self.in_string,
                (false, _) if rest.starts_with(mark.as_bytes()) => {
                    self.end_call(opener, self.looked, mark.len(), parts);
                    return true;
                }
                (false, _) if mark.as_bytes().starts_with(rest) => return false,
                (_, _) => {}
            }
            self.looked += 1;
        }
        false
    }

    /// Reads the body up to `end`, and goes on behind the mark that follows it.
    fn end_call(&mut self, opener: usize, end: usize, mark: usize, parts: &mut Parts) {
        let syntax = syntax(self.dialect);
        let opener = &syntax.openers()[opener];
        let body = &self.pending[..end];
        match syntax.read(opener, body) {
            Ok(Reading::Calls(calls)) => parts.calls.extend(calls),
            Ok(Reading::Text) => {
                parts.text.push_str(if opener.place == Place::Anywhere { opener.mark } else { "" });
                parts.text.push_str(&self.pending[..end + mark]);
                self.is_start = false;
            }
            Err(problem) => parts.problem = parts.problem.take().or(Some(problem)),
        }
        self.enter(Mode::Text, end + mark);
    }

    fn write(&mut self, end: usize, parts: &mut Parts) {
        self.is_start &= self.pending[..end].trim().is_empty();
        parts.text.push_str(&self.pending[..end]);
        self.pending.drain(..end);
    }

    fn enter(&mut self, mode: Mode, skipped: usize) {
        self.pending.drain(..skipped);
        (self.mode, self.looked, self.in_string) = (mode, 0, false);
    }
}

/// What the beginning of a turn is.
enum Start {
    Unclear,
    Opener(usize),
    Text,
}

fn at_start(syntax: &dyn Syntax, text: &str) -> Start {
    let text = text.trim_start();
    let here = |opener: &Opener| opener.place == Place::Start;
    if let Some(index) = syntax.openers().iter().position(|opener| here(opener) && text.starts_with(opener.mark)) {
        return Start::Opener(index);
    }
    let mut openers = syntax.openers().iter().filter(|opener| here(opener));
    if openers.any(|opener| opener.mark.starts_with(text)) { Start::Unclear } else { Start::Text }
}

/// Bytes at the end of a text that a mark begins with, the whole mark left out.
pub fn begun(text: &str, mark: &str) -> usize {
    let mut lengths = (1..mark.len()).rev().filter(|length| mark.is_char_boundary(*length));
    lengths.find(|length| text.ends_with(&mark[..*length])).unwrap_or(0)
}
