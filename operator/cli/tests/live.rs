//! `get --watch` against an API server that says what it is told to say.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use kube::{Client, client::Body};
use kubectl_slipway::{
    cluster::Cluster,
    live::{Follow, FollowError, Until, follow},
    output::Format,
    tree::text::Focus,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_vocabulary::failure::chain;
use tower::service_fn;

fn agent(version: u32, status: Value) -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
        "metadata": {"name": "facts-agent", "namespace": "demo", "uid": "u1", "generation": 1,
            "resourceVersion": version.to_string()},
        "spec": {"model": {"uri": "hf://a/b"}, "engine": {"backend": "Custom"}, "agent": {}},
        "status": status,
    })
}

fn serving(message: &str) -> Value {
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "observedGeneration": 1, "stage": "Serving", "rollout": {"stable": "s1"},
        "conditions": [condition("Ready", "False"), condition("Reconciling", "True")],
    })
}

/// What the watch of AgentDeployments tells, request by request. A watch without further words stays open.
type Words = Arc<Mutex<VecDeque<Vec<Value>>>>;

/// Time between two answers of the watch: longer than a display waits before it shows what has changed.
const BETWEEN: Duration = Duration::from_secs(5);

/// A server that has one AgentDeployment and no pods.
async fn answer(request: Request<Body>, words: Words, pods: StatusCode) -> Result<Response<Body>, Infallible> {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    let is_watch = query.contains("watch=true");
    let json = |code: StatusCode, body: &Value| {
        Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
    };
    if path.ends_with("/agentdeployments/facts-agent") {
        return Ok(json(StatusCode::OK, &agent(1, serving("first"))));
    }
    if path.ends_with("/pods") && pods != StatusCode::OK {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "reason": "Forbidden", "message": "pods is forbidden: not you", "code": pods.as_u16()});
        return Ok(json(pods, &status));
    }
    if !is_watch {
        let items = if path.ends_with("/agentdeployments") { vec![agent(1, serving("first"))] } else { Vec::new() };
        return Ok(json(StatusCode::OK, &json!({"metadata": {"resourceVersion": "1"}, "items": items})));
    }
    let told = if path.ends_with("/agentdeployments") { words.lock().unwrap().pop_front() } else { None };
    match told {
        Some(events) => {
            tokio::time::sleep(BETWEEN).await;
            let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
            Ok(Response::new(Body::from(lines.into_bytes())))
        }
        None => std::future::pending().await,
    }
}

/// What is written while the watch tells these words, and how it ends.
async fn followed(
    words: Vec<Vec<Value>>,
    format: Option<Format>,
    pods: StatusCode,
) -> (String, Result<(), FollowError>) {
    let words: Words = Arc::new(Mutex::new(words.into()));
    let client = Client::new(service_fn(move |request| answer(request, words.clone(), pods)), "demo");
    let cluster = Cluster::behind(client, "demo");
    let mut out = Vec::new();
    let how = Follow { focus: Focus::Agent, format, until: Until::Deleted };
    let end = follow(&cluster, "facts-agent", how, &mut out).await;
    (String::from_utf8(out).unwrap(), end)
}

fn told(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

/// A change, the same again, and the end.
fn a_story() -> Vec<Vec<Value>> {
    let second = agent(2, serving("second"));
    vec![
        vec![told("MODIFIED", &second)],
        vec![told("MODIFIED", &agent(3, serving("second")))],
        vec![told("DELETED", &agent(4, serving("second")))],
    ]
}

#[tokio::test(start_paused = true)]
async fn what_is_no_terminal_gets_a_block_for_each_change_until_the_agent_is_deleted() {
    let (text, end) = followed(a_story(), None, StatusCode::OK).await;
    assert!(end.is_ok());
    let is_moment = |line: &&str| !line.starts_with("At ");
    let shown: String = text.lines().filter(is_moment).map(|line| format!("{line}\n")).collect();
    insta::assert_snapshot!("blocks", shown);
    assert_eq!(text.lines().count() - shown.lines().count(), 2, "a block begins with its time: {text}");
}

#[tokio::test(start_paused = true)]
async fn programs_get_a_document_for_each_change() {
    let (text, end) = followed(a_story(), Some(Format::Yaml), StatusCode::OK).await;
    assert!(end.is_ok());
    let documents: Vec<&str> = text.split("---\napiVersion: cli.slipway.dev/v1alpha1\nkind: Tree\n").collect();
    let has = |at: usize, message: &str| documents[at].contains(&format!("message: 'R: {message}'"));
    assert_eq!((documents.len(), has(1, "first"), has(2, "second")), (3, true, true), "{text}");
}

#[tokio::test(start_paused = true)]
async fn programs_read_documents_alone_to_the_end() {
    let (text, end) = followed(a_story(), Some(Format::Json), StatusCode::OK).await;
    assert!(end.is_ok());
    let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
    let kinds = documents.map(|all| all.iter().map(|document| document["kind"].clone()).collect::<Vec<_>>());
    assert_eq!(kinds.map_err(|error| error.to_string()), Ok(vec![json!("Tree"); 2]), "{text}");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_list_pods_is_told_so_and_does_not_wait() {
    let (_, end) = followed(Vec::new(), None, StatusCode::FORBIDDEN).await;
    let expected = "failed to watch: failed to list and watch what belongs to it: HTTP 403: pods is forbidden: not you";
    assert_eq!(end.map_err(|error| chain(&error)), Err(expected.to_owned()));
}
