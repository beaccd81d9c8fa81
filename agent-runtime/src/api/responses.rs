//! `/v1/responses`: a run in the shapes of Open Responses, which are those of OpenAI's Responses API.
//! <https://www.openresponses.org/specification>
//!
//! One mapping in and one out: requests become those of a chat, and the run's events become items. Responses stay for a
//! while in the pod that gave them, with the runs of `/v1/runs`, so that a client can read and continue them.

mod items;
mod request;
mod writer;

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, RawQuery, State as Shared, rejection::JsonRejection},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use crate::{
    access::Tenant,
    agent::{Failure, Message, Outcome, Role, RunEvent, State},
    clock::Timestamp,
    trace_context::TraceContext,
};

use super::{
    callers::Caller,
    chat::{answer_of, list_ignored, named, until_status},
    error::ApiError,
    in_flight::{Events, Hears, Lost},
    kept_runs::{KeptRun, Remembered},
    models,
    service::{Keep, Service, Start, Started},
    sse::{self, Event},
};
use request::{Asking, ResponseBody};
use writer::{Head, Writer};

/// What the id of a response begins with.
const PREFIX: &str = "resp_";

pub(super) async fn create(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    body: Result<Json<ResponseBody>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(body) = body?;
    let earlier = body.previous().map(|id| earlier(&service, id, tenant.as_ref())).transpose()?.unwrap_or_default();
    let asking = body.validate(earlier, &service.abilities())?;
    // The conversation is the chat's for all that comes after.
    answer(&service, tenant, &headers, asking).await.map_err(|error| error.with_field_as("messages", "input"))
}

async fn answer(
    service: &Arc<Service>,
    tenant: Option<Tenant>,
    headers: &HeaderMap,
    asking: Asking,
) -> Result<Response, ApiError> {
    let Asking { model, conversation, max_tokens, sampling, wishes, is_streamed, is_stored, remembered, ignored } =
        asking;
    if let Some(model) = &model {
        models::check(service, model)?;
    }
    let remembered = Arc::new(remembered);
    let echo = Value::Object(remembered.echo.clone()).to_string();
    let key = ("responses", is_streamed, &conversation, max_tokens, sampling, &wishes, echo);
    let key = service.outcomes.key(headers, tenant.as_ref(), key)?;
    let keep = if is_stored { Keep::Response(Arc::clone(&remembered)) } else { Keep::No };
    let trace = TraceContext::read(headers);
    let wishes = Arc::new(wishes);
    let hears = Hears::All;
    let start = Start { tenant, conversation, max_tokens, sampling, wishes, key, keep, hears, trace };
    let Started { id, at, origin, events } = service.start(start)?;
    let writer = Writer::new(head(service, &id, at, &remembered));
    let response = if is_streamed {
        let (first, rest) = until_status(events).await?;
        sse::answer(written(writer, stream::iter(first.map(Ok)).chain(rest)))
    } else {
        Json(whole(writer, events).await?).into_response()
    };
    Ok(list_ignored(origin.mark(response), &ignored))
}

/// `GET /v1/responses/{id}`: a response that is in progress or has ended not long ago.
pub(super) async fn get(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    if query.as_deref().unwrap_or_default().split('&').any(|pair| pair == "stream=true") {
        let problem = "is not supported here; leave it out, and read the response as a whole";
        return Err(ApiError::invalid("stream", problem));
    }
    let name = id.strip_prefix(PREFIX).ok_or_else(|| unknown(&id))?;
    let found = service.kept_runs.response((name, tenant.as_ref()), service.clock.now());
    let (at, remembered, run) = found.ok_or_else(|| unknown(&id))?;
    let mut writer = Writer::new(head(&service, name, at, &remembered));
    Ok(Json(match run {
        KeptRun::Running => writer.in_progress(),
        KeptRun::Ended(state) => ended(&mut writer, &state),
    })
    .into_response())
}

/// `DELETE /v1/responses/{id}`: forgets a response that has ended.
pub(super) async fn delete(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let name = id.strip_prefix(PREFIX).ok_or_else(|| unknown(&id))?;
    match service.kept_runs.forget_response((name, tenant.as_ref()), service.clock.now()).ok_or_else(|| unknown(&id))? {
        KeptRun::Ended(_) => Ok(Json(json!({ "id": id, "object": "response", "deleted": true })).into_response()),
        KeptRun::Running => {
            let message = format!("{id:?} is in progress; end it by closing its connection, or wait for its end");
            Err(ApiError::new(StatusCode::CONFLICT, "response_in_progress", message))
        }
    }
}

fn head(service: &Service, name: &str, at: Timestamp, remembered: &Remembered) -> Head {
    Head {
        id: format!("{PREFIX}{name}"),
        created: at.as_seconds(),
        model: service.agent_name.clone(),
        echo: remembered.echo.clone(),
    }
}

/// What was said up to the end of this response.
fn earlier(service: &Service, id: &str, tenant: Option<&Tenant>) -> Result<Vec<Message>, ApiError> {
    const FIELD: &str = "previous_response_id";
    let now = service.clock.now();
    let found = id.strip_prefix(PREFIX).and_then(|name| service.kept_runs.response((name, tenant), now));
    let Some((_, remembered, run)) = found else {
        let message = format!(
            "{FIELD}: this pod does not keep response {id:?}. Those with store: false are not kept, others for a \
             quarter of an hour, in the pod that gave them. Send the whole conversation as input"
        );
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "previous_response_not_found", message).about(FIELD));
    };
    let state = match run {
        KeptRun::Ended(state) => state,
        KeptRun::Running => return Err(ApiError::invalid(FIELD, "it is in progress; wait for its end")),
    };
    let mut messages = remembered.messages.clone();
    match state.finished() {
        Some((Outcome::Answered { text, .. }, _)) => messages.push(Message::new(Role::Assistant, text.clone())),
        Some((Outcome::Called { text, calls }, _)) => {
            let turn = Message::new(Role::Assistant, text.clone());
            messages.push(Message { thoughts: state.thoughts(), calls: named(id, calls), ..turn });
        }
        // It said nothing.
        Some((Outcome::Failed(Failure::TokenBudget { .. }), _)) => {}
        Some((Outcome::Failed(_), _)) | None => {
            let problem = "it failed, so that nothing can follow it; continue the response before it";
            return Err(ApiError::invalid(FIELD, problem));
        }
    }
    Ok(messages)
}

fn unknown(id: &str) -> ApiError {
    let message = format!(
        "this pod does not keep response {id:?}: ids begin with {PREFIX}. Those with store: false are not kept, and \
         others for a quarter of an hour after their end"
    );
    ApiError::new(StatusCode::NOT_FOUND, "unknown_response", message)
}

/// A response in one piece.
async fn whole(mut writer: Writer, mut events: Events) -> Result<Value, ApiError> {
    loop {
        let event = events.next().await.unwrap_or(Err(Lost))?;
        if let RunEvent::Finished(_) = &event {
            answer_of("", &event)?;
            return last(writer.events(&event)).ok_or_else(|| Lost.into());
        }
        writer.events(&event);
    }
}

/// A response that ended some time ago: its thoughts and its text are one item each.
fn ended(writer: &mut Writer, state: &State) -> Value {
    writer.events(&RunEvent::ThoughtsDelta(state.thoughts()));
    if let Some((Outcome::Answered { text, .. } | Outcome::Called { text, .. }, _)) = state.finished() {
        writer.events(&RunEvent::AnswerDelta(text.clone()));
    }
    last(writer.events(&RunEvent::Finished(Box::new(state.clone())))).unwrap_or_default()
}

/// The response of a last event.
fn last(mut events: Vec<Value>) -> Option<Value> {
    events.pop().map(|mut event| event["response"].take())
}

fn written(
    mut writer: Writer,
    events: impl Stream<Item = Result<RunEvent, Lost>> + Send + 'static,
) -> impl Stream<Item = Result<Event, Lost>> + Send + 'static {
    let first = writer.start().iter().map(|event| Ok(named_event(event))).collect::<Vec<_>>();
    let rest = events.flat_map(move |event| {
        let written: Vec<_> = match event {
            Ok(event) => {
                let mut written: Vec<_> = writer.events(&event).iter().map(|event| Ok(named_event(event))).collect();
                if let RunEvent::Finished(_) = event {
                    written.push(Ok(Event::of("[DONE]".into())));
                }
                written
            }
            Err(lost) => vec![Err(lost)],
        };
        stream::iter(written)
    });
    stream::iter(first).chain(rest)
}

fn named_event(event: &Value) -> Event {
    Event { name: event["type"].as_str().unwrap_or_default().to_owned().into(), data: event.to_string() }
}
