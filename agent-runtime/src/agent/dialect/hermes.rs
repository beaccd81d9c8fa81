//! Hermes 2 and 3, Qwen 2.5 and 3, QwQ: an object of JSON between two tags. Pure.
//!
//! Shapes: <https://github.com/NousResearch/Hermes-Function-Calling>, <https://qwen.readthedocs.io/en/latest/framework/function_call.html>.

use super::{End, Opener, Place, Reading, Syntax, calls};

/// The dialect.
pub struct Hermes;

impl Syntax for Hermes {
    fn openers(&self) -> &'static [Opener] {
        &[Opener { mark: "<tool_call>", place: Place::Anywhere, end: End::Mark("</tool_call>") }]
    }

    fn read(&self, _: &Opener, body: &str) -> Result<Reading, String> {
        calls::one_or_several(&calls::json(body)?).map(Reading::Calls)
    }
}
