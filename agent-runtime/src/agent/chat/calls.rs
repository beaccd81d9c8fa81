//! How a template is given calls of tools. Templates differ in what they take, and fail at anything else or leave it
//! out, so it is found out by trying. Pure.

use std::collections::BTreeMap;

use minijinja::Value;

use crate::{
    agent::grammar::ToolCall,
    chat_template::{self, Prompt},
    clock::Timestamp,
};

use super::{ChatFormat, messages::identity, messages::message, offer::Offer};

/// What a template takes of a turn that calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallForm {
    pub(super) arguments: ArgumentForm,
    /// What stands where the model wrote no text.
    pub(super) no_text: NoText,
    /// Whether calls are still written where there is a text.
    pub(super) takes_text: bool,
}

/// How arguments are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentForm {
    /// As an object, as in transformers.
    Object,
    /// As a text of JSON, as in OpenAI's API.
    Text,
}

/// What stands for no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoText {
    /// Nothing, as in OpenAI's API.
    Null,
    /// A text without characters.
    Empty,
}

/// A tool that no agent has.
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "probe", "description": "Probes.", "parameters":
    {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}}}]"#;
/// What a prompt must have of two turns with a call each.
const WORDS: [&str; 4] = ["argument-one", "result-one", "argument-two", "result-two"];
/// Forms in the order of preference.
const FORMS: [(ArgumentForm, NoText); 4] = [
    (ArgumentForm::Object, NoText::Null),
    (ArgumentForm::Object, NoText::Empty),
    (ArgumentForm::Text, NoText::Null),
    (ArgumentForm::Text, NoText::Empty),
];

impl CallForm {
    /// What most templates take.
    pub(super) const USUAL: Self = Self { arguments: ArgumentForm::Object, no_text: NoText::Null, takes_text: true };

    /// The form that a template takes; none if it writes calls and results in no form.
    pub(super) fn of(format: &ChatFormat) -> Option<Self> {
        let with = |(arguments, no_text)| Self { arguments, no_text, takes_text: true };
        let mut form = FORMS.into_iter().map(with).find(|form| form.prompt(format, "").is_some())?;
        let empty = Self { no_text: NoText::Empty, ..form };
        // Some write the word where there is nothing.
        let nones = |form: Self| Some(form.prompt(format, "")?.to_lowercase().matches("none").count());
        if let (Some(null), Some(without)) = (nones(form), nones(empty))
            && null > without
        {
            form = empty;
        }
        Some(Self { takes_text: form.prompt(format, "words-before").is_some(), ..form })
    }

    /// A prompt with two calls, where the template writes all of them: one behind thoughts, and one without.
    fn prompt(self, format: &ChatFormat, text: &str) -> Option<String> {
        let format = ChatFormat { calls: self, vocabulary: None, ..format.clone() };
        let mut messages = vec![message("user", Value::from("q"))];
        let turns = [("thoughts", WORDS[0], WORDS[1]), ("", WORDS[2], WORDS[3])];
        for (number, (thoughts, argument, result)) in (1..).zip(turns) {
            let call = ToolCall { name: "probe".to_owned(), input: format!("{{\"of\": \"{argument}\"}}") };
            let call = format.written_call(identity(number, 0), &call, &Offer::default());
            messages.push(format.with_calls(text, thoughts, vec![call]));
            messages.push(format.result(identity(number, 0), "probe", result));
        }
        let prompt = Prompt {
            messages: Value::from(messages),
            tools: chat_template::json(TOOLS).ok(),
            generation_prompt: true,
            now: Timestamp::default(),
            extra: BTreeMap::new(),
        };
        let written = format.checkpoint.template(true).render(&prompt).ok()?;
        WORDS.iter().all(|word| written.contains(word)).then_some(written)
    }
}
