//! How families of models write calls of tools and thoughts. Pure.
//!
//! [`Turn`] reads one turn while it is generated. A dialect is a [`Syntax`]: its marks, and a reader of what stands
//! between them. [`scan`] finds the marks in whatever pieces the text comes. gpt-oss has a reader of its own,
//! [`harmony`]. The transcript of ReAct, [`crate::agent::grammar`], is the one dialect without a chat template.

mod calls;
mod choose;
mod deepseek;
mod granite;
mod harmony;
mod hermes;
mod json;
mod line;
mod llama3;
mod llama4;
mod mistral;
mod phi4;
mod python;
mod qwen3_coder;
mod scan;

use slipway_vocabulary::ToolCallDialect;

pub use calls::{Arguments, WrittenCall};
pub use choose::choose;
use harmony::Harmony;
use scan::Scanner;

/// The most tool calls of one turn, as in every dialect.
pub use super::grammar::MAX_CALLS_PER_TURN;

/// A dialect as marks and what stands between them.
trait Syntax: Sync {
    /// What surrounds thoughts.
    fn thoughts(&self) -> &'static [Thoughts] {
        &[THINK]
    }

    /// What surrounds the answer where a turn has its thoughts apart. Both are left out of the text.
    fn answer(&self) -> Option<[&'static str; 2]> {
        None
    }

    /// What calls begin and end with.
    fn openers(&self) -> &'static [Opener];

    /// Reads what follows an opener.
    ///
    /// # Errors
    /// What is wrong, for the model.
    fn read(&self, opener: &Opener, body: &str) -> Result<Reading, String>;
}

/// Marks of thoughts. Each beginning goes with each end.
#[derive(Debug)]
struct Thoughts {
    begins: &'static [&'static str],
    ends: &'static [&'static str],
    place: Place,
}

/// The marks that most models have.
const THINK: Thoughts = Thoughts { begins: &["<think>"], ends: &["</think>"], place: Place::Anywhere };

/// What calls begin with.
#[derive(Debug)]
struct Opener {
    mark: &'static str,
    place: Place,
    end: End,
}

/// Where a mark counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Wherever it stands.
    Anywhere,
    /// Before any other text of the turn. The mark of a call is part of what follows.
    Start,
    /// At the beginning of a line, where it begins an object that names a tool of the run, and is part of it.
    Line,
}

/// What calls end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// This text, but not within a string of JSON.
    Mark(&'static str),
    /// This text, wherever it stands.
    PlainMark(&'static str),
    /// The end of the turn.
    Turn,
    /// Nothing: the mark is all there is.
    Here,
}

/// What a body is.
#[derive(Debug, PartialEq, Eq)]
enum Reading {
    Calls(Vec<WrittenCall>),
    /// Only text that looked like one.
    Text,
}

/// What the parts of a turn are, as they come.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    text: String,
    thoughts: String,
    calls: Vec<WrittenCall>,
    problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reader {
    Scanner(Scanner),
    Harmony(Harmony),
}

/// A turn of the model, while it is generated.
///
/// # Invariants
/// The texts that `push` and `finish` return, put together, are the turn's text, whatever pieces it came in. It has no
/// white space at its ends, and keeps all within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    reader: Reader,
    thoughts: String,
    /// Up to where the thoughts were handed out.
    thoughts_given: usize,
    calls: Vec<WrittenCall>,
    problem: Option<String>,
    /// White space that is text only if more text follows.
    held: String,
    has_text: bool,
}

/// What a finished turn is besides its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The calls, in order.
    pub calls: Vec<WrittenCall>,
    /// Whether it has text.
    pub has_text: bool,
    /// Whether it has thoughts.
    pub has_thoughts: bool,
    /// What of its calls cannot be read.
    pub problem: Option<String>,
}

impl Turn {
    /// Reads the turn that follows a prompt, in a run with tools of these names. Where the prompt ends with the
    /// beginning of thoughts, the turn begins within them.
    pub fn new<'a>(dialect: ToolCallDialect, prompt: &str, tools: impl IntoIterator<Item = &'a str>) -> Self {
        let reader = match dialect {
            ToolCallDialect::Harmony => Reader::Harmony(Harmony::default()),
            other => Reader::Scanner(Scanner::new(other, prompt, tools)),
        };
        Self {
            reader,
            thoughts: String::new(),
            thoughts_given: 0,
            calls: Vec::new(),
            problem: None,
            held: String::new(),
            has_text: false,
        }
    }

    /// Takes the next piece and gives the new part of the text, if there is one.
    pub fn push(&mut self, piece: &str) -> Option<String> {
        let parts = match &mut self.reader {
            Reader::Scanner(scanner) => scanner.push(piece),
            Reader::Harmony(harmony) => harmony.push(piece),
        };
        self.take(parts)
    }

    /// Ends the turn, and gives the rest of the text.
    pub fn finish(&mut self) -> (Option<String>, Finished) {
        let parts = match &mut self.reader {
            Reader::Scanner(scanner) => scanner.finish(),
            Reader::Harmony(harmony) => harmony.finish(),
        };
        let rest = self.take(parts);
        self.held.clear();
        let finished = Finished {
            calls: std::mem::take(&mut self.calls),
            has_text: self.has_text,
            has_thoughts: !self.thoughts.trim().is_empty(),
            problem: self.problem.take(),
        };
        (rest, finished)
    }

    /// What the model thought, so far.
    pub fn thoughts(&self) -> &str {
        self.thoughts.trim()
    }

    /// Bytes of thoughts so far, white space at their ends included.
    pub fn thought_bytes(&self) -> usize {
        self.thoughts.len()
    }

    /// The thoughts since the last question for them; put together they are all thoughts.
    pub fn new_thoughts(&mut self) -> Option<String> {
        let begin = self.thoughts.len() - self.thoughts.trim_start().len();
        let end = self.thoughts.trim_end().len();
        let new = self.thoughts.get(self.thoughts_given.max(begin)..end).filter(|new| !new.is_empty())?.to_owned();
        self.thoughts_given = end;
        Some(new)
    }

    fn take(&mut self, parts: Parts) -> Option<String> {
        let Parts { text, thoughts, calls, problem } = parts;
        self.thoughts.push_str(&thoughts);
        self.calls.extend(calls);
        self.problem = self.problem.take().or(problem);
        let text = if self.has_text { text.as_str() } else { text.trim_start() };
        let end = text.trim_end().len();
        if end == 0 {
            self.held.push_str(text);
            return None;
        }
        let new = std::mem::take(&mut self.held) + &text[..end];
        self.held.push_str(&text[end..]);
        self.has_text = true;
        Some(new)
    }
}

/// Marks of a dialect's calls and thoughts, which its models write themselves.
pub fn marks(dialect: ToolCallDialect) -> Vec<&'static str> {
    let syntax = syntax(dialect);
    let of_opener = |opener: &Opener| match opener.end {
        End::Mark(end) | End::PlainMark(end) => vec![opener.mark, end],
        End::Turn | End::Here => vec![opener.mark],
    };
    let of_thoughts = |thoughts: &Thoughts| [thoughts.begins, thoughts.ends].concat();
    let calls = syntax.openers().iter().flat_map(of_opener);
    calls.chain(syntax.thoughts().iter().flat_map(of_thoughts)).chain(syntax.answer().into_iter().flatten()).collect()
}

/// What ends thoughts in a dialect.
pub fn ends_of_thoughts(dialect: ToolCallDialect) -> impl Iterator<Item = &'static str> {
    syntax(dialect).thoughts().iter().flat_map(|thoughts| thoughts.ends).copied()
}

fn syntax(dialect: ToolCallDialect) -> &'static dyn Syntax {
    match dialect {
        ToolCallDialect::Hermes => &hermes::Hermes,
        ToolCallDialect::Qwen3Coder => &qwen3_coder::Qwen3Coder,
        ToolCallDialect::Llama3Json => &llama3::Llama3,
        ToolCallDialect::Llama4Pythonic => &llama4::Llama4,
        ToolCallDialect::Mistral => &mistral::Mistral,
        ToolCallDialect::DeepSeek => &deepseek::DeepSeek,
        ToolCallDialect::Phi4 => &phi4::Phi4,
        ToolCallDialect::Granite => &granite::Granite,
        // The other two have readers of their own; as a fallback their turns are read like any unknown model's.
        ToolCallDialect::JSON | ToolCallDialect::ReAct | ToolCallDialect::Harmony => &json::Json,
    }
}

#[cfg(test)]
mod tests;
