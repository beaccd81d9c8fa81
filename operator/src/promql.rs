//! Asks Prometheus. Reads IO.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use prometheus_http_query::{Client, Error};
use reqwest::header::{AUTHORIZATION, HeaderValue, InvalidHeaderValue};
use slipway_operator_core::settings::PrometheusSettings;
use slipway_vocabulary::failure::chain;
use thiserror::Error;

use crate::{
    notifications::credentials::{self, CredentialError},
    outgoing::{self, OutgoingError},
};

/// How long an answer may take. A reconciliation waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a Prometheus that did not answer is left alone: otherwise every reconciliation of every agent would wait
/// for it.
const LEFT_ALONE: Duration = Duration::from_secs(60);

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
    /// It did not answer, or refused.
    #[error("failed to ask Prometheus")]
    Query(#[source] Error),
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

/// The Prometheus of the operator's configuration.
#[derive(Clone)]
pub struct Prometheus {
    client: Client,
    token_file: Option<PathBuf>,
    /// When it failed last and how, unless it has answered since. Shared by all who ask.
    failed: Arc<Mutex<Option<(Instant, String)>>>,
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
        Ok(Some(Self { client, token_file, failed: Arc::default() }))
    }

    /// The series that an expression has now.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn ask(&self, expression: &str) -> Result<Vec<Series>, AskError> {
        self.ask_at(expression, Instant::now()).await
    }

    /// The same at this time of a monotonic clock. Within a minute of a question that had no answer nothing is sent.
    ///
    /// # Errors
    /// See [`AskError`].
    pub async fn ask_at(&self, expression: &str, now: Instant) -> Result<Vec<Series>, AskError> {
        if let Some(problem) = self.failure_before(now) {
            return Err(AskError::LeftAlone { problem });
        }
        let answer = self.answer(expression).await;
        let failure = answer.as_ref().err().filter(|error| is_silence(error)).map(|error| (now, chain(error)));
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        answer
    }

    fn failure_before(&self, now: Instant) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, problem) = failed.as_ref()?;
        (now.saturating_duration_since(*at) < LEFT_ALONE).then(|| problem.clone())
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
        let answer = tokio::time::timeout(PATIENCE, query.post()).await.map_err(|_| AskError::Timeout)?;
        let (data, _) = answer.map_err(AskError::Query)?.into_inner();
        let kind = if data.is_matrix() { "matrix" } else { "scalar" };
        let vector = data.into_vector().map_err(|_| AskError::Kind { kind })?;
        let series = vector.into_iter().map(|series| {
            let (labels, sample) = series.into_inner();
            Series { labels, value: sample.value() }
        });
        Ok(series.collect())
    }
}

/// Whether nobody answered, rather than refused this question.
fn is_silence(error: &AskError) -> bool {
    match error {
        AskError::Timeout | AskError::Query(Error::Client(_)) => true,
        AskError::Query(_)
        | AskError::Token(_)
        | AskError::Header(_)
        | AskError::LeftAlone { .. }
        | AskError::Kind { .. } => false,
    }
}
