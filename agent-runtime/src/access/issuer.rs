//! The keys of an issuer, where they are fetched from an address. IO.
//!
//! They are fetched when a token needs them, and kept. A token with an unknown key has them fetched again, because the
//! issuer may have a new one. Whatever tokens are sent, [`PAUSE`] passes between two attempts, and more where the
//! issuer asks for it. The address is where a tool's service may be: those who run the zone of a name decide where it
//! leads, and these keys decide who is let in.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use crate::{
    clock::{Clock, Timestamp},
    failure::with_causes,
    outbound::{AuthoritiesError, Clients, ForbiddenHost, Guard, forbidden, retry_after},
};

use super::{
    jwt::Signature,
    keys::{KeySet, KeySetError},
};

/// The shortest time between two attempts to fetch the keys.
pub const PAUSE: Duration = Duration::from_secs(30);
/// The longest pause that an issuer may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// How old keys may be before they are fetched again, so that a withdrawn one is trusted no longer.
pub const FRESH_FOR: Duration = Duration::from_secs(5 * 60);
/// How old keys may be while the issuer gives no new ones.
pub const USABLE_FOR: Duration = Duration::from_secs(60 * 60);
/// An issuer that is there answers within this time.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A hundred keys with their certificates fit.
const MAX_BYTES: usize = 1024 * 1024;

/// Fetches the keys of an issuer, and keeps them.
#[derive(Debug)]
pub(super) struct Issuer {
    url: String,
    clients: Clients,
    kept: RwLock<Option<Kept>>,
    /// When the next attempt may be made. Who holds it fetches; the others wait.
    due: tokio::sync::Mutex<Timestamp>,
}

#[derive(Clone, Debug)]
struct Kept {
    keys: Arc<KeySet>,
    at: Timestamp,
}

/// Why an issuer's keys could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchKeysError {
    /// The mounted certificates cannot be used.
    #[error("the certificate authorities of the issuer cannot be used")]
    Authorities(#[source] AuthoritiesError),
    /// The name of its host leads to an address that must not be called.
    #[error("the host of the keys is at an address that must not be called")]
    Forbidden(#[source] ForbiddenHost),
    /// No connection, or it broke.
    #[error("the keys cannot be fetched")]
    Request(#[source] reqwest::Error),
    /// No complete answer in time.
    #[error("the keys did not come within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// Another status than 200.
    #[error("the address of the keys answered with HTTP status {status}; it must be that of a JSON Web Key Set")]
    Status {
        /// The status code.
        status: u16,
        /// When the issuer wants to be asked again, if it says so.
        retry_after: Option<Duration>,
    },
    /// A body beyond the limit.
    #[error("the keys are longer than {MAX_BYTES} bytes; check the address")]
    TooLong,
    /// The body is not a JSON Web Key Set.
    #[error("the answer cannot be used")]
    Unusable(#[source] KeySetError),
}

/// There are no keys now that a token could be checked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoKeys;

impl Issuer {
    pub(super) fn new(url: &str, authorities_from: Option<&str>, guard: Guard) -> Result<Self, reqwest::Error> {
        Ok(Self {
            url: url.to_owned(),
            clients: Clients::new(authorities_from, Some(guard))?,
            kept: RwLock::new(None),
            due: tokio::sync::Mutex::default(),
        })
    }

    /// The keys by which a token of this signature is checked. Its own may not be among them.
    pub(super) async fn keys(&self, signature: &Signature, clock: &Clock) -> Result<Arc<KeySet>, NoKeys> {
        if let Some(keys) = self.known(signature, clock.now(), FRESH_FOR) {
            return Ok(keys);
        }
        // Keys that will do meanwhile are not waited for.
        let due = match self.due.try_lock() {
            Ok(due) => Some(due),
            Err(_) if self.known(signature, clock.now(), USABLE_FOR).is_some() => None,
            Err(_) => Some(self.due.lock().await),
        };
        if let Some(mut due) = due {
            // Somebody may have fetched them in the meantime.
            if *due <= clock.now() && self.known(signature, clock.now(), FRESH_FOR).is_none() {
                // A client that goes away ends the attempt, which counts even so.
                *due = clock.now().plus(PAUSE);
                let asked = self.refresh(clock.now()).await;
                *due = (*due).max(clock.now().plus(asked.min(LONGEST_PAUSE)));
            }
        }
        self.kept(clock.now(), USABLE_FOR).ok_or(NoKeys)
    }

    /// Keys that are young enough and have that of this signature.
    fn known(&self, signature: &Signature, now: Timestamp, usable_for: Duration) -> Option<Arc<KeySet>> {
        let keys = self.kept(now, usable_for)?;
        let has_key = keys.find(signature.key.as_deref(), signature.algorithm).is_some();
        has_key.then_some(keys)
    }

    fn kept(&self, now: Timestamp, usable_for: Duration) -> Option<Arc<KeySet>> {
        // No code panics while it holds the lock.
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|kept| kept.at.plus(usable_for) > now).map(|kept| Arc::clone(&kept.keys))
    }

    /// Fetches the keys, and gives how long the issuer wants to be left alone after that.
    async fn refresh(&self, now: Timestamp) -> Duration {
        let fetched = tokio::time::timeout(TIMEOUT, self.fetch()).await.unwrap_or(Err(FetchKeysError::Timeout));
        match fetched {
            Ok(keys) => {
                tracing::info!(url = self.url, ?keys, "keys of the issuer fetched");
                let kept = Kept { keys: Arc::new(keys), at: now };
                *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
                Duration::ZERO
            }
            Err(error) => {
                tracing::warn!(url = self.url, error = with_causes(&error), "keys stay as they were");
                match error {
                    FetchKeysError::Status { retry_after, .. } => retry_after.unwrap_or_default(),
                    FetchKeysError::Authorities(_)
                    | FetchKeysError::Forbidden(_)
                    | FetchKeysError::Request(_)
                    | FetchKeysError::Timeout
                    | FetchKeysError::TooLong
                    | FetchKeysError::Unusable(_) => Duration::ZERO,
                }
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchKeysError> {
        let client = self.clients.get().await.map_err(FetchKeysError::Authorities)?;
        let broken = |error| forbidden(&error).map_or(FetchKeysError::Request(error), FetchKeysError::Forbidden);
        let mut response = client.get(&self.url).send().await.map_err(broken)?;
        let status = response.status().as_u16();
        if status != 200 {
            let retry_after = retry_after::read(response.headers(), jiff::Timestamp::now());
            return Err(FetchKeysError::Status { status, retry_after });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(FetchKeysError::Request)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(FetchKeysError::TooLong);
            }
            body.extend_from_slice(&chunk);
        }
        KeySet::parse(&body).map_err(FetchKeysError::Unusable)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use slipway_runtime_config::AllowedNetworks;

    use super::*;
    use crate::outbound::Lookup;

    /// How a fetch fails from a host that has this address, at a port where nobody listens.
    async fn fetched(address: &str, allowed: &[&str]) -> String {
        let address: IpAddr = address.parse().unwrap();
        let allowed: Vec<_> = allowed.iter().map(|network| (*network).to_owned()).collect();
        let guard = Guard::new(Lookup::of(move |_| vec![address]), AllowedNetworks::parse(&allowed).unwrap());
        let issuer = Issuer::new("https://keys.example:1/jwks", None, guard).unwrap();
        issuer.fetch().await.expect_err("nobody is there").to_string()
    }

    #[rstest]
    #[case::the_pod("127.0.0.1", &[])]
    #[case::metadata("169.254.169.254", &[])]
    #[case::outside_the_listed_networks("127.0.0.1", &["10.0.0.0/8"])]
    #[tokio::test]
    async fn keys_are_not_fetched_from_where_no_service_is(#[case] address: &str, #[case] allowed: &[&str]) {
        let expected = "the host of the keys is at an address that must not be called";
        assert_eq!(fetched(address, allowed).await, expected);
    }

    #[tokio::test]
    async fn keys_are_fetched_from_a_listed_network() {
        assert_eq!(fetched("127.0.0.1", &["127.0.0.0/8"]).await, "the keys cannot be fetched");
    }
}
