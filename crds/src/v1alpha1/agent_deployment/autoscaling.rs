//! Autoscaling: its settings, and what the operator derives from the load.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AgentDeployment, Serving};
use crate::values::DurationText;

/// Scales the number of pods with the load. The load is the number of model requests in flight, not of runs: a slow
/// tool keeps runs waiting, and more pods would not make it faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be greater than maxReplicas: lower the one or raise the other")
        .field_path(".minReplicas")
)]
pub struct Autoscaling {
    /// Minimum number of pods.
    #[serde(default = "default_min_replicas")]
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: i32,
    /// Maximum number of pods. A throughput of `spec.slo` is measured for this number.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: i32,
    /// Target for the model requests in flight on one pod. Pods are added above 90 % of it, and removed when the
    /// remaining ones would carry at most 80 %. The default is the chosen level of the configuration that serves
    /// (`status.selected.maxInFlight`). That is also the number of runs that a pod admits, so a lower target adds
    /// pods before any run is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub target_requests_in_flight: Option<i32>,
    /// How long fewer pods must have sufficed before pods are removed. At most one hour, because pods remember no
    /// more. Make it longer than a pod takes to load its model.
    #[serde(default = "default_scale_down_delay")]
    #[x_kube(validation = Rule::new("!self.endsWith('d') && duration(self) <= duration('1h')")
        .message("scaleDownDelay must be at most 1h"))]
    pub scale_down_delay: DurationText,
}

fn default_min_replicas() -> i32 {
    1
}

fn default_scale_down_delay() -> DurationText {
    "5m".parse().expect("a duration")
}

/// How many pods the load needs, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalingStatus {
    /// Number of pods of a revision with all the traffic.
    pub replicas: i32,
    /// Number of pods that the load needs, before limits apply. Absent while the load is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// When the current number of pods and revisions began to serve.
    pub since: Time,
    /// Revisions that carry the load, by the hashes of their plans.
    #[schemars(length(max = 2), inner(length(max = 63)))]
    pub revisions: Vec<String>,
    /// Target for the model requests in flight on one pod. Absent while it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_requests_in_flight: Option<i32>,
    /// Model requests in flight on all pods, averaged over half a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub requests_in_flight: Option<String>,
    /// The same number in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_in_flight_thousandths: Option<i64>,
    /// Reason for the number of pods, in one word.
    #[schemars(length(max = 63))]
    pub reason: String,
    /// Reason for the number of pods, with figures.
    #[schemars(length(max = 512))]
    pub message: String,
    /// Why the load is unknown. Absent while it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownLoad>,
    /// When the load was measured. The figures stay for five minutes unless later ones lead to another number of
    /// pods.
    pub at: Time,
}

/// Why the load is unknown. Absent while it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum UnknownLoad {
    /// No pod runs yet.
    NoPods,
    /// No pod answers.
    Silent,
    /// No pod has counted for ten seconds yet.
    TooNew,
    /// The agent runtime of the serving revision does not count model requests.
    NotCounted,
    /// The record of the serving revision is lost, and the spec sets no target.
    NoTarget,
}

/// Whose name the API server has not kept.
const SOMEBODY: &str = "somebody";

impl AgentDeployment {
    /// Gives who set `spec.serving.replicas` through /scale, if the value is still theirs. The API server records who
    /// set a field, and forgets them when somebody else sets another value.
    pub fn scaled_by(&self) -> Option<&str> {
        let owns_replicas = |entry: &ManagedFieldsEntry| {
            let fields = entry.fields_v1.as_ref();
            fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:serving/f:replicas").is_some())
        };
        let entries = self.metadata.managed_fields.as_deref().unwrap_or_default();
        let is_scale =
            |entry: &&ManagedFieldsEntry| entry.subresource.as_deref() == Some("scale") && owns_replicas(entry);
        if let Some(entry) = entries.iter().find(is_scale) {
            return Some(entry.manager.as_deref().unwrap_or(SOMEBODY));
        }
        // Of a field that nobody had set, the API server does not keep who set it through /scale: only that it is no
        // default any more.
        let is_set_by_none = !entries.is_empty() && !entries.iter().any(owns_replicas);
        (is_set_by_none && self.spec.serving.replicas != Serving::default().replicas).then_some(SOMEBODY)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn entry(manager: &str, subresource: Option<&str>, fields: Value) -> Value {
        json!({"manager": manager, "operation": "Update", "subresource": subresource, "apiVersion": "slipway.dev/v1alpha1",
            "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    fn replicas() -> Value {
        json!({"f:spec": {"f:serving": {"f:replicas": {}}}})
    }

    fn agent(serving: Value, managed: Value) -> AgentDeployment {
        let object = json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
            "metadata": {"name": "support", "managedFields": [managed]},
            "spec": {
                "model": {"uri": "http://models.example/react"},
                "engine": {"backend": "Custom", "custom": {"builderImage": "b", "tritonImage": "t"}},
                "agent": {"systemPrompt": "Answer."},
                "serving": serving,
            },
        });
        serde_json::from_value(object).expect("an AgentDeployment")
    }

    #[rstest]
    #[case::an_autoscaler(entry("kube-controller-manager", Some("scale"), replicas()), Some("kube-controller-manager"))]
    #[case::an_edit(entry("kubectl-edit", None, replicas()), None)]
    #[case::one_whose_number_was_changed_since(entry("kubectl", Some("scale"), json!({})), None)]
    #[case::our_own_status(entry("slipway-operator", Some("status"), json!({"f:status": {}})), None)]
    fn who_scales_is_read_from_what_the_api_server_keeps(#[case] entry: Value, #[case] expected: Option<&str>) {
        assert_eq!(agent(json!({}), entry).scaled_by(), expected);
    }

    #[rstest]
    #[case::a_number_of_the_manifest(entry("argocd", None, replicas()), None)]
    #[case::a_number_that_nobody_owns(entry("argocd", None, json!({"f:spec": {"f:model": {}}})), Some("somebody"))]
    fn a_number_that_nobody_owns_was_set_through_scale(#[case] entry: Value, #[case] expected: Option<&str>) {
        assert_eq!(agent(json!({"replicas": 5}), entry).scaled_by(), expected);
    }
}
