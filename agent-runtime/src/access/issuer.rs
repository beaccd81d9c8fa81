//! The keys of an issuer, where they are fetched from an address. IO.
//!
//! They are fetched when a token needs them, and kept. A token with an unknown key has them fetched again, because the
//! issuer may have a new one. Whatever tokens are sent, [`PAUSE`] passes between two attempts.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use crate::{
    clock::{Clock, Timestamp},
    failure::with_causes,
    tools::{AuthoritiesError, Clients},
};

use super::{
    jwt::Signature,
    keys::{KeySet, KeySetError},
};

/// The shortest time between two attempts to fetch the keys.
pub const PAUSE: Duration = Duration::from_secs(30);
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
    /// The last attempt. Who holds it fetches; the others wait.
    tried: tokio::sync::Mutex<Option<Timestamp>>,
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
    pub(super) fn new(url: &str, authorities_from: Option<&str>) -> Result<Self, reqwest::Error> {
        Ok(Self {
            url: url.to_owned(),
            clients: Clients::new(authorities_from, None)?,
            kept: RwLock::new(None),
            tried: tokio::sync::Mutex::new(None),
        })
    }

    /// The keys by which a token of this signature is checked. Its own may not be among them.
    pub(super) async fn keys(&self, signature: &Signature, clock: &Clock) -> Result<Arc<KeySet>, NoKeys> {
        if let Some(keys) = self.known(signature, clock.now(), FRESH_FOR) {
            return Ok(keys);
        }
        // Keys that will do meanwhile are not waited for.
        let tried = match self.tried.try_lock() {
            Ok(tried) => Some(tried),
            Err(_) if self.known(signature, clock.now(), USABLE_FOR).is_some() => None,
            Err(_) => Some(self.tried.lock().await),
        };
        if let Some(mut tried) = tried {
            let is_due = tried.is_none_or(|at| at.plus(PAUSE) <= clock.now());
            // Somebody may have fetched them in the meantime.
            if is_due && self.known(signature, clock.now(), FRESH_FOR).is_none() {
                *tried = Some(clock.now());
                self.refresh(clock.now()).await;
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

    async fn refresh(&self, now: Timestamp) {
        let fetched = tokio::time::timeout(TIMEOUT, self.fetch()).await.unwrap_or(Err(FetchKeysError::Timeout));
        match fetched {
            Ok(keys) => {
                tracing::info!(url = self.url, ?keys, "keys of the issuer fetched");
                let kept = Kept { keys: Arc::new(keys), at: now };
                *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
            }
            Err(error) => tracing::warn!(url = self.url, error = with_causes(&error), "keys stay as they were"),
        }
    }

    async fn fetch(&self) -> Result<KeySet, FetchKeysError> {
        let client = self.clients.get().await.map_err(FetchKeysError::Authorities)?;
        let mut response = client.get(&self.url).send().await.map_err(FetchKeysError::Request)?;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(FetchKeysError::Status { status });
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
