//! The events of a run as AG-UI 1.0 has them: <https://docs.ag-ui.com/concepts/events>. Pure.
//!
//! A run begins with `RUN_STARTED` and ends with `RUN_FINISHED` or `RUN_ERROR`. Steps, thoughts, texts and calls end
//! before it does. `result` of `RUN_FINISHED` is the whole run; before a `RUN_ERROR` an event of the name
//! `slipway.run` has it.

use serde_json::{Value, json};

use crate::agent::{CallId, ClientCall, Failure, Outcome, RunEvent, State};

use super::{
    super::{chat::named, error::ApiError},
    view::{Viewer, call_result, compaction_view},
};

/// The version of the protocol.
const VERSION: &str = "1.0";

/// Names the run for its client.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) thread: String,
    pub(super) run: String,
}

/// Writes the events of one run.
#[derive(Debug)]
pub(super) struct Writer {
    viewer: Viewer,
    thread: Thread,
    step: Option<u32>,
    thoughts: Option<String>,
    text: Option<String>,
    /// Messages begun so far.
    messages: u32,
}

impl Writer {
    /// Begins with a run's first event.
    pub(super) fn new(viewer: Viewer, thread: Thread) -> Self {
        Self { viewer, thread, step: None, thoughts: None, text: None, messages: 0 }
    }

    /// The first event. Its metadata has the id by which the run can be read and cancelled.
    pub(super) fn start(&self) -> Value {
        json!({
            "type": "RUN_STARTED",
            "threadId": self.thread.thread,
            "runId": self.thread.run,
            "protocolVersion": VERSION,
            "metadata": { "run": self.viewer.id, "revision": self.viewer.revision },
        })
    }

    /// What happened, in order.
    pub(super) fn events(&mut self, event: &RunEvent) -> Vec<Value> {
        match event {
            RunEvent::Progress(_) => Vec::new(),
            RunEvent::StepStarted(step) => {
                let mut events = self.end_step();
                self.step = Some(*step);
                events.push(json!({ "type": "STEP_STARTED", "stepName": step_name(*step) }));
                events
            }
            RunEvent::ThoughtsDelta(delta) => self.think(delta),
            RunEvent::AnswerDelta(delta) => self.say(delta),
            RunEvent::ModelFinished(_) => self.end_messages(),
            RunEvent::ToolStarted(id, call) => {
                call_events(&self.call_id(*id), &call.name, &arguments(&call.input)).into()
            }
            RunEvent::ToolFinished(id, call) => {
                let content = call_result(call).unwrap_or_default();
                let id = self.call_id(*id);
                vec![json!({
                    "type": "TOOL_CALL_RESULT", "messageId": format!("{id}-result"), "toolCallId": id,
                    "content": content, "role": "tool",
                })]
            }
            RunEvent::Compacted(compaction) => {
                vec![json!({ "type": "CUSTOM", "name": "slipway.compaction", "value": compaction_view(compaction) })]
            }
            RunEvent::Finished(state) => self.end(state),
        }
    }

    fn think(&mut self, delta: &str) -> Vec<Value> {
        let mut events = self.end_text();
        let id = match &self.thoughts {
            Some(id) => id.clone(),
            None => {
                let id = self.next_message();
                events.push(json!({ "type": "REASONING_START", "messageId": id }));
                events.push(json!({ "type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning" }));
                self.thoughts = Some(id.clone());
                id
            }
        };
        events.push(json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": id, "delta": delta }));
        events
    }

    /// Texts of two turns are messages of their own, so the line between them goes.
    fn say(&mut self, delta: &str) -> Vec<Value> {
        let mut events = self.end_thoughts();
        let (id, delta) = match &self.text {
            Some(id) => (id.clone(), delta),
            None => {
                let id = self.next_message();
                events.push(json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }));
                self.text = Some(id.clone());
                (id, delta.trim_start())
            }
        };
        if !delta.is_empty() {
            events.push(json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta }));
        }
        events
    }

    fn end(&mut self, state: &State) -> Vec<Value> {
        let mut events = self.end_messages();
        let usage = usage(&self.viewer.agent, state);
        let outcome = match state.finished() {
            Some((Outcome::Called { calls, .. }, _)) => {
                let calls = named(&self.viewer.id, calls);
                for ClientCall { id, name, arguments } in &calls {
                    events.extend(call_events(id, name, arguments));
                }
                let ids: Vec<_> = calls.iter().map(|call| call.id.as_str()).collect();
                json!({ "type": "success", "pendingToolCallIds": ids })
            }
            Some((Outcome::Answered { .. }, _)) | None => json!({ "type": "success" }),
            Some((Outcome::Failed(Failure::Cancelled), _)) => json!({ "type": "cancelled" }),
            Some((Outcome::Failed(failure), _)) => {
                let body = ApiError::of_run(failure, state.side_effects()).body;
                events.extend(self.end_step());
                events.push(json!({ "type": "CUSTOM", "name": "slipway.run", "value": self.viewer.run(state) }));
                events.push(json!({
                    "type": "RUN_ERROR", "message": body.message, "code": body.code, "usage": [usage],
                }));
                return events;
            }
        };
        events.extend(self.end_step());
        events.push(json!({
            "type": "RUN_FINISHED", "threadId": self.thread.thread, "runId": self.thread.run, "outcome": outcome,
            "usage": [usage], "result": self.viewer.run(state),
        }));
        events
    }

    fn end_step(&mut self) -> Vec<Value> {
        let mut events = self.end_messages();
        if let Some(step) = self.step.take() {
            events.push(json!({ "type": "STEP_FINISHED", "stepName": step_name(step) }));
        }
        events
    }

    fn end_messages(&mut self) -> Vec<Value> {
        let mut events = self.end_thoughts();
        events.extend(self.end_text());
        events
    }

    fn end_thoughts(&mut self) -> Vec<Value> {
        let Some(id) = self.thoughts.take() else { return Vec::new() };
        ["REASONING_MESSAGE_END", "REASONING_END"].map(|kind| json!({ "type": kind, "messageId": id })).into()
    }

    fn end_text(&mut self) -> Vec<Value> {
        let Some(id) = self.text.take() else { return Vec::new() };
        vec![json!({ "type": "TEXT_MESSAGE_END", "messageId": id })]
    }

    fn next_message(&mut self) -> String {
        self.messages += 1;
        format!("{}-message-{}", self.thread.run, self.messages)
    }

    fn call_id(&self, CallId { step, index }: CallId) -> String {
        format!("{}-call-{step}-{index}", self.thread.run)
    }
}

fn call_events(id: &str, name: &str, arguments: &str) -> [Value; 3] {
    [
        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": id }),
    ]
}

/// What a tool is given, as an object of JSON.
fn arguments(input: &str) -> String {
    match serde_json::from_str::<serde_json::Map<String, Value>>(input) {
        Ok(_) => input.to_owned(),
        Err(_) => json!({ "input": input }).to_string(),
    }
}

fn step_name(step: u32) -> String {
    format!("step-{step}")
}

/// Tokens that were not counted are left out.
fn usage(model: &str, state: &State) -> Value {
    let output = state.output_tokens();
    let mut usage = json!({ "model": model, "outputTokens": output, "reasoningTokens": state.reasoning_tokens() });
    if let Some(input) = state.prompt_tokens() {
        usage["inputTokens"] = json!(input);
        usage["totalTokens"] = json!(input.saturating_add(output));
    }
    if let Some(cached) = state.cached_tokens() {
        usage["cachedInputTokens"] = json!(cached);
    }
    usage
}
