//! What is read and written, and over which version.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Service},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::client::Body;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use tower::{BoxError, service_fn};

use super::*;

/// An API server that gives every request the same answer; and the requests, each with the version in its body.
fn server(code: u16, answer: Value) -> (Client, Arc<Mutex<Vec<String>>>) {
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = requests.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (seen, answer) = (seen.clone(), answer.to_string());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let version = body["metadata"]["resourceVersion"].as_str().unwrap_or("any").to_owned();
            seen.lock().unwrap().push(format!("{} {version}", parts.method));
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.into_bytes()))?)
        }
    });
    (Client::new(service, "team"), requests)
}

fn config_map(version: &str) -> ConfigMap {
    let labels = json!({"app.kubernetes.io/managed-by": "slipway"});
    let metadata = json!({"namespace": "team", "name": "a", "resourceVersion": version, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata, "data": {"version": version}})).unwrap()
}

#[rstest]
#[case::as_it_was(200, json!(config_map("8")), "Ok(())")]
#[case::changed(409, json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}),
    "Err(Changed { kind: \"ConfigMap\", name: \"a\" })")]
#[tokio::test]
async fn what_was_decided_at_a_glance_is_written_over_the_version_that_was_seen_and_no_other(
    #[case] code: u16,
    #[case] answer: Value,
    #[case] expected: &str,
) {
    let ((client, requests), applied) = (server(code, answer), Applied::default());
    let seen = Seen::from([(("ConfigMap".to_owned(), "a".to_owned()), "7".to_owned())]);
    let mut wanted = config_map("");
    wanted.metadata.resource_version = None;
    let child = Child::ConfigMap(Box::new(wanted));
    let target = Target { client: &client, applied: &applied, ground: Ground::Glanced(&seen), namespace: "team" };
    assert_eq!(format!("{:?}", apply(target, &child).await), expected);
    assert_eq!(*requests.lock().unwrap(), ["PATCH 7"]);
    drop(apply(Target { ground: Ground::Looked(&Looked::default()), ..target }, &child).await);
    assert_eq!(requests.lock().unwrap()[1], "GET any");
    let (nothing, before) = (Seen::default(), requests.lock().unwrap().len());
    let unseen = apply(Target { ground: Ground::Glanced(&nothing), ..target }, &child).await;
    assert!(matches!(unseen, Err(ApplyError::Changed { .. })), "no version is known");
    assert_eq!(requests.lock().unwrap().len(), before, "and nothing is written without one");
}

#[tokio::test]
async fn what_a_look_has_read_as_it_should_be_is_not_read_again() {
    let mut wanted = config_map("");
    wanted.metadata.resource_version = None;
    let hash = content_hash(&serde_json::to_value(&wanted).unwrap()).unwrap();
    let ((client, requests), applied) = (server(200, json!(config_map("9"))), Applied::default());
    let child = Child::ConfigMap(Box::new(wanted));
    for (known, read, expected) in [("8", "8", 0), ("8", "9", 2), ("7", "8", 2)] {
        let looked = Looked::default();
        looked.note(&config_map(read));
        applied.remember("team", &config_map(known), hash.short());
        requests.lock().unwrap().clear();
        let ground = Ground::Looked(&looked);
        apply(Target { client: &client, applied: &applied, ground, namespace: "team" }, &child).await.unwrap();
        assert_eq!(requests.lock().unwrap().len(), expected, "found in version {known}, read in {read}");
    }
}

#[rstest]
#[case::that_is_there(true, 500, json!({}), &[])]
#[case::that_is_not(false, 201, json!({"metadata": {"name": "a"}}), &["POST any"])]
#[case::that_is_there_since(false, 409, json!({"kind": "Status", "status": "Failure", "reason": "AlreadyExists",
    "code": 409}), &["POST any"])]
#[tokio::test]
async fn nobody_asks_for_an_object_before_it_is_created(
    #[case] is_known: bool,
    #[case] code: u16,
    #[case] answer: Value,
    #[case] expected: &[&str],
) {
    let ((client, requests), looked) = (server(code, answer), Looked::default());
    let job = |version: &str| -> k8s_openapi::api::batch::v1::Job {
        let metadata = json!({"namespace": "team", "name": "a", "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    };
    if is_known {
        looked.note(&job("7"));
    }
    let (applied, ground) = (Applied::default(), Ground::Looked(&looked));
    let target = Target { client: &client, applied: &applied, ground, namespace: "team" };
    let mut wanted = job("");
    wanted.metadata.resource_version = None;
    apply(target, &Child::Job(Box::new(wanted))).await.unwrap();
    assert_eq!(*requests.lock().unwrap(), expected);
}

#[rstest]
#[case::with_our_label(labels::APP_MANAGED_BY, labels::MANAGED_BY, "", "", true)]
#[case::with_the_hash_alone("team", "support", labels::APPLIED_HASH, "7c1f9a2b3d", true)]
#[case::of_helm(labels::APP_MANAGED_BY, "Helm", "meta.helm.sh/release-name", "support", false)]
#[case::by_hand("app", "support", "note", "mine", false)]
fn an_object_is_told_from_somebody_elses(
    #[case] label: &str,
    #[case] value: &str,
    #[case] annotation: &str,
    #[case] text: &str,
    #[case] expected: bool,
) {
    let one = |key: &str, value: &str| Some([(key.to_owned(), value.to_owned())].into());
    let metadata =
        ObjectMeta { labels: one(label, value), annotations: one(annotation, text), ..ObjectMeta::default() };
    assert_eq!(is_ours(&Service { metadata, ..Service::default() }), expected);
}

#[test]
fn whoever_owns_an_object_of_that_name_is_told_what_to_do() {
    let error = ApplyError::Foreign { kind: "Service".to_owned(), name: "support".to_owned() };
    let words = "Service support exists and was not made by Slipway; it is left as it is: remove it, or give the AgentDeployment \
                 another name";
    assert_eq!(error.to_string(), words);
}
