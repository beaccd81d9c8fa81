//! The public keys of an issuer of tokens, as it publishes them.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use serde_json::Value;

#[derive(Clone, Default)]
struct Published(Arc<Mutex<Option<Value>>>);

/// The service: `GET /jwks` gives the key set, `PUT` of the same path publishes another one.
pub fn router() -> Router {
    Router::new().route("/jwks", get(keys).put(publish)).with_state(Published::default())
}

async fn keys(State(published): State<Published>) -> Result<Json<Value>, StatusCode> {
    let keys = published.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    keys.map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn publish(State(published): State<Published>, Json(keys): Json<Value>) -> StatusCode {
    *published.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
    StatusCode::NO_CONTENT
}
