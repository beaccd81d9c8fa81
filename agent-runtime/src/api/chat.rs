//! `POST /v1/chat/completions`: a run in the shapes of the OpenAI API.
//! <https://platform.openai.com/docs/api-reference/chat>

mod request;
mod response;

use std::sync::Arc;

use axum::{
    Json,
    extract::{State as Shared, rejection::JsonRejection},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt, stream};

use crate::agent::{Failure, Outcome, RunEvent};

use super::{
    error::ApiError,
    in_flight::{Lost, RunEvents},
    models,
    service::{Service, Start, Started},
};
pub(super) use request::{ChatMessage, ChatRequest, read_conversation};
use response::{Answer, Completion};

pub(super) async fn complete(
    Shared(service): Shared<Arc<Service>>,
    body: Result<Json<ChatRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let chat = request.validate()?;
    if let Some(model) = &chat.model {
        models::check(&service, model)?;
    }
    let Started { id, at, events } =
        service.start(Start { conversation: chat.conversation, max_tokens: chat.max_tokens })?;
    let completion =
        Completion { id: format!("chatcmpl-{id}"), created: at.as_seconds(), model: service.agent_name.clone() };
    // Nothing is sent before the first part of the answer, so that a failure until then has its HTTP status.
    let (first, rest) = first_of_answer(events).await?;
    match chat.streaming {
        None => Ok(Json(completion.whole(&collect(first, rest).await?)).into_response()),
        Some(usage) => {
            let chunks = completion.chunks(stream::once(async { Ok(first) }).chain(rest), usage);
            let events = chunks.map(|data| data.map(|data| Event::default().data(data)));
            Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
        }
    }
}

/// Reads up to the first part of the answer or the end of the run.
async fn first_of_answer(mut events: RunEvents) -> Result<(RunEvent, RunEvents), ApiError> {
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

async fn collect(first: RunEvent, mut rest: RunEvents) -> Result<Answer, ApiError> {
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
        Some((Outcome::Failed(failure), _)) => Err(failure.into()),
        None => Err(Lost.into()),
    }
}
