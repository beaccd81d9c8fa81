//! The payloads as their vendors document them. A member that is not documented cannot be read.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Slack: <https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks>; of the documented members only
/// this is sent.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlackMessage {
    pub text: String,
}

/// PagerDuty: `createV2Event` in <https://github.com/PagerDuty/api-schema/blob/main/reference/events-v2/openapiv3.json>.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PagerDutyEvent {
    pub routing_key: String,
    pub event_action: EventAction,
    /// Required unless the action is `trigger`; we always send it.
    pub dedup_key: String,
    pub payload: Option<PagerDutyPayload>,
    pub client: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventAction {
    Trigger,
    Acknowledge,
    Resolve,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PagerDutyPayload {
    pub summary: String,
    pub severity: Severity,
    pub source: String,
    pub timestamp: jiff::Timestamp,
    pub component: String,
    pub group: String,
    pub class: String,
    pub custom_details: Map<String, Value>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Critical,
    Warning,
    Error,
    Info,
}

/// Our own event, in the envelope of Standard Webhooks
/// (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>), as
/// docs/notifications.md has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookEvent {
    pub r#type: String,
    pub timestamp: jiff::Timestamp,
    pub data: WebhookData,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WebhookData {
    pub status: String,
    pub key: String,
    pub severity: Severity,
    pub cluster: Option<String>,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub plan: Option<String>,
    pub objective: Option<String>,
    pub title: String,
    pub message: String,
    pub text: String,
}
