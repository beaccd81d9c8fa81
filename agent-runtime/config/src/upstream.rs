//! A server of the OpenAI API outside of the pod. Pure.

use serde::{Deserialize, Serialize};

/// How a server elsewhere is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upstream {
    /// A directory whose files are request headers, as an HTTP tool has it: `authorization` with the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<String>,
    /// A directory with certificates in PEM, as an HTTP tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<String>,
    /// Networks that the server may be in, as an HTTP tool has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_networks: Vec<String>,
    /// Requests of this pod in flight; others wait. Absent means 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Further attempts after no connection, 429, 502, 503 or 504. None is made once an answer has begun.
    #[serde(default)]
    pub retries: u32,
}
