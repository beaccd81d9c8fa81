//! Where and with what the pods run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Pods that serve the agent.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
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
            triton_resources: ContainerResources::default(),
            agent_resources: ContainerResources::default(),
        }
    }
}

fn default_replicas() -> i32 {
    1
}
