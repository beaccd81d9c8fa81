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
    /// Labels that hold the namespace of a metric. A guardrail's query is held to its namespace by one of them; where
    /// it names none, by the first.
    pub namespace_labels: Vec<String>,
}

impl Default for PrometheusSettings {
    fn default() -> Self {
        Self {
            url: None,
            folder: PathBuf::from("/etc/slipway-prometheus"),
            token_file: None,
            ca_file: None,
            // The second is what a Prometheus makes of the first where an exporter says it of others.
            namespace_labels: ["namespace", "exported_namespace"].map(str::to_owned).to_vec(),
        }
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
        let Self { url, folder: _, token_file, ca_file, namespace_labels } = self;
        if namespace_labels.is_empty() || !namespace_labels.iter().all(|label| is_label_name(label)) {
            return invalid(
                "prometheus.namespaceLabels",
                "names no labels of Prometheus': write ones such as [namespace], or leave it out".to_owned(),
            );
        }
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

/// Whether a Prometheus knows labels of this name.
fn is_label_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
