//! Which alerting rules are generated from the objectives, and who is told of what happens.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Alerting rules that are generated from the objectives, and who is told of what happens to an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alerts {
    /// Alerts when the objectives are missed faster than they allow, or are not measured: a PrometheusRule where the cluster knows
    /// that kind, else a ConfigMap with a rules file. They are of use only where Prometheus scrapes the agent's pods: where it does
    /// not they would report that nothing is measured.
    #[serde(default)]
    pub burn_rate: bool,
    /// Receivers of notifications, by their names in the operator's configuration (`notifications.receivers`), where the platform
    /// team keeps their addresses and credentials. Nobody is told by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")))]
    #[x_kube(validation = Rule::new("self.all(a, self.exists_one(b, b == a))")
        .message("a receiver is named twice: keep one of them"))]
    pub receivers: Vec<String>,
}

impl Alerts {
    /// Whether nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
