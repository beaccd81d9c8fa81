//! A run as a response, whole or as events: <https://www.openresponses.org/specification>. Pure.
//!
//! A response begins with `response.created` and ends with `response.completed`, `.incomplete` or `.failed`. Items
//! follow each other: one ends before the next begins. Thoughts have the events of OpenAI's API
//! (`response.reasoning_text`), which stock clients know. The agent's own tools are not items, as in chats.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use crate::{
    agent::{ClientCall, RunEvent, State},
    api::chat::{Answer, Finish, Usage, answer_of, logprob_list},
    backend::FinishReason,
};

/// What all events of one response share.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    /// Fields of the request.
    pub(super) echo: Map<String, Value>,
}

/// Writes one response.
#[derive(Debug)]
pub(super) struct Writer {
    head: Head,
    /// Events so far.
    sequence: u64,
    /// Items that have ended.
    output: Vec<Value>,
    open: Option<Open>,
}

/// The item that is being written.
#[derive(Debug)]
struct Open {
    kind: Kind,
    id: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

impl Writer {
    pub(super) fn new(head: Head) -> Self {
        Self { head, sequence: 0, output: Vec::new(), open: None }
    }

    /// The first events.
    pub(super) fn start(&mut self) -> Vec<Value> {
        let response = self.response(Status::InProgress);
        ["response.created", "response.in_progress"]
            .map(|kind| self.event(kind, json!({ "response": response })))
            .into()
    }

    /// What happened, in order.
    pub(super) fn events(&mut self, event: &RunEvent) -> Vec<Value> {
        match event {
            RunEvent::ThoughtsDelta(delta) => self.write(Kind::Reasoning, delta),
            RunEvent::AnswerDelta(delta) => self.write(Kind::Message, delta),
            RunEvent::Finished(state) => self.end(event, state),
            RunEvent::Progress(_)
            | RunEvent::StepStarted(_)
            | RunEvent::ModelFinished(_)
            | RunEvent::ToolStarted(..)
            | RunEvent::ToolFinished(..)
            | RunEvent::Compacted(_) => Vec::new(),
        }
    }

    /// The response so far.
    pub(super) fn in_progress(&self) -> Value {
        self.response(Status::InProgress)
    }

    /// A new item begins with something to read: the lines between two turns go.
    fn write(&mut self, kind: Kind, delta: &str) -> Vec<Value> {
        let mut events = Vec::new();
        let is_open = self.open.as_ref().is_some_and(|open| open.kind == kind);
        let delta = if is_open { delta } else { delta.trim_start() };
        if delta.is_empty() {
            return events;
        }
        if !is_open {
            events.extend(self.end_item(Status::Completed, None));
            events.extend(self.begin_item(kind));
        }
        let Some(open) = self.open.as_mut() else { return events };
        open.text.push_str(delta);
        let mut data = json!({ "item_id": open.id, "content_index": 0, "delta": delta });
        if kind == Kind::Message {
            // They come with the end.
            data["logprobs"] = json!([]);
        }
        events.push(self.item_event(&format!("{}.delta", kind.text_event()), data));
        events
    }

    fn begin_item(&mut self, kind: Kind) -> Vec<Value> {
        let id = self.item_id(kind.prefix());
        let open = Open { kind, id: id.clone(), text: String::new() };
        let item = open.item(Status::InProgress, None);
        let part = json!({ "item_id": id, "content_index": 0, "part": open.part(None) });
        self.open = Some(open);
        vec![
            self.item_event("response.output_item.added", json!({ "item": item })),
            self.item_event("response.content_part.added", part),
        ]
    }

    fn end_item(&mut self, status: Status, answer: Option<&Answer>) -> Vec<Value> {
        let Some(open) = self.open.take() else { return Vec::new() };
        let logprobs = answer.and_then(|answer| answer.logprobs.as_deref()).map(logprob_list);
        let (item, part) = (open.item(status, logprobs.as_deref()), open.part(logprobs.as_deref()));
        let mut done = json!({ "item_id": open.id, "content_index": 0, "text": open.text });
        if open.kind == Kind::Message {
            done["logprobs"] = json!(logprobs.unwrap_or_default());
        }
        let events = vec![
            self.item_event(&format!("{}.done", open.kind.text_event()), done),
            self.item_event(
                "response.content_part.done",
                json!({ "item_id": open.id, "content_index": 0, "part": part }),
            ),
            self.item_event("response.output_item.done", json!({ "item": item })),
        ];
        self.output.push(item);
        events
    }

    fn end(&mut self, event: &RunEvent, state: &State) -> Vec<Value> {
        let answer = answer_of(&self.head.id, event);
        let status = match &answer {
            Ok(Answer { finish: Finish::Of(FinishReason::Length), .. }) => Status::Incomplete,
            Ok(_) => Status::Completed,
            Err(_) => Status::Failed,
        };
        // An item that a failure ends is not what the model meant to write.
        let of_item = if status == Status::Completed { Status::Completed } else { Status::Incomplete };
        let mut events = self.end_item(of_item, answer.as_ref().ok());
        for call in answer.as_ref().map(|answer| answer.calls.as_slice()).unwrap_or_default() {
            events.extend(self.call(call));
        }
        let mut response = self.response(status);
        let at = state.finished().map(|(_, at)| at.as_seconds());
        response["usage"] = usage(&Usage::of(state));
        match answer {
            Ok(_) if status == Status::Incomplete => {
                response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
            }
            Ok(_) => response["completed_at"] = json!(at),
            Err(error) => {
                let error = error.with_field_as("messages", "input");
                response["error"] = json!({ "code": error.body.code, "message": error.body.message });
            }
        }
        events.push(self.event(status.event(), json!({ "response": response })));
        events
    }

    /// A call comes in one part: its arguments are known to be sound then.
    fn call(&mut self, call: &ClientCall) -> Vec<Value> {
        let ClientCall { id: call_id, name, arguments } = call;
        let id = self.item_id("fc");
        let item = |arguments: &str, status: &str| {
            json!({
                "type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments,
                "status": status,
            })
        };
        let done = item(arguments, "completed");
        let events = vec![
            self.item_event("response.output_item.added", json!({ "item": item("", "in_progress") })),
            self.item_event("response.function_call_arguments.delta", json!({ "item_id": id, "delta": arguments })),
            self.item_event(
                "response.function_call_arguments.done",
                json!({ "item_id": id, "name": name, "arguments": arguments }),
            ),
            self.item_event("response.output_item.done", json!({ "item": done })),
        ];
        self.output.push(done);
        events
    }

    fn response(&self, status: Status) -> Value {
        let Head { id, created, model, echo } = &self.head;
        let mut response = json!({
            "id": id, "object": "response", "created_at": created, "completed_at": null, "status": status.word(),
            "model": model, "output": self.output, "error": null, "incomplete_details": null, "usage": null,
        });
        if let Value::Object(fields) = &mut response {
            fields.extend(echo.clone());
        }
        response
    }

    fn item_event(&mut self, kind: &str, mut data: Value) -> Value {
        data["output_index"] = json!(self.output.len());
        self.event(kind, data)
    }

    fn event(&mut self, kind: &str, mut data: Value) -> Value {
        data["type"] = json!(kind);
        data["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        data
    }

    /// Names an item apart from those of every other run. The run's name, which is a secret, does not follow from it.
    fn item_id(&self, prefix: &str) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.head.id, prefix, self.output.len()).hash(&mut hasher);
        format!("{prefix}_{:016x}", hasher.finish())
    }
}

impl Open {
    fn item(&self, status: Status, logprobs: Option<&[Value]>) -> Value {
        let content = if status == Status::InProgress { json!([]) } else { json!([self.part(logprobs)]) };
        let mut item = json!({ "type": self.kind.word(), "id": self.id, "status": status.word(), "content": content });
        match self.kind {
            Kind::Reasoning => item["summary"] = json!([]),
            Kind::Message => item["role"] = json!("assistant"),
        }
        item
    }

    fn part(&self, logprobs: Option<&[Value]>) -> Value {
        match self.kind {
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": self.text }),
            Kind::Message => {
                let logprobs = logprobs.unwrap_or_default();
                json!({ "type": "output_text", "text": self.text, "annotations": [], "logprobs": logprobs })
            }
        }
    }
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Reasoning => "reasoning",
            Self::Message => "message",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Reasoning => "rs",
            Self::Message => "msg",
        }
    }

    fn text_event(self) -> &'static str {
        match self {
            Self::Reasoning => "response.reasoning_text",
            Self::Message => "response.output_text",
        }
    }
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }

    fn event(self) -> &'static str {
        match self {
            Self::InProgress => "response.in_progress",
            Self::Completed => "response.completed",
            Self::Incomplete => "response.incomplete",
            Self::Failed => "response.failed",
        }
    }
}

/// Tokens of all model calls; nothing where those of the prompts are not counted, as the API has no usage without them.
fn usage(usage: &Usage) -> Value {
    let Some((input, total)) = usage.prompt_tokens.zip(usage.total_tokens) else { return Value::Null };
    let cached = usage.prompt_tokens_details.map_or(0, |details| details.cached_tokens);
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": cached },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": { "reasoning_tokens": usage.completion_tokens_details.reasoning_tokens },
        "total_tokens": total,
    })
}
