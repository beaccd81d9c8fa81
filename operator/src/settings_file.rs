//! Reads the operator's own configuration and checks the credentials that it names. Reads IO.

use std::{fs, path::Path};

use slipway_operator_core::settings::{InvalidSetting, Notifications, PrometheusSettings, ReceiverType, Settings};
use thiserror::Error;

use crate::credentials::{self, CredentialError};

/// Why the configuration cannot be used.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("failed to read the configuration file {path}")]
    Read {
        /// Path of the file.
        path: String,
        /// What the file system said.
        #[source]
        source: std::io::Error,
    },
    /// The file is not valid YAML of this shape.
    #[error("failed to parse the configuration file {path}")]
    Parse {
        /// Path of the file.
        path: String,
        /// What the parser said, with the line.
        #[source]
        source: serde_norway::Error,
    },
    /// A value cannot be used.
    #[error(transparent)]
    Invalid(InvalidSetting),
    /// A credential cannot be used.
    #[error(
        "{field} of the configuration needs a usable credential: put it into the Secret that {secret} of the chart names"
    )]
    Credential {
        /// Path of the value.
        field: String,
        /// The chart's value that names the Secret.
        secret: &'static str,
        /// What is wrong with the file.
        #[source]
        source: CredentialError,
    },
}

/// Reads and checks a configuration file.
///
/// # Errors
/// When the file cannot be read or parsed, or a value or a credential cannot be used.
pub fn read(path: &Path) -> Result<Settings, SettingsError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|source| SettingsError::Read { path: name.clone(), source })?;
    let settings: Settings =
        serde_norway::from_str(&text).map_err(|source| SettingsError::Parse { path: name, source })?;
    settings.check().map_err(SettingsError::Invalid)?;
    check_notifications(&settings.notifications)?;
    check_prometheus(&settings.prometheus)?;
    Ok(settings)
}

/// Checks that every credential is there and has the shape of one.
///
/// # Errors
/// When one cannot be used; names the first.
fn check_notifications(settings: &Notifications) -> Result<(), SettingsError> {
    if let Some(file) = &settings.ca_file {
        usable("notifications.caFile", credentials::text(&settings.path(file)))?;
    }
    for (index, receiver) in settings.receivers.iter().enumerate() {
        let field = format!("notifications.receivers[{index}]");
        match receiver.receiver_type() {
            Some(ReceiverType::Slack(slack)) => {
                usable(format!("{field}.slack.urlFile"), credentials::url(&settings.path(&slack.url_file)))?;
            }
            Some(ReceiverType::PagerDuty(pager_duty)) => {
                let key = credentials::text(&settings.path(&pager_duty.routing_key_file));
                usable(format!("{field}.pagerDuty.routingKeyFile"), key)?;
            }
            Some(ReceiverType::Webhook(webhook)) => {
                let secret = credentials::secret(&settings.path(&webhook.secret_file));
                usable(format!("{field}.webhook.secretFile"), secret)?;
                if let Some(file) = &webhook.url_file {
                    usable(format!("{field}.webhook.urlFile"), credentials::url(&settings.path(file)))?;
                }
            }
            // A checked configuration has a type.
            None => {}
        }
    }
    Ok(())
}

/// Checks that every credential is there.
///
/// # Errors
/// When one cannot be used; names the first.
fn check_prometheus(settings: &PrometheusSettings) -> Result<(), SettingsError> {
    let files = [("prometheus.tokenFile", &settings.token_file), ("prometheus.caFile", &settings.ca_file)];
    for (field, file) in files {
        let unusable = |source: CredentialError| SettingsError::Credential {
            field: field.to_owned(),
            secret: "prometheus.secretName",
            source,
        };
        file.as_ref().map_or(Ok(String::new()), |file| credentials::text(&settings.path(file))).map_err(unusable)?;
    }
    Ok(())
}

fn usable<T>(field: impl Into<String>, credential: Result<T, CredentialError>) -> Result<(), SettingsError> {
    match credential {
        Ok(_) => Ok(()),
        Err(source) => {
            Err(SettingsError::Credential { field: field.into(), secret: "notifications.secretName", source })
        }
    }
}

#[cfg(test)]
mod tests;
