//! A service with facts, for an agent to look up. It remembers every call, so that a test sees what was asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, put},
};
use serde::{Deserialize, Serialize};

/// One call for a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// What was asked about.
    pub entity: String,
    /// What was asked of it.
    pub property: String,
    /// Whether there was an answer.
    pub found: bool,
}

#[derive(Default)]
struct Store {
    facts: BTreeMap<(String, String), i64>,
    calls: Vec<Call>,
    delay: Duration,
}

/// How long every look-up takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// In milliseconds.
    pub milliseconds: u64,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Store>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The value.
    pub value: i64,
}

/// The service: `GET /facts/{entity}/{property}` answers, `PUT` of the same path with `{"value": n}` sets, `GET /calls`
/// lists what was asked, `DELETE /calls` forgets it. `PUT /delay` with `{"milliseconds": n}` makes it slow.
pub fn router() -> Router {
    Router::new()
        .route("/facts/{entity}/{property}", get(look_up).put(set))
        .route("/calls", get(calls).delete(forget))
        .route("/delay", put(set_delay))
        .with_state(Shared::default())
}

async fn look_up(
    State(shared): State<Shared>,
    Path((entity, property)): Path<(String, String)>,
) -> Result<Json<Fact>, (StatusCode, String)> {
    let delay = shared.lock().delay;
    tokio::time::sleep(delay).await;
    let mut store = shared.lock();
    let value = store.facts.get(&(entity.clone(), property.clone())).copied();
    store.calls.push(Call { entity: entity.clone(), property: property.clone(), found: value.is_some() });
    match value {
        Some(value) => Ok(Json(Fact { value })),
        None => Err((StatusCode::NOT_FOUND, format!("nothing is known of the {property} of {entity}"))),
    }
}

async fn set(State(shared): State<Shared>, Path(key): Path<(String, String)>, Json(fact): Json<Fact>) -> StatusCode {
    shared.lock().facts.insert(key, fact.value);
    StatusCode::NO_CONTENT
}

async fn set_delay(State(shared): State<Shared>, Json(delay): Json<Delay>) -> StatusCode {
    shared.lock().delay = Duration::from_millis(delay.milliseconds);
    StatusCode::NO_CONTENT
}

async fn calls(State(shared): State<Shared>) -> Json<Vec<Call>> {
    Json(shared.lock().calls.clone())
}

async fn forget(State(shared): State<Shared>) -> StatusCode {
    shared.lock().calls.clear();
    StatusCode::NO_CONTENT
}
