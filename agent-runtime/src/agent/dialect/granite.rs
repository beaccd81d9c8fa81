//! Granite 3: a list of objects after `<|tool_call|>` or `<tool_call>`; its function-calling models write
//! `<function_call>` before each object. Pure.
//!
//! Granite 3.2 writes sentences before its thoughts and its answer, and Granite 3.3 tags around both.
//!
//! Shapes: <https://www.ibm.com/granite/docs/models/granite>.

use super::{End, Opener, Place, Reading, Syntax, THINK, Thoughts, calls, json::values};

/// Any answer may quote these, so they count only at the beginning of a turn.
const SENTENCES: Thoughts = Thoughts {
    begins: &["Here is my thought process:", "Here's my thought process:"],
    ends: &["Here is my response:", "Here's my response:"],
    place: Place::Start,
};

/// The dialect.
pub struct Granite;

impl Syntax for Granite {
    fn thoughts(&self) -> &'static [Thoughts] {
        &[THINK, SENTENCES]
    }

    fn answer(&self) -> Option<[&'static str; 2]> {
        Some(["<response>", "</response>"])
    }

    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: "<|tool_call|>", place: Place::Anywhere, end: End::Turn },
            Opener { mark: "<tool_call>", place: Place::Anywhere, end: End::Turn },
            Opener { mark: "<function_call>", place: Place::Anywhere, end: End::Turn },
        ]
    }

    fn read(&self, opener: &Opener, body: &str) -> Result<Reading, String> {
        let mut calls = Vec::new();
        let mut next = Some(body);
        // Not split at marks, which may stand within a text of an argument.
        while let Some(part) = next {
            let (values, rest) = values(part, &[',']);
            let (other, behind) =
                rest.split_once(opener.mark).map_or((rest, None), |(other, rest)| (other, Some(rest)));
            if values.is_empty() && !other.trim().is_empty() {
                return Err("the call is not valid JSON; write a list of objects with a name and arguments".to_owned());
            }
            for value in values {
                calls.extend(calls::one_or_several(&calls::json(value)?)?);
            }
            next = behind;
        }
        Ok(Reading::Calls(calls))
    }
}
