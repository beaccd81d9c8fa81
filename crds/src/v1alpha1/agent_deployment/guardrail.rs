//! Guardrails of the user's own.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::values::PositiveDecimal;

/// An expression in PromQL that a new revision may not exceed: its own limit, or so many times the value of the revision that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.max) != has(self.maxRatioToStable)")
        .message("a guardrail has either max or maxRatioToStable: keep one of them"),
    validation = Rule::new("self.query.contains('$pods')")
        .message("query must name $pods, which stands for the pods of the revision that is asked about")
)]
pub struct Guardrail {
    /// Name of the guardrail.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// An expression with one value. `$pods` stands for a regular expression that matches the pods of one revision, `$namespace` for
    /// their namespace: `max(DCGM_FI_DEV_GPU_TEMP{exported_namespace="$namespace", exported_pod=~"$pods"})`.
    #[schemars(length(min = 1, max = 2048))]
    pub query: String,
    /// Largest value of the new revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<PositiveDecimal>,
    /// Largest value of the new revision, as a multiple of that of the revision that serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ratio_to_stable: Option<PositiveDecimal>,
}
