//! Models that know no dialect: the whole turn is an object with `name` and `arguments`, or a list of them. Pure.

use super::{End, Opener, Place, Reading, Syntax, calls, llama3::looks_like_a_call};

const FENCE: &str = "```json";

/// The dialect.
pub struct Json;

impl Syntax for Json {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: "{", place: Place::Start, end: End::Turn },
            Opener { mark: "[", place: Place::Start, end: End::Turn },
            Opener { mark: FENCE, place: Place::Start, end: End::Turn },
        ]
    }

    fn read(&self, _: &Opener, body: &str) -> Result<Reading, String> {
        let inner =
            body.trim().strip_prefix(FENCE).map_or(body, |rest| rest.split_once("```").map_or(rest, |(a, _)| a));
        let read = calls::json(inner).and_then(|value| calls::one_or_several(&value));
        match read {
            Ok(calls) if looks_like_a_call(inner) && !calls.is_empty() => Ok(Reading::Calls(calls)),
            Err(problem) if looks_like_a_call(inner) => Err(problem),
            Ok(_) | Err(_) => Ok(Reading::Text),
        }
    }
}

/// Splits values of JSON that follow each other, with one of `separators` or white space between them, from the other
/// text that follows them.
pub(super) fn values<'a>(text: &'a str, separators: &[char]) -> (Vec<&'a str>, &'a str) {
    let mut values = Vec::new();
    let mut rest = text.trim();
    while let Some(end) = end_of_value(rest) {
        values.push(&rest[..end]);
        rest = rest[end..].trim_start().trim_start_matches(separators).trim_start();
    }
    (values, rest)
}

/// Where the object or list ends that a text begins with.
pub(super) fn end_of_value(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}
