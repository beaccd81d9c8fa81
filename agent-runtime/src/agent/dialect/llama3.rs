//! Llama 3.1, 3.2 and 3.3: an object with `name` and `parameters`, alone or behind text, or behind `<|python_tag|>`.
//! Pure.
//!
//! Shape: <https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/#json-based-tool-calling>.

use super::{End, Opener, Place, Reading, Syntax, calls, json::values};

const PYTHON_TAG: &str = "<|python_tag|>";

/// The dialect.
pub struct Llama3;

impl Syntax for Llama3 {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: PYTHON_TAG, place: Place::Anywhere, end: End::Turn },
            Opener { mark: "{", place: Place::Start, end: End::Turn },
            Opener { mark: "{", place: Place::Line, end: End::Turn },
        ]
    }

    /// Several calls are separated by semicolons. An object that makes no call is an answer.
    fn read(&self, opener: &Opener, body: &str) -> Result<Reading, String> {
        // Behind text, an object with a name alone is more likely part of the answer.
        if opener.place == Place::Line && !looks_like_a_call(body) {
            return Ok(Reading::Text);
        }
        let (objects, rest) = values(body, &[';', ',']);
        // Who wrote several calls means all of them.
        let has_more = rest.starts_with('{') || looks_like_a_call(rest);
        if !objects.is_empty() && has_more && looks_like_a_call(body) {
            return Err("a call is not valid JSON; separate calls by semicolons".to_owned());
        }
        let read = objects.into_iter().map(|text| calls::one_or_several(&calls::json(text)?));
        match read.collect::<Result<Vec<_>, _>>().map(|calls| calls.concat()) {
            Ok(calls) if !calls.is_empty() => Ok(Reading::Calls(calls)),
            Ok(_) | Err(_) if opener.mark != PYTHON_TAG && !looks_like_a_call(body) => Ok(Reading::Text),
            Err(problem) => Err(problem),
            Ok(_) => Err("the call is no object with a name and parameters".to_owned()),
        }
    }
}

/// Whether an object was meant as a call.
pub(super) fn looks_like_a_call(body: &str) -> bool {
    body.contains("\"name\"") && (body.contains("\"parameters\"") || body.contains("\"arguments\""))
}
