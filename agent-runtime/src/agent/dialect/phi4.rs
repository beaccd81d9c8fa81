//! Phi-4-mini: a list of objects after `functools`, or between `<|tool_call|>` and `<|/tool_call|>`. Pure.
//!
//! Shapes: <https://huggingface.co/microsoft/Phi-4-mini-instruct/blob/main/README.md>, and vLLM's template for it.

use super::{End, Opener, Place, Reading, Syntax, calls, json::end_of_value};

const FUNCTOOLS: &str = "functools[";

/// The dialect.
pub struct Phi4;

impl Syntax for Phi4 {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: "<|tool_call|>", place: Place::Anywhere, end: End::Mark("<|/tool_call|>") },
            Opener { mark: FUNCTOOLS, place: Place::Anywhere, end: End::Turn },
        ]
    }

    fn read(&self, opener: &Opener, body: &str) -> Result<Reading, String> {
        if opener.mark != FUNCTOOLS {
            return calls::one_or_several(&calls::json(body)?).map(Reading::Calls);
        }
        let list = format!("[{}", body.trim_end());
        let list = &list[..end_of_value(&list).unwrap_or(list.len())];
        match calls::json(list).and_then(|list| calls::one_or_several(&list)) {
            Ok(calls) => Ok(Reading::Calls(calls)),
            // A module of Python has this name.
            Err(_) if !list[1..].trim_start().starts_with('{') => Ok(Reading::Text),
            Err(problem) => Err(problem),
        }
    }
}
