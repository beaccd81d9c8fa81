//! Administration on a port of its own, in no routed Service: health, metrics, evidence.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Query, State, rejection::QueryRejection},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use slipway_vocabulary::recording::Recording;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::timeout,
};

use crate::{aside::aside, backend::EngineLoad, clock::Timestamp, telemetry::EngineFigures};

use super::{admission::Readiness, error::ApiError, recording::Recordings, service::Service};

/// What Prometheus asks for and prometheus-client writes.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bytes of a recording that are written at once.
const PART: usize = 64 << 10;
/// How long a recording has its reader. Who reads no further keeps nobody waiting for longer.
const READING: Duration = Duration::from_secs(60);

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

async fn lengths(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    recording(&service, Recordings::lengths)
}

async fn texts(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    recording(&service, Recordings::texts)
}

fn recording(service: &Service, read: fn(&Recordings, Timestamp) -> Recording) -> Result<Response, ApiError> {
    let Some(reader) = service.recordings.begin_reading() else {
        let message = "somebody else reads what this pod remembers; try again".to_owned();
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message));
    };
    let text = aside(|| serde_json::to_vec(&read(&service.recordings, service.clock.now())));
    let text = text.map_err(|error| {
        let message = format!("the recording cannot be written: {error}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    })?;
    Ok(([(CONTENT_TYPE, "application/json")], in_parts(text, reader)).into_response())
}

/// Writes a text part by part. The reader has its place until the last part, or until its time is over.
fn in_parts(text: Vec<u8>, reader: OwnedSemaphorePermit) -> Body {
    let (sender, mut receiver) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    tokio::spawn(async move {
        let written = async {
            for part in text.chunks(PART) {
                if sender.send(Ok(Bytes::copy_from_slice(part))).await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(READING, written).await;
        drop(reader);
    });
    Body::from_stream(futures::stream::poll_fn(move |context| receiver.poll_recv(context)))
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

/// The load of the pod and of its engine, on the port that an InferencePool names: pickers look there.
pub(super) async fn load(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    let EngineLoad { waiting, kv_cache } = service.agent.backend.load().await;
    measure_load(&service);
    exposed(service.metrics.encode_load(EngineFigures { waiting, kv_cache }))
}

fn measure_load(service: &Service) {
    service.metrics.set_in_flight(service.admission.in_flight());
    service.metrics.set_model_requests_in_flight(service.recorder().model_requests_in_flight());
    service.metrics.set_ready(service.admission.readiness() == Readiness::Ready);
    service.metrics.show_gpus(service.recorder().gpus());
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
    service.ask_gpus().await;
    Ok(aside(|| Json(service.read_evidence(after)).into_response()))
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_reader_has_its_place_until_it_has_read() {
        let places = Arc::new(Semaphore::new(1));
        let place = || Arc::clone(&places).try_acquire_owned().ok();
        let text = vec![b'x'; 5 * PART + 1];
        let body = in_parts(text.clone(), place().expect("nobody reads"));
        tokio::task::yield_now().await;
        assert!(place().is_none(), "most of it is still to be read");
        assert_eq!(axum::body::to_bytes(body, usize::MAX).await.expect("it is read"), text);
        drop(places.acquire().await.expect("the place is free again"));
        let given_up = in_parts(text, place().expect("nobody reads"));
        drop(given_up);
        drop(places.acquire().await.expect("who goes away frees the place"));
    }
}
