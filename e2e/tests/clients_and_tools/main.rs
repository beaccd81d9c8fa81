//! Whom an agent lets in, and which tools it calls, as its AgentDeployment and Secrets say. The agent runtime's own
//! tests show the same without a cluster.
//!
//! All scenarios share a namespace, and so an engine and its build.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod issuer;
mod keys;
mod tokens;
mod tools;

use std::{collections::BTreeMap, time::Duration};

use kube::{ResourceExt, api::DeleteParams};
use serde_json::{Value, json};
use slipway_crds::{labels, v1alpha1::AgentDeployment};
use slipway_e2e::{
    agents::{READY_LIMIT, draw_question, facts_agent, fresh_seed, namespace_with_servers, path},
    gitops::eventually,
    namespace::Namespace,
    servers::callers::{Answer, Call},
};
use slipway_vocabulary::failure::chain;

const NAMESPACE: &str = "clients-and-tools";
/// The kubelet looks again at what it has mounted after 60 to 90 seconds, and the agent runtime every five.
const MOUNT_LIMIT: Duration = Duration::from_secs(150);
/// Longest time until a server answers that has started, and until the node knows its Service.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The namespace, with the servers that all scenarios need.
async fn shared_namespace() -> Namespace {
    let namespace = namespace_with_servers(NAMESPACE).await.unwrap();
    start_server(&namespace, "client").await;
    namespace
}

/// Starts a server of `manifests/clients_and_tools`.
async fn start_server(namespace: &Namespace, name: &str) {
    let manifest = path("manifests/clients_and_tools").join(format!("{name}.yaml"));
    namespace.kubectl_apply(&manifest.to_string_lossy()).unwrap();
    namespace.wait_until_available(name, START_LIMIT).await.unwrap();
}

/// The agent that looks facts up, under another name and edited.
fn agent(name: &str, edit: impl FnOnce(&mut Value)) -> Value {
    let mut manifest = facts_agent().unwrap();
    manifest["metadata"]["name"] = json!(name);
    edit(&mut manifest["spec"]);
    manifest
}

async fn serve(namespace: &Namespace, manifest: &Value) {
    let applied = namespace.apply(manifest).await.unwrap();
    namespace.wait_until_served(&applied, READY_LIMIT).await.unwrap();
}

/// Leaves the node's room to the next scenario.
async fn remove(namespace: &Namespace, agent: &str) {
    namespace.api::<AgentDeployment>().delete(agent, &DeleteParams::default()).await.unwrap();
}

/// What an agent or another server answers a client in the cluster that has this token, if any. The node knows a
/// Service a moment after its pod is ready, so one that has no connection comes again.
async fn call(namespace: &Namespace, host: &str, token: Option<&str>, request: (&str, &str, Option<Value>)) -> Answer {
    let (method, path, body) = request;
    let headers = token.map(|token| ("authorization".to_owned(), format!("Bearer {token}"))).into_iter().collect();
    let call = Call { method: method.to_owned(), url: format!("http://{host}{path}"), headers, body };
    let call = serde_json::to_value(call).unwrap();
    let answered = async || {
        let answer = namespace.request("POST", "client", "/", Some(&call)).await.map_err(|error| chain(&error))?;
        serde_json::from_value(answer).map_err(|error| chain(&error))
    };
    eventually(&format!("{method} {path} of {host}"), START_LIMIT, answered).await
}

/// A request that asks the agent for nothing, by which a client learns whether it is let in.
async fn knock(namespace: &Namespace, agent: &str, token: Option<&str>) -> Answer {
    call(namespace, agent, token, ("GET", "/v1/models", None)).await
}

/// Whether a token lets in, for those who wait for it.
async fn is_let_in(namespace: &Namespace, agent: &str, token: &str) -> Result<(), String> {
    let answer = knock(namespace, agent, Some(token)).await;
    if answer.status == 200 { Ok(()) } else { Err(format!("{answer:?}")) }
}

/// Status and message of a refusal.
fn refusal(answer: &Answer) -> (u16, &str) {
    (answer.status, answer.body["error"]["message"].as_str().unwrap_or_default())
}

/// A question that nobody has asked before is answered by looking its facts up. Otherwise it says what happened.
async fn answers_by_its_tool(namespace: &Namespace, agent: &str) -> Result<(), String> {
    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.map_err(|error| chain(&error))?;
    let run = namespace.ask(agent, &question.question).await.map_err(|error| chain(&error))?;
    let mut expected: Vec<_> = question.lookups.iter().map(|l| (l.entity.clone(), l.property.clone())).collect();
    expected.sort();
    let calls = namespace.calls().await.map_err(|error| chain(&error))?;
    if run["answer"].as_str() == Some(question.answer.as_str()) && calls == expected {
        return Ok(());
    }
    Err(format!("{question:?}: {run}; looked up: {calls:?}"))
}

/// How often each container of an agent's pods was restarted, by `POD/CONTAINER`. Pods that leave are left out.
async fn restarts(namespace: &Namespace, agent: &str) -> BTreeMap<String, i32> {
    let pods = namespace.pods(&format!("{}={agent}", labels::AGENT_DEPLOYMENT)).await.unwrap();
    let serving = pods.iter().filter(|pod| {
        let component = pod.labels().get(labels::APP_COMPONENT).map(String::as_str);
        component == Some("serve") && pod.metadata.deletion_timestamp.is_none()
    });
    let of_pod = |pod: &k8s_openapi::api::core::v1::Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        let name = pod.name_any();
        all.map(|container| (format!("{name}/{}", container.name), container.restart_count)).collect::<Vec<_>>()
    };
    serving.flat_map(of_pod).collect()
}
