//! Who calls: the middleware that lets tenants in, and what it says of their rates.
//!
//! Headers and errors are those of the OpenAI API, as its clients know them.
//! <https://platform.openai.com/docs/guides/rate-limits>

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::access::{Denied, Exceeded, JwtProblem, Left, Limit, Standing, Tenant};

use super::{
    error::{ApiError, Repetition},
    service::Service,
};

/// Headers of a limit: what it allows, what is left, and when all of it is there again.
const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// The tenant that sent a request; nobody where everybody may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Caller(pub(super) Option<Tenant>);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Tenant>().cloned()))
    }
}

/// Lets a request through if its token names a tenant, or if everybody may call.
pub(super) async fn authenticate(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let Some(access) = &service.access else { return next.run(request).await };
    let tenant = match access.tenant(request.headers(), &service.clock).await {
        Ok(tenant) => tenant,
        Err(denied) => {
            service.metrics.request_denied(denied.as_str());
            return ApiError::from(denied).into_response();
        }
    };
    request.extensions_mut().insert(tenant.clone());
    let mut response = next.run(request).await;
    tell(response.headers_mut(), access.meter.standing(&tenant, service.clock.now()));
    response
}

fn tell(headers: &mut HeaderMap, standing: Standing) {
    let Standing { requests, tokens } = standing;
    for (names, left) in [(REQUESTS, requests), (TOKENS, tokens)] {
        let Some(Left { allowed, remaining, full_after }) = left else { continue };
        let values = [allowed.to_string(), remaining.to_string(), in_words(full_after)];
        for (name, value) in names.into_iter().zip(values) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }
}

/// A duration as the OpenAI API writes it: `120ms`, `1.5s`, `1m20s`.
fn in_words(duration: Duration) -> String {
    let milliseconds = duration.as_micros().div_ceil(1_000);
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    match (minutes, rest) {
        (0, 0) => "0s".to_owned(),
        (0, rest) if rest < 1_000 => format!("{rest}ms"),
        (0, rest) => format!("{}s", rest as f64 / 1e3),
        (minutes, rest) => format!("{minutes}m{}s", rest as f64 / 1e3),
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        const HOW: &str = "send it in the header Authorization: Bearer TOKEN";
        let (status, code, message) = match denied {
            Denied::NoToken => {
                (StatusCode::UNAUTHORIZED, "missing_api_key", format!("Authorization: there is no token; {HOW}"))
            }
            Denied::UnknownToken => {
                let message = format!("Authorization: the token is not known here; ask for one, and {HOW}");
                (StatusCode::UNAUTHORIZED, "invalid_api_key", message)
            }
            Denied::Jwt(problem @ JwtProblem::Tenant { .. }) => {
                (StatusCode::FORBIDDEN, "no_tenant", format!("Authorization: the token is good, but {problem}"))
            }
            Denied::Jwt(problem) => {
                let message = format!("Authorization: the token is not accepted: {problem}");
                (StatusCode::UNAUTHORIZED, "invalid_api_key", message)
            }
            Denied::NoKeys => {
                let message = "the keys of the tokens' issuer cannot be had at present; send the request again".into();
                (StatusCode::SERVICE_UNAVAILABLE, "issuer_unavailable", message)
            }
        };
        Self::new(status, code, message)
    }
}

impl ApiError {
    /// A tenant has used up its rate.
    pub(super) fn of_rate(tenant: &Tenant, exceeded: Exceeded) -> Self {
        let Exceeded { limit, allowed, retry_after } = exceeded;
        let what = match limit {
            Limit::Requests => "request(s) in a minute",
            Limit::Tokens => "token(s) in a minute",
            Limit::Runs => "run(s) at once",
        };
        let after = in_words(retry_after);
        let name = tenant.as_str();
        let message = format!("{name:?} may have {allowed} {what} here, which are used up; try again in {after}");
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
        Self { repetition: Repetition::After(retry_after), ..error }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn durations_are_written_as_clients_know_them() {
        let micros = [0, 1, 999_001, 1_500_000, 60_000_000, 80_250_000];
        let words = micros.map(|micros| in_words(Duration::from_micros(micros)));
        assert_eq!(words, ["0s", "1ms", "1s", "1.5s", "1m0s", "1m20.25s"]);
    }
}
