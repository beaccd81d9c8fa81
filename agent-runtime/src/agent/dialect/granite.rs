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
        for part in body.split(opener.mark) {
            let (values, rest) = values(part, &[',']);
            if values.is_empty() && !rest.is_empty() {
                return Err("the call is not valid JSON; write a list of objects with a name and arguments".to_owned());
            }
            for value in values {
                calls.extend(calls::one_or_several(&calls::json(value)?)?);
            }
        }
        Ok(Reading::Calls(calls))
    }
}
