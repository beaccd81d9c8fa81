//! Which alerting rules are generated from the objectives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Alerting rules that are generated from the objectives. Without this block there are none: they are of use only where Prometheus
/// scrapes the agent's pods, and where it does not they would report that nothing is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alerts {
    /// Alerts when the objectives are missed faster than they allow, or are not measured: a PrometheusRule where the cluster knows
    /// that kind, else a ConfigMap with a rules file.
    #[serde(default = "default_burn_rate")]
    pub burn_rate: bool,
}

fn default_burn_rate() -> bool {
    true
}
