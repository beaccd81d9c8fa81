//! The transcript grammar of ReAct: what the model writes and what is written back. Pure, and the only place that
//! knows the labels; another grammar is another module with the same functions.
//!
//! ```text
//! Question: <one line>
//! Action: <tool>[<input>]        one or more lines; all calls of a turn run at the same time
//! <empty line>
//! Observation: <one line>        one per action, in their order; `error: ...` when a tool failed
//! Answer: <text>
//! <empty line>
//! ```
//! A turn may begin with `Thought:` lines. The empty line ends a turn; it is the stop word. So an answer is one
//! paragraph, which may have several lines.

use std::fmt;

/// What ends a turn at the engine.
pub const STOP_WORD: &str = "\n\n";

/// The most tool calls of one turn: enough for any sensible fan-out, and a bound on what one reply can set off.
pub const MAX_CALLS_PER_TURN: usize = 16;

const QUESTION: &str = "Question: ";
const ANSWER: &str = "Answer:";
const ACTION: &str = "Action:";
const THOUGHT: &str = "Thought:";

/// One tool call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// What stands between the brackets.
    pub input: String,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A result.
    Result(String),
    /// Why there is none.
    Error {
        /// What the model is told.
        message: String,
        /// A bounded label for metrics.
        kind: &'static str,
    },
}

impl fmt::Display for Observation {
    /// The text after `Observation: `, on one line: a tool's answer cannot write further lines of the transcript.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(text) => f.write_str(&single_line(text)),
            Self::Error { message, .. } => write!(f, "error: {}", single_line(message)),
        }
    }
}

/// A complete turn of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It wants these results.
    Calls(Vec<ToolCall>),
    /// It is done.
    Answer(String),
}

/// Why a turn cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedTurn {
    /// No text at all.
    #[error("it wrote nothing")]
    Empty,
    /// `Answer:` with nothing after it.
    #[error("its answer is empty")]
    EmptyAnswer,
    /// Thoughts alone.
    #[error("it wrote neither an action nor an answer")]
    NoAction,
    /// A line that begins with none of the labels.
    #[error("it wrote the line {line:?}, which is neither a thought, an action nor an answer")]
    UnexpectedLine {
        /// The line, shortened.
        line: String,
    },
    /// An action that is not `name[input]`.
    #[error("it wrote the action {line:?}, which is not of the form name[input]")]
    BadAction {
        /// The line, shortened.
        line: String,
    },
    /// An answer behind actions.
    #[error("it wrote actions and an answer in one turn")]
    AnswerAfterAction,
    /// More calls than a turn may have.
    #[error("it wrote {count} actions in one turn; at most {MAX_CALLS_PER_TURN} are run")]
    TooManyCalls {
        /// How many.
        count: usize,
    },
    /// Calls of a chat that cannot be read or do not fit, after the model was told so.
    #[error("its calls have mistakes: {problem}")]
    BadCalls {
        /// What the model was told.
        problem: String,
    },
    /// No call, after the model was told that the client demands one.
    #[error("it called no tool, which tool_choice demands")]
    NoCall,
    /// An answer in another format than the client's, after the model was told so.
    #[error("its answer does not fit response_format: {problem}")]
    BadFormat {
        /// What is wrong.
        problem: String,
    },
    /// The limit on tokens ended it within its thoughts.
    #[error("its thoughts were cut off by the limit on tokens; raise maxOutputTokens")]
    ThoughtsCutOff,
    /// The limit on tokens ended it within its actions.
    #[error("its actions were cut off by the limit on tokens")]
    CutOff,
}

impl MalformedTurn {
    /// A bounded label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::EmptyAnswer => "empty_answer",
            Self::NoAction => "no_action",
            Self::UnexpectedLine { .. } => "unexpected_line",
            Self::BadAction { .. } => "bad_action",
            Self::AnswerAfterAction => "answer_after_action",
            Self::TooManyCalls { .. } => "too_many_calls",
            Self::BadCalls { .. } => "bad_calls",
            Self::NoCall => "no_call",
            Self::BadFormat { .. } => "bad_format",
            Self::ThoughtsCutOff => "thoughts_cut_off",
            Self::CutOff => "cut_off",
        }
    }
}

/// Reads one turn while it is being generated.
///
/// # Invariants
/// The texts returned by `push`, put together, are the answer that `finish` returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnReader {
    /// The turn so far, without white space before it, and up to the empty line that ends it.
    text: String,
    is_ended: bool,
    /// Where the answer's text begins, once that is known.
    answer_start: Option<usize>,
    /// Up to where the answer was handed out.
    handed_out: usize,
}

impl TurnReader {
    /// The turn's text so far, without the empty line at its end.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// Whether the turn's final empty line was read; what comes later is not part of it.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Takes the next piece and returns the new part of the answer, if it has one. Trailing white space is held back
    /// until it is known to be within the answer.
    pub fn push(&mut self, piece: &str) -> Option<String> {
        if self.is_ended {
            return None;
        }
        let searched = self.text.len().saturating_sub(STOP_WORD.len());
        self.text.push_str(if self.text.is_empty() { piece.trim_start() } else { piece });
        let from = self.text.floor_char_boundary(searched);
        if let Some(end) = self.text[from..].find(STOP_WORD) {
            self.text.truncate(from + end);
            self.is_ended = true;
        }
        self.hand_out()
    }

    /// Ends the turn and tells what it is.
    ///
    /// # Errors
    /// See [`MalformedTurn`]. `is_cut_off` tells that the limit on tokens ended the text.
    pub fn finish(&self, is_cut_off: IsCutOff) -> Result<Turn, MalformedTurn> {
        let text = self.text();
        if text.is_empty() {
            return Err(MalformedTurn::Empty);
        }
        if let Some(start) = self.find_answer() {
            return match text.get(start..).map(str::trim_start) {
                Some("") | None => Err(MalformedTurn::EmptyAnswer),
                Some(answer) => Ok(Turn::Answer(answer.into())),
            };
        }
        match (read_calls(text)?, is_cut_off) {
            (_, IsCutOff::Yes) => Err(MalformedTurn::CutOff),
            (calls, IsCutOff::No) => Ok(Turn::Calls(calls)),
        }
    }

    fn hand_out(&mut self) -> Option<String> {
        if self.answer_start.is_none() {
            let start = self.find_answer()?;
            let blank = self.text[start..].len() - self.text[start..].trim_start().len();
            if start + blank == self.text.len() {
                return None;
            }
            self.answer_start = Some(start + blank);
            self.handed_out = start + blank;
        }
        let end = self.text.trim_end().len();
        let new = self.text.get(self.handed_out..end).filter(|new| !new.is_empty())?.to_owned();
        self.handed_out = end;
        Some(new)
    }

    /// Where the text after `Answer:` begins, when only thoughts stand before it.
    fn find_answer(&self) -> Option<usize> {
        let mut offset = 0;
        for line in self.text.split_inclusive('\n') {
            if line.starts_with(ANSWER) {
                return Some(offset + ANSWER.len());
            }
            if !line.starts_with(THOUGHT) {
                return None;
            }
            offset += line.len();
        }
        None
    }
}

/// Whether the limit on tokens ended a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsCutOff {
    /// It did.
    Yes,
    /// The model ended it.
    No,
}

/// Writes a finished turn and what its calls gave, as they follow each other in the transcript.
pub fn write_turn(text: &str, observations: &[Observation]) -> String {
    let observations: String = observations.iter().map(|observation| format!("Observation: {observation}\n")).collect();
    format!("{}{STOP_WORD}{observations}", text.trim_end())
}

/// What follows a turn with this mistake, so that the model corrects it; nothing where it could only repeat it.
/// Thoughts that an empty line ended go on: many models write one before their action.
pub fn repair(mistake: &MalformedTurn) -> Option<String> {
    match mistake {
        MalformedTurn::NoAction => Some("\n".into()),
        MalformedTurn::EmptyAnswer
        | MalformedTurn::UnexpectedLine { .. }
        | MalformedTurn::BadAction { .. }
        | MalformedTurn::AnswerAfterAction
        | MalformedTurn::TooManyCalls { .. } => {
            let remedy = format!("write `{ACTION} name[input]` or `{ANSWER} text`");
            let message = format!("this turn cannot be read, because {mistake}; {remedy}");
            Some(format!("{STOP_WORD}Observation: {}\n", Observation::Error { message, kind: mistake.kind() }))
        }
        // Nothing would be different, or they are no mistakes of this grammar.
        MalformedTurn::Empty
        | MalformedTurn::CutOff
        | MalformedTurn::ThoughtsCutOff
        | MalformedTurn::BadCalls { .. }
        | MalformedTurn::NoCall
        | MalformedTurn::BadFormat { .. } => None,
    }
}

/// Writes a turn that calls a tool after some thoughts.
pub fn write_call(thoughts: &str, ToolCall { name, input }: &ToolCall) -> String {
    format!("{THOUGHT}{thoughts}\n{ACTION} {name}[{input}]")
}

/// Writes a turn that answers.
pub fn write_last(answer: &str) -> String {
    format!("{ANSWER} {answer}")
}

/// Writes an earlier answer of a conversation.
pub fn write_answer(answer: &str) -> String {
    format!("{ANSWER} {}{STOP_WORD}", single_line(answer))
}

/// Writes the question that the run is to answer.
pub fn write_question(question: &str) -> String {
    format!("{QUESTION}{}\n", single_line(question))
}

/// Puts a text on one line: nothing in it can be mistaken for another line of the transcript.
pub fn single_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.split(breaks).filter(|part| !part.trim().is_empty()).map(str::trim).collect::<Vec<_>>().join(" ")
}

fn read_calls(text: &str) -> Result<Vec<ToolCall>, MalformedTurn> {
    let mut calls = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with(THOUGHT)) {
        if line.starts_with(ANSWER) {
            return Err(MalformedTurn::AnswerAfterAction);
        }
        let action =
            line.strip_prefix(ACTION).ok_or_else(|| MalformedTurn::UnexpectedLine { line: shortened(line) })?;
        calls.push(read_call(action).ok_or_else(|| MalformedTurn::BadAction { line: shortened(line) })?);
    }
    match calls.len() {
        0 => Err(MalformedTurn::NoAction),
        count if count > MAX_CALLS_PER_TURN => Err(MalformedTurn::TooManyCalls { count }),
        _ => Ok(calls),
    }
}

fn read_call(action: &str) -> Option<ToolCall> {
    let (name, input) = action.trim().strip_suffix(']')?.split_once('[')?;
    let name = name.trim();
    (!name.is_empty()).then(|| ToolCall { name: name.into(), input: input.trim().into() })
}

/// Enough of a line to recognize it in an error.
fn shortened(line: &str) -> String {
    const LENGTH: usize = 80;
    match line.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests;
