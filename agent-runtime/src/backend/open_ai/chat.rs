//! The events of one chat completion, as the text of a turn. Pure.
//!
//! Upstreams give thoughts and calls apart from the text, in fields of their own. They become the marks of Hermes here,
//! so that one reader knows the turns of every engine. What a text has of a call's mark stays text: it may be quoted.

use std::mem;

use serde::Deserialize;
use serde_json::{Number, Value};

use super::{
    reader::{self, Counts, DONE, Read, Usage},
    refusal,
};
use crate::backend::{BackendError, FinishReason, Piece, TokenLogprob};

/// What a call begins with, and the same as a text: with a character between that nobody sees.
const CALL: &str = "<tool_call>";
const QUOTED_CALL: &str = "<\u{2060}tool_call>";
/// Most bytes of an answer's calls together, and most of these: far above what a run makes of them.
const MAX_CALL_BYTES: usize = 1 << 20;
const MAX_CALLS: usize = 256;

/// Reads the events of one chat completion.
#[derive(Debug, Default)]
pub struct Reader {
    counts: Counts,
    /// Whether thoughts are being written.
    thinks: bool,
    /// The end of the text so far, where a mark may begin with it.
    held: String,
    calls: Vec<Call>,
    call_bytes: usize,
    /// Those of the tokens that no piece has yet.
    logprobs: Vec<TokenLogprob>,
    /// The piece with the reason of the end, until all tokens are counted.
    last: Option<Piece>,
}

/// A call, as far as it was written.
#[derive(Debug, Default)]
struct Call {
    /// The server's number of it, and its name, where they are given.
    index: Option<i64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    logprobs: Option<Logprobs>,
}

/// Only where they are asked for, and the server gives them.
#[derive(Deserialize)]
struct Logprobs {
    #[serde(default)]
    content: Option<Vec<Likely>>,
}

/// A token of the text. Servers list the likeliest alternatives first.
#[derive(Deserialize)]
struct Likely {
    token: String,
    logprob: Number,
    #[serde(default)]
    top_logprobs: Option<Vec<Likely>>,
}

/// Servers call thoughts by either name.
#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<i64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

impl From<Likely> for TokenLogprob {
    fn from(Likely { token, logprob, top_logprobs }: Likely) -> Self {
        let top = top_logprobs.into_iter().flatten().map(|likely| (likely.token, likely.logprob));
        Self { token, logprob, top: top.collect() }
    }
}

impl Reader {
    /// Reads the data of one event.
    pub fn read(&mut self, data: &str) -> Result<Option<Read>, BackendError> {
        if data == DONE {
            return self.end().map(|piece| Some(Read::Last(piece)));
        }
        if let Some(described) = refusal::read(data) {
            return Err(described.in_answer());
        }
        let Chunk { choices, usage } = serde_json::from_str(data).map_err(|error| BackendError::Protocol {
            problem: format!("an event is not a chat completion: {error}"),
        })?;
        let choice = choices.into_iter().flatten().next();
        self.counts.read(usage, choice.is_some());
        let Some(Choice { delta, finish_reason, logprobs }) = choice else { return Ok(None) };
        let likely = logprobs.and_then(|logprobs| logprobs.content).into_iter().flatten();
        self.logprobs.extend(likely.map(TokenLogprob::from));
        let finish = finish_reason.as_deref().map(reader::finish_of).transpose()?;
        let mut text = self.text_of(delta.unwrap_or_default())?;
        let Some(finish) = finish else {
            return Ok((!text.is_empty()).then(|| Read::More(self.piece(text, None))));
        };
        text.push_str(&self.rest());
        self.last = Some(self.piece(text, Some(finish)));
        Ok(None)
    }

    /// The answer has ended.
    pub fn end(&mut self) -> Result<Piece, BackendError> {
        let Piece { text, logprobs, finish, .. } = self.last.take().ok_or(BackendError::EndedEarly)?;
        let finish = finish.unwrap_or(FinishReason::Stop);
        Ok(Piece { logprobs, ..self.counts.piece(text, Some(finish)) })
    }

    fn piece(&mut self, text: String, finish: Option<FinishReason>) -> Piece {
        Piece { logprobs: mem::take(&mut self.logprobs), ..self.counts.piece(text, finish) }
    }

    fn text_of(&mut self, delta: Delta) -> Result<String, BackendError> {
        let Delta { content, refusal, reasoning_content, reasoning, tool_calls } = delta;
        let mut text = String::new();
        let is_some = |part: &String| !part.is_empty();
        if let Some(thoughts) = reasoning_content.or(reasoning).filter(is_some) {
            if !mem::replace(&mut self.thinks, true) {
                text.push_str(&mem::take(&mut self.held));
                text.push_str("<think>");
            }
            text.push_str(&self.quoted(&thoughts));
        }
        for said in [content, refusal].into_iter().flatten().filter(is_some) {
            text.push_str(&self.end_of_thoughts());
            text.push_str(&self.quoted(&said));
        }
        tool_calls.into_iter().flatten().try_for_each(|call| self.take_call(call))?;
        Ok(text)
    }

    /// Takes a part of a call.
    fn take_call(&mut self, CallDelta { index, id, function }: CallDelta) -> Result<(), BackendError> {
        let FunctionDelta { name, arguments } = function.unwrap_or_default();
        let (name, arguments) = (name.unwrap_or_default(), arguments.unwrap_or_default());
        let id = id.filter(|id| !id.is_empty());
        self.call_bytes = self.call_bytes.saturating_add(name.len()).saturating_add(arguments.len());
        let place = self.begun(index, id.as_deref(), !name.is_empty());
        if self.call_bytes > MAX_CALL_BYTES || (place.is_none() && self.calls.len() == MAX_CALLS) {
            let problem = format!("its calls are more than {MAX_CALLS}, or longer than {MAX_CALL_BYTES} bytes");
            return Err(BackendError::Protocol { problem });
        }
        match place.and_then(|place| self.calls.get_mut(place)) {
            Some(call) => {
                call.id = call.id.take().or(id);
                call.name.push_str(&name);
                call.arguments.push_str(&arguments);
            }
            None => self.calls.push(Call { index, id, name, arguments }),
        }
        Ok(())
    }

    /// The place of the call that a part goes on with. Servers that send calls whole give them no number, or all the
    /// same one: a part with a name goes on with none of another id.
    fn begun(&self, index: Option<i64>, id: Option<&str>, has_name: bool) -> Option<usize> {
        let is_other = |call: &Call| has_name && id.is_some() && call.id.as_deref() != id;
        match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index).filter(|at| !is_other(&self.calls[*at])),
            None if has_name => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    fn end_of_thoughts(&mut self) -> String {
        if mem::take(&mut self.thinks) { mem::take(&mut self.held) + "</think>" } else { String::new() }
    }

    /// A text without the mark of a call, wherever it is cut.
    fn quoted(&mut self, said: &str) -> String {
        let mut text = (mem::take(&mut self.held) + said).replace(CALL, QUOTED_CALL);
        let held = (1..CALL.len()).rev().find(|length| text.ends_with(&CALL[..*length])).unwrap_or_default();
        self.held = text.split_off(text.len() - held);
        text
    }

    /// What follows the text: the calls, each once it is whole.
    fn rest(&mut self) -> String {
        let end = self.end_of_thoughts() + &mem::take(&mut self.held);
        mem::take(&mut self.calls).into_iter().fold(end, |text, Call { name, arguments, .. }| {
            let arguments = if arguments.trim().is_empty() { "{}" } else { arguments.trim() };
            text + &format!("<tool_call>{{\"name\": {}, \"arguments\": {arguments}}}</tool_call>", Value::from(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn texts(deltas: &[(Value, Option<&str>)]) -> Vec<String> {
        let mut reader = Reader::default();
        let mut texts = Vec::new();
        for (delta, finish) in deltas {
            let event = json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
            if let Some(Read::More(piece)) = reader.read(&event.to_string()).expect("it is an event") {
                texts.push(piece.text);
            }
        }
        texts.push(reader.end().expect("the answer has ended").text);
        texts
    }

    #[test]
    fn thoughts_by_either_name_come_before_the_text_in_marks() {
        let first = texts(&[
            (json!({ "role": "assistant", "content": "" }), None),
            (json!({ "reasoning_content": "Hm" }), None),
            (json!({ "reasoning_content": "m." }), None),
            (json!({ "content": "Yes" }), None),
            (json!({ "content": "." }), Some("stop")),
        ]);
        assert_eq!(first, ["<think>Hm", "m.", "</think>Yes", "."]);
        let second = texts(&[(json!({ "reasoning": "Hm.", "content": null }), None), (json!({}), Some("length"))]);
        assert_eq!(second, ["<think>Hm.", "</think>"]);
    }

    #[test]
    fn a_mark_of_a_call_in_a_text_stays_text() {
        let written = texts(&[
            (json!({ "reasoning": "Write <tool" }), None),
            (json!({ "reasoning": "_call>? No <" }), None),
            (json!({ "content": "It is <tool_" }), None),
            (json!({ "content": "call>{} or" }), None),
            (json!({ "content": " a <" }), Some("stop")),
        ]);
        let expected =
            ["<think>Write ", "<\u{2060}tool_call>? No ", "<</think>It is ", "<\u{2060}tool_call>{} or", " a <"];
        assert_eq!(written, expected);
    }

    #[test]
    fn calls_come_in_their_order_once_they_are_whole() {
        let call = |index: u32, function: Value| json!({ "tool_calls": [{ "index": index, "function": function }] });
        let written = texts(&[
            (call(0, json!({ "name": "calc", "arguments": "" })), None),
            (call(0, json!({ "arguments": "{\"expression\": " })), None),
            (call(1, json!({ "name": "now" })), None),
            (call(0, json!({ "arguments": "\"1+1\"}" })), None),
            (json!({}), Some("tool_calls")),
        ]);
        let calls = "<tool_call>{\"name\": \"calc\", \"arguments\": {\"expression\": \"1+1\"}}</tool_call>\
                     <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
        assert_eq!(written, [calls]);
    }

    #[test]
    fn calls_that_are_not_told_apart_by_their_numbers_are_several() {
        let calls = |calls: Value| (json!({ "tool_calls": calls }), None);
        let call = |name: &str| json!({ "id": name, "function": { "name": name, "arguments": "{}" } });
        let numbered = |name: &str| json!({ "index": 0, "id": name, "function": { "name": name } });
        let bare = json!({ "index": null, "id": null, "function": { "name": "c", "arguments": null } });
        let rest = json!({ "index": null, "function": { "arguments": "{\"a\": 1}" } });
        let written = |calls: &[&str]| -> String {
            let call = |call: &&str| format!("<tool_call>{{\"name\": {call}}}</tool_call>");
            calls.iter().map(call).collect()
        };
        let end = (Value::Null, Some("tool_calls"));
        let without = texts(&[calls(json!([call("a"), call("b"), bare])), calls(json!([rest, {}])), end.clone()]);
        let three = ["\"a\", \"arguments\": {}", "\"b\", \"arguments\": {}", "\"c\", \"arguments\": {\"a\": 1}"];
        assert_eq!(without, [written(&three)]);
        let same = texts(&[calls(json!([numbered("a")])), calls(json!([numbered("b")])), end]);
        assert_eq!(same, [written(&three[..2])]);
    }

    #[test]
    fn calls_without_end_are_given_up() {
        let event = |call: Value| json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }).to_string();
        let long = event(json!({ "index": 0, "function": { "arguments": "x".repeat(MAX_CALL_BYTES / 2) } }));
        let another = event(json!({ "function": { "name": "a" } }));
        for (event, times) in [(long, 3), (another, MAX_CALLS + 1)] {
            let mut reader = Reader::default();
            let given_up =
                (0..times).map(|_| reader.read(&event)).collect::<Result<Vec<_>, _>>().expect_err("too much");
            assert_eq!(given_up.kind(), "protocol");
        }
    }

    #[test]
    fn an_answer_that_breaks_off_is_none() {
        let mut reader = Reader::default();
        let event = json!({ "choices": [{ "delta": { "content": "Ye" } }] }).to_string();
        assert!(reader.read(&event).is_ok());
        assert!(matches!(reader.end(), Err(BackendError::EndedEarly)));
    }
}
