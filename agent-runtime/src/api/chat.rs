//! `POST /v1/chat/completions`: a run in the shapes of the OpenAI API.
//! <https://platform.openai.com/docs/api-reference/chat>

mod request;
mod response;

use std::sync::Arc;

use axum::{
    Json,
    extract::{State as Shared, rejection::JsonRejection},
    http::HeaderMap,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt, stream};

use crate::agent::{Failure, Outcome, RunEvent};

use super::{
    error::ApiError,
    in_flight::{Events, Lost},
    models,
    service::{Service, Start, Started},
};
pub(super) use request::{ChatMessage, ChatRequest, read_conversation};
use response::{Answer, Completion};

pub(super) async fn complete(
    Shared(service): Shared<Arc<Service>>,
    headers: HeaderMap,
    body: Result<Json<ChatRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let chat = request.validate()?;
    if let Some(model) = &chat.model {
        models::check(&service, model)?;
    }
    let request = ("chat", chat.streaming, &chat.conversation, chat.max_tokens);
    let key = service.outcomes.key(&headers, request)?;
    let start = Start { conversation: chat.conversation, max_tokens: chat.max_tokens, key };
    let Started { id, at, origin, events } = service.start(start)?;
    let completion =
        Completion { id: format!("chatcmpl-{id}"), created: at.as_seconds(), model: service.agent_name.clone() };
    // Nothing is sent before the first part of the answer, so that a failure until then has its HTTP status.
    let (first, rest) = first_of_answer(events).await?;
    match chat.streaming {
        None => Ok(origin.mark(Json(completion.whole(&collect(first, rest).await?)).into_response())),
        Some(usage) => {
            let chunks = completion.chunks(stream::once(async { Ok(first) }).chain(rest), usage);
            let events = chunks.map(|data| data.map(|data| Event::default().data(data)));
            Ok(origin.mark(Sse::new(events).keep_alive(KeepAlive::default()).into_response()))
        }
    }
}

/// Reads up to the first part of the answer or the end of the run.
async fn first_of_answer(mut events: Events) -> Result<(RunEvent, Events), ApiError> {
    while let Some(event) = events.next().await {
        match event? {
            event @ RunEvent::AnswerDelta(_) => return Ok((event, events)),
            event @ RunEvent::Finished(_) => {
                answer_of(&event)?;
                return Ok((event, events));
            }
            RunEvent::Progress(_)
            | RunEvent::StepStarted(_)
            | RunEvent::ModelFinished(_)
            | RunEvent::ToolStarted(..)
            | RunEvent::ToolFinished(..) => {}
        }
    }
    Err(Lost.into())
}

async fn collect(first: RunEvent, mut rest: Events) -> Result<Answer, ApiError> {
    let mut event = first;
    while !matches!(event, RunEvent::Finished(_)) {
        event = rest.next().await.unwrap_or(Err(Lost))?;
    }
    answer_of(&event)
}

/// The answer of a finished run. A spent limit on tokens is an empty answer that says so, as the OpenAI API has it for
/// tokens spent before the first visible one.
fn answer_of(event: &RunEvent) -> Result<Answer, ApiError> {
    let RunEvent::Finished(state) = event else { return Err(Lost.into()) };
    let output_tokens = state.output_tokens();
    match state.finished() {
        Some((Outcome::Answered { text, finish }, _)) => {
            Ok(Answer { text: text.clone(), finish: *finish, output_tokens })
        }
        Some((Outcome::Failed(Failure::TokenBudget { .. }), _)) => Ok(Answer::cut_short(output_tokens)),
        Some((Outcome::Failed(failure), _)) => Err(ApiError::of_run(failure, state.side_effects())),
        None => Err(Lost.into()),
    }
}
