//! Qwen3-Coder: tags with the names of function and parameters, and values as plain text. Pure.
//!
//! Shape: <https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct/blob/main/chat_template.jinja>.

use super::{Arguments, End, Opener, Place, Reading, Syntax, WrittenCall};

const OUTER_END: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const PARAMETER: &str = "<parameter=";

/// The dialect.
pub struct Qwen3Coder;

impl Syntax for Qwen3Coder {
    fn openers(&self) -> &'static [Opener] {
        &[
            Opener { mark: "<tool_call>", place: Place::Anywhere, end: End::PlainMark(OUTER_END) },
            // Its models leave the outer tag out at times, and close it all the same.
            Opener { mark: FUNCTION, place: Place::Anywhere, end: End::PlainMark("</function>") },
            Opener { mark: OUTER_END, place: Place::Anywhere, end: End::Here },
        ]
    }

    fn read(&self, opener: &Opener, body: &str) -> Result<Reading, String> {
        match opener.mark {
            FUNCTION => return function(body).map(|call| Reading::Calls(vec![call])),
            OUTER_END => return Ok(Reading::Calls(Vec::new())),
            _ => {}
        }
        let mut functions = body.split(FUNCTION);
        functions.next();
        let calls = functions.map(function).collect::<Result<Vec<_>, _>>()?;
        if calls.is_empty() { Err("a call has no <function=...>".to_owned()) } else { Ok(Reading::Calls(calls)) }
    }
}

/// Reads what follows `<function=`.
fn function(text: &str) -> Result<WrittenCall, String> {
    let (name, rest) = text.split_once('>').ok_or_else(|| "the tag <function=...> is not closed".to_owned())?;
    let rest = rest.split_once("</function>").map_or(rest, |(inner, _)| inner);
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err("a call has no name; write <function=NAME>".to_owned());
    }
    let mut parameters = rest.split(PARAMETER);
    parameters.next();
    let texts = parameters.map(parameter).collect::<Result<_, _>>()?;
    Ok(WrittenCall { name, arguments: Arguments::Texts(texts) })
}

/// Reads what follows `<parameter=`. One line break on each side belongs to the tags.
fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, rest) = text.split_once('>').ok_or_else(|| "the tag <parameter=...> is not closed".to_owned())?;
    let value = match rest.split_once("</parameter>") {
        Some((value, _)) => value,
        None => rest.trim_end(),
    };
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    Ok((name.trim().to_owned(), value.to_owned()))
}
