//! HTTP tools. IO.
//!
//! The host comes from the configuration alone: arguments are percent-encoded into path or query. So a model cannot be
//! talked into calling another one. Where the host is, [`service`](super::service) checks.

use std::{collections::BTreeMap, time::Duration};

use reqwest::{
    Method,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde_json::Value;
use slipway_runtime_config::{
    ExpandUrlError, HttpMethod, HttpTool as Config, ResultPick, Schema, UrlTemplate, UrlTemplateError,
};

use crate::{
    outbound::{Lookup, retry_after},
    trace_context::TraceContext,
};

use super::{
    arguments::{self, ArgumentError, Parameters},
    registry::Request,
    service::{self, Failure, Health, PrepareServiceError, Service, ServiceError, Settings},
};

/// Why a call of an HTTP tool gave no result. Written for the model, which reads it as an observation.
#[derive(Debug, thiserror::Error)]
pub enum HttpToolError {
    /// The input does not fit the parameters.
    #[error("wrong arguments")]
    Arguments(#[source] ArgumentError),
    /// The arguments have no place in the address.
    #[error("wrong arguments")]
    Url(#[source] ExpandUrlError),
    /// The service gave no answer.
    #[error(transparent)]
    Service(ServiceError),
    /// Another status than 2xx.
    #[error("HTTP status {status}{}", service::shown_pause(*retry_after))]
    Status {
        /// The status code.
        status: u16,
        /// When the service wants to be called again, if it says so.
        retry_after: Option<Duration>,
    },
    /// The answer is not text.
    #[error("the answer is not text in UTF-8: byte {position} is wrong")]
    NotText {
        /// The first byte that is wrong, from zero.
        position: usize,
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
            Self::Service(error) => error.kind(),
            Self::Status { .. } => "status",
            Self::NotText { .. } | Self::NotJson(_) | Self::NothingThere { .. } => "answer",
        }
    }
}

impl From<ServiceError> for HttpToolError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl Failure for HttpToolError {
    fn health(&self) -> Health {
        match self {
            Self::Service(error) => error.health(),
            Self::Status { status, .. } => service::health_of(*status),
            Self::Arguments(_) | Self::Url(_) => Health::Unknown,
            Self::NotText { .. } | Self::NotJson(_) | Self::NothingThere { .. } => Health::Good,
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Service(error) => error.is_transient(),
            Self::Status { status, .. } => service::is_transient_status(*status),
            Self::Arguments(_) | Self::Url(_) => false,
            Self::NotText { .. } | Self::NotJson(_) | Self::NothingThere { .. } => false,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::Service(_) | Self::Arguments(_) | Self::Url(_) => None,
            Self::NotText { .. } | Self::NotJson(_) | Self::NothingThere { .. } => None,
        }
    }
}

/// Why an HTTP tool could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum PrepareHttpToolError {
    /// The URL template is malformed.
    #[error("the URL is not usable")]
    Url(#[source] UrlTemplateError),
    /// Its service cannot be called.
    #[error(transparent)]
    Service(PrepareServiceError),
}

/// One HTTP service, ready to be called.
#[derive(Debug)]
pub(super) struct HttpTool {
    service: Service,
    url: UrlTemplate,
    method: Method,
    parameters: Vec<String>,
    /// Parameters that a call may leave out.
    optional: Vec<String>,
    /// Parameters without a place in the URL: the body of a POST.
    body_parameters: Vec<String>,
    separator: String,
    is_idempotent: bool,
    attempts: u32,
    max_response_bytes: u64,
    result: ResultPick,
}

impl HttpTool {
    /// Sets a tool up. Its schema says which arguments may be missing: without one, none.
    pub(super) fn new(config: &Config, schema: Option<&Schema>, lookup: &Lookup) -> Result<Self, PrepareHttpToolError> {
        let Config {
            url,
            method,
            parameters,
            argument_separator,
            headers_from,
            authorities_from,
            allowed_networks,
            max_in_flight,
            circuit_breaker,
            timeout_milliseconds,
            retries,
            idempotent,
            max_response_bytes,
            result,
        } = config;
        let url = UrlTemplate::parse(url).map_err(PrepareHttpToolError::Url)?;
        let settings = Settings {
            socket: None,
            headers_from: headers_from.as_deref(),
            authorities_from: authorities_from.as_deref(),
            allowed_networks,
            max_in_flight: *max_in_flight,
            circuit_breaker: *circuit_breaker,
            timeout_milliseconds: *timeout_milliseconds,
            lookup,
        };
        let parameters: Vec<String> = parameters.iter().map(|parameter| parameter.name.clone()).collect();
        let in_url = |name: &&String| url.placeholders().any(|placeholder| placeholder == name.as_str());
        let body_parameters = parameters.iter().filter(|name| !in_url(name)).cloned().collect();
        let optional = |name: &&String| schema.is_some_and(|schema| !schema.requires(name));
        Ok(Self {
            optional: parameters.iter().filter(optional).cloned().collect(),
            service: Service::new(settings).map_err(PrepareHttpToolError::Service)?,
            body_parameters,
            url,
            method: match method {
                HttpMethod::Get => Method::GET,
                HttpMethod::Post => Method::POST,
            },
            parameters,
            separator: argument_separator.clone(),
            is_idempotent: *idempotent,
            attempts: if *idempotent { 1 + retries } else { 1 },
            max_response_bytes: *max_response_bytes,
            result: result.clone(),
        })
    }

    /// The arguments of a call as texts; nothing where the model wrote none that fit.
    pub(super) fn arguments(&self, input: &str) -> Option<BTreeMap<String, String>> {
        let names = Parameters { all: &self.parameters, optional: &self.optional };
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let arguments = arguments::parse(input, names, &self.separator).ok()?;
        Some(arguments.into_iter().map(|(name, value)| (name, text(value))).collect())
    }

    /// Whether a repeated call does no harm, as its configuration says.
    pub(super) fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    pub(super) async fn call(&self, request: Request<'_>) -> Result<String, HttpToolError> {
        let Request { name: _, input, trace, until } = request;
        let arguments =
            arguments::parse(input, Parameters { all: &self.parameters, optional: &self.optional }, &self.separator);
        let arguments = arguments.map_err(HttpToolError::Arguments)?;
        let texts = arguments::texts(&arguments, self.url.placeholders()).map_err(HttpToolError::Arguments)?;
        let url = self.url.expand(&texts).map_err(HttpToolError::Url)?;
        let attempt = || self.service.attempt(self.exchange(&url, &arguments, trace));
        let body = self.service.repeat(self.attempts, until, attempt).await?;
        pick(&self.result, body)
    }

    async fn exchange(
        &self,
        url: &str,
        arguments: &BTreeMap<String, Value>,
        trace: Option<&TraceContext>,
    ) -> Result<Vec<u8>, HttpToolError> {
        let client = self.service.client().await?;
        let mut headers = self.service.headers().await?;
        trace.into_iter().for_each(|trace| trace.write(&mut headers));
        let mut request = client.request(self.method.clone(), url);
        if self.method == Method::POST {
            let value = |name: &String| Some((name.clone(), arguments.get(name)?.clone()));
            let body = Value::Object(self.body_parameters.iter().filter_map(value).collect());
            headers.append(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request = request.body(body.to_string());
        }
        let response = service::send(request.headers(headers)).await?;
        let status = response.status();
        if !status.is_success() {
            let retry_after = retry_after::read(response.headers(), jiff::Timestamp::now());
            return Err(HttpToolError::Status { status: status.as_u16(), retry_after });
        }
        Ok(service::read(response, self.max_response_bytes).await?)
    }
}

/// A text is taken as it is or not at all: what a wrong byte stood for is not guessed.
fn pick(result: &ResultPick, body: Vec<u8>) -> Result<String, HttpToolError> {
    match result {
        ResultPick::Text => match String::from_utf8(body) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) => Err(HttpToolError::NotText { position: error.utf8_error().valid_up_to() }),
        },
        ResultPick::JsonPointer(pointer) => {
            let document: Value = serde_json::from_slice(&body).map_err(HttpToolError::NotJson)?;
            let nothing = || HttpToolError::NothingThere { pointer: pointer.clone() };
            match document.pointer(pointer).ok_or_else(nothing)? {
                Value::Null => Err(nothing()),
                Value::String(text) => Ok(text.clone()),
                other => Ok(other.to_string()),
            }
        }
    }
}
