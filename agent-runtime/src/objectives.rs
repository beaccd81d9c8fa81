//! Reloads edited objectives and rates while the agent serves: they change what is counted and how much of it tenants
//! get, not what is served. Everything else of a configuration stays as it is for the life of a pod. IO.

use std::{path::PathBuf, sync::Arc, time::Duration};

use slipway_runtime_config::RuntimeConfig;
use tokio_util::sync::CancellationToken;

use crate::{
    api::service::Service,
    config_file::{self, ConfigFileError},
    failure::with_causes,
};

/// How often the file is read. The kubelet updates an edited ConfigMap within about a minute; reading adds little.
const PAUSE: Duration = Duration::from_secs(5);

/// The task that looks for edited objectives and rates.
pub struct ObjectivesWatch {
    service: Arc<Service>,
    path: PathBuf,
    /// The configuration that is in force.
    config: RuntimeConfig,
    /// The bytes that were read last, so that an unusable file is reported once.
    seen: Vec<u8>,
}

/// Result of reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing new.
    Unchanged,
    /// Other objectives or rates are in force.
    TakenOver,
    /// The same, and there were other changes, which have no effect.
    TakenOverInPart,
}

impl ObjectivesWatch {
    /// Watches the file that `config` was read from.
    pub fn new(service: Arc<Service>, path: PathBuf, config: RuntimeConfig) -> Self {
        Self { service, path, config, seen: Vec::new() }
    }

    /// Watches until `stop`. Objectives and rates in force stay so while the file cannot be used.
    pub async fn watch(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            match self.look().await {
                Ok(Look::Unchanged) => {}
                Ok(Look::TakenOver) => {
                    tracing::info!(objectives = self.config.objectives.len(), "objectives or rates changed");
                }
                Ok(Look::TakenOverInPart) => {
                    tracing::warn!(
                        "the configuration changed, but only its objectives and rates are reloaded: restart the pod for the \
                         rest"
                    );
                }
                Err(error) => tracing::warn!(error = with_causes(&error), "objectives and rates stay as they were"),
            }
        }
    }

    /// Reads the file, and reloads its objectives and rates if they changed.
    ///
    /// # Errors
    /// When the file cannot be read or used; content that cannot be used is an error once, then it is nothing new.
    pub async fn look(&mut self) -> Result<Look, ConfigFileError> {
        let json = config_file::read(&self.path).await?;
        if json == self.seen {
            return Ok(Look::Unchanged);
        }
        self.seen.clone_from(&json);
        let edited = config_file::parse(&self.path, &json)?;
        if edited == self.config {
            return Ok(Look::Unchanged);
        }
        self.config.objectives.clone_from(&edited.objectives);
        self.service.set_objectives(edited.objectives.clone());
        if let (Some(ours), Some(new)) = (&mut self.config.authentication, &edited.authentication) {
            ours.rates.clone_from(&new.rates);
            self.service.set_rates(new.rates.clone());
        }
        Ok(if edited == self.config { Look::TakenOver } else { Look::TakenOverInPart })
    }
}
