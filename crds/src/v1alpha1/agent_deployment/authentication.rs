//! Who may call an agent, and how much.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::v1alpha1::shared::{ConfigMapKeyReference, LocalObjectReference, SecretKeyReference};

/// Clients of the agent's API. Each sends a bearer token, which names a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.tokensFrom) || has(self.jwt)")
    .message("authentication lets nobody in: add tokensFrom or jwt, or remove it"))]
pub struct Authentication {
    /// Key of a Secret with tokens, `TENANT: TOKEN` or `TENANT: sha256:DIGEST` on each line. A token has at least 16
    /// characters. Serving pods take edits over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_from: Option<SecretKeyReference>,
    /// JSON Web Tokens of an issuer, with asymmetric signatures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JsonWebTokens>,
    /// Maximum use by tenants. Serving pods take edits over; everything else changes with the next revision.
    #[serde(default, skip_serializing_if = "TenantRates::is_default")]
    pub rates: TenantRates,
}

/// JSON Web Tokens that are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonWebTokens {
    /// Claim `iss` of the tokens.
    #[schemars(length(min = 1, max = 2048))]
    pub issuer: String,
    /// Audiences, of which the claim `aud` has one.
    #[schemars(
        length(min = 1, max = 16),
        inner(length(min = 1, max = 2048)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub audiences: Vec<String>,
    /// Location of the issuer's public keys.
    pub keys: IssuerKeys,
    /// Claim that names the tenant: a text of at most 128 characters.
    #[serde(default = "default_tenant_claim")]
    #[schemars(length(min = 1, max = 256))]
    pub tenant_claim: String,
}

/// A JSON Web Key Set, in exactly one place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.url), has(self.secret), has(self.configMap)].filter(is_set, is_set).size() == 1")
        .message("keys are in one place: set exactly one of url, secret and configMap"),
    validation = Rule::new("!has(self.authoritiesFrom) || has(self.url)")
        .message("authoritiesFrom is for the server of url: remove it, or use url").field_path(".authoritiesFrom"),
    validation = Rule::new("!has(self.allowedNetworks) || has(self.url)")
        .message("allowedNetworks is for the server of url: remove it, or use url").field_path(".allowedNetworks")
)]
pub struct IssuerKeys {
    /// URL of the keys, with https. Pods fetch them when a token needs them, and at most twice a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048), regex(pattern = r"^https://[^\s]+$"))]
    pub url: Option<String>,
    /// ConfigMap with certificates in PEM of the authorities that sign the certificate of the server of `url`, under
    /// any keys. The public authorities are then not trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities_from: Option<LocalObjectReference>,
    /// Networks that the server of `url` may be in, as `http.allowedNetworks` of a tool has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 1, max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub allowed_networks: Vec<String>,
    /// Key of a Secret with the keys. Serving pods take edits over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretKeyReference>,
    /// Key of a ConfigMap with the keys. Serving pods take edits over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapKeyReference>,
}

/// Maximum use of one pod by tenants. Each pod counts by itself, so an agent of n pods gives up to n times as much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantRates {
    /// Rate of each tenant.
    #[serde(default, skip_serializing_if = "TenantRate::is_default")]
    pub default: TenantRate,
    /// Tenants with other rates. A limit that is absent here is that of `default`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tenants: Vec<NamedTenantRate>,
}

/// Maximum use of one pod by one tenant. What is absent has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TenantRate {
    /// Maximum number of requests for runs in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000000))]
    pub requests_per_minute: Option<i32>,
    /// Maximum number of tokens in a minute. A run is charged at its end, for what it read and wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000000000))]
    pub tokens_per_minute: Option<i32>,
    /// Maximum number of runs in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096))]
    pub runs_at_once: Option<i32>,
}

/// Rate of one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedTenantRate {
    /// Name of the tenant, as its token has it.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Limits that differ from those of `default`.
    pub rate: TenantRate,
}

impl Authentication {
    /// The part that makes other pods: rates are taken over by those that serve.
    #[must_use]
    pub fn without_rates(&self) -> Self {
        Self { rates: TenantRates::default(), ..self.clone() }
    }
}

impl TenantRates {
    /// Whether nothing has a limit.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl TenantRate {
    /// Whether nothing has a limit.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_tenant_claim() -> String {
    "sub".to_owned()
}
