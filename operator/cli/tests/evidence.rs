//! What pods counted, read through the API server's proxy.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::convert::Infallible;

use http::{Request, Response};
use kube::{Client, client::Body};
use kubectl_slipway::cluster::Cluster;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_vocabulary::failure::chain;
use tower::service_fn;

/// A server with one ready pod, which answers this.
fn cluster(evidence: Value) -> Cluster {
    let client = Client::new(
        service_fn(move |request: Request<Body>| {
            let pod = json!({"metadata": {"name": "facts-agent-s1-0"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            let is_pod = request.uri().path().contains(":9464/proxy");
            let body = if is_pod { evidence.clone() } else { json!({"metadata": {}, "items": [pod]}) };
            async move { Ok::<_, Infallible>(Response::new(Body::from(body.to_string().into_bytes()))) }
        }),
        "demo",
    );
    Cluster::behind(client, "demo")
}

fn counted(version: u32) -> Value {
    json!({"version": version, "revision": "s1", "pod": "facts-agent-s1-0", "startedAt": "2026-01-01T00:00:00Z",
        "windows": []})
}

#[tokio::test]
async fn evidence_of_a_later_version_names_the_pod_and_the_remedy() {
    assert_eq!(cluster(counted(2)).evidence("facts-agent").await.unwrap().len(), 1);
    let error = cluster(counted(9)).evidence("facts-agent").await.unwrap_err();
    let words = "failed to use the evidence of pod facts-agent-s1-0: version 9 of the evidence is later than 2, the \
                 latest that is known here: upgrade the operator and kubectl-slipway";
    assert_eq!(chain(&error), words);
}
