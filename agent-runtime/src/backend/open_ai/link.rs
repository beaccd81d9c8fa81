//! The way to a server of the OpenAI API: beside the sidecar, or an upstream elsewhere. IO.
//!
//! An upstream is reached over TLS by certificates of named authorities, at addresses that were checked, with a key
//! from a mounted Secret. It has a bounded number of requests in flight. A request is repeated only before its answer
//! has begun.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{Client, IntoUrl, Method, RequestBuilder, StatusCode, redirect};
use slipway_runtime_config::{AllowedNetworks, NetworkError, Upstream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    backend::{BackendError, EngineFault},
    outbound::{Clients, Guard, Lookup, Secrets, pause, read_headers, retry_after},
};

use super::{answer::Answer, near::CONNECT_TIMEOUT, words::Words};

/// Requests in flight at an upstream, where its configuration does not say.
const REQUESTS_AT_ONCE: u32 = 64;
/// The longest pause that is waited for. A run that would wait longer has failed sooner.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why there is no way.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// An entry of the networks cannot be read.
    #[error("triton.upstream.allowedNetworks cannot be used")]
    Networks(#[source] NetworkError),
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

/// The way to a server.
pub(super) enum Link {
    /// In the same pod: without certificates and keys, and runs are its only limit.
    Beside(Client),
    /// Elsewhere.
    Elsewhere {
        clients: Clients,
        headers_from: Option<String>,
        places: Arc<Semaphore>,
        attempts: u32,
        dice: RandomState,
    },
}

/// Why a request has no answer, and whether another attempt may have one.
pub(super) struct Refused {
    pub(super) error: BackendError,
    /// How long to wait at least before another attempt, if one may help.
    pub(super) again: Option<Duration>,
}

impl Refused {
    /// The server's words where the request is wrong for it, other than by its length.
    pub(super) fn of_request(&self) -> Option<&str> {
        match &self.error {
            BackendError::Engine { message, fault: EngineFault::Wish | EngineFault::Request(_) } => Some(message),
            _ => None,
        }
    }

    /// One that another attempt would not change.
    pub(super) fn finally(error: BackendError) -> Self {
        Self { error, again: None }
    }
}

impl Link {
    /// To a server of the same pod.
    pub(super) fn beside() -> Result<Self, LinkError> {
        let client = Client::builder()
            .tls_certs_only([])
            .no_proxy()
            .http1_only()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        client.build().map(Self::Beside).map_err(LinkError::Client)
    }

    /// To an upstream.
    pub(super) fn to(upstream: &Upstream, lookup: Lookup) -> Result<Self, LinkError> {
        let Upstream { headers_from, authorities_from, allowed_networks, max_in_flight, retries } = upstream;
        let allowed = AllowedNetworks::parse(allowed_networks).map_err(LinkError::Networks)?;
        let clients = Clients::new(authorities_from.as_deref(), Some(Guard::new(lookup, allowed)));
        let places = max_in_flight.unwrap_or(REQUESTS_AT_ONCE);
        Ok(Self::Elsewhere {
            clients: clients.map_err(LinkError::Client)?,
            headers_from: headers_from.clone(),
            places: Arc::new(Semaphore::new(usize::try_from(places).unwrap_or(Semaphore::MAX_PERMITS))),
            attempts: 1 + retries,
            dice: RandomState::new(),
        })
    }

    /// A request with the key of the Secret as it is now, and what is kept of words that answer it.
    pub(super) async fn request(
        &self,
        method: Method,
        url: impl IntoUrl,
    ) -> Result<(RequestBuilder, Words), BackendError> {
        match self {
            Self::Beside(client) => Ok((client.request(method, url), Words::All)),
            Self::Elsewhere { clients, headers_from, .. } => {
                let client = clients.get().await.map_err(BackendError::Authorities)?;
                let request = client.request(method, url);
                let Some(folder) = headers_from else { return Ok((request, Words::Without(Secrets::default()))) };
                let headers = read_headers(folder).await.map_err(BackendError::Headers)?;
                let words = Words::Without(Secrets::of(&headers));
                Ok((request.headers(headers), words))
            }
        }
    }

    /// Waits for a place among the requests in flight. It is free again when the permit is dropped.
    pub(super) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Beside(_) => None,
            // Never closed, so a place comes.
            Self::Elsewhere { places, .. } => Arc::clone(places).acquire_owned().await.ok(),
        }
    }

    /// Asks until there is an answer, or another attempt would not help.
    pub(super) async fn repeat<T, A>(&self, mut attempt: impl FnMut() -> A) -> Result<T, BackendError>
    where
        A: Future<Output = Result<T, Refused>>,
    {
        let mut made = 1;
        loop {
            let Refused { error, again } = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(refused) => refused,
            };
            let Some(pause) = again.and_then(|least| self.pause(made, least)) else { return Err(error) };
            tracing::info!(error = %error, attempt = made, "a request to the upstream is repeated");
            tokio::time::sleep(pause).await;
            made += 1;
        }
    }

    /// The pause before another attempt; nothing where none is made.
    fn pause(&self, made: u32, least: Duration) -> Option<Duration> {
        match self {
            Self::Beside(_) => None,
            Self::Elsewhere { attempts, dice, .. } => {
                let pause = pause(made, dice.hash_one(Instant::now())).max(least);
                (made < *attempts && pause <= LONGEST_PAUSE).then_some(pause)
            }
        }
    }

    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere { .. })
    }
}

/// What a status other than 2xx leaves to another attempt: a pause that is at least as long as the server asks for.
pub(super) fn again_after(response: &Answer) -> Option<Duration> {
    let is_transient = matches!(
        response.status(),
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let asked_for = retry_after::read(response.headers(), jiff::Timestamp::now());
    is_transient.then(|| asked_for.unwrap_or_default())
}
