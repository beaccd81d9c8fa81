//! A run of an agent as people read it: what the model called, what came back, the answer. Pure.

use serde::{Deserialize, Serialize};

use crate::{output::Shown, table::duration};

/// The parts of an answer of `/v1/runs` that are shown. Later fields are let pass.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// `succeeded` or `failed`.
    pub status: String,
    /// The answer, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The steps, in their order.
    #[serde(default)]
    pub steps: Vec<RunStep>,
    /// Where the time went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<RunTimings>,
}

impl Shown for Run {
    const KIND: &'static str = "Run";
}

/// Why a run ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct RunError {
    /// In words.
    pub message: String,
}

/// One turn of the model, and the calls that it asked for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStep {
    /// Number, from 1.
    pub step: u32,
    /// Time in the model, microseconds.
    pub model_microseconds: u64,
    /// Calls, made at the same time.
    #[serde(default)]
    pub tool_calls: Vec<ToolCall>,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// What it was given.
    pub input: String,
    /// `ok`, `error` or `cancelled`.
    pub status: String,
    /// What it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation: Option<String>,
    /// Its time, microseconds.
    pub microseconds: u64,
}

/// Where a run's time went, microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunTimings {
    /// The whole run.
    pub total_microseconds: u64,
    /// In the model.
    pub model_microseconds: u64,
    /// In tools.
    pub tool_microseconds: u64,
}

impl Run {
    /// Whether there is an answer.
    pub fn has_succeeded(&self) -> bool {
        self.status == "succeeded"
    }

    /// Whether tools were called, and none gave what it was asked for.
    pub fn rests_on_no_tool(&self) -> bool {
        let mut calls = self.steps.iter().flat_map(|step| &step.tool_calls).peekable();
        calls.peek().is_some() && calls.all(|call| call.status != "ok")
    }
}

/// The question, each step with its calls, and the answer.
pub fn conversation(question: &str, run: &Run) -> String {
    let mut text = format!("Question: {question}\n");
    for step in &run.steps {
        let together = if step.tool_calls.len() > 1 { ", parallel calls" } else { "" };
        text.push_str(&format!("  step {} (model {}{together})\n", step.step, duration(step.model_microseconds)));
        text.extend(step.tool_calls.iter().map(call));
    }
    let outcome = match (&run.answer, &run.error) {
        (Some(answer), _) => format!("Answer: {}\n", answer.trim()),
        (None, Some(error)) => format!("No answer: {}\n", error.message),
        (None, None) => format!("No answer: the run is {}\n", run.status),
    };
    text.push_str(&outcome);
    if let Some(times) = &run.timings {
        text.push_str(&format!(
            "  {} in all: {} in the model, {} in tools\n",
            duration(times.total_microseconds),
            duration(times.model_microseconds),
            duration(times.tool_microseconds)
        ));
    }
    text
}

fn call(call: &ToolCall) -> String {
    let result = call.observation.as_deref().unwrap_or(&call.status).trim();
    format!("    {}[{}] -> {result} ({})\n", call.name, call.input, duration(call.microseconds))
}
