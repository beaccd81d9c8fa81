//! Clients with tokens of a Secret, or with those of an issuer whose keys a ConfigMap has.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_e2e::{
    agents::{draw_question, fresh_seed},
    gitops::eventually,
    namespace::Namespace,
    servers::callers::Answer,
};

use crate::{
    MOUNT_LIMIT, agent, call, is_let_in, keys,
    keys::{Key, UNKNOWN_KEY, not_accepted},
    knock, refusal, remove, restarts, serve, shared_namespace,
};

const AGENT: &str = "guarded";
const ACME: &str = "acme-token-0123456789";
const ACME_ROTATED: &str = "acme-token-9876543210";
const SMALL: &str = "small-token-0123456789";

/// The agent, which gives the tenant `small` so many requests in a minute.
fn guarded(requests: u32) -> Value {
    agent(AGENT, |spec| {
        spec["serving"]["authentication"] = json!({
            "tokensFrom": {"name": "clients", "key": "tokens"},
            "jwt": keys::accepted(&json!({"configMap": {"name": "issuer-keys", "key": "jwks.json"}})),
            "rates": {"tenants": [{"name": "small", "rate": {"requestsPerMinute": requests}}]},
        });
    })
}

/// The file of tokens: one as it is, one by its digest.
fn tokens(of_acme: &str) -> Value {
    let digest: String = Sha256::digest(of_acme).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"tokens": format!("acme: sha256:{digest}\nsmall: {SMALL}\n")})
}

fn key_file(key: &Key) -> Value {
    json!({"jwks.json": key.set().to_string()})
}

#[tokio::test]
async fn tenants_are_let_in_by_a_secret_and_a_config_map_which_are_rotated_without_a_restart() {
    let namespace = shared_namespace().await;
    let key = Key::new("first");
    namespace.give_secret("clients", &tokens(ACME)).await.unwrap();
    namespace.give_config_map("issuer-keys", &key_file(&key)).await.unwrap();
    serve(&namespace, &guarded(1)).await;
    let before = restarts(&namespace, AGENT).await;

    strangers_read_what_is_wrong(&namespace, &key).await;
    a_tenant_is_answered_and_its_run_is_its_own(&namespace, &key).await;
    who_has_used_up_a_rate_waits_and_others_do_not(&namespace, &key).await;
    what_is_rotated_counts(&namespace, &key).await;

    assert_eq!(restarts(&namespace, AGENT).await, before, "nothing was restarted or replaced");
    remove(&namespace, AGENT).await;
}

async fn strangers_read_what_is_wrong(namespace: &Namespace, key: &Key) {
    let missing = knock(namespace, AGENT, None).await;
    let error = json!({"error": {
        "message": "Authorization: there is no token; send it in the header Authorization: Bearer TOKEN",
        "type": "invalid_request_error", "param": null, "code": "missing_api_key",
    }});
    assert_eq!((missing.status, missing.header("www-authenticate"), &missing.body), (401, "Bearer", &error));
    let unknown = "it is neither a known token nor a JSON Web Token that is signed with RSA, ECDSA or EdDSA".to_owned();
    let wrong = [("acme-token-of-nobody".to_owned(), unknown.as_str())];
    for (token, why) in wrong.into_iter().chain(keys::refused(key)) {
        let answer = knock(namespace, AGENT, Some(&token)).await;
        assert_eq!(refusal(&answer), (401, not_accepted(why).as_str()), "{token}: {answer:?}");
    }
}

/// A client asks something new.
async fn ask(namespace: &Namespace, token: &str) -> (String, Answer) {
    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.unwrap();
    let body = json!({"input": question.question});
    let answer = call(namespace, AGENT, Some(token), ("POST", "/v1/runs", Some(body))).await;
    (question.answer, answer)
}

async fn a_tenant_is_answered_and_its_run_is_its_own(namespace: &Namespace, key: &Key) {
    let (expected, run) = ask(namespace, ACME).await;
    assert_eq!((run.status, run.body["answer"].as_str()), (200, Some(expected.as_str())), "{run:?}");
    let path = format!("/v1/runs/{}", run.body["id"].as_str().unwrap());
    // The issuer names the same tenant as the Secret.
    for (token, expected) in [(ACME.to_owned(), 200), (key.token("acme"), 200), (SMALL.to_owned(), 404)] {
        let read = call(namespace, AGENT, Some(&token), ("GET", &path, None)).await;
        assert_eq!(read.status, expected, "{token}: {read:?}");
    }
}

async fn who_has_used_up_a_rate_waits_and_others_do_not(namespace: &Namespace, key: &Key) {
    let (_, first) = ask(namespace, SMALL).await;
    assert_eq!(first.status, 200, "{first:?}");
    // A tenant has one rate, whatever its tokens.
    for token in [SMALL.to_owned(), key.token("small")] {
        let (_, over) = ask(namespace, &token).await;
        let (status, message) = refusal(&over);
        let begins = "\"small\" may have 1 request(s) in a minute here, which are used up; try again in ";
        assert!(status == 429 && message.starts_with(begins), "{over:?}");
        assert_eq!(over.body["error"]["code"], "rate_limit_exceeded", "{over:?}");
        let seconds: u32 = over.header("retry-after").parse().unwrap();
        assert!((1..=60).contains(&seconds), "{over:?}");
        let left = ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests"].map(|name| over.header(name));
        assert_eq!(left, ["1", "0"], "{over:?}");
        println!("{message}; retry-after: {seconds}");
    }
    let (expected, other) = ask(namespace, ACME).await;
    assert_eq!((other.status, other.body["answer"].as_str()), (200, Some(expected.as_str())), "{other:?}");
}

/// Secret, ConfigMap and rates are edited at the same time, because the kubelet takes its time for each.
async fn what_is_rotated_counts(namespace: &Namespace, old: &Key) {
    let new = Key::new("second");
    namespace.change_secret("clients", &tokens(ACME_ROTATED)).await.unwrap();
    namespace.change_config_map("issuer-keys", &key_file(&new)).await.unwrap();
    namespace.apply(&guarded(600)).await.unwrap();

    let (by_old, by_new) = (old.token("acme"), new.token("acme"));
    eventually("the new token", MOUNT_LIMIT, async || is_let_in(namespace, AGENT, ACME_ROTATED).await).await;
    eventually("the new key", MOUNT_LIMIT, async || is_let_in(namespace, AGENT, &by_new).await).await;
    let has_the_new_rate = async || {
        let answer = knock(namespace, AGENT, Some(SMALL)).await;
        if answer.header("x-ratelimit-limit-requests") == "600" { Ok(()) } else { Err(format!("{answer:?}")) }
    };
    eventually("the new rate", MOUNT_LIMIT, has_the_new_rate).await;
    let withdrawn = knock(namespace, AGENT, Some(ACME)).await;
    assert_eq!(withdrawn.status, 401, "{withdrawn:?}");
    let withdrawn = knock(namespace, AGENT, Some(&by_old)).await;
    assert_eq!(refusal(&withdrawn), (401, not_accepted(UNKNOWN_KEY).as_str()), "{withdrawn:?}");
}
