//! Receivers of alerts that answer as Slack's incoming webhooks and PagerDuty's Events API v2 do, and remember what
//! came.
//!
//! Formats: <https://api.slack.com/messaging/webhooks>, <https://developer.pagerduty.com/docs/send-alert-event>.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use serde::Serialize;
use serde_json::{Value, json};

/// What came so far, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Received {
    /// Messages to Slack.
    pub slack: Vec<Value>,
    /// Events to PagerDuty.
    pub pager_duty: Vec<Value>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Received>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The service: `POST /services/...` is Slack, `POST /v2/enqueue` is PagerDuty, and `GET /received` shows all.
pub fn router() -> Router {
    Router::new()
        .route("/services/{*path}", post(slack))
        .route("/v2/enqueue", post(pager_duty))
        .route("/received", get(received))
        .with_state(Shared::default())
}

/// Slack refuses a message without a text and without attachments.
async fn slack(State(shared): State<Shared>, Json(message): Json<Value>) -> (StatusCode, &'static str) {
    if message.get("text").is_none() && message.get("attachments").is_none() {
        return (StatusCode::BAD_REQUEST, "no_text");
    }
    shared.lock().slack.push(message);
    (StatusCode::OK, "ok")
}

/// PagerDuty refuses an event without key or action, and one that triggers without a summary, a source and a severity.
async fn pager_duty(State(shared): State<Shared>, Json(event): Json<Value>) -> (StatusCode, Json<Value>) {
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let mut missing: Vec<_> =
        ["routing_key", "event_action"].into_iter().filter(|key| !is_text(&event[*key])).collect();
    if event["event_action"] == "trigger" {
        let payload = &event["payload"];
        missing.extend(["summary", "source", "severity"].into_iter().filter(|key| !is_text(&payload[*key])));
    }
    if !missing.is_empty() {
        let errors: Vec<_> = missing.iter().map(|key| format!("'{key}' is missing or blank")).collect();
        let answer = json!({"status": "invalid event", "message": "Event object is invalid", "errors": errors});
        return (StatusCode::BAD_REQUEST, Json(answer));
    }
    let key = event["dedup_key"].clone();
    shared.lock().pager_duty.push(event);
    (StatusCode::ACCEPTED, Json(json!({"status": "success", "message": "Event processed", "dedup_key": key})))
}

async fn received(State(shared): State<Shared>) -> Json<Received> {
    Json(shared.lock().clone())
}
