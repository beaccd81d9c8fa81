//! Refusals in the shape of Kubernetes' Status
//! (`staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go`).

use serde_json::{Value, json};

use super::kinds::Kind;

/// Why a request is not granted.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// Status of HTTP.
    pub code: u16,
    /// The word for programs.
    pub reason: &'static str,
    /// The words for people.
    pub message: String,
    /// What is concerned.
    pub details: Value,
}

/// One field that cannot be as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Path of the field.
    pub field: String,
    /// The word for programs, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The words for people, without the path.
    pub message: String,
}

impl Cause {
    /// A change that is never allowed.
    pub fn forbidden(field: impl Into<String>, problem: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueForbidden", message: format!("Forbidden: {problem}") }
    }

    /// A field that must be there.
    pub fn required(field: impl Into<String>, problem: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueRequired", message: format!("Required value: {problem}") }
    }

    /// A value that is not one of a few.
    pub fn unsupported(field: impl Into<String>, value: &Value, known: &[&str]) -> Self {
        let message = format!("Unsupported value: {value}: supported values: {}", known.join(", "));
        Self { field: field.into(), reason: "FieldValueNotSupported", message }
    }

    /// A name of what there is not.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self { field: field.into(), reason: "FieldValueNotFound", message: format!("Not found: {value}") }
    }

    /// A name that two have.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self { field: field.into(), reason: "FieldValueDuplicate", message: format!("Duplicate value: {value}") }
    }

    pub fn invalid(field: impl Into<String>, value: &Value, problem: &str) -> Self {
        let shown = match value {
            Value::Object(_) | Value::Array(_) => "{...}".to_owned(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        };
        let message = format!("Invalid value: {shown}: {problem}");
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }
}

/// `configmaps "a"`, `deployments.apps "a"`.
fn resource(kind: &Kind, name: &str) -> String {
    format!("{} {name:?}", qualified(kind.plural, kind))
}

/// `jobs.batch`, `configmaps`.
pub fn qualified(name: &str, kind: &Kind) -> String {
    if kind.group.is_empty() { name.to_owned() } else { format!("{name}.{}", kind.group) }
}

fn about(kind: &Kind, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural});
    if !kind.group.is_empty() {
        details["group"] = json!(kind.group);
    }
    details
}

impl Refusal {
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} not found", resource(kind, name));
        Self { code: 404, reason: "NotFound", message, details: about(kind, name) }
    }

    /// A kind or path that nobody serves: plain text, as of a server that has never heard of it.
    pub fn unknown_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self { code: 404, reason: "NotFound", message, details: json!({}) }
    }

    pub fn exists(kind: &Kind, name: &str) -> Self {
        let message = format!("{} already exists", resource(kind, name));
        Self { code: 409, reason: "AlreadyExists", message, details: about(kind, name) }
    }

    pub fn conflict(kind: &Kind, name: &str, problem: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {problem}", resource(kind, name));
        Self { code: 409, reason: "Conflict", message, details: about(kind, name) }
    }

    /// A deletion of another object, or of an earlier version of it.
    pub fn precondition(kind: &Kind, name: &str, problem: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {problem}", qualified(kind.kind, kind));
        let mut details = about(kind, name);
        details["kind"] = json!(kind.kind);
        Self { code: 409, reason: "Conflict", message, details }
    }

    pub fn forbidden(kind: &Kind, name: &str, problem: &str) -> Self {
        let message = format!("{} is forbidden: {problem}", resource(kind, name));
        Self { code: 403, reason: "Forbidden", message, details: about(kind, name) }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self { code: 400, reason: "BadRequest", message: message.into(), details: json!({}) }
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { code: 415, reason: "UnsupportedMediaType", message: message.into(), details: json!({}) }
    }

    pub fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request".to_owned();
        Self { code: 503, reason: "ServiceUnavailable", message, details: json!({}) }
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self { code: 410, reason: "Expired", message: message.into(), details: json!({}) }
    }

    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        // The root has no path.
        let path = |cause: &Cause| if cause.field.is_empty() { "<nil>".to_owned() } else { cause.field.clone() };
        let said: Vec<String> = causes.iter().map(|cause| format!("{}: {}", path(cause), cause.message)).collect();
        let list = if said.len() == 1 { said.join("") } else { format!("[{}]", said.join(", ")) };
        let message = format!("{} {name:?} is invalid: {list}", qualified(kind.kind, kind));
        let told = |cause: &Cause| json!({"reason": cause.reason, "message": cause.message, "field": path(cause)});
        let mut details = about(kind, name);
        details["kind"] = json!(kind.kind);
        details["causes"] = causes.iter().map(told).collect();
        Self { code: 422, reason: "Invalid", message, details }
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = json!(self.reason);
        }
        if self.details.as_object().is_some_and(|details| !details.is_empty()) {
            body["details"] = self.details.clone();
        }
        body
    }
}
