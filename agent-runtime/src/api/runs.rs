//! `POST /v1/runs`: a run with its steps, tool calls and times; as one object, or as server-sent events.

mod view;

use std::sync::Arc;

use axum::{
    Json,
    extract::{State as Shared, rejection::JsonRejection},
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{Response, sse::Event},
};
use futures::StreamExt;
use serde::Deserialize;
use slipway_runtime_config::Sampling;

use crate::agent::{Conversation, Outcome, RunEvent, State};

use super::{
    chat::{ChatMessage, read_conversation},
    error::{ApiError, Repetition, with_status},
    in_flight::Lost,
    sampling::{self, Asked},
    service::{Service, Start, Started},
    sse,
};
use view::Viewer;

/// The body: a question, or a conversation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RunBody {
    input: Option<String>,
    messages: Option<Vec<ChatMessage>>,
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    #[serde(rename = "top_p")]
    top_p: Option<f64>,
    #[serde(rename = "top_k")]
    top_k: Option<i64>,
    seed: Option<i64>,
}

pub(super) async fn run(
    Shared(service): Shared<Arc<Service>>,
    headers: HeaderMap,
    body: Result<Json<RunBody>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(body) = body?;
    let mut start = body.validate()?;
    if !service.takes_sampling && start.sampling != Sampling::default() {
        let problem = "is not supported: this agent's engine takes the likeliest token; leave it out";
        return Err(ApiError::invalid("temperature, top_p, top_k, seed", problem));
    }
    let request = ("runs", wants_events(&headers), &start.conversation, start.max_tokens, start.sampling);
    start.key = service.outcomes.key(&headers, request)?;
    let Started { id, at: _, origin, mut events } = service.start(start)?;
    let viewer =
        Viewer { id: format!("run-{id}"), agent: service.agent_name.clone(), revision: service.revision.clone() };
    if wants_events(&headers) {
        let events = events.filter_map(move |event| {
            let event = event.map(|event| viewer.event(&event)).transpose();
            std::future::ready(event.map(|event| event.map(|(name, data)| Event::default().event(name).data(data))))
        });
        return Ok(origin.mark(sse::answer(events)));
    }
    while let Some(event) = events.next().await {
        if let RunEvent::Finished(state) = event? {
            let (status, repetition) = status(&state);
            return Ok(origin.mark(with_status(status, repetition, Json(viewer.run(&state)))));
        }
    }
    Err(Lost.into())
}

impl RunBody {
    fn validate(self) -> Result<Start, ApiError> {
        let Self { input, messages, max_tokens, temperature, top_p, top_k, seed } = self;
        let sampling = sampling::read(Asked { temperature, top_p, top_k, seed, ..Asked::default() })?;
        if max_tokens == Some(0) {
            return Err(ApiError::invalid("maxTokens", "is 0; must be at least 1"));
        }
        let conversation = match (input, messages) {
            (Some(input), None) => {
                Conversation::question(input).map_err(|_| ApiError::invalid("input", "is empty; write the question"))?
            }
            (None, Some(messages)) => read_conversation(messages)?,
            (None, None) => return Err(ApiError::invalid("input", "is missing; send input or messages")),
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("input", "is sent with messages; send one of the two"));
            }
        };
        Ok(Start { conversation, max_tokens, sampling, key: None })
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// A failed run has the status of its failure, and still its steps in the body.
fn status(state: &State) -> (StatusCode, Repetition) {
    match state.finished() {
        Some((Outcome::Answered { .. }, _)) => (StatusCode::OK, Repetition::AsStatus),
        Some((Outcome::Failed(failure), _)) => {
            let error = ApiError::of_run(failure, state.side_effects());
            (error.status, error.repetition)
        }
        None => (StatusCode::INTERNAL_SERVER_ERROR, Repetition::AsStatus),
    }
}
