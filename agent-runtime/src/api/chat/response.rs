//! The answers of a chat completion, whole or in chunks. Pure but for the stream it maps.

use futures::{Stream, StreamExt, future, stream};
use serde::Serialize;

use crate::{agent::RunEvent, backend::FinishReason};

use super::{super::in_flight::Lost, answer_of, request::UsageChunk};

/// What all answers of one completion share.
#[derive(Clone, Debug)]
pub(super) struct Completion {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

/// The answer of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) finish: FinishReason,
    pub(super) usage: Usage,
}

#[derive(Serialize)]
pub(super) struct WholeAnswer {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: [Choice; 1],
    usage: Usage,
}

#[derive(Serialize)]
struct Choice {
    index: u32,
    message: AssistantMessage,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct AssistantMessage {
    role: &'static str,
    content: String,
}

/// Tokens of all model calls of a run. Where the engine's entry does not count those of the prompts, neither they nor a
/// total are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u32>,
    completion_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u32>,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChunkChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

#[derive(Serialize)]
struct ChunkChoice {
    index: u32,
    delta: Delta,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl Answer {
    /// An answer of which the limit on tokens left nothing.
    pub(super) fn cut_short(usage: Usage) -> Self {
        Self { text: String::new(), finish: FinishReason::Length, usage }
    }
}

impl Usage {
    pub(super) fn new(prompt_tokens: Option<u32>, completion_tokens: u32) -> Self {
        let total_tokens = prompt_tokens.map(|prompt_tokens| prompt_tokens.saturating_add(completion_tokens));
        Self { prompt_tokens, completion_tokens, total_tokens }
    }
}

impl Completion {
    /// The answer in one piece.
    pub(super) fn whole(&self, answer: &Answer) -> WholeAnswer {
        let message = AssistantMessage { role: "assistant", content: answer.text.clone() };
        WholeAnswer {
            id: self.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: self.model.clone(),
            choices: [Choice { index: 0, message, finish_reason: finish_reason(answer.finish) }],
            usage: answer.usage,
        }
    }

    /// The answer as the data of server-sent events: the role, the parts, the finish reason, the usage if it was asked
    /// for, and the closing `[DONE]`. A failure after the first part is an event with an `error`, and nothing follows.
    pub(super) fn chunks(
        self,
        events: impl Stream<Item = Result<RunEvent, Lost>> + Send + 'static,
        usage: UsageChunk,
    ) -> impl Stream<Item = Result<String, Lost>> + Send + 'static {
        let role = Delta { role: Some("assistant"), content: Some(String::new()) };
        let opening = self.chunk(Some((role, None)), None);
        let data = move |event: Result<RunEvent, Lost>| match event {
            Ok(event) => self.data(&event, usage).into_iter().map(Ok).collect(),
            Err(lost) => vec![Err(lost)],
        };
        let rest = events.flat_map(move |event| stream::iter(data(event)));
        stream::once(future::ready(Ok(opening))).chain(rest)
    }

    fn data(&self, event: &RunEvent, usage: UsageChunk) -> Vec<String> {
        match event {
            RunEvent::AnswerDelta(text) => {
                vec![self.chunk(Some((Delta { role: None, content: Some(text.clone()) }, None)), None)]
            }
            RunEvent::Finished(_) => match answer_of(event) {
                Ok(answer) => {
                    let mut data = vec![self.chunk(Some((Delta::default(), Some(finish_reason(answer.finish)))), None)];
                    if usage == UsageChunk::Yes {
                        data.push(self.chunk(None, Some(answer.usage)));
                    }
                    data.push("[DONE]".into());
                    data
                }
                Err(error) => vec![to_json(&serde_json::json!({ "error": error.body }))],
            },
            RunEvent::Progress(_)
            | RunEvent::StepStarted(_)
            | RunEvent::ModelFinished(_)
            | RunEvent::ToolStarted(..)
            | RunEvent::ToolFinished(..) => Vec::new(),
        }
    }

    fn chunk(&self, choice: Option<(Delta, Option<&'static str>)>, usage: Option<Usage>) -> String {
        let choice = choice.map(|(delta, finish_reason)| ChunkChoice { index: 0, delta, finish_reason });
        to_json(&Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices: choice.into_iter().collect(),
            usage,
        })
    }
}

fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and integers always serialize")
}
