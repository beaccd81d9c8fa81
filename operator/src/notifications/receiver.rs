//! A receiver as it is configured. Reads credentials.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use slipway_operator_core::{
    notifications::{
        build::{
            self, Context, PAGER_DUTY_TEMPLATE, Request, SLACK_TEMPLATE, Stamp, Template, TemplateError,
            WEBHOOK_TEMPLATE,
        },
        events::{Announcement, Role},
    },
    settings::{Notifications, ReceiverSettings, ReceiverType, WebhookSettings},
};
use thiserror::Error;

use crate::credentials::{self, CredentialError};

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
    settings: ReceiverSettings,
    notifications: Arc<Notifications>,
    template: Template,
}

impl Receiver {
    /// The receivers of a configuration that was checked.
    ///
    /// # Errors
    /// When a template cannot be used; a checked configuration has no such template.
    pub fn all(settings: &Notifications) -> Result<Vec<Self>, TemplateError> {
        let notifications = Arc::new(settings.clone());
        let receivers = settings.receivers.iter();
        receivers.filter_map(|receiver| Self::of(&notifications, receiver).transpose()).collect()
    }

    fn of(notifications: &Arc<Notifications>, settings: &ReceiverSettings) -> Result<Option<Self>, TemplateError> {
        let (template, default) = match settings.receiver_type() {
            Some(ReceiverType::Slack(slack)) => (&slack.template, SLACK_TEMPLATE),
            Some(ReceiverType::PagerDuty(pager_duty)) => (&pager_duty.template, PAGER_DUTY_TEMPLATE),
            Some(ReceiverType::Webhook(webhook)) => (&webhook.template, WEBHOOK_TEMPLATE),
            None => return Ok(None),
        };
        let template = Template::parse(template.as_deref().unwrap_or(default))?;
        Ok(Some(Self { settings: settings.clone(), notifications: notifications.clone(), template }))
    }

    /// The name by which `spec.alerts.receivers` asks for it.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Whether it wants an announcement.
    pub fn wants(&self, announcement: &Announcement) -> bool {
        let is_news = announcement.happening.role() == Role::Tells;
        let can_take_it = !(is_news && matches!(self.settings.receiver_type(), Some(ReceiverType::PagerDuty(_))));
        let wanted = self.settings.events.as_ref();
        let is_asked_for = wanted.is_none_or(|wanted| wanted.contains(&announcement.happening));
        announcement.receivers.contains(&self.settings.name) && can_take_it && is_asked_for
    }

    /// The request to send; nothing where it cannot express the event. Reads the credential.
    ///
    /// # Errors
    /// When the credential or the template cannot be used.
    pub fn request(&self, announcement: &Announcement, now: Timestamp) -> Result<Option<Request>, RequestError> {
        let context = Context::of(announcement, &self.notifications.cluster);
        let path = |file: &Path| self.notifications.path(file);
        let written = match self.settings.receiver_type() {
            Some(ReceiverType::Slack(slack)) => {
                let url = credentials::url(&path(&slack.url_file)).map_err(RequestError::Credential)?;
                build::slack_message(&url, &self.template, context).map(Some)
            }
            Some(ReceiverType::PagerDuty(pager_duty)) => {
                let key = path(&pager_duty.routing_key_file);
                let key = credentials::text(&key).map_err(RequestError::Credential)?;
                build::trigger_or_resolve((&pager_duty.url, &key), &self.template, announcement, &context)
            }
            Some(ReceiverType::Webhook(webhook)) => {
                let Some(url) = self.address(webhook).map_err(RequestError::Credential)? else { return Ok(None) };
                let secret = credentials::secret(&path(&webhook.secret_file)).map_err(RequestError::Credential)?;
                let stamp = Stamp { secret: &secret, now };
                build::signed_event((&url, stamp), &self.template, announcement, &context).map(Some)
            }
            None => return Ok(None),
        };
        written.map_err(RequestError::Template)
    }

    /// The address of a server; absent without one, which a checked configuration has.
    fn address(&self, webhook: &WebhookSettings) -> Result<Option<String>, CredentialError> {
        match (&webhook.url, &webhook.url_file) {
            (Some(url), _) => Ok(Some(url.clone())),
            (None, Some(file)) => credentials::url(&self.notifications.path(file)).map(Some),
            (None, None) => Ok(None),
        }
    }
}
