//! Commands as they are typed, against an API server that says what it is told to say.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::ready,
    sync::{Arc, Mutex},
};

use clap::Parser;
use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use kubectl_slipway::{
    args::{Args, CommandError},
    cluster::Cluster,
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_vocabulary::failure::chain;
use tower::service_fn;

const STABLE: &str = "1f2e3d4c5b";
const CANARY: &str = "5b4c3d2e1f";
const PROPOSED: &str = "0a0b0c0d0e";

/// What the server has, look by look. The last look stays.
type Looks = Arc<Mutex<VecDeque<Look>>>;

/// What the server has at one look.
#[derive(Clone, Default)]
struct Look {
    agent: Value,
    events: Vec<Value>,
    profile: Value,
}

/// Patches that the server was sent.
type Patches = Arc<Mutex<Vec<Value>>>;

fn agent(annotations: &Value, rollout: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
        "metadata": {"name": "support", "namespace": "demo", "uid": "u1", "generation": 1, "resourceVersion": "7",
            "annotations": annotations},
        "spec": {"model": {"uri": "hf://a/b"}, "engine": {"backend": "Custom"}, "agent": {}, "rollout": rollout},
        "status": status,
    })
}

/// A look at an agent that is not at rest, or Ready without a message.
fn look(message: Option<&str>) -> Look {
    let condition = |kind: &str, is: bool| {
        json!({"type": kind, "status": if is { "True" } else { "False" }, "reason": "Profiling",
            "message": message.unwrap_or_default(), "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions = [condition("Ready", message.is_none()), condition("Reconciling", message.is_some())];
    let status = json!({
        "observedGeneration": 1, "stage": "Serving", "profile": "facts-agent-4bf9336afa", "conditions": conditions,
    });
    Look { agent: agent(&json!({}), &json!({}), &status), ..Look::default() }
}

/// A look at an agent that nothing but a person moves.
fn stopped(kind: &str) -> Look {
    let condition = json!({"type": kind, "status": "True", "reason": "RolledBack", "message": "it did harm",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"observedGeneration": 1, "conditions": [condition]});
    Look { agent: agent(&json!({}), &json!({}), &status), ..Look::default() }
}

fn event(uid: &str, second: u8, reason: &str) -> Value {
    json!({
        "metadata": {"uid": uid}, "involvedObject": {}, "type": "Normal", "reason": reason, "message": "done",
        "eventTime": format!("2026-01-01T00:00:{second:02}.000000Z"),
    })
}

/// The demo's campaign while so many of its measurements are done.
fn campaign(measurements: usize) -> Value {
    let mut profile: Value =
        serde_json::from_str::<Value>(include_str!("fixtures/campaign.json")).unwrap()["profile"].clone();
    let status = profile["status"].as_object_mut().unwrap();
    status.retain(|name, _| name != "choice" && name != "front");
    status["measurements"].as_array_mut().unwrap().truncate(measurements);
    profile
}

/// A server that has one AgentDeployment, no pods, and takes every patch.
async fn answer(request: Request<Body>, looks: Looks, patches: Patches) -> Result<Response<Body>, Infallible> {
    let (path, method) = (request.uri().path().to_owned(), request.method().clone());
    let list = |items: &[Value]| json!({"metadata": {"resourceVersion": "1"}, "items": items});
    if method == Method::PATCH {
        let body = request.into_body().collect_bytes().await.unwrap();
        patches.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    }
    let mut looks = looks.lock().unwrap();
    let now = looks.front().unwrap().clone();
    let said = match path.rsplit('/').next().unwrap() {
        "support" => now.agent,
        "events" => list(&now.events),
        "pods" => list(&[]),
        _ if now.profile.is_null() => json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
        _ => now.profile,
    };
    // The campaign is what a look reads last.
    if path.contains("/profiles/") && looks.len() > 1 {
        looks.pop_front();
    }
    let code = if said["code"] == 404 { StatusCode::NOT_FOUND } else { StatusCode::OK };
    Ok(Response::builder().status(code).body(Body::from(said.to_string().into_bytes())).unwrap())
}

/// What a command writes, how it ends, and the patches that it sends.
async fn typed(command: &str, looks: Vec<Look>) -> (String, Result<(), CommandError>, Vec<Value>) {
    let (looks, patches): (Looks, Patches) = (Arc::new(Mutex::new(looks.into())), Patches::default());
    let sent = patches.clone();
    let client = Client::new(service_fn(move |request| answer(request, looks.clone(), sent.clone())), "demo");
    let args = Args::try_parse_from(["kubectl-slipway"].into_iter().chain(command.split(' '))).unwrap();
    let mut out = Vec::new();
    let end = args.run_in(ready(Ok(Cluster::behind(client, "demo"))), &mut out).await;
    let sent = patches.lock().unwrap().clone();
    (String::from_utf8(out).unwrap(), end, sent)
}

/// The documents of a stream of JSON.
fn documents(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
}

/// A measurement ends, nothing changes, an event comes, and the agent is ready.
fn a_story() -> Vec<Look> {
    let (first, second) = (event("a", 1, "ModelFetched"), event("b", 2, "RevisionPromoted"));
    let measuring = Look { events: vec![first.clone()], profile: campaign(0), ..look(Some("none is measured")) };
    let measured = Look { profile: campaign(1), ..measuring.clone() };
    let promoted = Look { events: vec![second, first], ..measured.clone() };
    let is_ready = Look { agent: look(None).agent, ..promoted.clone() };
    vec![measuring, measured.clone(), measured, promoted, is_ready]
}

#[tokio::test(start_paused = true)]
async fn a_wait_writes_a_document_for_each_change_until_the_agent_is_ready() {
    let (text, end, _) = typed("wait support -o yaml", a_story()).await;
    assert!(end.is_ok());
    insta::assert_snapshot!("wait", text);
}

#[tokio::test(start_paused = true)]
async fn a_wait_tells_people_the_same_in_lines() {
    let (text, end, _) = typed("wait support", a_story()).await;
    assert!(end.is_ok());
    let expected = "\
earlier  ModelFetched         done
    0 s  ...                  Profiling: none is measured
    1 s  measured             fp32/instances-2 at 4 in flight: 14.80 requests/s, p90 501ms, \
meets (shown by 180 requests)
    3 s  RevisionPromoted     done
    4 s  support is ready
";
    assert_eq!(text, expected);
}

#[rstest]
#[case::stalled(vec![stopped("Stalled")], ("Stalled", 3))]
#[case::waiting_for_a_person(vec![stopped("Suspended")], ("Suspended", 6))]
#[case::out_of_time(vec![look(Some("slow"))], ("InProgress", 4))]
#[tokio::test(start_paused = true)]
async fn the_last_document_of_a_wait_says_how_far_it_came(#[case] looks: Vec<Look>, #[case] expected: (&str, u8)) {
    let (text, end, _) = typed("wait support --timeout 3s -o json", looks).await;
    let states: Vec<Value> = documents(&text).iter().map(|document| document["progress"]["state"].clone()).collect();
    assert_eq!((states, end.unwrap_err().exit_code()), (vec![json!(expected.0)], expected.1), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_waited_for_follows_the_documents_of_the_wait() {
    let looks = vec![look(Some("slow")), look(None)];
    let (text, end, _) = typed("status support --watch -o yaml", looks.clone()).await;
    assert!(end.is_ok());
    let first_lines = |document: &str| document.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    let of = |kind: &str| vec!["apiVersion: cli.slipway.dev/v1alpha1".to_owned(), format!("kind: {kind}")];
    let begun: Vec<Vec<String>> = text.split("---\n").skip(1).map(first_lines).collect();
    assert_eq!(begun, [of("Progress"), of("Progress"), of("Status")], "{text}");
    let (text, _, _) = typed("status support --watch -o json", looks).await;
    let kinds: Vec<Value> = documents(&text).iter().map(|document| document["kind"].clone()).collect();
    assert_eq!(kinds, ["Progress", "Progress", "Status"]);
}

/// A canary is rolled out, paused by an annotation and by the spec, and another plan waits for approval.
fn rolling() -> Look {
    let proposed = json!({"planHash": PROPOSED, "since": "2026-01-01T00:00:00Z", "why": "faster", "changes": []});
    let status = json!({"rollout": {"stable": STABLE, "canary": CANARY, "proposed": proposed}});
    let agent = agent(&json!({"slipway.dev/pause": CANARY}), &json!({"paused": true}), &status);
    Look { agent, ..Look::default() }
}

#[rstest]
#[case::by_name("rollout support")]
#[case::by_the_verb_of_kubectls_own("rollout show support")]
#[case::with_the_clusters_flags_first("--namespace demo rollout support")]
#[tokio::test(start_paused = true)]
async fn a_rollout_is_shown_with_its_revisions(#[case] command: &str) {
    let (text, end, _) = typed(command, vec![rolling()]).await;
    assert!(end.is_ok());
    assert!(text.contains(STABLE) && text.contains(CANARY), "{text:?}");
}

/// A canary that nothing holds.
fn going_on() -> Look {
    let status = json!({"rollout": {"stable": STABLE, "canary": CANARY}});
    Look { agent: agent(&json!({}), &json!({}), &status), ..Look::default() }
}

/// A campaign waits for approval, since users ask for other work.
fn drifted() -> Look {
    let at = "2026-01-01T00:00:00Z";
    let drift = json!({
        "revision": STABLE, "verdict": "WorkloadDrift", "since": at, "message": "other work", "baselineFrom": at,
        "proposal": format!("{STABLE}-1"),
    });
    let status = json!({"rollout": {"stable": STABLE}, "drift": drift});
    Look { agent: agent(&json!({}), &json!({}), &status), ..Look::default() }
}

/// A plan that a person gave up.
fn given_up() -> Look {
    let mut look = stopped("Stalled");
    look.agent["metadata"]["annotations"] = json!({"slipway.dev/abort": CANARY});
    look.agent["status"]["rollout"] =
        json!({"stable": STABLE, "rejected": [{"plan": CANARY, "at": "2026-01-01T00:00:00Z", "reason": "worse"}]});
    look
}

fn set(command: &str, value: &str, field: &str) -> Value {
    let (annotation, equal_field) = (format!("slipway.dev/{command}"), format!("spec.rollout.{field}"));
    json!({"action": "Set", "annotation": annotation, "value": value, "equalField": equal_field})
}

fn removed(command: &str, field: &str) -> Value {
    let (annotation, equal_field) = (format!("slipway.dev/{command}"), format!("spec.rollout.{field}"));
    json!({"action": "Remove", "annotation": annotation, "equalField": equal_field})
}

#[rstest]
#[case::approve("Approve", rolling(), json!([set("approve", PROPOSED, "approve")]))]
#[case::approve_a_campaign("Approve", drifted(), json!([{
    "action": "Set", "annotation": "slipway.dev/approve-reprofiling", "value": format!("{STABLE}-1"),
    "equalField": "spec.profiling.approveReprofiling",
}]))]
#[case::promote("Promote", rolling(), json!([set("promote", CANARY, "promote")]))]
#[case::abort("Abort", rolling(), json!([set("abort", CANARY, "abort")]))]
#[case::retry("Retry", given_up(), json!([set("retry", CANARY, "retry"), removed("abort", "abort")]))]
#[case::pause("Pause", going_on(), json!([set("pause", CANARY, "paused")]))]
#[case::resume("Resume", rolling(), json!([
    removed("pause", "paused"),
    {"action": "Set", "field": "spec.rollout.paused", "value": false},
]))]
#[tokio::test]
async fn a_decision_says_in_a_document_what_was_written(
    #[case] decision: &str,
    #[case] look: Look,
    #[case] changes: Value,
) {
    let command = format!("{} support -o json", decision.to_lowercase());
    let (text, end, patches) = typed(&command, vec![look]).await;
    assert!(end.is_ok(), "{end:?}");
    let expected = json!({
        "apiVersion": "cli.slipway.dev/v1alpha1", "kind": "Decision", "name": "support", "namespace": "demo",
        "decision": decision, "changes": changes,
    });
    assert_eq!(documents(&text), [expected]);
    let mut patch = json!({"metadata": {"resourceVersion": "7"}});
    for change in changes.as_array().unwrap() {
        match change["annotation"].as_str() {
            Some(annotation) => patch["metadata"]["annotations"][annotation] = change["value"].clone(),
            None => patch["spec"]["rollout"]["paused"] = change["value"].clone(),
        }
    }
    assert_eq!(patches, [patch], "the document says what was written");
}

#[tokio::test]
async fn a_decision_tells_people_the_same_in_lines() {
    let expected = "\
support: annotation slipway.dev/pause is removed
support: spec.rollout.paused is false
GitOps will revert this unless the manifest sets it too
";
    assert_eq!(typed("resume support", vec![rolling()]).await.0, expected);
    let expected = format!(
        "support: annotation slipway.dev/retry is {CANARY}\nsupport: annotation slipway.dev/abort is removed\n"
    );
    assert_eq!(typed("retry support", vec![given_up()]).await.0, expected);
}

#[tokio::test]
async fn where_there_is_nothing_to_decide_no_document_is_written() {
    let (text, end, patches) = typed("approve support -o yaml", vec![going_on()]).await;
    let expected = "support: nothing waits for approval: see `kubectl slipway status`";
    assert_eq!((text.as_str(), chain(&end.unwrap_err()).as_str(), patches), ("", expected, Vec::new()));
}
