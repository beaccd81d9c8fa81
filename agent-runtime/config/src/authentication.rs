//! Who may call the agent, and how much. Pure.

use serde::{Deserialize, Serialize};

/// Who may call: who has a token of the file, or a JSON Web Token that an issuer has signed. At least one of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// A file with a tenant and a token on each line: a mounted Secret. It is read again when it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<String>,
    /// JSON Web Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Jwt>,
    /// How much each tenant may ask for. The sidecar reads it again when it changes.
    #[serde(default, skip_serializing_if = "Rates::is_default")]
    pub rates: Rates,
}

/// JSON Web Tokens that are accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jwt {
    /// The claim `iss`.
    pub issuer: String,
    /// The claim `aud` has one of them.
    pub audiences: Vec<String>,
    /// Where the issuer's public keys are.
    pub keys: JwtKeys,
    /// The claim that names the tenant.
    #[serde(default = "default_tenant_claim")]
    pub tenant_claim: String,
}

/// A JSON Web Key Set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum JwtKeys {
    /// At an address.
    Url {
        /// The address; it begins with `https://`.
        url: String,
        /// A directory whose files hold certificates in PEM of the authorities that may have signed the certificate
        /// there, instead of the public ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        authorities_from: Option<String>,
        /// Networks that it may be in, as an HTTP tool has them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed_networks: Vec<String>,
    },
    /// In a file: a mounted Secret or ConfigMap. It is read again when it changes.
    File(String),
}

/// How much tenants may ask of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rates {
    /// Of each tenant.
    #[serde(default, skip_serializing_if = "Rate::is_default")]
    pub default: Rate,
    /// Of tenants that have other rates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantRate>,
}

/// The rate of one tenant by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantRate {
    /// The tenant.
    pub name: String,
    /// What differs from the default.
    pub rate: Rate,
}

/// How much one tenant may ask of one pod. What is absent has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rate {
    /// Requests for runs in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens that runs read and write in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
    /// Runs in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_at_once: Option<u32>,
}

impl Rates {
    /// Whether nothing has a limit.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The rate of a tenant.
    pub fn of(&self, tenant: &str) -> Rate {
        let own = self.tenants.iter().find(|own| own.name == tenant).map(|own| own.rate).unwrap_or_default();
        Rate {
            requests_per_minute: own.requests_per_minute.or(self.default.requests_per_minute),
            tokens_per_minute: own.tokens_per_minute.or(self.default.tokens_per_minute),
            runs_at_once: own.runs_at_once.or(self.default.runs_at_once),
        }
    }
}

impl Rate {
    /// Whether nothing has a limit.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn default_tenant_claim() -> String {
    "sub".into()
}
