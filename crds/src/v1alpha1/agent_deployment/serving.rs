//! Where and with what the pods run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Autoscaling;
use crate::v1alpha1::shared::{self, ContainerResources, Toleration};

/// The nodes on which engines are built and served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::label_values")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints to put up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
}

/// The serving pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Serving {
    /// Pods that serve the agent: the number that `kubectl scale`, a HorizontalPodAutoscaler and KEDA set through /scale. While a
    /// rollout is under way they may raise it, a lower number waits for its end; an edit of the spec does not wait. With
    /// `autoscaling` it is the number of pods that the agent starts with, and does nothing later.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// As many pods as the load needs, in place of `replicas`. Not beside a HorizontalPodAutoscaler or KEDA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Resources of Triton's container; the GPU request stands here. The build gets the same.
    #[serde(default)]
    pub triton_resources: ContainerResources,
    /// Resources of the agent runtime's container.
    #[serde(default)]
    pub agent_resources: ContainerResources,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            replicas: default_replicas(),
            autoscaling: None,
            triton_resources: ContainerResources::default(),
            agent_resources: ContainerResources::default(),
        }
    }
}

fn default_replicas() -> i32 {
    1
}
