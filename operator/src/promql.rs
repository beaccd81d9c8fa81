//! Asks Prometheus. Reads IO.

mod breaker;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use prometheus_http_query::{Client, Error, response::Data};
use reqwest::header::{AUTHORIZATION, HeaderValue, InvalidHeaderValue};
use serde::Deserialize;
use slipway_operator_core::settings::PrometheusSettings;
use slipway_vocabulary::failure::chain;
use thiserror::Error;

use self::breaker::{Breaker, LEFT_ALONE, Silence};
use crate::{
    bounded_body::{self, BodyError},
    credentials::{self, CredentialError},
    outgoing::{self, OutgoingError},
};

/// How long an answer may take. A reconciliation waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest answer that is read: some thousand series, where one or a few are asked for.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Why Prometheus cannot be asked at all.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// There is no HTTP client.
    #[error("failed to make the HTTP client for Prometheus")]
    Client(#[source] OutgoingError),
    /// Its address cannot be used.
    #[error("failed to use prometheus.url")]
    Url(#[source] Error),
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// The token cannot be read.
    #[error("failed to read prometheus.tokenFile")]
    Token(#[source] CredentialError),
    /// The token cannot be sent.
    #[error("prometheus.tokenFile has characters that a header cannot hold")]
    Header(#[source] InvalidHeaderValue),
    /// It did not answer.
    #[error("failed to ask Prometheus")]
    Query(#[source] Error),
    /// It refused the question.
    #[error("failed to ask Prometheus: {kind}: {message}")]
    Refused {
        /// Its word for the reason.
        kind: String,
        /// The reason.
        message: String,
    },
    /// Its answer is too long, or broke off.
    #[error("failed to read the answer of Prometheus")]
    Body(#[source] BodyError),
    /// Somebody else answered in its place.
    #[error("what answers as Prometheus does not speak its language: status {status}")]
    Foreign {
        /// The status of the answer.
        status: u16,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// It took too long.
    #[error("Prometheus did not answer within {} s", PATIENCE.as_secs())]
    Timeout,
    /// It did not answer a little before.
    #[error("{problem}; the operator queries Prometheus again {} s after that", LEFT_ALONE.as_secs())]
    LeftAlone {
        /// What went wrong then.
        problem: String,
    },
    /// It answered with something else than series.
    #[error("Prometheus answered with a {kind} instead of a vector")]
    Kind {
        /// What it answered with.
        kind: &'static str,
    },
}

/// One series of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its labels.
    pub labels: HashMap<String, String>,
    /// Its value at the time of the question.
    pub value: f64,
}

/// An answer, as its API puts it (<https://prometheus.io/docs/prometheus/latest/querying/api/>).
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Answer {
    Success {
        data: Data,
    },
    Error {
        #[serde(rename = "errorType")]
        kind: String,
        #[serde(rename = "error")]
        message: String,
    },
}

/// The Prometheus of the operator's configuration.
#[derive(Clone)]
pub struct Prometheus {
    client: Client,
    token_file: Option<PathBuf>,
    /// Labels that hold the namespace of a metric.
    pub namespace_labels: Arc<[String]>,
    /// Whose questions had no answer a little before. Shared by all who ask.
    breaker: Arc<Mutex<Breaker>>,
}

impl Prometheus {
    /// The one that the configuration names; absent where it names none.
    ///
    /// # Errors
    /// When the certificates or the address cannot be used.
    pub fn connect(settings: &PrometheusSettings) -> Result<Option<Self>, ConnectError> {
        let Some(url) = &settings.url else { return Ok(None) };
        let ca_file = settings.ca_file.as_ref().map(|file| settings.path(file));
        let http = outgoing::client("prometheus.caFile", ca_file.as_deref()).map_err(ConnectError::Client)?;
        let client = Client::from(http, url).map_err(ConnectError::Url)?;
        let token_file = settings.token_file.as_ref().map(|file| settings.path(file));
        let namespace_labels = settings.namespace_labels.clone().into();
        Ok(Some(Self { client, token_file, namespace_labels, breaker: Arc::default() }))
    }

    /// The series that an expression has now. It is asked for an object of this namespace.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn ask(&self, namespace: &str, expression: &str) -> Result<Vec<Series>, AskError> {
        self.ask_at(namespace, expression, Instant::now()).await
    }

    /// The same at this time of a monotonic clock. Within a minute of a question of this namespace that had no answer
    /// nothing is sent for it, and for nobody where there was no connection.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn ask_at(&self, namespace: &str, expression: &str, now: Instant) -> Result<Vec<Series>, AskError> {
        if let Some(problem) = self.breaker().problem(namespace, now) {
            return Err(AskError::LeftAlone { problem });
        }
        let answer = self.answer(expression).await;
        match answer.as_ref().err().and_then(|error| Some((silence(error)?, chain(error)))) {
            Some((silence, problem)) => self.breaker().fail(silence, namespace, now, problem),
            None => self.breaker().succeed(namespace),
        }
        answer
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, expression: &str) -> Result<Vec<Series>, AskError> {
        let mut query = self.client.query(expression).timeout(i64::try_from(PATIENCE.as_millis()).unwrap_or(i64::MAX));
        if let Some(file) = &self.token_file {
            let token = credentials::text(file).map_err(AskError::Token)?;
            let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(AskError::Header)?;
            header.set_sensitive(true);
            query = query.header(AUTHORIZATION, header);
        }
        // In a body: expressions over pods are long, and proxies bound the length of an address.
        let data = tokio::time::timeout(PATIENCE, data(query.post_raw())).await.map_err(|_| AskError::Timeout)??;
        let kind = if data.is_matrix() { "matrix" } else { "scalar" };
        let vector = data.into_vector().map_err(|_| AskError::Kind { kind })?;
        let series = vector.into_iter().map(|series| {
            let (labels, sample) = series.into_inner();
            Series { labels, value: sample.value() }
        });
        Ok(series.collect())
    }
}

/// Reads an answer no further than its bound.
async fn data(answer: impl Future<Output = Result<reqwest::Response, Error>>) -> Result<Data, AskError> {
    let answer = answer.await.map_err(AskError::Query)?;
    let status = answer.status().as_u16();
    let body = bounded_body::read(answer, MAX_ANSWER_BYTES).await.map_err(AskError::Body)?;
    match serde_json::from_slice(&body).map_err(|source| AskError::Foreign { status, source })? {
        Answer::Success { data } => Ok(data),
        Answer::Error { kind, message } => Err(AskError::Refused { kind, message }),
    }
}

/// Whose question had no answer, where nobody refused it.
fn silence(error: &AskError) -> Option<Silence> {
    match error {
        AskError::Query(Error::Client(client)) if is_unreachable(client) => Some(Silence::OfAll),
        AskError::Query(Error::Client(_)) | AskError::Timeout | AskError::Body(_) | AskError::Foreign { .. } => {
            Some(Silence::OfOne)
        }
        AskError::Query(_)
        | AskError::Refused { .. }
        | AskError::Token(_)
        | AskError::Header(_)
        | AskError::LeftAlone { .. }
        | AskError::Kind { .. } => None,
    }
}

/// Whether there was no connection: then the question has no part in it.
fn is_unreachable(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|cause| cause.downcast_ref::<reqwest::Error>()).any(reqwest::Error::is_connect)
}
