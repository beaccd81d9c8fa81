//! Clients with tokens of an issuer in the cluster, which publishes its keys by TLS of a private authority.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_e2e::{credentials::Certificates, gitops::eventually, namespace::Namespace};

use crate::{
    agent, is_let_in, keys,
    keys::{Key, UNKNOWN_KEY, not_accepted},
    knock, refusal, remove, restarts, serve, shared_namespace, start_server,
};

const AGENT: &str = "issued";
/// Keys are fetched again after 30 seconds at the earliest.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// The API server asks the issuer by TLS, and does not ask who it is.
async fn publish(namespace: &Namespace, key: &Key) {
    namespace.request("PUT", "https:issuer", "/jwks", Some(&key.set())).await.unwrap();
}

#[tokio::test]
async fn tokens_of_an_issuer_in_the_cluster_are_accepted_by_the_keys_that_it_has_now() {
    let namespace = shared_namespace().await;
    let certificates = Certificates::of("issuer");
    namespace.give_secret("issuer-tls", &certificates.for_secret()).await.unwrap();
    namespace.give_config_map("issuer-authorities", &json!({"ca.crt": certificates.authority})).await.unwrap();
    start_server(&namespace, "issuer").await;
    let (first, second) = (Key::new("first"), Key::new("second"));
    publish(&namespace, &first).await;
    let keys = json!({"url": "https://issuer/jwks", "authoritiesFrom": {"name": "issuer-authorities"}});
    let manifest = agent(AGENT, |spec| spec["serving"]["authentication"] = json!({"jwt": keys::accepted(&keys)}));
    serve(&namespace, &manifest).await;
    let before = restarts(&namespace, AGENT).await;

    let (by_first, by_second) = (first.token("acme"), second.token("acme"));
    eventually("the first key", FETCH_LIMIT, async || is_let_in(&namespace, AGENT, &by_first).await).await;
    let unknown = [(by_second.clone(), UNKNOWN_KEY)];
    for (token, why) in keys::refused(&first).into_iter().chain(unknown) {
        let answer = knock(&namespace, AGENT, Some(&token)).await;
        assert_eq!(refusal(&answer), (401, not_accepted(why).as_str()), "{token}: {answer:?}");
    }

    publish(&namespace, &second).await;
    eventually("the second key", FETCH_LIMIT, async || is_let_in(&namespace, AGENT, &by_second).await).await;
    let withdrawn = knock(&namespace, AGENT, Some(&by_first)).await;
    assert_eq!(refusal(&withdrawn), (401, not_accepted(UNKNOWN_KEY).as_str()), "{withdrawn:?}");
    assert_eq!(restarts(&namespace, AGENT).await, before, "nothing was restarted or replaced");
    remove(&namespace, AGENT).await;
}
