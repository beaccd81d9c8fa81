//! Errors as clients see them: the envelope of the OpenAI API.

use std::time::Duration;

use axum::{
    Json,
    extract::rejection::JsonRejection,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

use crate::agent::{Failure, SideEffects};

use super::{admission::Refusal, in_flight::Lost};

/// A place is usually free again within a run's time; one second keeps clients from hammering.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// OpenAI's clients repeat a request by its status, unless this header says otherwise.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// When to come back, in milliseconds: OpenAI's clients read it before `Retry-After`.
const RETRY_AFTER_MILLISECONDS: HeaderName = HeaderName::from_static("retry-after-ms");

/// How a client says who it is.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// Whether the request may be sent again.
    pub repetition: Repetition,
    /// What the client reads.
    pub body: ErrorBody,
}

/// Whether a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// As the status says.
    AsStatus,
    /// It may be after this time.
    After(Duration),
    /// It must not be, whatever the status: the run's tools may have changed something.
    Never,
}

/// The object under `error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorBody {
    /// What is wrong and what to do.
    pub message: String,
    /// The kind, as the OpenAI API names it.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The field of the request that is wrong.
    pub param: Option<String>,
    /// A label for programs.
    pub code: &'static str,
}

#[derive(Serialize)]
struct Envelope {
    error: ErrorBody,
}

impl ApiError {
    /// The request's field `param` is wrong.
    pub fn invalid(param: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_value", format!("{param}: {problem}")).about(param)
    }

    pub(super) fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        };
        let repetition = Repetition::AsStatus;
        Self { status, repetition, body: ErrorBody { message, kind, param: None, code } }
    }

    pub(super) fn about(mut self, param: &str) -> Self {
        self.body.param = Some(param.into());
        self
    }

    /// The same error for an API that has another name for this field.
    pub(super) fn with_field_as(mut self, from: &str, to: &str) -> Self {
        if self.body.param.as_deref() != Some(from) {
            return self;
        }
        if let Some(problem) = self.body.message.strip_prefix(from) {
            self.body.message = format!("{to}{problem}");
        }
        self.about(to)
    }
}

impl ApiError {
    /// A failed run. After side effects its status is one that clients and gateways do not retry.
    pub(super) fn of_run(failure: &Failure, side_effects: SideEffects) -> Self {
        let mut error = Self::of_failure(failure);
        match side_effects {
            SideEffects::None => {
                if *failure == Failure::CutByShutdown {
                    error.body.message.push_str("; send the request again");
                }
            }
            SideEffects::Possible => {
                error.repetition = Repetition::Never;
                error.body.message.push_str("; its tool calls may have changed something, so do not repeat it");
                if error.status.is_server_error() {
                    error.status = StatusCode::FAILED_DEPENDENCY;
                }
            }
        }
        error
    }
}

impl ApiError {
    /// A failed run that changed nothing.
    fn of_failure(failure: &Failure) -> Self {
        let status = match failure {
            Failure::MaxSteps { .. } | Failure::TokenBudget { .. } | Failure::MalformedOutput { .. } => {
                StatusCode::BAD_GATEWAY
            }
            Failure::Model { error, .. } if error.is_unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Failure::Prompt { .. } | Failure::Model { .. } => StatusCode::BAD_GATEWAY,
            Failure::ContextLength { .. } | Failure::Refused { .. } => StatusCode::BAD_REQUEST,
            Failure::Unmet { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::Cancelled => StatusCode::GONE,
            Failure::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
            Failure::CutByShutdown => StatusCode::SERVICE_UNAVAILABLE,
        };
        let error = Self::new(status, failure.kind(), failure.to_string());
        match failure {
            Failure::ContextLength { .. } => error.about("messages"),
            _ => error,
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full { limit } => {
                let message = format!("this pod serves {limit} run(s) at once and all places are taken; try again");
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", message)
            }
            Refusal::NotReady { why } => {
                let message = format!("this pod is not ready: {why}");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", message)
            }
            Refusal::Draining => {
                let message = "this pod is shutting down; send the request again".into();
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message)
            }
        }
    }
}

impl From<Lost> for ApiError {
    fn from(_: Lost) -> Self {
        // What its tools did is lost with it.
        let message =
            "the run ended without an outcome; its tool calls may have changed something, so do not repeat it";
        let error = Self::new(StatusCode::FAILED_DEPENDENCY, "internal_error", message.into());
        Self { repetition: Repetition::Never, ..error }
    }
}

impl From<JsonRejection> for ApiError {
    fn from(rejection: JsonRejection) -> Self {
        let status = match rejection.status() {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
            status => status,
        };
        let text = rejection.body_text();
        match rejection {
            JsonRejection::JsonDataError(_) => {
                let problem = text.split_once(": ").map_or(text.as_str(), |(_, problem)| problem);
                let field = problem.split_once(": ").map(|(field, _)| field).filter(|field| !field.contains(' '));
                let error = Self::new(status, "invalid_value", problem.to_owned());
                match field {
                    Some(field) => error.about(field),
                    None => error,
                }
            }
            JsonRejection::MissingJsonContentType(_) => {
                let message = "the header content-type must be application/json".into();
                Self::new(status, "invalid_content_type", message)
            }
            _ => Self::new(status, "invalid_json", text),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        with_status(self.status, self.repetition, Json(Envelope { error: self.body }))
    }
}

/// Answers with a status, and with `Retry-After` where another attempt may succeed.
pub(super) fn with_status(status: StatusCode, repetition: Repetition, body: impl IntoResponse) -> Response {
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, BEARER);
    }
    match repetition {
        Repetition::Never => {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        Repetition::After(time) => set_retry_after(headers, time),
        Repetition::AsStatus => {
            if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
                headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
            }
        }
    }
    response
}

fn set_retry_after(headers: &mut HeaderMap, time: Duration) {
    let milliseconds = u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
    headers.insert(RETRY_AFTER, milliseconds.div_ceil(1_000).max(1).into());
    headers.insert(RETRY_AFTER_MILLISECONDS, milliseconds.into());
}
