//! `POST /v1/chat/completions`: a run in the shapes of the OpenAI API.
//! <https://platform.openai.com/docs/api-reference/chat>

mod request;
mod response;
mod wishes;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json,
    extract::{State as Shared, rejection::JsonRejection},
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};

use crate::{
    agent::{ClientCall, Failure, Outcome, RunEvent},
    backend::FinishReason,
    trace_context::TraceContext,
};

use super::{
    callers::Caller,
    error::ApiError,
    in_flight::{Events, Hears, Lost},
    models,
    service::{Keep, Service, Start, Started},
    sse::{self, Event},
};
use request::ChatRequest;
pub(super) use request::{ChatMessage, Content, read_arguments, read_content, read_conversation, read_others};
use response::Completion;
pub(super) use response::{Answer, Finish, Usage, logprob_list};
pub(super) use wishes::{FieldNames, ToolBody, WishFields, read_tools};

/// How long the headers of a stream wait for a failure: an engine that refuses or is not there says so at once.
const STATUS_WAIT: Duration = Duration::from_millis(250);

/// Lists the request's fields that had no effect, where there are any.
const IGNORED_FIELDS: HeaderName = HeaderName::from_static("x-slipway-ignored-fields");

pub(super) async fn complete(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    body: Result<Json<ChatRequest>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(request) = body?;
    let chat = request.validate(&service.abilities())?;
    if let Some(model) = &chat.model {
        models::check(&service, model)?;
    }
    let request = ("chat", chat.streaming, &chat.conversation, chat.max_tokens, chat.sampling, &chat.wishes);
    let key = service.outcomes.key(&headers, tenant.as_ref(), request)?;
    let start = Start {
        tenant,
        conversation: chat.conversation,
        max_tokens: chat.max_tokens,
        sampling: chat.sampling,
        wishes: Arc::new(chat.wishes),
        key,
        keep: Keep::No,
        hears: if chat.streaming.is_some() { Hears::All } else { Hears::Answer },
        trace: TraceContext::read(&headers),
    };
    let Started { id, at, origin, events } = service.start(start)?;
    let completion =
        Completion { id: format!("chatcmpl-{id}"), created: at.as_seconds(), model: service.agent_name.clone() };
    let response = match chat.streaming {
        None => Json(completion.whole(&collect(&completion.id, events).await?)).into_response(),
        Some(usage) => {
            let (first, rest) = until_status(events).await?;
            let chunks = completion.chunks(stream::iter(first.map(Ok)).chain(rest), usage);
            sse::answer(chunks.map(|data| data.map(Event::of)))
        }
    };
    Ok(list_ignored(origin.mark(response), &chat.ignored))
}

/// Lists fields that had no effect in a header.
pub(super) fn list_ignored(mut response: Response, fields: &[String]) -> Response {
    if let Some(list) = (!fields.is_empty()).then(|| HeaderValue::from_str(&fields.join(", "))).and_then(Result::ok) {
        response.headers_mut().insert(IGNORED_FIELDS, list);
    }
    response
}

/// Waits a moment for the first part of the answer or a failure, which then has its HTTP status. Headers do not wait
/// longer: to clients and gateways a run of many steps would look like a server that does not answer.
pub(super) async fn until_status(mut events: Events) -> Result<(Option<RunEvent>, Events), ApiError> {
    let first = tokio::time::timeout(STATUS_WAIT, first_of_answer(&mut events)).await;
    Ok((first.ok().transpose()?, events))
}

/// Reads up to the first part of the answer or the end of the run.
async fn first_of_answer(events: &mut Events) -> Result<RunEvent, ApiError> {
    loop {
        match events.next().await.unwrap_or(Err(Lost))? {
            event @ (RunEvent::AnswerDelta(_) | RunEvent::ThoughtsDelta(_)) => return Ok(event),
            event @ RunEvent::Finished(_) => {
                answer_of("", &event)?;
                return Ok(event);
            }
            RunEvent::Progress(_)
            | RunEvent::StepStarted(_)
            | RunEvent::ModelFinished(_)
            | RunEvent::ToolStarted(..)
            | RunEvent::ToolFinished(..)
            | RunEvent::Compacted(_) => {}
        }
    }
}

async fn collect(id: &str, mut events: Events) -> Result<Answer, ApiError> {
    loop {
        let event = events.next().await.unwrap_or(Err(Lost))?;
        if matches!(event, RunEvent::Finished(_)) {
            return answer_of(id, &event);
        }
    }
}

/// The answer of a finished run. A spent limit on tokens is an empty answer that says so, as the OpenAI API has it for
/// tokens spent before the first visible one.
pub(super) fn answer_of(id: &str, event: &RunEvent) -> Result<Answer, ApiError> {
    let RunEvent::Finished(state) = event else { return Err(Lost.into()) };
    let answer = |text: &str, finish| Answer {
        text: text.to_owned(),
        thoughts: state.thoughts(),
        calls: Vec::new(),
        logprobs: state.wants_logprobs().then(|| state.logprobs().to_vec()),
        finish,
        usage: Usage::of(state),
    };
    match state.finished() {
        Some((Outcome::Answered { text, finish }, _)) => Ok(answer(text, Finish::Of(*finish))),
        Some((Outcome::Called { text, calls }, _)) => {
            Ok(Answer { calls: named(id, calls), ..answer(text, Finish::ToolCalls) })
        }
        Some((Outcome::Failed(Failure::TokenBudget { .. }), _)) => Ok(answer("", Finish::Of(FinishReason::Length))),
        Some((Outcome::Failed(failure), _)) => Err(ApiError::of_run(failure, state.side_effects())),
        None => Err(Lost.into()),
    }
}

/// Names calls apart from those of every other run. Nobody can tell the run by it, as its name is a secret.
pub(super) fn named(run: &str, calls: &[ClientCall]) -> Vec<ClientCall> {
    let id = |index: usize| {
        let mut hasher = DefaultHasher::new();
        (run, index).hash(&mut hasher);
        format!("call_{:016x}", hasher.finish())
    };
    calls.iter().enumerate().map(|(index, call)| ClientCall { id: id(index), ..call.clone() }).collect()
}
