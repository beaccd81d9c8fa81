//! Where the agents' counters of weeks are found: a Prometheus, or anything that answers its queries. Pure.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{InvalidSetting, is_url};

/// The Prometheus that scrapes the agents' pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrometheusSettings {
    /// Its address, with the path before `/api/v1` where it has one; absent means that nobody is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The folder with the credentials; names of files are looked up in it.
    pub folder: PathBuf,
    /// File with a bearer token to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A PEM file with certificates to trust beside the bundled roots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl Default for PrometheusSettings {
    fn default() -> Self {
        Self { url: None, folder: PathBuf::from("/etc/slipway-prometheus"), token_file: None, ca_file: None }
    }
}

impl PrometheusSettings {
    /// The path of a credential.
    pub fn path(&self, file: &Path) -> PathBuf {
        self.folder.join(file)
    }

    /// Checks the address.
    ///
    /// # Errors
    /// When a value cannot be used; names the first.
    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let invalid = |field: &str, problem: String| Err(InvalidSetting { field: field.to_owned(), problem });
        let Self { url, folder: _, token_file, ca_file } = self;
        match url {
            Some(url) if !is_url(url) => invalid(
                "prometheus.url",
                format!("{url:?} is not an address: write one such as http://prometheus.monitoring:9090"),
            ),
            None if token_file.is_some() || ca_file.is_some() => {
                invalid("prometheus", "has credentials but no address: add url, or leave them out".to_owned())
            }
            Some(_) | None => Ok(()),
        }
    }
}
