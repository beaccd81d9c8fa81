//! Rules of Prometheus: the file format, and the kind in which the Prometheus operator keeps it. Plain data.
//!
//! <https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/>,
//! <https://prometheus-operator.dev/docs/api-reference/api/#monitoring.coreos.com/v1.PrometheusRule>

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A rules file; also the spec of a PrometheusRule.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "PrometheusRule",
    plural = "prometheusrules",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct RuleFile {
    /// Groups, each evaluated on its own.
    pub groups: Vec<RuleGroup>,
}

/// Rules that are evaluated one after the other, at the same times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleGroup {
    /// Name of the group, unique in its file.
    pub name: String,
    /// Time between two evaluations; absent means Prometheus' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rule {
    /// Keeps what an expression gives as series of their own.
    Recording(RecordingRule),
    /// Alerts for each series that an expression gives.
    Alerting(AlertingRule),
}

/// Keeps what an expression gives as series of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingRule {
    /// Name of the series.
    pub record: String,
    /// The expression.
    pub expr: String,
    /// Labels of the series beyond those of the expression.
    pub labels: BTreeMap<String, String>,
}

/// Alerts for each series that an expression gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertingRule {
    /// Name of the alert.
    pub alert: String,
    /// The expression.
    pub expr: String,
    /// How long the expression must hold first.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub holds_for: Option<String>,
    /// Labels of the alert beyond those of the expression: what it is routed by.
    pub labels: BTreeMap<String, String>,
    /// What people read.
    pub annotations: BTreeMap<String, String>,
}
