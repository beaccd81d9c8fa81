//! Administration on a port of its own, in no routed Service: health, metrics, evidence.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Query, State, rejection::QueryRejection},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use slipway_vocabulary::recording::Recording;

use super::{admission::Readiness, error::ApiError, service::Service};

/// What Prometheus asks for and prometheus-client writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The administration's paths.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route(slipway_vocabulary::evidence::PATH, get(evidence))
        .route(slipway_vocabulary::recording::PATH, get(lengths))
        .with_state(service)
}

/// What is remembered of runs with its texts. Only the pod's own loopback may reach it.
pub fn texts_router(service: Arc<Service>) -> Router {
    Router::new().route(slipway_vocabulary::recording::PATH, get(texts)).with_state(service)
}

async fn lengths(State(service): State<Arc<Service>>) -> Json<Recording> {
    Json(service.recordings.lengths(service.clock.now()))
}

async fn texts(State(service): State<Arc<Service>>) -> Json<Recording> {
    Json(service.recordings.texts(service.clock.now()))
}

async fn readyz(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    match service.admission.readiness() {
        Readiness::Ready => (StatusCode::OK, "ok\n".into()),
        Readiness::NotReady { why } => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
        Readiness::Draining => {
            let left = service.admission.in_flight();
            (StatusCode::SERVICE_UNAVAILABLE, format!("draining: {left} run(s) in flight\n"))
        }
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    measure_load(&service);
    exposed(service.metrics.encode())
}

/// The pod's load, on the port that an InferencePool names: pickers look there.
pub(super) async fn load(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    measure_load(&service);
    exposed(service.metrics.encode_load())
}

fn measure_load(service: &Service) {
    service.metrics.set_in_flight(service.admission.in_flight());
    service.metrics.set_model_requests_in_flight(service.recorder().model_requests_in_flight());
    service.metrics.set_ready(service.admission.readiness() == Readiness::Ready);
}

fn exposed(text: Result<String, std::fmt::Error>) -> Result<Response, ApiError> {
    match text {
        Ok(text) => Ok(([(CONTENT_TYPE, OPENMETRICS)], text).into_response()),
        Err(error) => {
            let message = format!("the metrics cannot be written: {error}");
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message))
        }
    }
}

/// The window after which to report; all that are kept without it.
#[derive(Debug, Deserialize)]
struct EvidenceQuery {
    after: Option<u64>,
}

async fn evidence(
    State(service): State<Arc<Service>>,
    query: Result<Query<EvidenceQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(EvidenceQuery { after }) =
        query.map_err(|_| ApiError::invalid("after", "is not a window's id; send the last id you have read"))?;
    Ok(Json(service.read_evidence(after)).into_response())
}
