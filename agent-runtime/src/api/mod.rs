//! What clients and the operator see: the API on one port, administration on another.

pub mod admin;
pub mod admission;
mod callers;
mod chat;
pub mod error;
mod feedback;
pub mod idempotency;
pub mod in_flight;
pub mod kept_runs;
mod models;
pub mod recording;
mod responses;
pub mod run_names;
mod runs;
mod sampling;
pub mod service;
mod sse;
mod whole_number;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Request, State, rejection::BytesRejection},
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header::CONTENT_TYPE},
    middleware::{self, Next},
    response::Response,
    routing::{any, get, post},
};

use error::ApiError;
use service::Service;

/// The header that names the revision which answered.
pub const REVISION_HEADER: HeaderName = HeaderName::from_static("x-slipway-revision");

/// A conversation beyond this fits no model's context.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// The API of the agent: OpenAI-compatible chat and responses, runs, feedback on them, models.
pub fn router(service: Arc<Service>) -> Router {
    let for_tenants = Router::new()
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{id}", get(responses::get).delete(responses::delete))
        // Not the response of this name: who looks for compaction finds none.
        .route("/v1/responses/compact", any(no_such_path))
        .route("/v1/runs", post(runs::run))
        .route("/v1/runs/{id}", get(runs::get))
        .route("/v1/runs/{id}/cancel", post(runs::cancel))
        .route("/v1/feedback", post(feedback::give))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{id}", get(models::get))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&service), callers::authenticate));
    // Gateways that pick a pod by its load, and readers of the API's description, need no token.
    let for_all = Router::new().route("/metrics", get(admin::load)).route("/openapi.json", get(open_api));
    for_tenants
        .merge(for_all)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&service), stamp_revision))
        .with_state(service)
}

/// Stamps every answer, errors too: the operator's split test and a client's trace rely on it.
async fn stamp_revision(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    if let Ok(revision) = HeaderValue::from_str(&service.revision) {
        response.headers_mut().insert(REVISION_HEADER, revision);
    }
    response
}

/// This API, as OpenAPI 3.1 describes it. Kept by hand; `tests/runtime/open_api.rs` compares it with real answers.
const OPEN_API: &str = include_str!("openapi.json");

async fn open_api() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(CONTENT_TYPE, "application/json")], OPEN_API)
}

// The body is read for clients that are still sending it: they would find their connection closed, and no answer.
async fn no_such_path(uri: Uri, _: Result<Bytes, BytesRejection>) -> ApiError {
    let message = format!("no such path: {}; see /v1/models", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "unknown_url", message)
}

async fn no_such_method(method: Method, uri: Uri, _: Result<Bytes, BytesRejection>) -> ApiError {
    let message = format!("{} does not take {method}", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
