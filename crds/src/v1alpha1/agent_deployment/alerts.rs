//! Who is told of what happens to an AgentDeployment.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Who is told of what happens to an AgentDeployment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alerts {
    /// Receivers of notifications, by their names in the operator's configuration (`notifications.receivers`), where the platform
    /// team keeps their addresses and credentials. Nobody is told by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")))]
    #[x_kube(validation = Rule::new("self.all(a, self.exists_one(b, b == a))")
        .message("a receiver is named twice: keep one of them"))]
    pub receivers: Vec<String>,
}

impl Alerts {
    /// Whether nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
