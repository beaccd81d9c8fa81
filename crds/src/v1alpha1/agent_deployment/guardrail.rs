//! Guardrails: PromQL queries of the user.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::values::{NonNegativeDecimal, PositiveDecimal};

/// A PromQL query with a limit for the canary: an absolute one, or a multiple of stable's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.max) != has(self.maxRatioToStable)")
        .message("a guardrail needs either max or maxRatioToStable: set exactly one of them"),
    validation = Rule::new("self.query.contains('$pods')")
        .message("query must contain $pods, which matches the pods of the revision that it is evaluated for")
)]
pub struct Guardrail {
    /// Name of the guardrail.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Query that returns one value. `$pods` is a regular expression that matches the pods of one revision,
    /// `$namespace` their namespace:
    /// `max(DCGM_FI_DEV_GPU_TEMP{exported_namespace="$namespace", exported_pod=~"$pods"})`.
    #[schemars(length(min = 1, max = 2048))]
    pub query: String,
    /// Maximum value for the canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<NonNegativeDecimal>,
    /// Maximum value for the canary, as a multiple of stable's value, or of the baseline's if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ratio_to_stable: Option<PositiveDecimal>,
}
