//! Mistral: `[TOOL_CALLS]`, then a list of objects, or since tokenizer version 11 each call's name and arguments. Pure.
//!
//! Shapes: <https://github.com/mistralai/mistral-common>.

use super::{
    End, Opener, Place, Reading, Syntax, Thoughts, WrittenCall, calls,
    json::{end_of_value, values},
};

const TOOL_CALLS: &str = "[TOOL_CALLS]";

/// The dialect.
pub struct Mistral;

impl Syntax for Mistral {
    fn thoughts(&self) -> &'static [Thoughts] {
        &[Thoughts { begins: &["[THINK]"], ends: &["[/THINK]"], place: Place::Anywhere }]
    }

    fn openers(&self) -> &'static [Opener] {
        &[Opener { mark: TOOL_CALLS, place: Place::Anywhere, end: End::Turn }]
    }

    fn read(&self, _: &Opener, body: &str) -> Result<Reading, String> {
        let body = body.trim();
        if body.starts_with(['[', '{']) {
            let (lists, _) = values(body, &[',']);
            if lists.is_empty() {
                return Err(format!("what follows {TOOL_CALLS} is not valid JSON"));
            }
            let read = lists.into_iter().map(|list| calls::one_or_several(&calls::json(list)?));
            return Ok(Reading::Calls(read.collect::<Result<Vec<_>, _>>()?.concat()));
        }
        let mut calls = Vec::new();
        let mut rest = body;
        while !rest.is_empty() {
            let (call, behind) = named(rest)?;
            calls.push(call);
            rest = behind.trim_start();
            rest = rest.strip_prefix(TOOL_CALLS).unwrap_or(rest).trim_start();
        }
        Ok(Reading::Calls(calls))
    }
}

/// Reads `name{...}`, `name[ARGS]{...}` or `name[CALL_ID]id[ARGS]{...}`.
fn named(text: &str) -> Result<(WrittenCall, &str), String> {
    let no_arguments = || "a call has no arguments; write its name and an object of JSON".to_owned();
    let begin = text.find('{').filter(|begin| !text[..*begin].contains(TOOL_CALLS)).ok_or_else(no_arguments)?;
    let head = &text[..begin];
    let name = head.split(['[', '{']).next().unwrap_or_default().trim();
    if name.is_empty() {
        return Err("a call has no name; write its name and an object of JSON".to_owned());
    }
    let end = end_of_value(&text[begin..]).ok_or_else(|| format!("the arguments of {name:?} are not valid JSON"))?;
    let (arguments, rest) = text[begin..].split_at(end);
    Ok((WrittenCall { name: name.to_owned(), arguments: calls::arguments(name, arguments)? }, rest))
}
