//! Granite 3: a list of objects after `<|tool_call|>` or `<tool_call>`; its function-calling models write
//! `<function_call>` before each object. Pure.
//!
//! Shapes: <https://www.ibm.com/granite/docs/models/granite>.

use super::{End, Opener, Place, Reading, Syntax, calls, json::values};

/// The dialect.
pub struct Granite;

impl Syntax for Granite {
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
