//! Llama 4, and the smaller models of Llama 3.2: a list of calls in Python's syntax as the whole turn. Pure.
//!
//! Shape: <https://www.llama.com/docs/model-cards-and-prompt-formats/llama4/#-tool-calling->.

use super::{End, Opener, Place, Reading, Syntax, python};

/// The dialect.
pub struct Llama4;

impl Syntax for Llama4 {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: "<|python_start|>", place: Place::Anywhere, end: End::PlainMark("<|python_end|>") },
            Opener { mark: "[", place: Place::Start, end: End::Turn },
        ]
    }

    fn read(&self, opener: &Opener, body: &str) -> Result<Reading, String> {
        let list = body.trim().trim_end_matches("<|python_end|>");
        match python::calls(list) {
            Ok(calls) => Ok(Reading::Calls(calls)),
            // A list of something else is an answer.
            Err(_) if opener.place == Place::Start && !looks_like_a_call(list) => Ok(Reading::Text),
            Err(problem) => Err(problem),
        }
    }
}

/// Whether a list begins with a name and a parenthesis.
fn looks_like_a_call(list: &str) -> bool {
    let inner = list.trim_start_matches('[').trim_start();
    let name = inner.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-')));
    name.is_some_and(|end| end > 0 && inner[end..].starts_with('('))
}
