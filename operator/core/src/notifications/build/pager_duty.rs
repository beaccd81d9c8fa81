//! PagerDuty's Events API v2: incidents are triggered and resolved by a deduplication key
//! (<https://developer.pagerduty.com/docs/events-api-v2/trigger-events/>, schema:
//! <https://github.com/PagerDuty/api-schema/blob/main/reference/events-v2/openapiv3.json>). Pure.

use serde::Serialize;

use super::{Context, Request, Template, TemplateError, cut};
use crate::notifications::events::{Announcement, Role};

/// Where events go; accounts of the EU region have another host.
pub const ENQUEUE: &str = "https://events.pagerduty.com/v2/enqueue";

/// Longest summary that is taken.
const MAX_SUMMARY: usize = 1024;
/// Longest deduplication key that is taken.
const MAX_KEY: usize = 255;

/// The summary of an incident.
pub const DEFAULT_TEMPLATE: &str = "{{ namespace }}/{{ name }}: {{ title }}: {{ message }}";

#[derive(Serialize)]
#[serde(tag = "event_action", rename_all = "lowercase")]
enum Event<'a> {
    Trigger { routing_key: &'a str, dedup_key: String, client: &'static str, payload: Box<Payload<'a>> },
    Resolve { routing_key: &'a str, dedup_key: String },
}

#[derive(Serialize)]
struct Payload<'a> {
    summary: String,
    /// Where: the AgentDeployment.
    source: String,
    severity: &'static str,
    timestamp: &'a str,
    component: &'a str,
    group: &'a str,
    class: &'static str,
    custom_details: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    message: &'a str,
    generation: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    plan: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    objective: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster: &'a str,
}

/// An event that opens an incident or ends it; nothing for news, which would stay open for ever.
///
/// # Errors
/// When the template cannot write the summary.
pub fn trigger_or_resolve(
    (url, routing_key): (&str, &str),
    template: &Template,
    announcement: &Announcement,
    context: &Context,
) -> Result<Option<Request>, TemplateError> {
    let dedup_key = dedup_key(announcement, &context.cluster);
    let event = match announcement.happening.role() {
        Role::Tells => return Ok(None),
        Role::Closes => Event::Resolve { routing_key, dedup_key },
        Role::Opens => {
            let payload = Box::new(payload(context, template.render(context)?));
            Event::Trigger { routing_key, dedup_key, client: "Slipway", payload }
        }
    };
    let body = serde_json::to_string(&event).expect("texts are JSON");
    Ok(Some(Request { url: url.to_owned(), headers: Vec::new(), body }))
}

/// One incident a topic: another reason updates it, a recovery ends it.
fn dedup_key(announcement: &Announcement, cluster: &str) -> String {
    let subject = &announcement.subject;
    let key = format!("slipway/{cluster}/{}/{}/{}", subject.namespace, subject.name, announcement.topic);
    key.chars().take(MAX_KEY).collect()
}

fn payload(context: &Context, summary: String) -> Payload<'_> {
    let place = format!("{}/{}", context.namespace, context.name);
    Payload {
        summary: cut(&summary, MAX_SUMMARY),
        source: if context.cluster.is_empty() { place } else { format!("{}/{place}", context.cluster) },
        severity: context.severity,
        timestamp: &context.time,
        component: &context.name,
        group: &context.namespace,
        class: context.happening,
        custom_details: Details {
            message: &context.message,
            generation: &context.generation,
            plan: &context.plan,
            objective: &context.objective,
            cluster: &context.cluster,
        },
    }
}
