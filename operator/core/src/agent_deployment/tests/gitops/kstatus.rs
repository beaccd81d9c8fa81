//! The status of an object by the rules of kstatus, which Flux and others follow.

use serde_json::Value;

/// What kstatus calls a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    InProgress,
    Failed,
    Current,
}

/// The rules for a kind of which kstatus knows nothing.
pub(super) fn kstatus(object: &Value) -> Health {
    let status = &object["status"];
    if status["observedGeneration"].is_i64() && status["observedGeneration"] != object["metadata"]["generation"] {
        return Health::InProgress;
    }
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is = |type_: &str, wanted: &str| conditions.iter().any(|c| c["type"] == type_ && c["status"] == wanted);
    if is("Reconciling", "True") {
        Health::InProgress
    } else if is("Stalled", "True") {
        Health::Failed
    } else if is("Ready", "False") || is("Ready", "Unknown") {
        Health::InProgress
    } else {
        Health::Current
    }
}
