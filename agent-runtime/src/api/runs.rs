//! `/v1/runs`: a run with its steps, tool calls and times; as one object, or as the events of AG-UI.

mod ag_ui;
mod view;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State as Shared, rejection::JsonRejection},
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    agent::{Conversation, Outcome, RunEvent, State, Wishes},
    trace_context::TraceContext,
};

use super::{
    callers::Caller,
    chat::{ChatMessage, ToolBody, read_conversation, read_tools},
    error::{ApiError, Repetition, with_status},
    in_flight::{Events, Hears, Lost},
    kept_runs::KeptRun,
    sampling::{self, Asked},
    service::{Abilities, Keep, Service, Start, Started},
    sse::{self, Event},
    whole_number,
};
use ag_ui::{Thread, Writer};
use view::Viewer;

/// What the name of a run begins with.
const PREFIX: &str = "run-";

/// The body: a question, a conversation, or the input of a run as AG-UI has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunBody {
    input: Option<String>,
    messages: Option<Vec<ChatMessage>>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    #[serde(rename = "top_p")]
    top_p: Option<f64>,
    #[serde(rename = "top_k")]
    #[serde(default, deserialize_with = "whole_number::optional")]
    top_k: Option<i64>,
    #[serde(default, deserialize_with = "whole_number::optional")]
    seed: Option<i64>,
    thread_id: Option<String>,
    run_id: Option<String>,
    tools: Option<Vec<ToolBody>>,
    context: Option<Vec<ContextEntry>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// What AG-UI's clients tell the agent beside messages.
#[derive(Debug, Deserialize)]
struct ContextEntry {
    description: String,
    value: Value,
}

pub(super) async fn run(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    body: Result<Json<RunBody>, JsonRejection>,
) -> Result<Response, ApiError> {
    let Json(mut body) = body?;
    let thread = body.thread_id.take().zip(body.run_id.take());
    let wants_events = thread.is_some() || wants_events(&headers);
    let mut start = body.validate(thread.is_some(), &service.abilities())?;
    let request = ("runs", wants_events, &start.conversation, start.max_tokens, start.sampling, &start.wishes);
    start.key = service.outcomes.key(&headers, tenant.as_ref(), request)?;
    start.tenant = tenant;
    start.trace = TraceContext::read(&headers);
    start.hears = if wants_events { Hears::All } else { Hears::End };
    let Started { id, at: _, origin, mut events } = service.start(start)?;
    let viewer = viewer(&service, &id);
    if wants_events {
        return Ok(origin.mark(sse::answer(written(viewer, thread, events))));
    }
    while let Some(event) = events.next().await {
        if let RunEvent::Finished(state) = event? {
            let (status, repetition) = status(&state);
            return Ok(origin.mark(with_status(status, repetition, Json(viewer.run(&state)))));
        }
    }
    Err(Lost.into())
}

/// `GET /v1/runs/{id}`: a run that is in flight or has ended not long ago.
pub(super) async fn get(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let name = name_of(&id)?;
    let found = service.kept_runs.get((name, tenant.as_ref()), service.clock.now());
    found.map(|run| shown(&service, name, &run, "running")).ok_or_else(|| unknown(&id))
}

/// `POST /v1/runs/{id}/cancel`: ends a run that is in flight. One that has ended stays as it is.
pub(super) async fn cancel(
    Shared(service): Shared<Arc<Service>>,
    Caller(tenant): Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let name = name_of(&id)?;
    let found = service.kept_runs.cancel((name, tenant.as_ref()), service.clock.now());
    found.map(|run| shown(&service, name, &run, "cancelling")).ok_or_else(|| unknown(&id))
}

fn name_of(id: &str) -> Result<&str, ApiError> {
    id.strip_prefix(PREFIX).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> ApiError {
    let message = format!(
        "this pod does not keep run {id:?} of /v1/runs: ids begin with {PREFIX}. Runs are kept for a quarter of an hour \
         after their end, and a client that disconnects ends its run"
    );
    ApiError::new(StatusCode::NOT_FOUND, "unknown_run", message)
}

fn shown(service: &Service, name: &str, run: &KeptRun, in_flight: &str) -> Response {
    let viewer = viewer(service, name);
    match run {
        KeptRun::Ended(state) => Json(viewer.run(state)).into_response(),
        KeptRun::Running => {
            let Viewer { id, agent, revision } = viewer;
            let run = json!({
                "id": id, "object": "agent.run", "agent": agent, "revision": revision, "status": in_flight,
            });
            Json(run).into_response()
        }
    }
}

fn viewer(service: &Service, name: &str) -> Viewer {
    Viewer { id: format!("{PREFIX}{name}"), agent: service.agent_name.clone(), revision: service.revision.clone() }
}

/// The events of AG-UI. A client that names no thread has one for each run.
fn written(
    viewer: Viewer,
    thread: Option<(String, String)>,
    events: Events,
) -> impl futures::Stream<Item = Result<Event, Lost>> + Send + 'static {
    let (thread, run) = thread.unwrap_or_else(|| (viewer.id.clone(), viewer.id.clone()));
    let mut writer = Writer::new(viewer, Thread { thread, run });
    let first = writer.start();
    let rest = events.flat_map(move |event| {
        let written: Vec<_> = match event {
            Ok(event) => writer.events(&event).into_iter().map(Ok).collect(),
            Err(lost) => vec![Err(lost)],
        };
        stream::iter(written)
    });
    stream::iter([Ok(first)]).chain(rest).map(|event| event.map(|event| Event::of(event.to_string())))
}

impl RunBody {
    fn validate(self, is_ag_ui: bool, abilities: &Abilities) -> Result<Start, ApiError> {
        let Self { input, messages, max_tokens, temperature, top_p, top_k, seed, tools, context, others, .. } = self;
        if let Some(field) = others.keys().next().filter(|_| !is_ag_ui) {
            let known = "expected one of `input`, `messages`, `maxTokens`, `temperature`, `top_p`, `top_k`, `seed`, \
                         or `threadId` and `runId` with the other fields of AG-UI's RunAgentInput";
            return Err(ApiError::invalid(field, format!("unknown field `{field}`, {known}")));
        }
        let (asked, beyond) = Asked { temperature, top_p, top_k, seed, ..Asked::default() }.split(abilities.sampling);
        if !beyond.is_empty() {
            let problem = "is not supported: this agent's model has no input for it; leave it out";
            return Err(ApiError::invalid(&beyond.join(", "), problem));
        }
        let sampling = sampling::read(asked)?;
        if max_tokens == Some(0) {
            return Err(ApiError::invalid("maxTokens", "is 0; must be at least 1"));
        }
        let conversation = match (input, messages) {
            (Some(input), None) => {
                Conversation::question(input).map_err(|_| ApiError::invalid("input", "is empty; write the question"))?
            }
            (None, Some(messages)) => {
                let said = messages.into_iter().filter(ChatMessage::is_said);
                let told = context.unwrap_or_default().into_iter().map(ContextEntry::message);
                read_conversation(said.chain(told).collect())?
            }
            (None, None) => return Err(ApiError::invalid("input", "is missing; send input or messages")),
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("input", "is sent with messages; send one of the two"));
            }
        };
        let tools = read_tools(tools.unwrap_or_default(), abilities)?;
        let wishes = Arc::new(Wishes { tools, ..Wishes::default() });
        let (tenant, key, trace) = (None, None, None);
        let (keep, hears) = (Keep::Run, Hears::All);
        Ok(Start { tenant, conversation, max_tokens, sampling, wishes, key, keep, hears, trace })
    }
}

impl ContextEntry {
    fn message(self) -> ChatMessage {
        let Self { description, value } = self;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        ChatMessage::system(format!("{description}: {value}"))
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
}

/// A failed run has the status of its failure, and still its steps in the body.
fn status(state: &State) -> (StatusCode, Repetition) {
    match state.finished() {
        Some((Outcome::Answered { .. } | Outcome::Called { .. }, _)) => (StatusCode::OK, Repetition::AsStatus),
        Some((Outcome::Failed(failure), _)) => {
            let error = ApiError::of_run(failure, state.side_effects());
            (error.status, error.repetition)
        }
        None => (StatusCode::INTERNAL_SERVER_ERROR, Repetition::AsStatus),
    }
}
