//! Phi-4-mini: a list of objects after `functools`, or between `<|tool_call|>` and `<|/tool_call|>`. Pure.
//!
//! Shapes: <https://huggingface.co/microsoft/Phi-4-mini-instruct/blob/main/README.md>, and vLLM's template for it.

use super::{End, Opener, Place, Reading, Syntax, calls, json::end_of_value};

const FUNCTOOLS: &str = "functools";

/// The dialect.
pub struct Phi4;

impl Syntax for Phi4 {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: "<|tool_call|>", place: Place::Anywhere, end: End::Mark("<|/tool_call|>") },
            Opener { mark: "functools[", place: Place::Start, end: End::Turn },
        ]
    }

    fn read(&self, _: &Opener, body: &str) -> Result<Reading, String> {
        let body = body.trim();
        let list = match body.strip_prefix(FUNCTOOLS) {
            Some(rest) => &rest[..end_of_value(rest).unwrap_or(rest.len())],
            None => body,
        };
        calls::one_or_several(&calls::json(list)?).map(Reading::Calls)
    }
}
