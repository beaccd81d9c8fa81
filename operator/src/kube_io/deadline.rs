//! A deadline for every request to the API server; of watches, for the beginning of the answer. Writes IO.
//!
//! A server that accepts a request and never answers would hold a worker for ever, and after eight of them the
//! controller. Watches last by design: their reader asks again after a while of silence, and needs an answer then.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use kube::client::Body;
use thiserror::Error;
use tower::{BoxError, Layer, Service};

/// Why a request has no answer.
#[derive(Debug, Error)]
#[error("the API server did not answer {method} {path} within {seconds} s")]
pub struct DeadlineExceeded {
    /// Method of the request.
    pub method: String,
    /// Path of the request.
    pub path: String,
    /// Seconds that it was given.
    pub seconds: u64,
}

/// Gives every request this long, its whole answer included; of a watch, until its answer begins.
#[derive(Debug, Clone, Copy)]
pub struct DeadlineLayer(pub Duration);

impl<S> Layer<S> for DeadlineLayer {
    type Service = WithDeadline<S>;

    fn layer(&self, inner: S) -> Self::Service {
        WithDeadline { inner, deadline: self.0 }
    }
}

/// A service whose answers come within a deadline.
#[derive(Debug, Clone)]
pub struct WithDeadline<S> {
    inner: S,
    deadline: Duration,
}

impl<S, B> Service<Request<Body>> for WithDeadline<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: BodyExt<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_watch = is_watch(&request);
        let exceeded = DeadlineExceeded {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            seconds: self.deadline.as_secs(),
        };
        let (answer, deadline) = (self.inner.call(request), self.deadline);
        Box::pin(async move {
            if is_watch {
                let begun = tokio::time::timeout(deadline, answer).await;
                let answer = begun.unwrap_or_else(|_| Err(exceeded.into()))?;
                return Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()));
            }
            tokio::time::timeout(deadline, whole(answer)).await.unwrap_or_else(|_| Err(exceeded.into()))
        })
    }
}

/// An answer with its body.
async fn whole<B>(
    answer: impl Future<Output = Result<Response<B>, BoxError>>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>
where
    B: BodyExt<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (parts, body) = answer.await?.into_parts();
    let body = body.collect().await.map_err(Into::into)?.to_bytes();
    Ok(Response::from_parts(parts, Full::new(body).map_err(|never| match never {}).boxed_unsync()))
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http_body_util::StreamBody;
    use pretty_assertions::assert_eq;
    use tower::{ServiceExt, service_fn};

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(30);

    fn request(path: &str) -> Request<Body> {
        Request::get(path).body(Body::empty()).unwrap()
    }

    /// An API server that sends the head of an answer, a piece of its body, and then nothing more.
    async fn stalls(_: Request<Body>) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
        let piece = http_body_util::BodyStream::new(Full::new(Bytes::from_static(b"{\"items\":")));
        let body = StreamBody::new(piece.chain(stream::pending())).map_err(|never: Infallible| match never {});
        Ok(Response::new(body.boxed_unsync()))
    }

    async fn is_silent(_: Request<Body>) -> Result<Response<Full<Bytes>>, BoxError> {
        std::future::pending().await
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_nobody_answers_ends_at_its_deadline_and_is_named() {
        let silent = DeadlineLayer(DEADLINE).layer(service_fn(is_silent));
        let error = silent.oneshot(request("/api/v1/namespaces/team/pods?limit=500")).await.unwrap_err();
        assert_eq!(error.to_string(), "the API server did not answer GET /api/v1/namespaces/team/pods within 30 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_nobody_answers_ends_at_the_deadline() {
        let silent = DeadlineLayer(DEADLINE).layer(service_fn(is_silent));
        let error = silent.oneshot(request("/api/v1/pods?watch=true&timeoutSeconds=60")).await.unwrap_err();
        assert!(error.is::<DeadlineExceeded>(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stalls_ends_at_the_deadline_too() {
        let stalled = DeadlineLayer(DEADLINE).layer(service_fn(stalls));
        let error = stalled.oneshot(request("/api/v1/pods")).await.unwrap_err();
        assert!(error.is::<DeadlineExceeded>(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_for_as_long_as_it_likes() {
        let watched = DeadlineLayer(DEADLINE).layer(service_fn(stalls));
        let answer = watched.oneshot(request("/api/v1/pods?watch=true&resourceVersion=1")).await.unwrap();
        let mut body = answer.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let rest = tokio::time::timeout(DEADLINE * 10, body.frame()).await;
        assert_eq!((first.as_ref(), rest.is_err()), (b"{\"items\":".as_slice(), true));
    }

    #[tokio::test]
    async fn an_answer_within_the_deadline_arrives_whole() {
        let answers = service_fn(|_: Request<Body>| async {
            Ok::<_, BoxError>(Response::builder().status(404).body(Full::new(Bytes::from_static(b"gone"))).unwrap())
        });
        let answer = DeadlineLayer(DEADLINE).layer(answers).oneshot(request("/api/v1/pods/a")).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!((status, body.as_ref()), (404, b"gone".as_slice()));
    }
}
