//! What events and receivers were notified of, and what receivers may lack. Only the operator writes it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fact that events and receivers were notified of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToldFact {
    /// Type of the condition that states it, or `Engine/` and the name of an Engine.
    #[schemars(length(max = 128))]
    pub about: String,
    /// Its reason.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// What it concerns: a plan, a Job with its class of failure, or a field with a hash of its value.
    #[schemars(length(max = 768))]
    pub subject: String,
}

/// A notification that receivers may lack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndeliveredNotification {
    /// Hash of what it is about and when it was decided.
    #[schemars(length(max = 64))]
    pub id: String,
    /// When it was decided.
    pub at: Time,
    /// Name of the event: `RolledBack`.
    #[schemars(length(max = 32))]
    pub happening: String,
    /// What it is about: `problem`, `drift`, or `rollout/`, `engine/` or `objective/` and a name.
    #[schemars(length(max = 128))]
    pub topic: String,
    /// What makes it the same event as before.
    #[schemars(length(max = 1024))]
    pub fingerprint: String,
    /// How much it matters: `critical`, `error`, `warning` or `info`.
    #[schemars(length(max = 16))]
    pub severity: String,
    /// What happened, in words.
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Generation of the spec.
    pub generation: i64,
    /// Hash of the plan that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub plan: Option<String>,
    /// Names of its receivers.
    #[schemars(length(max = 8), inner(length(max = 63)))]
    pub receivers: Vec<String>,
}
