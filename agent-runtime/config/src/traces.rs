//! Where the spans of runs are sent. Pure.

use serde::{Deserialize, Serialize};

/// A receiver of traces that speaks OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tracing {
    /// Its address, such as `http://collector:4318`; spans are posted to `/v1/traces` below it.
    pub endpoint: String,
    /// The namespace of the agent, by which receivers tell agents of one name apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How many runs in a million begin a trace of their own. A client that traces decides for its runs itself.
    #[serde(default = "default_sampled_per_million")]
    pub sampled_per_million: u32,
    /// A directory whose files are request headers, as an HTTP tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<String>,
    /// A directory with certificates in PEM, as an HTTP tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<String>,
    /// Networks that the receiver may be in, as an HTTP tool has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_networks: Vec<String>,
}

impl Tracing {
    /// A receiver at this address, which gets the spans of all runs.
    pub fn new(endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.into(),
            namespace: None,
            sampled_per_million: default_sampled_per_million(),
            headers_from: None,
            authorities_from: None,
            allowed_networks: Vec::new(),
        }
    }
}

fn default_sampled_per_million() -> u32 {
    1_000_000
}
