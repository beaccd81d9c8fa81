//! HTTP tools. IO.
//!
//! The host comes from the configuration alone: arguments are percent-encoded into path or query, redirects are not
//! followed, and proxies of the environment are not used. So a model cannot be talked into calling another address.

mod clients;
mod mounted;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use reqwest::{
    Method, RequestBuilder, Response,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use slipway_runtime_config::{
    ExpandUrlError, HttpMethod, HttpTool as Config, ResultPick, Schema, UrlTemplate, UrlTemplateError,
};
use tokio::sync::Semaphore;

use self::mounted::File;
use super::arguments::{self, ArgumentError, Parameters};

pub(crate) use self::clients::Clients;
pub use self::{clients::AuthoritiesError, mounted::ReadMountedError};

/// The shortest pause before a second attempt: long enough for a restarting service's next endpoint, short beside a
/// model call.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before any attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Calls of one tool at once. A pod full of runs could make thousands; the others wait, within the time of their runs.
const CALLS_AT_ONCE: usize = 64;

/// Why a call of an HTTP tool gave no result. Written for the model, which reads it as an observation; addresses and
/// headers are left out of it.
#[derive(Debug, thiserror::Error)]
pub enum HttpToolError {
    /// The input does not fit the parameters.
    #[error("wrong arguments")]
    Arguments(#[source] ArgumentError),
    /// The arguments have no place in the address.
    #[error("wrong arguments")]
    Url(#[source] ExpandUrlError),
    /// The headers of the mounted Secret cannot be used.
    #[error("the tool's credentials cannot be read")]
    Headers(#[source] HeadersError),
    /// The mounted certificates cannot be used.
    #[error("the tool's certificate authorities cannot be used")]
    Authorities(#[source] AuthoritiesError),
    /// No connection, or it broke.
    #[error("the service cannot be reached")]
    Connect(#[source] reqwest::Error),
    /// No complete answer in time.
    #[error("no answer within {milliseconds} ms")]
    Timeout {
        /// The time given to one attempt.
        milliseconds: u64,
    },
    /// Another status than 2xx.
    #[error("HTTP status {status}")]
    Status {
        /// The status code.
        status: u16,
    },
    /// A body beyond the limit.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// The answer is not JSON, and a pointer is to be followed.
    #[error("the answer is not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The answer has nothing at the pointer.
    #[error("the answer has nothing at {pointer}")]
    NothingThere {
        /// The pointer.
        pointer: String,
    },
}

impl HttpToolError {
    /// A bounded label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Arguments(_) | Self::Url(_) => "arguments",
            Self::Headers(_) => "credentials",
            Self::Authorities(_) => "certificates",
            Self::Connect(_) => "connect",
            Self::Timeout { .. } => "timeout",
            Self::Status { .. } => "status",
            Self::TooLong { .. } | Self::NotJson(_) | Self::NothingThere { .. } => "answer",
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Timeout { .. } => true,
            Self::Status { status } => matches!(status, 429 | 502 | 503 | 504),
            Self::Arguments(_) | Self::Url(_) | Self::Headers(_) | Self::Authorities(_) => false,
            Self::TooLong { .. } | Self::NotJson(_) | Self::NothingThere { .. } => false,
        }
    }
}

/// Why the directory of headers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HeadersError {
    /// The directory or a file in it cannot be read.
    #[error("the mounted headers cannot be read")]
    Read(#[source] ReadMountedError),
    /// A file's name or content is not a header.
    #[error(
        "{path} is not an HTTP header: the file's name is the header's name, and its content is the value, on one line"
    )]
    Invalid {
        /// The file.
        path: String,
    },
}

/// Why an HTTP tool could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum PrepareHttpToolError {
    /// The URL template is malformed.
    #[error("the URL is not usable")]
    Url(#[source] UrlTemplateError),
    /// The HTTP client could not be built.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

/// One HTTP service, ready to be called.
#[derive(Debug)]
pub(super) struct HttpTool {
    clients: Clients,
    url: UrlTemplate,
    method: Method,
    parameters: Vec<String>,
    /// Parameters that a call may leave out.
    optional: Vec<String>,
    /// Parameters without a place in the URL: the body of a POST.
    body_parameters: Vec<String>,
    separator: String,
    headers_from: Option<String>,
    timeout_milliseconds: u64,
    is_idempotent: bool,
    attempts: u32,
    max_response_bytes: u64,
    result: ResultPick,
    /// Places for calls under way.
    places: Semaphore,
    dice: RandomState,
}

impl HttpTool {
    /// Sets a tool up. Its schema says which arguments may be missing: without one, none.
    pub(super) fn new(config: &Config, schema: Option<&Schema>) -> Result<Self, PrepareHttpToolError> {
        let Config {
            url,
            method,
            parameters,
            argument_separator,
            headers_from,
            authorities_from,
            timeout_milliseconds,
            retries,
            idempotent,
            max_response_bytes,
            result,
        } = config;
        let url = UrlTemplate::parse(url).map_err(PrepareHttpToolError::Url)?;
        let parameters: Vec<String> = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let in_url = |name: &&String| url.placeholders().any(|placeholder| placeholder == name.as_str());
        let body_parameters = parameters.iter().filter(|name| !in_url(name)).cloned().collect();
        let optional = |name: &&String| schema.is_some_and(|schema| !schema.requires(name));
        Ok(Self {
            optional: parameters.iter().filter(optional).cloned().collect(),
            clients: Clients::new(authorities_from.as_deref()).map_err(PrepareHttpToolError::Client)?,
            body_parameters,
            url,
            method: match method {
                HttpMethod::Get => Method::GET,
                HttpMethod::Post => Method::POST,
            },
            parameters,
            separator: argument_separator.clone(),
            headers_from: headers_from.clone(),
            timeout_milliseconds: *timeout_milliseconds,
            is_idempotent: *idempotent,
            attempts: if *idempotent { 1 + retries } else { 1 },
            max_response_bytes: *max_response_bytes,
            result: result.clone(),
            places: Semaphore::new(CALLS_AT_ONCE),
            dice: RandomState::new(),
        })
    }

    /// Whether a repeated call does no harm, as its configuration says.
    pub(super) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    pub(super) async fn call(&self, input: &str) -> Result<String, HttpToolError> {
        let arguments =
            arguments::parse(input, Parameters { all: &self.parameters, optional: &self.optional }, &self.separator);
        let arguments = arguments.map_err(HttpToolError::Arguments)?;
        let texts = arguments::texts(&arguments, self.url.placeholders()).map_err(HttpToolError::Arguments)?;
        let url = self.url.expand(&texts).map_err(HttpToolError::Url)?;
        let mut attempt = 1;
        loop {
            match self.attempt(&url, &arguments).await {
                Err(error) if error.is_transient() && attempt < self.attempts => {
                    tracing::debug!(error = %error, attempt, "tool call is repeated");
                    tokio::time::sleep(pause(attempt, self.dice.hash_one(Instant::now()))).await;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self, url: &str, arguments: &BTreeMap<String, Value>) -> Result<String, HttpToolError> {
        let exchange = async {
            let response = self.request(url, arguments).await?.send().await.map_err(HttpToolError::Connect)?;
            let status = response.status();
            if !status.is_success() {
                return Err(HttpToolError::Status { status: status.as_u16() });
            }
            self.read(response).await
        };
        // Never closed, so this always gives a place.
        let _place = self.places.acquire().await;
        let limit = Duration::from_millis(self.timeout_milliseconds);
        let timed_out = |_| HttpToolError::Timeout { milliseconds: self.timeout_milliseconds };
        let body = tokio::time::timeout(limit, exchange).await.map_err(timed_out)??;
        pick(&self.result, &body)
    }

    async fn request(&self, url: &str, arguments: &BTreeMap<String, Value>) -> Result<RequestBuilder, HttpToolError> {
        let client = self.clients.get().await.map_err(HttpToolError::Authorities)?;
        let mut request = client.request(self.method.clone(), url);
        if let Some(directory) = &self.headers_from {
            request = request.headers(read_headers(directory).await.map_err(HttpToolError::Headers)?);
        }
        if self.method == Method::POST {
            let value = |name: &String| Some((name.clone(), arguments.get(name)?.clone()));
            let body = Value::Object(self.body_parameters.iter().filter_map(value).collect());
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        Ok(request)
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, HttpToolError> {
        let too_long = || HttpToolError::TooLong { limit: self.max_response_bytes };
        let fits = |length: usize| u64::try_from(length).is_ok_and(|length| length <= self.max_response_bytes);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(HttpToolError::Connect)? {
            if !fits(body.len() + chunk.len()) {
                return Err(too_long());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The pause after so many attempts: it doubles, and up to half of it is left to the dice, so that calls that failed
/// together do not come back together.
fn pause(attempts: u32, dice: u64) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(attempts)).min(LONGEST_PAUSE);
    let half = u64::try_from(longest.as_micros() / 2).unwrap_or(u64::MAX);
    Duration::from_micros(half + dice % (half + 1))
}

/// Reads a mounted Secret: one header per file.
async fn read_headers(directory: &str) -> Result<HeaderMap, HeadersError> {
    let header = |File { name, path, text }: File| {
        let header = HeaderName::try_from(name).ok().zip(HeaderValue::from_str(text.trim_end()).ok());
        let (name, mut value) = header.ok_or(HeadersError::Invalid { path })?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    mounted::files(directory).await.map_err(HeadersError::Read)?.into_iter().map(header).collect()
}

fn pick(result: &ResultPick, body: &[u8]) -> Result<String, HttpToolError> {
    match result {
        ResultPick::Text => Ok(String::from_utf8_lossy(body).trim().to_owned()),
        ResultPick::JsonPointer(pointer) => {
            let document: Value = serde_json::from_slice(body).map_err(HttpToolError::NotJson)?;
            let nothing = || HttpToolError::NothingThere { pointer: pointer.clone() };
            match document.pointer(pointer).ok_or_else(nothing)? {
                Value::Null => Err(nothing()),
                Value::String(text) => Ok(text.clone()),
                other => Ok(other.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_double_up_to_a_bound_and_differ_by_half(attempts in 1..40_u32, dice: u64) {
            let (shortest, longest) = (pause(attempts, 0), 2 * pause(attempts, 0));
            let pause = pause(attempts, dice);
            prop_assert!(shortest <= pause && pause <= longest && longest <= LONGEST_PAUSE, "{pause:?}");
        }
    }

    #[test]
    fn a_first_pause_is_short() {
        assert_eq!([1, 2, 9].map(|attempts| pause(attempts, 0).as_millis()), [100, 200, 1_000]);
    }
}
