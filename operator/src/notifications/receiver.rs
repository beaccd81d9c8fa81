//! A receiver as it is configured. Reads credentials.

use std::path::PathBuf;

use jiff::Timestamp;
use slipway_operator_core::{
    notifications::{
        build::{
            self, Context, PAGER_DUTY_TEMPLATE, Request, SLACK_TEMPLATE, Stamp, Template, TemplateError,
            WEBHOOK_TEMPLATE,
        },
        events::{Announcement, Happening, Role},
    },
    settings::{Notifications, ReceiverSettings, WebhookSettings},
};
use thiserror::Error;

use super::credentials::{self, CredentialError};

/// Why an announcement cannot be made a request.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The credential cannot be used.
    #[error("failed to use the credential")]
    Credential(#[source] CredentialError),
    /// The template cannot write it.
    #[error("failed to write the text")]
    Template(#[source] TemplateError),
}

/// A receiver.
#[derive(Debug)]
pub struct Receiver {
    /// The name by which `spec.alerts.receivers` asks for it.
    pub name: String,
    happenings: Option<Vec<Happening>>,
    kind: Kind,
    template: Template,
    cluster: String,
}

#[derive(Debug)]
enum Kind {
    Slack { url_file: PathBuf },
    PagerDuty { url: String, routing_key_file: PathBuf },
    Webhook { address: Address, secret_file: PathBuf },
}

#[derive(Debug)]
enum Address {
    Plain(String),
    File(PathBuf),
}

impl Receiver {
    /// The receivers of a configuration that was checked.
    ///
    /// # Errors
    /// When a template cannot be used; a checked configuration has no such template.
    pub fn all(settings: &Notifications) -> Result<Vec<Self>, TemplateError> {
        let receivers = settings.receivers.iter();
        receivers.filter_map(|receiver| Self::of(settings, receiver).transpose()).collect()
    }

    fn of(settings: &Notifications, receiver: &ReceiverSettings) -> Result<Option<Self>, TemplateError> {
        let ReceiverSettings { name, allowed_namespaces: _, happenings, slack, pager_duty, webhook } = receiver;
        let (kind, template, default) = if let Some(slack) = slack {
            let kind = Kind::Slack { url_file: settings.path(&slack.url_file) };
            (kind, &slack.template, SLACK_TEMPLATE)
        } else if let Some(pager_duty) = pager_duty {
            let routing_key_file = settings.path(&pager_duty.routing_key_file);
            let kind = Kind::PagerDuty { url: pager_duty.url.clone(), routing_key_file };
            (kind, &pager_duty.template, PAGER_DUTY_TEMPLATE)
        } else if let Some(webhook) = webhook {
            let Some(address) = address(settings, webhook) else { return Ok(None) };
            let kind = Kind::Webhook { address, secret_file: settings.path(&webhook.secret_file) };
            (kind, &webhook.template, WEBHOOK_TEMPLATE)
        } else {
            return Ok(None);
        };
        Ok(Some(Self {
            name: name.clone(),
            happenings: happenings.clone(),
            kind,
            template: Template::parse(template.as_deref().unwrap_or(default))?,
            cluster: settings.cluster.clone(),
        }))
    }

    /// Whether it wants an announcement.
    pub fn wants(&self, announcement: &Announcement) -> bool {
        let is_news = announcement.happening.role() == Role::Tells;
        let can_take_it = !(is_news && matches!(self.kind, Kind::PagerDuty { .. }));
        let is_asked_for = self.happenings.as_ref().is_none_or(|wanted| wanted.contains(&announcement.happening));
        announcement.receivers.contains(&self.name) && can_take_it && is_asked_for
    }

    /// The request to send; nothing where it cannot express the event. Reads the credential.
    ///
    /// # Errors
    /// When the credential or the template cannot be used.
    pub fn request(&self, announcement: &Announcement, now: Timestamp) -> Result<Option<Request>, RequestError> {
        let context = Context::of(announcement, &self.cluster);
        let written = match &self.kind {
            Kind::Slack { url_file } => {
                let url = credentials::url(url_file).map_err(RequestError::Credential)?;
                build::slack_message(&url, &self.template, context).map(Some)
            }
            Kind::PagerDuty { url, routing_key_file } => {
                let key = credentials::text(routing_key_file).map_err(RequestError::Credential)?;
                build::trigger_or_resolve((url, &key), &self.template, announcement, &context)
            }
            Kind::Webhook { address, secret_file } => {
                let url = match address {
                    Address::Plain(url) => url.clone(),
                    Address::File(file) => credentials::url(file).map_err(RequestError::Credential)?,
                };
                let secret = credentials::secret(secret_file).map_err(RequestError::Credential)?;
                let stamp = Stamp { secret: &secret, now };
                build::signed_event((&url, stamp), &self.template, announcement, &context).map(Some)
            }
        };
        written.map_err(RequestError::Template)
    }
}

fn address(settings: &Notifications, webhook: &WebhookSettings) -> Option<Address> {
    let plain = webhook.url.clone().map(Address::Plain);
    plain.or_else(|| webhook.url_file.as_ref().map(|file| Address::File(settings.path(file))))
}
