//! Where the traces of runs are sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{v1alpha1::shared::LocalObjectReference, values::Percent};

/// Traces of runs, for a receiver that speaks OTLP over HTTP, such as the OpenTelemetry Collector.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// URL of the receiver, such as `http://collector.observability:4318`. Spans are posted to `/v1/traces` below it.
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https?://[^\s]+$"))]
    pub endpoint: String,
    /// Share of the runs that are traced, of those whose client sends no `traceparent`. Clients that send one decide
    /// for their runs.
    #[serde(default = "default_sampled")]
    pub sampled: Percent,
    /// Secret with headers for the receiver: its keys are header names. Only the serving pod reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<LocalObjectReference>,
    /// ConfigMap with certificates in PEM of the authorities that sign the receiver's certificate, under any keys. The
    /// public authorities are then not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<LocalObjectReference>,
    /// Networks that the receiver may be in, as `http.allowedNetworks` of a tool has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub allowed_networks: Vec<String>,
}

fn default_sampled() -> Percent {
    "100%".parse().expect("a constant that is a share")
}
