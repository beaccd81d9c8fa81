//! Finds a dialect's marks in a text that comes in pieces. Pure.

use std::collections::BTreeSet;

use slipway_vocabulary::ToolCallDialect;

use super::{
    End, Parts, Place, Reading, Syntax, Thoughts,
    line::{CallAtLine, call_at_line},
    syntax,
};

/// Where the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Text,
    /// Behind a beginning of the dialect's thoughts of this number.
    Thoughts(usize),
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
    /// Whether no text but blanks came yet in this line.
    is_line_start: bool,
    /// Whether the mark before an answer came.
    is_answer: bool,
    /// The tools whose calls may begin at any line.
    tools: BTreeSet<String>,
}

impl Scanner {
    /// Reads a turn behind a prompt, in a run with tools of these names.
    pub fn new<'a>(dialect: ToolCallDialect, prompt: &str, tools: impl IntoIterator<Item = &'a str>) -> Self {
        let syntax = syntax(dialect);
        let prompt = prompt.trim_end();
        let begun = |thoughts: &Thoughts| thoughts.begins.iter().any(|begin| prompt.ends_with(begin));
        let mode = syntax.thoughts().iter().position(begun).map_or(Mode::Text, Mode::Thoughts);
        let needs_tools = opener_at_line(syntax).is_some();
        Self {
            dialect,
            mode,
            pending: String::new(),
            looked: 0,
            in_string: false,
            is_start: true,
            is_line_start: true,
            is_answer: false,
            tools: tools.into_iter().filter(|_| needs_tools).map(str::to_owned).collect(),
        }
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
            Mode::Thoughts(_) => parts.thoughts = std::mem::take(&mut self.pending),
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
            Mode::Thoughts(thoughts) => self.read_thoughts(thoughts, parts),
            Mode::Call(opener) => self.read_call(opener, parts),
        }
    }

    fn read_text(&mut self, parts: &mut Parts) -> bool {
        let syntax = syntax(self.dialect);
        if self.is_start {
            match at_start(syntax, &self.pending) {
                Start::Unclear => return false,
                Start::Mark { mode, skipped } => {
                    self.is_answer |= mode == Mode::Text;
                    self.enter(mode, skipped);
                    return true;
                }
                Start::Text => {}
            }
        }
        let marks = marks(syntax, self.is_answer);
        let at_line = opener_at_line(syntax);
        // Most pieces have nothing that a mark begins with.
        let begins = |byte: u8| marks.clone().any(|(mark, _)| mark.as_bytes().first() == Some(&byte));
        if !self.pending.bytes().any(|byte| begins(byte) || (byte == b'{' && at_line.is_some())) {
            self.write(self.pending.len(), parts);
            return false;
        }
        let line =
            at_line.and_then(|opener| Some((opener, call_at_line(&self.pending, self.is_line_start, &self.tools)?)));
        let found = marks.clone().filter_map(|(mark, mode)| Some((self.pending.find(mark)?, mark.len(), mode)));
        let found = found.min_by_key(|(at, ..)| *at).filter(|(at, ..)| line.is_none_or(|(_, call)| *at < call.at));
        let (at, next) = match (found, line) {
            (Some((at, length, mode)), _) => (at, Some((mode, length))),
            (None, Some((opener, CallAtLine { at, is_sure }))) => (at, is_sure.then_some((Mode::Call(opener), 0))),
            (None, None) => {
                let begun = marks.map(|(mark, _)| begun(&self.pending, mark)).max().unwrap_or(0);
                (self.pending.len() - begun, None)
            }
        };
        self.write(at, parts);
        next.inspect(|(mode, length)| self.enter(*mode, *length)).is_some()
    }

    fn read_thoughts(&mut self, thoughts: usize, parts: &mut Parts) -> bool {
        let ends = syntax(self.dialect).thoughts()[thoughts].ends;
        let found = ends.iter().filter_map(|end| Some((self.pending.find(end)?, end.len())));
        if let Some((at, length)) = found.min_by_key(|(at, _)| *at) {
            parts.thoughts.push_str(&self.pending[..at]);
            self.enter(Mode::Text, at + length);
            return true;
        }
        let begun = ends.iter().map(|end| begun(&self.pending, end)).max().unwrap_or(0);
        parts.thoughts.extend(self.pending.drain(..self.pending.len() - begun));
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
        let text = &self.pending[..end];
        let (is_new_line, line) = text.rsplit_once('\n').map_or((false, text), |(_, line)| (true, line));
        self.is_start &= text.trim().is_empty();
        self.is_line_start = (is_new_line || self.is_line_start) && line.trim().is_empty();
        parts.text.push_str(&self.pending[..end]);
        self.pending.drain(..end);
    }

    fn enter(&mut self, mode: Mode, skipped: usize) {
        self.pending.drain(..skipped);
        (self.mode, self.looked, self.in_string) = (mode, 0, false);
    }
}

/// Marks that count wherever they stand, with what follows each.
fn marks(syntax: &'static dyn Syntax, is_answer: bool) -> impl Iterator<Item = (&'static str, Mode)> + Clone {
    let openers = syntax.openers().iter().enumerate().filter(|(_, opener)| opener.place == Place::Anywhere);
    let calls = openers.map(|(index, opener)| (opener.mark, Mode::Call(index)));
    let all = syntax.thoughts().iter().enumerate().filter(|(_, thoughts)| thoughts.place == Place::Anywhere);
    let thoughts = all.flat_map(|(index, Thoughts { begins, ends, place: _ })| {
        let begins = begins.iter().map(move |begin| (*begin, Mode::Thoughts(index)));
        begins.chain(ends.iter().map(|end| (*end, Mode::Text)))
    });
    let answer = syntax.answer().filter(|_| is_answer).map(|[_, end]| (end, Mode::Text));
    calls.chain(thoughts).chain(answer)
}

fn opener_at_line(syntax: &dyn Syntax) -> Option<usize> {
    syntax.openers().iter().position(|opener| opener.place == Place::Line)
}

/// What the beginning of a turn is.
enum Start {
    Unclear,
    /// A mark, or blanks alone before one that is part of what follows.
    Mark {
        mode: Mode,
        skipped: usize,
    },
    Text,
}

fn at_start(syntax: &dyn Syntax, text: &str) -> Start {
    let trimmed = text.trim_start();
    let blanks = text.len() - trimmed.len();
    let openers = syntax.openers().iter().enumerate().filter(|(_, opener)| opener.place == Place::Start);
    let calls = openers.map(|(index, opener)| (opener.mark, Mode::Call(index), 0));
    let all = syntax.thoughts().iter().enumerate().filter(|(_, thoughts)| thoughts.place == Place::Start);
    let thoughts = all.flat_map(|(index, thoughts)| {
        thoughts.begins.iter().map(move |begin| (*begin, Mode::Thoughts(index), begin.len()))
    });
    let answer = syntax.answer().map(|[begin, _]| (begin, Mode::Text, begin.len()));
    let mut marks = calls.chain(thoughts).chain(answer);
    if let Some((_, mode, length)) = marks.clone().find(|(mark, ..)| trimmed.starts_with(mark)) {
        return Start::Mark { mode, skipped: blanks + length };
    }
    if marks.any(|(mark, ..)| mark.starts_with(trimmed)) { Start::Unclear } else { Start::Text }
}

/// Bytes at the end of a text that a mark begins with, the whole mark left out.
pub fn begun(text: &str, mark: &str) -> usize {
    let mut lengths = (1..mark.len()).rev().filter(|length| mark.is_char_boundary(*length));
    lengths.find(|length| text.ends_with(&mark[..*length])).unwrap_or(0)
}
