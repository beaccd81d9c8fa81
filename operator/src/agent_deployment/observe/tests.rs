//! What is read of pods and Deployments.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_operator_core::agent_deployment::world::Unscheduled;

use super::{Asked, Asking, Heard, Keep, Question, Timestamp, Windows, asked_pods, judged_pods, serving_view};

fn labels(revision: &str) -> Value {
    json!({"slipway.dev/agent-deployment": "support", "slipway.dev/revision": revision})
}

fn pod(revision: &str, node: Option<&str>, since: Option<&str>) -> Pod {
    let condition = since.map(|since| {
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": format!("no node at {since}"),
            "lastTransitionTime": since})
    });
    let conditions: Vec<Value> = condition.into_iter().collect();
    let spec = json!({"containers": [], "nodeName": node});
    let object = json!({"metadata": {"labels": labels(revision)}, "spec": spec, "status": {"conditions": conditions}});
    serde_json::from_value(object).expect("a pod")
}

/// Those of the revisions that have traffic: they are what carries the load, too.
#[test]
fn whoever_has_traffic_is_asked_what_it_counted() {
    let asked = |weight: i32, of_baseline: i32| {
        let rollout = json!({"stable": "a", "canary": "b", "weight": weight, "baseline":
            {"revision": "b-base", "weight": of_baseline, "pods": 1, "readyPods": 1}});
        let spec = json!({"model": {"uri": "http://models/a"}, "engine": {"backend": "Custom"}, "agent": {"systemPrompt": ""}});
        let object: AgentDeployment = serde_json::from_value(json!({"apiVersion": "slipway.dev/v1alpha1", "kind":
            "AgentDeployment", "metadata": {"name": "support"}, "spec": spec, "status": {"rollout": rollout}}))
        .expect("an AgentDeployment");
        let pods = ["a", "b", "b-base", "c"].map(|revision| {
            let mut pod = pod(revision, Some("node"), None);
            pod.labels_mut().insert("app.kubernetes.io/component".to_owned(), "serve".to_owned());
            pod
        });
        let revision = |pod: &Pod| pod.labels()["slipway.dev/revision"].clone();
        judged_pods(&object, &pods).iter().map(revision).collect::<Vec<_>>()
    };
    assert_eq!(asked(0, 0), ["a"]);
    assert_eq!(asked(20, 0), ["a", "b"]);
    assert_eq!(asked(20, 20), ["a", "b", "b-base"]);
}

#[test]
fn pods_that_stay_say_how_many_have_a_node_and_which_has_waited_the_longest() {
    let object = json!({"metadata": {"labels": labels("a")}, "spec": {"replicas": 4, "selector": {}, "template": {}}});
    let deployment: Deployment = serde_json::from_value(object).expect("a Deployment");
    let mut leaving = pod("a", None, Some("2026-01-01T11:00:00Z"));
    leaving.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T12:00:00Z")).expect("a time"));
    let pods = [
        pod("a", Some("node"), None),
        leaving,
        pod("a", None, Some("2026-01-01T12:05:00Z")),
        pod("a", None, Some("2026-01-01T12:03:00Z")),
        pod("b", None, Some("2026-01-01T12:00:00Z")),
    ];
    let (_, view) = serving_view(&deployment, &pods).expect("it has a revision");
    let longest = Unscheduled {
        since: "2026-01-01T12:03:00Z".parse().expect("a time"),
        message: "no node at 2026-01-01T12:03:00Z".to_owned(),
    };
    assert_eq!((view.wanted, view.scheduled, view.unscheduled), (4, 1, Some(longest)));
}

#[test]
fn a_deployment_whose_pods_a_quota_refuses_says_so_in_the_words_of_the_api_server() {
    let refused =
        "pods \"support-a-1\" is forbidden: exceeded quota: team, requested: cpu=4, used: cpu=8, limited: cpu=8";
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused});
    let object = json!({"metadata": {"labels": labels("a")}, "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {"conditions": [condition]}});
    let deployment: Deployment = serde_json::from_value(object).expect("a Deployment");
    let (_, view) = serving_view(&deployment, &[]).expect("a revision's");
    assert_eq!(view.failure, Some(format!("the API server refuses its pods: {refused}")));
}

/// Under a turn nobody is asked again, so what does not answer the question of the moment is of no use.
#[test]
fn what_pods_have_said_is_taken_only_if_they_would_be_asked_the_same() {
    let spec =
        json!({"model": {"uri": "http://models/a"}, "engine": {"backend": "Custom"}, "agent": {"systemPrompt": ""}});
    let keep = Keep::of(&serde_json::from_value(spec).expect("a spec"));
    let question = |after: u64| {
        let (windows, keep) = (Some(Windows::after(after)), keep.clone());
        Question { namespace: "team", windows, keep, has_canary: true }
    };
    let of = |address: &str| {
        let mut pod = pod("a", Some("node"), None);
        pod.status.as_mut().expect("a status").pod_ip = Some(address.to_owned());
        asked_pods(&[pod])
    };
    let asking = |after: u64, address: &str, unready: &[&str]| {
        let unready = unready.iter().map(|address| ("a".to_owned(), (*address).to_owned()));
        Asking { question: question(after), pods: of(address), unready: unready.collect() }
    };
    let (now, asked) = (Timestamp::UNIX_EPOCH, Asked::default());
    let heard = Heard { now, asking: asking(7, "10.0.0.7", &[]), asked, unready: BTreeMap::new() };
    assert!(heard.fits(|_| asking(7, "10.0.0.7", &[])));
    assert!(!heard.fits(|_| asking(8, "10.0.0.7", &[])), "other windows");
    assert!(!heard.fits(|_| asking(7, "10.0.0.8", &[])), "another pod");
    assert!(!heard.fits(|_| asking(7, "10.0.0.7", &["10.0.0.9"])), "a pod that waits");
}
