//! The steps of a run as messages for the template. Pure.

use minijinja::Value;
use slipway_vocabulary::ToolCallDialect;

use crate::{
    agent::{
        dialect,
        grammar::{Observation, ToolCall},
        state::{Call, CallEnd, CallResult, Step},
    },
    chat_template,
};

use super::{
    Author, ChatFormat, ChatTurn,
    calls::{ArgumentForm, NoText},
    offer::Offer,
};

impl ChatFormat {
    /// Adds a finished step: its turn, and what its calls gave.
    pub(super) fn write(&self, step: &Step, offer: &Offer, messages: &mut Vec<Value>) {
        let Some(turn) = &step.chat else { return };
        if let Some(repair) = &step.repair {
            messages.push(message("assistant", self.text(Author::Model, &self.as_written(step, turn))));
            messages.push(message("user", self.text(Author::Other, repair)));
            return;
        }
        let answered: Option<Vec<_>> = step.calls.iter().map(observation).collect();
        let Some(observations) = answered.filter(|observations| !observations.is_empty()) else { return };
        if !self.has_tool_messages {
            messages.push(message("assistant", self.text(Author::Model, &self.as_written(step, turn))));
            let each = step.calls.iter().zip(&observations);
            let results = each.map(|(call, result)| format!("Result of {}: {}", call.call.name, content(result)));
            let results = results.collect::<Vec<_>>().join("\n");
            messages.push(message("user", self.text(Author::Other, &results)));
            return;
        }
        let together = self.calls_together(step);
        for (group, calls) in step.calls.chunks(together).enumerate() {
            let first = group * together;
            let (text, thoughts) = if group == 0 { (turn.content.as_str(), turn.thoughts.as_str()) } else { ("", "") };
            let written = calls
                .iter()
                .enumerate()
                .map(|(index, call)| self.written_call(identity(step.number, first + index), &call.call, offer));
            messages.push(self.with_calls(text, thoughts, written.collect()));
            for (index, call) in calls.iter().enumerate() {
                let given = observations.get(first + index).map(|given| content(given)).unwrap_or_default();
                messages.push(self.result(identity(step.number, first + index), &call.call.name, &given));
            }
        }
    }

    /// Templates of Llama 3 refuse two calls in one message.
    fn calls_together(&self, step: &Step) -> usize {
        if self.dialect == ToolCallDialect::Llama3Json { 1 } else { step.calls.len() }
    }

    /// Whether a step's turn is one message.
    pub(super) fn is_one_message(&self, step: &Step) -> bool {
        let is_plain = !self.has_tool_messages || step.repair.is_some();
        is_plain || step.calls.len() <= self.calls_together(step)
    }

    /// Whether a text that ends with a step's turn has all of it: thoughts, words and calls.
    pub(super) fn has_all(&self, step: &Step, text: &str) -> bool {
        let Some(turn) = &step.chat else { return false };
        if step.repair.is_some() || !self.has_tool_messages {
            return text.contains(step.text.trim());
        }
        let has = |part: &str| text.contains(part.trim());
        turn.calls == step.calls.len() && has(&turn.thoughts) && has(&turn.content)
    }

    /// What the model wrote, without its thoughts.
    fn as_written(&self, step: &Step, turn: &ChatTurn) -> String {
        if self.dialect == ToolCallDialect::Harmony {
            // Its template refuses a text with channels.
            return if turn.content.is_empty() { "(a call with mistakes)".to_owned() } else { turn.content.clone() };
        }
        // An engine that splits turns itself has its own marks.
        let mut ends = ["</think>", "[/THINK]"].into_iter().chain(dialect::ends_of_thoughts(self.dialect));
        let behind = ends.find_map(|mark| step.text.rsplit_once(mark)).map_or(step.text.as_str(), |(_, rest)| rest);
        behind.trim().to_owned()
    }

    pub(super) fn with_calls(&self, text: &str, thoughts: &str, calls: Vec<Value>) -> Value {
        let content = match self.calls.no_text {
            _ if !text.is_empty() && self.calls.takes_text => self.text(Author::Model, text),
            NoText::Null => Value::from(()),
            NoText::Empty => Value::from(""),
        };
        let mut pairs = vec![("role", Value::from("assistant")), ("content", content)];
        if !thoughts.is_empty() {
            pairs.push(("reasoning_content", self.text(Author::Model, thoughts)));
        }
        pairs.push(("tool_calls", Value::from(calls)));
        Value::from_pairs(pairs)
    }

    pub(super) fn written_call(&self, id: String, call: &ToolCall, offer: &Offer) -> Value {
        let arguments = self.harmless_value(offer.arguments(call));
        let arguments = match self.calls.arguments {
            ArgumentForm::Object => arguments,
            ArgumentForm::Text => chat_template::dumps(&arguments).map_or(arguments, Value::from),
        };
        let function = [("name", self.text(Author::Other, &call.name)), ("arguments", arguments)];
        Value::from_pairs([
            ("type", Value::from("function")),
            ("id", Value::from(id)),
            ("function", Value::from_pairs(function)),
        ])
    }

    pub(super) fn result(&self, id: String, name: &str, text: &str) -> Value {
        Value::from_pairs([
            ("role", Value::from("tool")),
            ("tool_call_id", Value::from(id)),
            ("name", self.text(Author::Other, name)),
            ("content", self.text(Author::Other, text)),
        ])
    }
}

pub(super) fn message(role: &str, content: Value) -> Value {
    Value::from_pairs([("role", Value::from(role)), ("content", content)])
}

fn observation(call: &Call) -> Option<&Observation> {
    match &call.end {
        Some(CallEnd { result: CallResult::Answered(observation), .. }) => Some(observation),
        Some(CallEnd { result: CallResult::Cancelled, .. }) | None => None,
    }
}

/// What a tool gave, with its line breaks.
fn content(observation: &Observation) -> String {
    match observation {
        Observation::Result(text) => text.clone(),
        Observation::Error { message, .. } => format!("error: {message}"),
    }
}

/// Names a call: nine letters and digits, as templates of Mistral demand.
pub(super) fn identity(step: u32, index: usize) -> String {
    format!("c{:04}{:04}", step % 10_000, index % 10_000)
}
