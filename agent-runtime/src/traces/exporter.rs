//! Delivers the spans of runs that have ended to a receiver of OTLP over HTTP. IO.
//!
//! <https://opentelemetry.io/docs/specs/otlp/#otlphttp>. Spans go in batches, one after the other. A batch that cannot
//! be delivered now is sent again, with longer and longer pauses; meanwhile others wait, as many as there is room for.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::Bytes;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use slipway_runtime_config::{AllowedNetworks, NetworkError, Tracing};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    failure::with_causes,
    outbound::{
        AuthoritiesError, Clients, ForbiddenHost, Guard, HeadersError, Lookup, forbidden, read_headers, retry_after,
    },
    telemetry::{DropReason, SpanMetrics},
};

use super::{
    Draw, Ended, Traces,
    otlp::{self, ExportAnswer, PartialSuccess, Resource},
    spans::{Asked, Span, Subject},
};

/// Spans of a batch, after which it is sent.
const BATCH_SPANS: usize = 512;
/// How long a batch waits for more.
const BATCH_TIME: Duration = Duration::from_secs(2);
/// How often a batch is sent. With the pauses between, a receiver may be away for a quarter of a minute.
const ATTEMPTS: u32 = 5;
/// The first pause; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, whatever the receiver asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long a receiver may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More than an answer that says what was not taken.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// The receiver of traces cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum SetUpTracesError {
    /// An entry of the networks cannot be read.
    #[error("tracing: allowedNetworks cannot be used")]
    Networks(#[source] NetworkError),
    /// The HTTP client could not be built.
    #[error("tracing: the client of the receiver cannot be set up")]
    Client(#[source] reqwest::Error),
}

/// Why a batch was not delivered.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("the headers for the receiver cannot be read")]
    Headers(#[source] HeadersError),
    #[error("the certificate authorities of the receiver cannot be used")]
    Authorities(#[source] AuthoritiesError),
    #[error("the receiver is at an address that must not be called")]
    Forbidden(#[source] ForbiddenHost),
    #[error("the receiver cannot be reached")]
    Connect(#[source] reqwest::Error),
    #[error("the receiver did not answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    #[error("the receiver answered with HTTP status {status}")]
    Status { status: u16, retry_after: Option<Duration> },
}

/// Makes spans of runs that have ended, and posts them.
#[derive(Debug)]
pub struct Exporter {
    subject: Subject,
    resource: Resource,
    url: String,
    clients: Clients,
    headers_from: Option<String>,
    ended: mpsc::Receiver<Ended>,
    counts: SpanMetrics,
    dice: RandomState,
}

impl ExportError {
    /// Whether another attempt may succeed.
    fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Timeout => true,
            // As OTLP has it.
            Self::Status { status, .. } => matches!(status, 429 | 502..=504),
            Self::Headers(_) | Self::Authorities(_) | Self::Forbidden(_) => false,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Headers(_) | Self::Authorities(_) | Self::Forbidden(_) | Self::Connect(_) | Self::Timeout => None,
        }
    }
}

impl Traces {
    /// Sets traces up, and what delivers them. Nothing is sent yet.
    ///
    /// # Errors
    /// [`SetUpTracesError`].
    pub fn of(
        config: &Tracing,
        (subject, pod): (Subject, &str),
        counts: SpanMetrics,
        draw: Draw,
    ) -> Result<(Arc<Self>, Exporter), SetUpTracesError> {
        let Tracing { endpoint, namespace, sampled_per_million, headers_from, authorities_from, allowed_networks } =
            config;
        let allowed = AllowedNetworks::parse(allowed_networks).map_err(SetUpTracesError::Networks)?;
        let guard = Guard::new(Lookup::of_system(), allowed);
        let clients = Clients::new(authorities_from.as_deref(), Some(guard)).map_err(SetUpTracesError::Client)?;
        let (traces, ended) = Self::new(draw, *sampled_per_million, counts.clone());
        let exporter = Exporter {
            resource: resource(&subject, pod, namespace.as_deref()),
            subject,
            url: format!("{}/v1/traces", endpoint.trim_end_matches('/')),
            clients,
            headers_from: headers_from.clone(),
            ended,
            counts,
            dice: RandomState::new(),
        };
        Ok((Arc::new(traces), exporter))
    }
}

/// The pod, as the conventions name it.
fn resource(subject: &Subject, pod: &str, namespace: Option<&str>) -> Resource {
    let of_namespace = namespace.into_iter().flat_map(|namespace| {
        [otlp::text("service.namespace", namespace), otlp::text("k8s.namespace.name", namespace)]
    });
    let always = [
        otlp::text("service.name", &subject.agent),
        otlp::text("service.version", &subject.revision),
        otlp::text("service.instance.id", pod),
        otlp::text("k8s.pod.name", pod),
    ];
    Resource { attributes: always.into_iter().chain(of_namespace).collect() }
}

impl Exporter {
    /// Delivers spans until `stop`, and then those that wait.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let spans = self.gather(&stop).await;
            if spans.is_empty() {
                return;
            }
            self.deliver(spans, &stop).await;
        }
    }

    /// Waits for spans, and a while for more; none come after the end.
    async fn gather(&mut self, stop: &CancellationToken) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut until = std::pin::pin!(tokio::time::sleep(BATCH_TIME));
        while spans.len() < BATCH_SPANS {
            tokio::select! {
                biased;
                ended = self.ended.recv() => match ended {
                    Some(ended) => {
                        if spans.is_empty() {
                            until.as_mut().reset(tokio::time::Instant::now() + BATCH_TIME);
                        }
                        spans.extend(self.spans(ended));
                    }
                    None => break,
                },
                () = stop.cancelled() => break,
                () = &mut until, if !spans.is_empty() => break,
            }
        }
        spans
    }

    fn spans(&self, ended: Ended) -> Vec<Span> {
        let Ended { trail, id, tenant, at, ending, _room } = ended;
        trail.spans(&self.subject, Asked { id: &id, tenant: tenant.as_deref(), at }, ending)
    }

    async fn deliver(&self, spans: Vec<Span>, stop: &CancellationToken) {
        let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
        let body = Bytes::from(otlp::request(&self.resource, spans).encode_to_vec());
        let mut made = 1;
        loop {
            // An attempt that began before the end has one more after it.
            let is_last = made >= ATTEMPTS || stop.is_cancelled();
            let posted = tokio::time::timeout(TIMEOUT, self.post(body.clone())).await;
            match posted.unwrap_or(Err(ExportError::Timeout)) {
                Ok(PartialSuccess { rejected_spans, error_message }) => {
                    let rejected = u64::try_from(rejected_spans).unwrap_or(0).min(count);
                    if rejected > 0 || !error_message.is_empty() {
                        tracing::warn!(rejected, words = error_message, "the receiver of traces complains");
                    }
                    self.counts.exported(count - rejected);
                    return self.counts.dropped(DropReason::Rejected, rejected);
                }
                Err(error) if error.is_transient() && !is_last => {
                    tracing::debug!(error = with_causes(&error), attempt = made, "spans are sent again");
                    let dice = self.dice.hash_one(Instant::now());
                    let pause = pause(made, dice).max(error.retry_after().unwrap_or_default()).min(LONGEST_PAUSE);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => {}
                    }
                    made += 1;
                }
                Err(error) => {
                    tracing::warn!(error = with_causes(&error), url = self.url, spans = count, "spans are dropped");
                    return self.counts.dropped(DropReason::Failed, count);
                }
            }
        }
    }

    /// Posts a batch, and gives what of it was not taken.
    async fn post(&self, body: Bytes) -> Result<PartialSuccess, ExportError> {
        let client = self.clients.get().await.map_err(ExportError::Authorities)?;
        let mut request = client.post(&self.url).body(body);
        if let Some(folder) = &self.headers_from {
            request = request.headers(read_headers(folder).await.map_err(ExportError::Headers)?);
        }
        let broken = |error| forbidden(&error).map_or(ExportError::Connect(error), ExportError::Forbidden);
        let mut response = request.header(CONTENT_TYPE, PROTOBUF).send().await.map_err(broken)?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            let retry_after = retry_after::read(response.headers(), jiff::Timestamp::now());
            return Err(ExportError::Status { status, retry_after });
        }
        // The batch was taken, whatever becomes of the answer.
        let mut answer = Vec::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            if answer.len() + chunk.len() > MAX_ANSWER_BYTES {
                return Ok(PartialSuccess::default());
            }
            answer.extend_from_slice(&chunk);
        }
        Ok(ExportAnswer::decode(answer.as_slice()).ok().and_then(|answer| answer.partial_success).unwrap_or_default())
    }
}

/// The pause after so many attempts: it doubles, and up to half of it is left to the dice, so that pods do not come
/// back together.
fn pause(attempts: u32, dice: u64) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(attempts)).min(LONGEST_PAUSE);
    let half = u64::try_from(longest.as_micros() / 2).unwrap_or(u64::MAX);
    Duration::from_micros(half + dice % (half + 1))
}
