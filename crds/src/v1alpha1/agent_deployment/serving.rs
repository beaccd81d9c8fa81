//! Nodes and resources of the pods.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use slipway_vocabulary::recording::RecordingLevel;

use super::{Authentication, Autoscaling, Preflight, Tracing, gpu_products};
use crate::v1alpha1::shared::{self, ContainerResources, Toleration};

/// Nodes on which engines are built, measured and served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hardware {
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "shared::label_values")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub tolerations: Vec<Toleration>,
}

impl Hardware {
    /// Gives those of the nodes that have a GPU model; all of them where none is named.
    pub fn on(&self, gpu_product: Option<&str>) -> Self {
        let node_selector = gpu_products::selected(&self.node_selector, gpu_product);
        Self { node_selector, tolerations: self.tolerations.clone() }
    }
}

/// The serving pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Serving {
    /// Number of pods that serve the agent. `kubectl scale`, a HorizontalPodAutoscaler and KEDA set it through
    /// /scale. During a rollout they may raise it, and a lower number waits for the end; an edit of the spec does not
    /// wait. With `autoscaling` it is the initial number of pods, and has no effect later.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// Scales the number of pods with the load, instead of `replicas`. Do not combine it with a
    /// HorizontalPodAutoscaler or KEDA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<Autoscaling>,
    /// Authentication of the clients of the agent's API, and their rates. Absent means that everybody may call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Traces of runs. Absent means none. They come with the next revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// Checks of the pods' GPUs before the server starts. Absent means none. They come with the next revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<Preflight>,
    /// What the pods remember of runs, for `kubectl slipway record`. A change comes with the next revision.
    #[serde(default, skip_serializing_if = "Recording::is_default")]
    pub recording: Recording,
    /// Resources of the container that serves the model, including the GPUs. It is called `triton` with every backend.
    /// The containers that build the engine get the same.
    #[serde(default)]
    pub triton_resources: ContainerResources,
    /// Resources of the agent runtime's container. Without memory in either list it requests 64Mi, with a limit of 1Gi.
    /// Without cpu it requests 50m, with a limit of 8.
    #[serde(default)]
    pub agent_resources: ContainerResources,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            replicas: default_replicas(),
            autoscaling: None,
            authentication: None,
            tracing: None,
            preflight: None,
            recording: Recording::default(),
            triton_resources: ContainerResources::default(),
            agent_resources: ContainerResources::default(),
        }
    }
}

/// What pods remember of the runs of the last hour, within bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    /// None, Lengths (the default) or Texts: also what users ask, and arguments and results of tools.
    #[serde(default, skip_serializing_if = "RecordingLevel::is_default")]
    pub level: RecordingLevel,
}

impl Recording {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_replicas() -> i32 {
    1
}
