//! The InferencePool of the Gateway API Inference Extension, v1, as far as it is written here. Plain data.
//!
//! <https://gateway-api-inference-extension.sigs.k8s.io/reference/spec/#inferencepool>

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Pods that serve the same model in the same way, and who picks one of them.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "inference.networking.k8s.io",
    version = "v1",
    kind = "InferencePool",
    plural = "inferencepools",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct InferencePoolSpec {
    /// The pods.
    pub selector: PoolSelector,
    /// Their ports; one.
    pub target_ports: Vec<PoolPort>,
    /// Who picks the pod; absent means the gateway, from version 1.5 of the extension on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_picker_ref: Option<EndpointPickerRef>,
}

/// Labels that all pods of a pool have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolSelector {
    /// The labels.
    pub match_labels: BTreeMap<String, String>,
}

/// A port of the pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPort {
    /// Its number.
    pub number: i32,
}

/// The Service that picks pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPickerRef {
    /// API group of the referent; empty for a Service.
    pub group: String,
    /// `Service`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: PoolPort,
    /// `FailOpen` or `FailClose`.
    pub failure_mode: String,
}
