//! gpt-oss: messages with a channel each. `analysis` is thought, and `final` is text. What is addressed to a function
//! is a call. Pure.
//!
//! Format: <https://developers.openai.com/cookbook/articles/openai-harmony>.

use super::{Parts, WrittenCall, calls, scan::begun};

const MESSAGE: &str = "<|message|>";
const CHANNEL: &str = "<|channel|>";
const RECIPIENT: &str = "to=";
const FUNCTIONS: &str = "functions.";
/// What ends a call.
const CALL: &str = "<|call|>";
/// What ends a message. A new header does so where the model forgot to.
const ENDS: [&str; 5] = ["<|end|>", CALL, "<|return|>", "<|start|>", CHANNEL];

/// Splits a turn into messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Harmony {
    mode: Mode,
    pending: String,
    /// Whether nothing of this message was written yet.
    is_new: bool,
    has_text: bool,
    has_thoughts: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Before anything is known.
    #[default]
    Start,
    /// Within a header.
    Header,
    Text,
    Thoughts,
    /// Within the arguments of this function.
    Call(String),
}

impl Harmony {
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
        let rest = std::mem::take(&mut self.pending);
        match std::mem::take(&mut self.mode) {
            // A header without a message says nothing, but a turn without marks is text.
            Mode::Start if !rest.trim_start().starts_with("<|") => parts.text = rest,
            Mode::Start | Mode::Header => {}
            Mode::Text => self.write(true, &rest, &mut parts),
            Mode::Thoughts => self.write(false, &rest, &mut parts),
            Mode::Call(name) => end_call(name, &rest, &mut parts),
        }
        parts
    }

    fn advance(&mut self, parts: &mut Parts) -> bool {
        match &self.mode {
            Mode::Start => {
                let text = self.pending.trim_start();
                let begins = |mark: &str| mark.starts_with(text) || text.starts_with(mark);
                if text.is_empty() || (!text.starts_with("<|") && "<|".starts_with(text)) {
                    return false;
                }
                // The header may go on where the prompt left off, with a recipient.
                let is_header = text.starts_with("<|") || begins(RECIPIENT);
                if is_header && text.len() < RECIPIENT.len() {
                    return false;
                }
                self.mode = if is_header { Mode::Header } else { Mode::Text };
                true
            }
            Mode::Header => {
                let Some(at) = self.pending.find(MESSAGE) else { return false };
                let header: String = self.pending.drain(..at + MESSAGE.len()).collect();
                self.mode = mode_of(&header[..at]);
                self.is_new = true;
                true
            }
            Mode::Text | Mode::Thoughts => self.read_open(parts),
            Mode::Call(_) => self.read_call(parts),
        }
    }

    fn read_open(&mut self, parts: &mut Parts) -> bool {
        let end = first_end(&self.pending);
        let held = ENDS.iter().map(|mark| begun(&self.pending, mark)).max().unwrap_or(0);
        let upto = end.map_or(self.pending.len() - held, |(at, _)| at);
        let piece: String = self.pending.drain(..upto).collect();
        self.write(self.mode == Mode::Text, &piece, parts);
        let Some((_, mark)) = end else { return false };
        if mark == CALL {
            let problem = "a call names no function; write to=functions.NAME before its arguments".to_owned();
            parts.problem = parts.problem.take().or(Some(problem));
        }
        self.end_message(mark);
        true
    }

    /// Writes text or thoughts. Those of two messages stand in lines of their own.
    fn write(&mut self, is_text: bool, piece: &str, parts: &mut Parts) {
        if piece.is_empty() {
            return;
        }
        let (target, has_earlier) = match is_text {
            true => (&mut parts.text, &mut self.has_text),
            false => (&mut parts.thoughts, &mut self.has_thoughts),
        };
        let (is_new, has_earlier) = (std::mem::take(&mut self.is_new), std::mem::replace(has_earlier, true));
        if is_new && has_earlier {
            target.push('\n');
        }
        target.push_str(piece);
    }

    fn read_call(&mut self, parts: &mut Parts) -> bool {
        let Some((at, mark)) = first_end(&self.pending) else { return false };
        let body: String = self.pending.drain(..at).collect();
        if let Mode::Call(name) = std::mem::take(&mut self.mode) {
            end_call(name, &body, parts);
        }
        self.end_message(mark);
        true
    }

    fn end_message(&mut self, mark: &str) {
        // A header keeps the mark that it begins with.
        self.pending.drain(..if mark == CHANNEL { 0 } else { mark.len() });
        self.mode = Mode::Header;
    }
}

fn first_end(text: &str) -> Option<(usize, &'static str)> {
    ENDS.into_iter().filter_map(|mark| Some((text.find(mark)?, mark))).min_by_key(|(at, _)| *at)
}

/// What a message is by its header: a function's arguments, a thought, or text.
fn mode_of(header: &str) -> Mode {
    let recipient = header.split(['<', '>', ' ', '|']).find_map(|word| word.strip_prefix(RECIPIENT));
    if let Some(recipient) = recipient {
        return Mode::Call(recipient.strip_prefix(FUNCTIONS).unwrap_or(recipient).to_owned());
    }
    let channel = header.rsplit_once(CHANNEL).map_or(header, |(_, channel)| channel);
    if channel.trim_start().starts_with("analysis") { Mode::Thoughts } else { Mode::Text }
}

fn end_call(name: String, body: &str, parts: &mut Parts) {
    let arguments = match name.is_empty() {
        true => Err("a call has no name".to_owned()),
        false => calls::arguments(&name, body),
    };
    match arguments {
        Ok(arguments) => parts.calls.push(WrittenCall { name, arguments }),
        Err(problem) => parts.problem = parts.problem.take().or(Some(problem)),
    }
}
