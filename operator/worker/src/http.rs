//! The HTTP client of all verbs: own certificate roots, bounded waits, retries, a token that is never written.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::{Certificate, Client, RequestBuilder, Response, StatusCode, header};
use slipway_worker_contract::FailureClass;

use crate::failure::Classify;

/// How often and how patiently a request is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Tries in all.
    pub attempts: u32,
    /// Wait before the second try; doubled before each further one.
    pub first_wait: Duration,
}

impl Default for Retry {
    /// Five tries over 15 seconds bridge a rolling restart of a server; longer outages are the Job's own retries.
    fn default() -> Self {
        Self { attempts: 5, first_wait: Duration::from_secs(1) }
    }
}

/// Longest wait that a server's `Retry-After` is granted: a Job holds its node, and has attempts of its own.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

/// A bearer token. It has no `Display`, and its `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

impl Token {
    /// Reads a token from a mounted secret; without a file there is no token.
    ///
    /// # Errors
    /// [`HttpError::Token`] if there is a file that cannot be used.
    pub fn read(path: &Path) -> Result<Option<Self>, HttpError> {
        let failed = |source| HttpError::Token { path: path.to_owned(), source };
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
            Ok(text) if text.trim().is_empty() => Err(failed(io::Error::other("the file is empty"))),
            Ok(text) => Ok(Some(Self(text.trim().to_owned()))),
        }
    }
}

/// Says why nothing came from a server. URLs are written without their query, which may hold a signature.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The client cannot be made.
    #[error("failed to make the HTTP client")]
    Client(#[source] reqwest::Error),
    /// A file with certificates cannot be used.
    #[error("failed to read certificates from {} (SSL_CERT_FILE)", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The token's file cannot be used.
    #[error("failed to read the token from {}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No answer.
    #[error("no answer from {url} in {attempts} attempts")]
    Send {
        /// The URL.
        url: String,
        /// Tries.
        attempts: u32,
        /// What went wrong last.
        #[source]
        source: reqwest::Error,
    },
    /// The server does not let us in.
    #[error(
        "{url} answered {status}{reason}: put a token that may read it into the secret of model.secretRef, key token"
    )]
    Denied {
        /// The URL.
        url: String,
        /// 401 or 403.
        status: StatusCode,
        /// The server's words, if any.
        reason: String,
    },
    /// It is not there.
    #[error("{url} answered {status}{reason}: check the model URI and its revision")]
    NotFound {
        /// The URL.
        url: String,
        /// 404 or 410.
        status: StatusCode,
        /// The server's words, if any.
        reason: String,
    },
    /// Another status.
    #[error("{url} answered {status}{reason}")]
    Status {
        /// The URL.
        url: String,
        /// The status.
        status: StatusCode,
        /// The server's words, if any.
        reason: String,
    },
    /// The body broke off.
    #[error("the answer of {url} broke off")]
    Body {
        /// The URL.
        url: String,
        /// What went wrong.
        #[source]
        source: reqwest::Error,
    },
}

impl Classify for HttpError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Denied { .. } | Self::NotFound { .. } => FailureClass::BadModel,
            Self::Client(_)
            | Self::Certificates { .. }
            | Self::Token { .. }
            | Self::Send { .. }
            | Self::Status { .. }
            | Self::Body { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Makes a client that trusts the bundled roots and, if given, the certificates in a PEM file.
///
/// # Errors
/// [`HttpError::Certificates`] or [`HttpError::Client`].
pub fn client(extra_certificates: Option<&Path>) -> Result<Client, HttpError> {
    let mut roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS
        .iter()
        .map(|der| Certificate::from_der(der))
        .collect::<Result<Vec<_>, _>>()
        .map_err(HttpError::Client)?;
    if let Some(path) = extra_certificates {
        let failed = |source| HttpError::Certificates { path: path.to_owned(), source };
        let pem = std::fs::read(path).map_err(|e| failed(e.into()))?;
        roots.extend(Certificate::from_pem_bundle(&pem).map_err(|e| failed(e.into()))?);
    }
    Client::builder()
        .tls_certs_only(roots)
        .user_agent(concat!("slipway-worker/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(Duration::from_secs(60))
        .build()
        .map_err(HttpError::Client)
}

/// Makes a client for servers of the same pod: no proxy, no TLS, and patience for a model that loads.
///
/// # Errors
/// [`HttpError::Client`].
pub fn local_client() -> Result<Client, HttpError> {
    const LOAD: Duration = Duration::from_secs(3_600);
    let builder = Client::builder().tls_certs_only([]).no_proxy().connect_timeout(Duration::from_secs(5));
    builder.timeout(LOAD).build().map_err(HttpError::Client)
}

/// Sends GET requests with retries and the token.
#[derive(Clone, Debug)]
pub struct Fetcher {
    /// The connections.
    pub client: Client,
    /// Sent as bearer token; reqwest drops it when redirected to another host.
    pub token: Option<Token>,
    /// Patience.
    pub retry: Retry,
}

impl Fetcher {
    /// Gets `url` from byte `start` on.
    ///
    /// The answer may be whole (200) although a range was asked for: the caller looks at the status.
    ///
    /// # Errors
    /// [`HttpError`] once all tries failed, or at once for a status that will not change.
    pub async fn get(&self, url: &str, start: u64) -> Result<Response, HttpError> {
        let mut wait = self.retry.first_wait;
        for attempt in 1.. {
            let result = self.request(url, start).send().await;
            let last = attempt >= self.retry.attempts;
            match result {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) if last || !is_transient(response.status()) => return Err(refusal(url, &response)),
                Err(source) if last => {
                    return Err(HttpError::Send {
                        url: without_query(url),
                        attempts: attempt,
                        source: source.without_url(),
                    });
                }
                Ok(response) => tokio::time::sleep(wait.max(asked_wait(&response))).await,
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait *= 2;
        }
        unreachable!("the last attempt returns")
    }

    /// Gets at most `limit` first bytes.
    ///
    /// # Errors
    /// As [`Fetcher::get`].
    pub async fn prefix(&self, url: &str, limit: usize) -> Result<Vec<u8>, HttpError> {
        let mut response = self.get(url, 0).await?;
        let mut bytes = Vec::new();
        while bytes.len() < limit {
            match response.chunk().await.map_err(|source| body_error(url, source))? {
                Some(chunk) => bytes.extend_from_slice(&chunk),
                None => break,
            }
        }
        bytes.truncate(limit);
        Ok(bytes)
    }

    fn request(&self, url: &str, start: u64) -> RequestBuilder {
        let mut request = self.client.get(url);
        if let Some(Token(token)) = &self.token {
            request = request.bearer_auth(token);
        }
        if start > 0 {
            request = request.header(header::RANGE, format!("bytes={start}-"));
        }
        request
    }
}

/// Makes the error for a body that broke off.
pub fn body_error(url: &str, source: reqwest::Error) -> HttpError {
    HttpError::Body { url: without_query(url), source: source.without_url() }
}

fn refusal(url: &str, response: &Response) -> HttpError {
    let (url, status) = (without_query(url), response.status());
    // The hub says in this header what its pages say in prose: GatedRepo, RevisionNotFound ...
    let words =
        ["x-error-message", "x-error-code"].iter().find_map(|name| response.headers().get(*name)?.to_str().ok());
    let reason = words.map(|words| format!(" ({words})")).unwrap_or_default();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => HttpError::Denied { url, status, reason },
        StatusCode::NOT_FOUND | StatusCode::GONE => HttpError::NotFound { url, status, reason },
        _ => HttpError::Status { url, status, reason },
    }
}

/// How long a busy server asks to be left alone: the seconds of `Retry-After` (RFC 9110, section 10.2.3), within
/// [`LONGEST_ASKED`]. A date counts as nothing asked.
fn asked_wait(response: &Response) -> Duration {
    let is_busy = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let value = response.headers().get(header::RETRY_AFTER).filter(|_| is_busy);
    value.and_then(|value| value.to_str().ok()).map(seconds).unwrap_or_default()
}

fn seconds(retry_after: &str) -> Duration {
    let asked = retry_after.trim().parse::<u32>().unwrap_or(0);
    Duration::from_secs(u64::from(asked)).min(LONGEST_ASKED)
}

fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_left_alone_for_as_long_as_it_asks_within_bounds() {
        let cases = [("7", 7), (" 90 ", 90), ("86400", 120), ("0", 0), ("-1", 0), ("soon", 0)];
        for (header, wait) in cases {
            assert_eq!(seconds(header), Duration::from_secs(wait), "{header:?}");
        }
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Duration::ZERO);
    }
}
