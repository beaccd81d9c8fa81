//! Refuses every write to the API server while this process does not lead. Writes IO.
//!
//! A process that was stopped for a while goes on in the middle of a reconciliation. Whatever it does next, the claim
//! is checked on the way to the server, so that no writer can forget it.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Request, Response};
use kube::{Client, client::Body};
use tower::{BoxError, Service};

use super::Leadership;

/// A connection that writes only while this process leads. Its reads are those of the connection beneath.
pub fn fenced(client: Client, leadership: Leadership) -> Client {
    let namespace = client.default_namespace().to_owned();
    Client::new(Fenced { client, leadership }, namespace)
}

/// A connection that refuses writes without a claim.
struct Fenced {
    client: Client,
    leadership: Leadership,
}

impl Service<Request<Body>> for Fenced {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The connection beneath waits by itself.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, leadership) = (self.client.clone(), self.leadership.clone());
        Box::pin(async move {
            if !request.method().is_safe() {
                leadership.check()?;
            }
            Ok(client.send(request).await?)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, api::PostParams};
    use pretty_assertions::assert_eq;
    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;
    use crate::leader::RENEW_DEADLINE;

    /// A server that has whatever it is asked for.
    fn server() -> Client {
        let answer = |_: Request<Body>| async {
            let object = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}"#;
            Ok::<_, BoxError>(Response::new(Body::from(object.as_bytes().to_vec())))
        };
        Client::new(service_fn(answer), "team")
    }

    async fn written(api: &Api<ConfigMap>) -> Result<(), String> {
        api.create(&PostParams::default(), &ConfigMap::default()).await.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn who_stood_still_for_too_long_reads_and_writes_nothing() {
        let leadership = Leadership::default();
        let client = fenced(server(), leadership.clone());
        assert_eq!(client.default_namespace(), "team");
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let words = "ServiceError: this process has never been the leader";
        assert_eq!(written(&api).await, Err(words.to_owned()));
        leadership.renew(Instant::now());
        assert_eq!(written(&api).await, Ok(()));
        tokio::time::advance(RENEW_DEADLINE + Duration::from_secs(1)).await;
        assert!(api.get("a").await.is_ok());
        let words = "ServiceError: the leader's claim was last renewed 11 s ago, which is past the deadline of 10 s";
        assert_eq!(written(&api).await, Err(words.to_owned()));
    }
}
