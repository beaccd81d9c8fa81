//! Receivers of events of AgentDeployments, by name, with their credentials in mounted files. Pure.

use std::{
    collections::BTreeSet,
    error::Error,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{InvalidSetting, is_url};
use crate::notifications::{
    build::{PAGER_DUTY_ENQUEUE, Template},
    events::{Happening, Role},
};

/// Receivers that one operator serves, at most: each has a queue.
const MAX_RECEIVERS: usize = 32;

/// The receivers, and what they share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Notifications {
    /// Name of this cluster in messages.
    pub cluster: String,
    /// The folder with the credentials; names of files are looked up in it.
    pub folder: PathBuf,
    /// A PEM file with certificates to trust beside the bundled roots, for receivers of your own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The receivers.
    pub receivers: Vec<ReceiverSettings>,
}

impl Default for Notifications {
    fn default() -> Self {
        let folder = PathBuf::from("/etc/slipway-notifications");
        Self { cluster: String::new(), folder, ca_file: None, receivers: Vec::new() }
    }
}

/// One receiver: exactly one of `slack`, `pagerDuty` and `webhook`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReceiverSettings {
    /// The name by which `spec.alerts.receivers` asks for it.
    pub name: String,
    /// Namespaces whose AgentDeployments may name it; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<Vec<String>>,
    /// What it is told; absent means everything, and for PagerDuty everything that opens or closes an incident.
    /// Earlier charts call it `happenings`.
    #[serde(default, alias = "happenings", skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Happening>>,
    /// A Slack channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<SlackSettings>,
    /// A PagerDuty service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pager_duty: Option<PagerDutySettings>,
    /// Any server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookSettings>,
}

/// The type of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverType<'a> {
    /// A Slack channel.
    Slack(&'a SlackSettings),
    /// A PagerDuty service.
    PagerDuty(&'a PagerDutySettings),
    /// Any server.
    Webhook(&'a WebhookSettings),
}

impl ReceiverSettings {
    /// The type; absent without one. A configuration that was checked has exactly one.
    pub fn receiver_type(&self) -> Option<ReceiverType<'_>> {
        self.types().into_iter().flatten().next()
    }

    fn types(&self) -> [Option<ReceiverType<'_>>; 3] {
        let Self { name: _, allowed_namespaces: _, events: _, slack, pager_duty, webhook } = self;
        [
            slack.as_ref().map(ReceiverType::Slack),
            pager_duty.as_ref().map(ReceiverType::PagerDuty),
            webhook.as_ref().map(ReceiverType::Webhook),
        ]
    }
}

/// A Slack incoming webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlackSettings {
    /// File with the webhook's address, which is a credential.
    pub url_file: PathBuf,
    /// Text of a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// An integration of PagerDuty's Events API v2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PagerDutySettings {
    /// File with the integration key.
    pub routing_key_file: PathBuf,
    /// Where events go; the EU region has `https://events.eu.pagerduty.com/v2/enqueue`.
    #[serde(default = "enqueue")]
    pub url: String,
    /// Summary of an incident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

fn enqueue() -> String {
    PAGER_DUTY_ENQUEUE.to_owned()
}

/// A server that takes signed events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookSettings {
    /// Its address; or `urlFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// File with its address, where that is a credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// File with the secret that events are signed with: `whsec_` and base64, one a line.
    pub secret_file: PathBuf,
    /// The member `text` of an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

impl Notifications {
    /// The receivers that AgentDeployments of a namespace may name.
    pub fn offered_to(&self, namespace: &str) -> impl Iterator<Item = &ReceiverSettings> {
        self.receivers.iter().filter(move |receiver| {
            receiver.allowed_namespaces.as_ref().is_none_or(|allowed| allowed.iter().any(|name| name == namespace))
        })
    }

    /// Whether a receiver has this name, and may be named in a namespace.
    pub fn knows(&self, name: &str, namespace: &str) -> bool {
        self.offered_to(namespace).any(|receiver| receiver.name == name)
    }

    /// The path of a credential.
    pub fn path(&self, file: &Path) -> PathBuf {
        self.folder.join(file)
    }

    /// Checks names, types, addresses and templates.
    ///
    /// # Errors
    /// When a value cannot be used; names the first.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let Self { cluster, folder: _, ca_file: _, receivers } = self;
        if cluster.chars().count() > 63 {
            return invalid("notifications.cluster", "has more than 63 characters: shorten it");
        }
        if receivers.len() > MAX_RECEIVERS {
            let problem = format!("names {} receivers: leave at most {MAX_RECEIVERS}", receivers.len());
            return invalid("notifications.receivers", problem);
        }
        let mut names = BTreeSet::new();
        for (index, receiver) in receivers.iter().enumerate() {
            let field = format!("notifications.receivers[{index}]");
            check_receiver(&field, receiver)?;
            if !names.insert(&receiver.name) {
                let problem = format!("is {}, as that of another receiver: rename one", receiver.name);
                return invalid(format!("{field}.name"), problem);
            }
        }
        Ok(())
    }
}

fn check_receiver(field: &str, receiver: &ReceiverSettings) -> Result<(), InvalidSetting> {
    if !is_dns_label(&receiver.name) {
        let problem = "is not a DNS label: write lowercase letters, digits and hyphens, 63 at most";
        return invalid(format!("{field}.name"), problem);
    }
    check_namespaces(field, receiver.allowed_namespaces.as_deref())?;
    let types: Vec<ReceiverType<'_>> = receiver.types().into_iter().flatten().collect();
    let receiver_type = match types[..] {
        [] => return invalid(field, "has no type: add one of slack, pagerDuty and webhook"),
        [receiver_type] => receiver_type,
        _ => return invalid(field, "has more than one type: keep one of slack, pagerDuty and webhook"),
    };
    let pages = matches!(receiver_type, ReceiverType::PagerDuty(_));
    check_events(field, receiver.events.as_deref(), pages)?;
    match receiver_type {
        ReceiverType::Slack(slack) => check_template(&format!("{field}.slack"), slack.template.as_deref()),
        ReceiverType::PagerDuty(pager_duty) => {
            check_url(&format!("{field}.pagerDuty"), &pager_duty.url)?;
            check_template(&format!("{field}.pagerDuty"), pager_duty.template.as_deref())
        }
        ReceiverType::Webhook(webhook) => check_webhook(&format!("{field}.webhook"), webhook),
    }
}

fn check_namespaces(field: &str, allowed: Option<&[String]>) -> Result<(), InvalidSetting> {
    let field = format!("{field}.allowedNamespaces");
    match allowed {
        Some([]) => invalid(field, "is empty: name the namespaces that may use the receiver, or leave it out"),
        Some(names) => match names.iter().find(|name| !is_dns_label(name)) {
            Some(name) => invalid(field, format!("has {name:?}, which cannot be the name of a namespace: correct it")),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

fn check_events(field: &str, events: Option<&[Happening]>, pages: bool) -> Result<(), InvalidSetting> {
    let Some(events) = events else { return Ok(()) };
    let field = format!("{field}.events");
    if events.is_empty() {
        return invalid(field, "is empty: name events to send, or leave it out");
    }
    match events.iter().find(|happening| pages && happening.role() == Role::Tells) {
        Some(news) => invalid(
            field,
            format!("sends {} to PagerDuty, but no later event resolves it: leave it out", news.as_str()),
        ),
        None => Ok(()),
    }
}

fn check_webhook(field: &str, webhook: &WebhookSettings) -> Result<(), InvalidSetting> {
    match (&webhook.url, &webhook.url_file) {
        (Some(_), Some(_)) => return invalid(field, "has url and urlFile: keep one of them"),
        (None, None) => return invalid(field, "has no address: add url, or urlFile where the address is a credential"),
        (Some(url), None) => check_url(field, url)?,
        (None, Some(_)) => {}
    }
    check_template(field, webhook.template.as_deref())
}

fn check_url(field: &str, url: &str) -> Result<(), InvalidSetting> {
    if is_url(url) {
        return Ok(());
    }
    invalid(
        format!("{field}.url"),
        format!("{url:?} is not an address: write one such as https://hooks.example.com/slipway"),
    )
}

fn check_template(field: &str, template: Option<&str>) -> Result<(), InvalidSetting> {
    let Some(Err(error)) = template.map(Template::parse) else { return Ok(()) };
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    invalid(format!("{field}.template"), format!("{error}{cause}. See docs/notifications.md for what it may name"))
}

fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Result<(), InvalidSetting> {
    Err(InvalidSetting { field: field.into(), problem: problem.into() })
}

fn is_dns_label(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
