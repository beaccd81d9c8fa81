//! Alerting rules that are generated from the objectives, and receivers of notifications.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Alerting rules that are generated from the objectives, and receivers of notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alerts {
    /// Generates alerting rules for objectives that are missed too often or not measured. They are a PrometheusRule
    /// if the cluster serves that kind, otherwise a ConfigMap with a rules file. Enable it only where Prometheus
    /// scrapes the agent's pods; elsewhere the rules alert that nothing is measured.
    #[serde(default)]
    pub burn_rate: bool,
    /// Names of receivers to notify, from the operator's configuration (`notifications.receivers`). The platform team
    /// keeps their addresses and credentials there. None by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")))]
    #[x_kube(validation = Rule::new("self.all(a, self.exists_one(b, b == a))")
        .message("receivers must be unique: remove the repeated name"))]
    pub receivers: Vec<String>,
}

impl Alerts {
    /// Whether neither rules nor receivers are requested.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
