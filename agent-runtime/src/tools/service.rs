//! The service behind a tool: what its calls have in common, whatever protocol it speaks. IO.
//!
//! A call goes to the host of the configuration, to addresses that were checked, with headers of a mounted Secret. It
//! has a place among those under way, a limit on its time, and where that does no harm it is repeated.

mod breaker;
mod gate;

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, header::HeaderMap};
use slipway_runtime_config::{AllowedNetworks, CircuitBreaker, NetworkError};
use tokio::time::Instant;

use crate::outbound::{
    AuthoritiesError, Clients, ForbiddenHost, Guard, HeadersError, Lookup, forbidden, pause, read_headers,
};

pub(super) use self::breaker::Health;
use self::gate::{Closed, Gate};

/// Why a service could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum PrepareServiceError {
    /// An entry of the networks cannot be read.
    #[error("allowedNetworks cannot be used")]
    Networks(#[source] NetworkError),
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

/// Why a service gave no answer. Written for the model, which reads it as an observation; addresses and headers are
/// left out of it.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The headers of the mounted Secret cannot be used.
    #[error("the tool's credentials cannot be read")]
    Headers(#[source] HeadersError),
    /// The mounted certificates cannot be used.
    #[error("the tool's certificate authorities cannot be used")]
    Authorities(#[source] AuthoritiesError),
    /// Its name leads to an address that tools must not call.
    #[error("the service is at an address that must not be called")]
    Forbidden(#[source] ForbiddenHost),
    /// No connection, or it broke.
    #[error("the service cannot be reached")]
    Connect(#[source] reqwest::Error),
    /// No complete answer in time.
    #[error("no answer within {milliseconds} ms")]
    Timeout {
        /// The time given to one attempt.
        milliseconds: u64,
    },
    /// A body beyond the limit.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// As many calls as allowed are under way, and none ended in time.
    #[error("too many calls of the tool are under way; none ended within {milliseconds} ms")]
    Busy {
        /// The time that it waited.
        milliseconds: u64,
    },
    /// It is left alone after failures.
    #[error("the service keeps failing; it is not called for another {seconds} s")]
    Resting {
        /// For how long, rounded up.
        seconds: u64,
    },
}

impl ServiceError {
    /// A bounded label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Headers(_) => "credentials",
            Self::Authorities(_) => "certificates",
            Self::Forbidden(_) => "address",
            Self::Connect(_) => "connect",
            Self::Timeout { .. } => "timeout",
            Self::TooLong { .. } => "answer",
            Self::Busy { .. } => "busy",
            Self::Resting { .. } => "circuit_open",
        }
    }
}

/// Failures of calls, as far as a service's limits depend on them.
pub(super) trait Failure: std::error::Error + From<ServiceError> {
    /// What the call says of the service.
    fn health(&self) -> Health;

    /// Whether a second attempt may succeed.
    fn is_transient(&self) -> bool;

    /// When the service wants to be asked again, if it says so.
    fn retry_after(&self) -> Option<Duration>;
}

impl Failure for ServiceError {
    fn health(&self) -> Health {
        match self {
            Self::Connect(_) | Self::Timeout { .. } => Health::Failed,
            Self::TooLong { .. } => Health::Good,
            Self::Headers(_) | Self::Authorities(_) | Self::Forbidden(_) | Self::Busy { .. } | Self::Resting { .. } => {
                Health::Unknown
            }
        }
    }

    fn is_transient(&self) -> bool {
        self.health() == Health::Failed
    }

    fn retry_after(&self) -> Option<Duration> {
        None
    }
}

/// What a status other than 2xx says of a service.
pub(super) fn health_of(status: u16) -> Health {
    if matches!(status, 502..=504) { Health::Failed } else { Health::Good }
}

/// What a refusal says of when to come back, in words that follow its status.
pub(super) fn shown_pause(retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(pause) if !pause.is_zero() => {
            format!("; the service wants to be called again in {} s", pause.as_millis().div_ceil(1_000))
        }
        Some(_) | None => String::new(),
    }
}

/// Whether another attempt may have another status.
pub(super) fn is_transient_status(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

/// What the configuration says of a service.
pub(super) struct Settings<'a> {
    /// The socket that it is at, if it is in the pod.
    pub(super) socket: Option<&'a str>,
    pub(super) headers_from: Option<&'a str>,
    pub(super) authorities_from: Option<&'a str>,
    pub(super) allowed_networks: &'a [String],
    pub(super) max_in_flight: Option<u32>,
    pub(super) circuit_breaker: Option<CircuitBreaker>,
    pub(super) timeout_milliseconds: u64,
    pub(super) lookup: &'a Lookup,
}

/// A service, ready to be called.
#[derive(Debug)]
pub(super) struct Service {
    clients: Clients,
    headers_from: Option<String>,
    timeout_milliseconds: u64,
    gate: Gate,
}

impl Service {
    pub(super) fn new(settings: Settings<'_>) -> Result<Self, PrepareServiceError> {
        let Settings {
            socket,
            headers_from,
            authorities_from,
            allowed_networks,
            max_in_flight,
            circuit_breaker,
            timeout_milliseconds,
            lookup,
        } = settings;
        let allowed = AllowedNetworks::parse(allowed_networks).map_err(PrepareServiceError::Networks)?;
        let clients = match socket {
            Some(socket) => Clients::at(socket),
            None => Clients::new(authorities_from, Some(Guard::new(lookup.clone(), allowed))),
        };
        Ok(Self {
            clients: clients.map_err(PrepareServiceError::Client)?,
            headers_from: headers_from.map(str::to_owned),
            timeout_milliseconds,
            gate: Gate::new(max_in_flight, circuit_breaker),
        })
    }

    /// The client of the certificates as they are now.
    pub(super) async fn client(&self) -> Result<Client, ServiceError> {
        self.clients.get().await.map_err(ServiceError::Authorities)
    }

    /// The headers of the Secret as it is now.
    pub(super) async fn headers(&self) -> Result<HeaderMap, ServiceError> {
        match &self.headers_from {
            Some(directory) => read_headers(directory).await.map_err(ServiceError::Headers),
            None => Ok(HeaderMap::new()),
        }
    }

    /// A number that nobody can tell before.
    pub(super) fn dice(&self) -> u64 {
        self.gate.dice()
    }

    /// How long one attempt may take.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_milliseconds)
    }

    /// Makes one attempt: within its time, in its place, and counted.
    pub(super) async fn attempt<T, E: Failure>(&self, exchange: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let pass = self.gate.enter(self.timeout()).await.map_err(|closed| self.not_let_through(&closed))?;
        let timed_out = |_| ServiceError::Timeout { milliseconds: self.timeout_milliseconds };
        let outcome = tokio::time::timeout(self.timeout(), exchange).await;
        let outcome = outcome.map_err(timed_out).map_err(E::from).and_then(|answer| answer);
        pass.end(outcome.as_ref().map_or_else(E::health, |_| Health::Good));
        outcome
    }

    /// Repeats attempts while that may help, with a pause between them: ours, or the longer one that the service asks
    /// for. One that is longer than an attempt may take, or than the run has left, is not waited for: the model may do
    /// something else meanwhile.
    pub(super) async fn repeat<T, E: Failure, A>(
        &self,
        attempts: u32,
        until: Option<Instant>,
        mut attempt: impl FnMut() -> A,
    ) -> Result<T, E>
    where
        A: Future<Output = Result<T, E>>,
    {
        let mut made = 1;
        loop {
            let error = match attempt().await {
                Err(error) if error.is_transient() && made < attempts => error,
                outcome => return outcome,
            };
            let ours = pause(made, self.gate.dice());
            let pause = ours.max(error.retry_after().unwrap_or_default());
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if pause > ours.max(self.timeout()) || pause >= left {
                return Err(error);
            }
            tracing::debug!(error = %error, attempt = made, "tool call is repeated");
            tokio::time::sleep(pause).await;
            made += 1;
        }
    }

    fn not_let_through(&self, closed: &Closed) -> ServiceError {
        match closed {
            Closed::Full => ServiceError::Busy { milliseconds: self.timeout_milliseconds },
            Closed::Resting { remaining } => {
                let seconds = u64::try_from(remaining.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX);
                ServiceError::Resting { seconds }
            }
        }
    }
}

/// Sends a request.
pub(super) async fn send(request: RequestBuilder) -> Result<Response, ServiceError> {
    request.send().await.map_err(broken)
}

/// Reads a whole body, up to a limit.
pub(super) async fn read(mut response: Response, limit: u64) -> Result<Vec<u8>, ServiceError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if !u64::try_from(body.len() + chunk.len()).is_ok_and(|length| length <= limit) {
            return Err(ServiceError::TooLong { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// What a broken connection is for the model.
pub(super) fn broken(error: reqwest::Error) -> ServiceError {
    forbidden(&error).map_or(ServiceError::Connect(error), ServiceError::Forbidden)
}
