//! The events of one chat completion, as the text of a turn. Pure.
//!
//! Upstreams give thoughts and calls apart from the text, in fields of their own. They become the marks of Hermes here,
//! so that one reader knows the turns of every engine. A server that leaves these marks in its text is read alike.

use std::{collections::BTreeMap, mem};

use serde::Deserialize;
use serde_json::Value;

use super::reader::{self, Counts, DONE, Read, Usage};
use crate::backend::{BackendError, FinishReason, Piece};

/// Reads the events of one chat completion.
#[derive(Debug, Default)]
pub struct Reader {
    counts: Counts,
    /// Whether thoughts are being written.
    thinks: bool,
    calls: BTreeMap<u32, Call>,
    /// The piece with the reason of the end, until all tokens are counted.
    last: Option<Piece>,
}

/// A call, as far as it was written.
#[derive(Debug, Default)]
struct Call {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Delta,
    #[serde(default)]
    finish_reason: Option<String>,
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
    index: u32,
    #[serde(default)]
    function: FunctionDelta,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

impl Reader {
    /// Reads the data of one event.
    pub fn read(&mut self, data: &str) -> Result<Option<Read>, BackendError> {
        if data == DONE {
            return self.end().map(|piece| Some(Read::Last(piece)));
        }
        if let Some(message) = reader::failure(data) {
            return Err(BackendError::engine(message));
        }
        let Chunk { choices, usage } = serde_json::from_str(data).map_err(|error| BackendError::Protocol {
            problem: format!("an event is not a chat completion: {error}"),
        })?;
        let choice = choices.into_iter().next();
        self.counts.read(usage, choice.is_some());
        let Some(Choice { delta, finish_reason }) = choice else { return Ok(None) };
        let finish = finish_reason.as_deref().map(reader::finish_of).transpose()?;
        let mut text = self.text_of(delta);
        let Some(finish) = finish else {
            return Ok((!text.is_empty()).then(|| Read::More(self.counts.piece(text, None))));
        };
        text.push_str(&self.rest());
        self.last = Some(self.counts.piece(text, Some(finish)));
        Ok(None)
    }

    /// The answer has ended.
    pub fn end(&mut self) -> Result<Piece, BackendError> {
        let piece = self.last.take().ok_or(BackendError::EndedEarly)?;
        let finish = piece.finish.unwrap_or(FinishReason::Stop);
        Ok(self.counts.piece(piece.text, Some(finish)))
    }

    fn text_of(&mut self, delta: Delta) -> String {
        let Delta { content, refusal, reasoning_content, reasoning, tool_calls } = delta;
        let mut text = String::new();
        let is_some = |part: &String| !part.is_empty();
        if let Some(thoughts) = reasoning_content.or(reasoning).filter(is_some) {
            if !mem::replace(&mut self.thinks, true) {
                text.push_str("<think>");
            }
            text.push_str(&thoughts);
        }
        for said in [content, refusal].into_iter().flatten().filter(is_some) {
            text.push_str(self.end_of_thoughts());
            text.push_str(&said);
        }
        for CallDelta { index, function: FunctionDelta { name, arguments } } in tool_calls.into_iter().flatten() {
            let call = self.calls.entry(index).or_default();
            call.name.push_str(&name.unwrap_or_default());
            call.arguments.push_str(&arguments.unwrap_or_default());
        }
        text
    }

    fn end_of_thoughts(&mut self) -> &'static str {
        if mem::take(&mut self.thinks) { "</think>" } else { "" }
    }

    /// What follows the text: the calls, each once it is whole.
    fn rest(&mut self) -> String {
        let end = self.end_of_thoughts().to_owned();
        mem::take(&mut self.calls).into_values().fold(end, |text, Call { name, arguments }| {
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
    fn an_answer_that_breaks_off_is_none() {
        let mut reader = Reader::default();
        let event = json!({ "choices": [{ "delta": { "content": "Ye" } }] }).to_string();
        assert!(reader.read(&event).is_ok());
        assert!(matches!(reader.end(), Err(BackendError::EndedEarly)));
    }
}
