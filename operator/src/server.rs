//! The port for health and metrics.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// What the endpoints show.
#[derive(Clone)]
pub struct ServerState {
    /// The counters.
    pub metrics: Metrics,
    /// Whether the process stands for election or leads: from then on it is ready.
    pub is_ready: Arc<AtomicBool>,
}

/// Serves `/livez`, `/readyz` and `/metrics` until `shutdown`.
///
/// # Errors
/// When the port cannot be opened.
pub async fn serve(address: SocketAddr, state: ServerState, shutdown: CancellationToken) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, router(state)).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

fn router(state: ServerState) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(state)
}

async fn readiness(State(state): State<ServerState>) -> (StatusCode, &'static str) {
    if state.is_ready.load(Ordering::Acquire) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the API server has not answered yet")
    }
}

async fn metrics(State(state): State<ServerState>) -> ([(&'static str, &'static str); 1], String) {
    // All objects are read for it: leases are renewed meanwhile.
    let text = tokio::task::spawn_blocking(move || state.metrics.encode()).await.unwrap_or_default();
    ([("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}
