//! DeepSeek R1, V3 and V3.1: marks of its own around each call, and a fence around arguments before V3.1. Pure.
//!
//! Shapes: <https://huggingface.co/deepseek-ai/DeepSeek-V3.1/blob/main/README.md>.

use super::{End, Opener, Place, Reading, Syntax, WrittenCall, calls};

const CALL: &str = "<｜tool▁call▁begin｜>";
const CALL_END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";

/// The dialect.
pub struct DeepSeek;

impl Syntax for DeepSeek {
    fn openers(&self) -> &'static [Opener] {
        &[Opener {
            mark: "<｜tool▁calls▁begin｜>", place: Place::Anywhere, end: End::Mark("<｜tool▁calls▁end｜>")
        }]
    }

    fn read(&self, _: &Opener, body: &str) -> Result<Reading, String> {
        let mut written = body.split(CALL);
        written.next();
        let calls = written.map(call).collect::<Result<Vec<_>, _>>()?;
        if calls.is_empty() { Err(format!("a call does not begin with {CALL}")) } else { Ok(Reading::Calls(calls)) }
    }
}

/// Reads `function<sep>name` with fenced arguments, or `name<sep>` with plain ones.
fn call(text: &str) -> Result<WrittenCall, String> {
    let text = text.split_once(CALL_END).map_or(text, |(inner, _)| inner);
    let (first, second) = text.split_once(SEPARATOR).ok_or_else(|| format!("a call has no {SEPARATOR}"))?;
    let (name, arguments) = match second.split_once("```json") {
        Some((name, fenced)) => (name, fenced.rsplit_once("```").map_or(fenced, |(inner, _)| inner)),
        None => (first, second),
    };
    let name = name.trim();
    if name.is_empty() {
        return Err("a call has no name".to_owned());
    }
    Ok(WrittenCall { name: name.to_owned(), arguments: calls::arguments(name, arguments)? })
}
