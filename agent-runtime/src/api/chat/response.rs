//! The answers of a chat completion, whole or in chunks. Pure but for the stream it maps.

use futures::{Stream, StreamExt, future, stream};
use serde::Serialize;
use serde_json::{Number, Value, json};

use crate::{
    agent::{ClientCall, RunEvent, State},
    backend::{FinishReason, TokenLogprob},
};

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
pub(in crate::api) struct Answer {
    pub(in crate::api) text: String,
    pub(in crate::api) thoughts: String,
    /// Calls of the client's tools, named.
    pub(in crate::api) calls: Vec<ClientCall>,
    /// Nothing where they were not asked for.
    pub(in crate::api) logprobs: Option<Vec<TokenLogprob>>,
    pub(in crate::api) finish: Finish,
    pub(in crate::api) usage: Usage,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::api) enum Finish {
    Of(FinishReason),
    ToolCalls,
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
    logprobs: Option<Value>,
    finish_reason: &'static str,
}

#[derive(Serialize)]
struct AssistantMessage {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

/// Tokens of all model calls of a run. Where the engine's entry does not count those of the prompts, neither they nor a
/// total are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::api) struct Usage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::api) prompt_tokens: Option<u32>,
    pub(in crate::api) completion_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::api) total_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::api) prompt_tokens_details: Option<PromptTokens>,
    pub(in crate::api) completion_tokens_details: CompletionTokens,
}

/// What is known of the tokens of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::api) struct PromptTokens {
    pub(in crate::api) cached_tokens: u32,
}

/// What is known of the tokens of turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(in crate::api) struct CompletionTokens {
    pub(in crate::api) reasoning_tokens: u32,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Value>,
    finish_reason: Option<&'static str>,
}

#[derive(Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

impl Usage {
    /// The usage of a run.
    pub(in crate::api) fn of(state: &State) -> Self {
        let (prompt_tokens, completion_tokens) = (state.prompt_tokens(), state.output_tokens());
        Self {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens.map(|prompt_tokens| prompt_tokens.saturating_add(completion_tokens)),
            prompt_tokens_details: state.cached_tokens().map(|cached_tokens| PromptTokens { cached_tokens }),
            completion_tokens_details: CompletionTokens { reasoning_tokens: state.reasoning_tokens() },
        }
    }
}

impl Completion {
    /// The answer in one piece.
    pub(super) fn whole(&self, answer: &Answer) -> WholeAnswer {
        let has_calls = !answer.calls.is_empty();
        let message = AssistantMessage {
            role: "assistant",
            content: Some(answer.text.clone()).filter(|text| !(has_calls && text.is_empty())),
            refusal: None,
            reasoning_content: Some(answer.thoughts.clone()).filter(|thoughts| !thoughts.is_empty()),
            tool_calls: answer.calls.iter().map(call).collect(),
        };
        let logprobs = answer.logprobs.as_deref().map(logprobs);
        WholeAnswer {
            id: self.id.clone(),
            object: "chat.completion",
            created: self.created,
            model: self.model.clone(),
            choices: [Choice { index: 0, message, logprobs, finish_reason: finish_reason(answer.finish) }],
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
        let role = Delta { role: Some("assistant"), content: Some(String::new()), ..Delta::default() };
        let opening = self.delta(role);
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
                vec![self.delta(Delta { content: Some(text.clone()), ..Delta::default() })]
            }
            RunEvent::ThoughtsDelta(text) => {
                vec![self.delta(Delta { reasoning_content: Some(text.clone()), ..Delta::default() })]
            }
            RunEvent::Finished(_) => match answer_of(&self.id, event) {
                Ok(answer) => {
                    let mut data: Vec<_> = answer.calls.iter().enumerate().map(|call| self.call(call)).collect();
                    let logprobs = answer.logprobs.as_deref().map(logprobs);
                    let end = (Delta::default(), logprobs, Some(finish_reason(answer.finish)));
                    data.push(self.chunk(Some(end), None));
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
            | RunEvent::ToolFinished(..)
            | RunEvent::Compacted(_) => Vec::new(),
        }
    }

    fn delta(&self, delta: Delta) -> String {
        self.chunk(Some((delta, None, None)), None)
    }

    fn call(&self, (index, called): (usize, &ClientCall)) -> String {
        let mut part = call(called);
        part["index"] = json!(index);
        self.delta(Delta { tool_calls: vec![part], ..Delta::default() })
    }

    fn chunk(&self, choice: Option<(Delta, Option<Value>, Option<&'static str>)>, usage: Option<Usage>) -> String {
        let choice =
            choice.map(|(delta, logprobs, finish_reason)| ChunkChoice { index: 0, delta, logprobs, finish_reason });
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

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Of(FinishReason::Stop) => "stop",
        Finish::Of(FinishReason::Length) => "length",
        Finish::ToolCalls => "tool_calls",
    }
}

fn call(call: &ClientCall) -> Value {
    let ClientCall { id, name, arguments } = call;
    json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn logprobs(tokens: &[TokenLogprob]) -> Value {
    json!({ "content": logprob_list(tokens), "refusal": null })
}

/// Tokens with their probabilities, and the likeliest others beside each.
pub(in crate::api) fn logprob_list(tokens: &[TokenLogprob]) -> Vec<Value> {
    let one = |token: &str, logprob: &Number| json!({ "token": token, "logprob": logprob, "bytes": token.as_bytes() });
    let each = tokens.iter().map(|TokenLogprob { token, logprob, top }| {
        let mut whole = one(token, logprob);
        whole["top_logprobs"] = top.iter().map(|(token, logprob)| one(token, logprob)).collect();
        whole
    });
    each.collect()
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("texts and integers always serialize")
}
