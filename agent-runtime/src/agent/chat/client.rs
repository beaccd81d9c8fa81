//! What a client asked of a run in a chat: whether an answer is what it wants, and what of it the engine sees to. Pure.

use slipway_runtime_config::Schema;

use crate::{
    agent::{
        grammar::MalformedTurn,
        wishes::{AnswerFormat, unfenced},
    },
    backend::{FinishReason, Guide},
};

use super::Talk;

/// What prompts of models that always think end with.
const THOUGHTS: [&str; 2] = ["<think>", "[THINK]"];

/// What of an answer is not as the client wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What the model is told.
    pub told: String,
    /// What the client is told, if it happens again.
    pub reason: MalformedTurn,
}

impl Mistake {
    /// Calls of tools that cannot be made.
    pub fn of_calls(problem: String) -> Self {
        let told = format!("Your call was not made: {problem}. Correct it, or answer without a tool.");
        Self { told, reason: MalformedTurn::BadCalls { problem } }
    }
}

impl Talk {
    /// What the engine holds the tokens of a turn to: the answer's format, where the turn can only be the answer. That
    /// is so without tools, and for an answer that is written again.
    pub fn guide(&self, prompt: &str, is_again: bool) -> Option<Guide> {
        let is_free = !is_again && !self.offer.is_empty();
        // Thoughts and the channels of gpt-oss fit no schema.
        let thinks = THOUGHTS.iter().any(|mark| prompt.trim_end().ends_with(mark));
        if !self.wishes.is_guided || is_free || thinks || self.format.has_channels() {
            return None;
        }
        self.wishes.format.guide()
    }

    /// Whether text waits until its turn is known to be what the client wants.
    pub fn holds_text(&self) -> bool {
        self.wishes.demands_call() || self.wants_json()
    }

    /// Whether the answer is a value of JSON.
    pub fn wants_json(&self) -> bool {
        self.wishes.format != AnswerFormat::Text
    }

    /// Checks the text of an answer, and gives what of it the client wants.
    ///
    /// # Errors
    /// It is not what the client wants.
    pub fn accept(&self, text: &str, finish: FinishReason) -> Result<String, Mistake> {
        match (&self.wishes.format, finish) {
            (_, FinishReason::Length) => Ok(text.to_owned()),
            _ if self.wishes.demands_call() => Err(self.no_call()),
            (AnswerFormat::Text, FinishReason::Stop) => Ok(text.to_owned()),
            (AnswerFormat::JsonObject | AnswerFormat::JsonSchema(_), FinishReason::Stop) => self.accept_json(text),
        }
    }

    fn no_call(&self) -> Mistake {
        let names: Vec<_> = self.wishes.offered().map(|tool| tool.name.as_str()).collect();
        let told = format!("You have to call a tool. Call one of {} now.", names.join(", "));
        Mistake { told, reason: MalformedTurn::NoCall }
    }

    fn accept_json(&self, text: &str) -> Result<String, Mistake> {
        let json = unfenced(text);
        let problem = match (serde_json::from_str::<serde_json::Value>(json), &self.schema) {
            (Err(_), _) => "it is not JSON alone".to_owned(),
            (Ok(value), None) if value.is_object() => return Ok(json.to_owned()),
            (Ok(_), None) => "it is not an object of JSON".to_owned(),
            (Ok(value), Some(schema)) => match schema.check_value(&value) {
                Ok(()) => return Ok(json.to_owned()),
                Err(problem) => problem.to_string(),
            },
        };
        let told = format!("Your answer has a mistake: {problem}. Write it again, as JSON alone.");
        Err(Mistake { told, reason: MalformedTurn::BadFormat { problem } })
    }
}

/// The schema of an answer, to check it by. What is not known here is left to an engine that can be held to it.
pub(super) fn schema(format: &AnswerFormat) -> Option<Schema> {
    match format {
        AnswerFormat::Text | AnswerFormat::JsonObject => None,
        AnswerFormat::JsonSchema(schema) => {
            let unknown = slipway_runtime_config::Unknown::Unchecked;
            // One that cannot be read at all was refused with the request, unless an engine is held to it.
            Some(Schema::of_value(&schema.clone().into(), "schema", unknown).unwrap_or_else(|_| Schema::anything()))
        }
    }
}
