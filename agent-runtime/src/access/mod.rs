//! Who may call the agent, and how much.
//!
//! A client sends `Authorization: Bearer TOKEN`. The token is one of the file, or a JSON Web Token of the issuer.
//! Either way it names a tenant, to which runs, responses and keys of requests belong, and whose rates hold.

mod files;
mod issuer;
mod jwt;
mod keys;
mod rates;
mod tenant;
mod token_file;

use std::{sync::Arc, time::Duration};

use axum::http::{HeaderMap, header::AUTHORIZATION};
use slipway_runtime_config::{AllowedNetworks, Authentication, Jwt, JwtKeys, NetworkError};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    failure::with_causes,
    outbound::{Guard, Lookup},
};

use self::{
    files::Watched,
    issuer::{Issuer, NoKeys},
    jwt::Signature,
    keys::KeySet,
    token_file::TokenFile,
};

pub use self::{
    files::{ContentError, CredentialFileError},
    issuer::{FRESH_FOR, FetchKeysError, PAUSE as FETCH_PAUSE, USABLE_FOR},
    jwt::JwtProblem,
    keys::KeySetError,
    rates::{Exceeded, Left, Limit, Meter, Standing, TenantPlace},
    tenant::Tenant,
    token_file::TokenFileError,
};

/// How often files are read. The kubelet updates an edited Secret within about a minute; reading adds little.
const PAUSE: Duration = Duration::from_secs(5);

/// Decides who may call.
#[derive(Debug)]
pub struct Access {
    /// What tenants have used of their rates.
    pub meter: Arc<Meter>,
    tokens: Option<Watched<TokenFile>>,
    jwt: Option<Verifier>,
}

#[derive(Debug)]
struct Verifier {
    expected: Jwt,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    File(Watched<KeySet>),
    Issuer(Box<Issuer>),
}

/// Why the authentication cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpAccessError {
    /// A mounted file.
    #[error("authentication: the mounted credentials cannot be used; correct the Secret or ConfigMap")]
    File(#[source] CredentialFileError),
    /// An entry of the networks cannot be read.
    #[error("authentication: the allowedNetworks of the issuer's keys cannot be used")]
    Networks(#[source] NetworkError),
    /// The HTTP client could not be built.
    #[error("authentication: the client for the issuer's keys cannot be set up")]
    Client(#[source] reqwest::Error),
}

/// Why a client is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It sent no token.
    NoToken,
    /// It sent a token that nobody here knows.
    UnknownToken,
    /// It sent a JSON Web Token that is not accepted.
    Jwt(JwtProblem),
    /// The issuer's keys cannot be had now, so that nobody knows whether its token is good.
    NoKeys,
}

impl Denied {
    /// The labels of all in metrics.
    pub const LABELS: [&str; 4] = ["no_token", "invalid_token", "no_tenant", "no_keys"];

    /// The label in metrics.
    pub const fn as_str(&self) -> &'static str {
        let [no_token, invalid, no_tenant, no_keys] = Self::LABELS;
        match self {
            Self::NoToken => no_token,
            Self::Jwt(JwtProblem::Tenant { .. }) => no_tenant,
            Self::UnknownToken | Self::Jwt(_) => invalid,
            Self::NoKeys => no_keys,
        }
    }
}

impl Access {
    /// Reads the mounted files. Keys at an address are fetched when a token needs them.
    ///
    /// # Errors
    /// [`SetUpAccessError`].
    pub fn new(authentication: &Authentication) -> Result<Self, SetUpAccessError> {
        let Authentication { tokens, jwt, rates } = authentication;
        let tokens = tokens.as_deref().map(Watched::open).transpose().map_err(SetUpAccessError::File)?;
        let jwt = jwt.as_ref().map(Verifier::new).transpose()?;
        Ok(Self { meter: Meter::new(rates.clone()), tokens, jwt })
    }

    /// The tenant of a request.
    ///
    /// # Errors
    /// [`Denied`].
    pub async fn tenant(&self, headers: &HeaderMap, clock: &Clock) -> Result<Tenant, Denied> {
        let token = bearer(headers).ok_or(Denied::NoToken)?;
        let known = self.tokens.as_ref().and_then(|tokens| tokens.get().tenant(token).cloned());
        match (known, &self.jwt) {
            (Some(tenant), _) => Ok(tenant),
            (None, Some(verifier)) => verifier.tenant(token, clock).await,
            (None, None) => Err(Denied::UnknownToken),
        }
    }

    /// Reads the files again, and says whether something new was taken over.
    ///
    /// # Errors
    /// When a file cannot be used; content that cannot be used is an error once, then it is nothing new.
    pub async fn look(&self) -> Result<bool, CredentialFileError> {
        let tokens = match &self.tokens {
            Some(tokens) => tokens.look().await,
            None => Ok(false),
        };
        let keys = match &self.jwt {
            Some(Verifier { keys: Keys::File(keys), .. }) => keys.look().await,
            Some(Verifier { keys: Keys::Issuer(_), .. }) | None => Ok(false),
        };
        Ok(tokens? | keys?)
    }

    /// Takes edited files over until `stop`.
    pub async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            match self.look().await {
                Ok(false) => {}
                Ok(true) => tracing::info!("credentials of clients changed"),
                Err(error) => tracing::warn!(error = with_causes(&error), "credentials of clients stay as they were"),
            }
        }
    }
}

impl Verifier {
    fn new(jwt: &Jwt) -> Result<Self, SetUpAccessError> {
        let keys = match &jwt.keys {
            JwtKeys::File(path) => Keys::File(Watched::open(path).map_err(SetUpAccessError::File)?),
            JwtKeys::Url { url, authorities_from, allowed_networks } => {
                let allowed = AllowedNetworks::parse(allowed_networks).map_err(SetUpAccessError::Networks)?;
                let guard = Guard::new(Lookup::of_system(), allowed);
                let issuer = Issuer::new(url, authorities_from.as_deref(), guard).map_err(SetUpAccessError::Client)?;
                Keys::Issuer(Box::new(issuer))
            }
        };
        Ok(Self { expected: jwt.clone(), keys })
    }

    async fn tenant(&self, token: &str, clock: &Clock) -> Result<Tenant, Denied> {
        let signature = jwt::signature(token).map_err(Denied::Jwt)?;
        let keys = match &self.keys {
            Keys::File(keys) => keys.get(),
            Keys::Issuer(issuer) => issuer.keys(&signature, clock).await.map_err(|NoKeys| Denied::NoKeys)?,
        };
        let Signature { key, algorithm } = signature;
        let key = keys.find(key.as_deref(), algorithm).ok_or(Denied::Jwt(JwtProblem::UnknownKey))?;
        jwt::tenant(token, (key, algorithm), &self.expected, clock.now()).map_err(Denied::Jwt)
    }
}

/// The token of the one header that has one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
