//! What the GPUs of a serving pod must be before its server starts.

use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::values::Percent;

/// Checks of a serving pod's GPUs before its server starts. A GPU that fails them keeps the pod from starting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preflight {
    /// Oldest version of the NVIDIA driver that the server's image supports, such as `580.65.06`. Absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9]{1,4}(\.[0-9]{1,4}){1,2}$"))]
    pub min_driver: Option<String>,
    /// Share of each GPU's memory that must be free. Below 50% the GPU counts as shared, and neither the speed of its
    /// memory nor that of its products is judged.
    #[serde(default = "default_min_free_memory")]
    pub min_free_memory: Percent,
    /// Whether the GPUs are looked at while they serve. A rollout then lays what a slow or broken one does at its node.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch: bool,
}

fn default_min_free_memory() -> Percent {
    "90%".parse().expect("a constant that is a share")
}

/// The rule of a spec: without a GPU there is nothing to check.
pub(super) fn has_gpus() -> Rule {
    Rule::new(
        "has(self.model.upstream) || !has(self.serving) || !has(self.serving.preflight) || (has(self.serving.tritonResources) && \
         has(self.serving.tritonResources.limits) && 'nvidia.com/gpu' in self.serving.tritonResources.limits)",
    )
    .message("preflight checks GPUs: add nvidia.com/gpu to serving.tritonResources.limits, or remove serving.preflight")
    .field_path(".serving.preflight")
}
