//! Asks pods that are not ready what they wait for. Reads IO.
//!
//! Only pods that ask a server elsewhere are asked: nothing else in their pod shows what is wrong there.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use reqwest::StatusCode;
use slipway_crds::labels;
use slipway_operator_core::agent_deployment::rollout::revision::Revision;

use super::evidence::{ADMIN_PORT, host};
use crate::bounded_body;

/// Container that answers.
const AGENT_RUNTIME: &str = "agent-runtime";
const PATH: &str = "/readyz";
/// How an answer begins that says why.
const NOT_READY: &str = "not ready: ";
/// How long a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pods asked at once, and in all: one says as much as many.
const MOST_PODS: usize = 4;
/// Bytes of an answer, and characters that are kept of it.
const MAX_BYTES: usize = 16 * 1024;
const MAX_CHARACTERS: usize = 512;

/// What pods of an agent say that run and are not ready, by revision. Silent ones have nothing to say yet.
pub async fn read(
    http: &reqwest::Client,
    (agent, revisions): (&str, &[Revision]),
    pods: &[Pod],
) -> BTreeMap<String, String> {
    let asked: Vec<(String, String)> =
        pods.iter().filter_map(|pod| waiting(pod, agent, revisions)).take(MOST_PODS).collect();
    stream::iter(asked)
        .map(|(revision, address)| async move { Some((revision, ask(http, &address).await?)) })
        .buffered(MOST_PODS)
        .filter_map(|answer| async move { answer })
        .collect()
        .await
}

/// The revision and the address of a pod that can say why it is not ready.
fn waiting(pod: &Pod, agent: &str, revisions: &[Revision]) -> Option<(String, String)> {
    let revision = pod.labels().get(labels::REVISION)?;
    let is_elsewhere = |known: &Revision| known.hash == *revision && known.plan.served.upstream().is_some();
    let is_own = pod.labels().get(labels::AGENT_DEPLOYMENT).is_some_and(|of| of == agent);
    let status = pod.status.as_ref().filter(|_| is_own && pod.metadata.deletion_timestamp.is_none())?;
    let is_ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let runs = status.container_statuses.iter().flatten().any(|container| {
        container.name == AGENT_RUNTIME && container.state.as_ref().is_some_and(|state| state.running.is_some())
    });
    let is_asked = runs && !is_ready && revisions.iter().any(is_elsewhere);
    status.pod_ip.clone().filter(|_| is_asked).map(|address| (revision.clone(), address))
}

async fn ask(http: &reqwest::Client, address: &str) -> Option<String> {
    let url = format!("http://{}:{ADMIN_PORT}{PATH}", host(address));
    let answer = http.get(url).timeout(PATIENCE).send().await.ok()?;
    let is_told = answer.status() == StatusCode::SERVICE_UNAVAILABLE;
    let body = bounded_body::read(answer, MAX_BYTES).await.ok().filter(|_| is_told)?;
    told(&String::from_utf8_lossy(&body))
}

/// The reason in an answer, in one line.
fn told(answer: &str) -> Option<String> {
    let why = answer.strip_prefix(NOT_READY)?;
    let line = why.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line: String = line.collect::<Vec<_>>().join(" ").chars().take(MAX_CHARACTERS).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn revision(served: Value) -> Revision {
        let mut plan = json!({"maxInFlight": 8, "agentRuntimeImage": "r:1", "agent": {}, "hardware": {},
            "agentResources": {}});
        plan.as_object_mut().unwrap().extend(served.as_object().unwrap().clone());
        Revision {
            hash: "a".to_owned(),
            input_hash: String::new(),
            number: 1,
            plan: serde_json::from_value(plan).expect("a plan"),
            name: String::new(),
            uid: String::new(),
            resource_version: String::new(),
        }
    }

    fn elsewhere() -> Revision {
        revision(json!({"upstream": {"url": "https://llm.example", "model": "qwen3"}}))
    }

    fn beside() -> Revision {
        let engine = json!({"name": "engine-1", "manifestDigest": "a".repeat(64), "displayName": "fp32"});
        revision(json!({"engine": engine, "tritonImage": "t:1", "workerImage": "w:1", "tritonResources": {}}))
    }

    fn pod(ready: &str, state: Value) -> Pod {
        let labels = json!({"slipway.dev/revision": "a", "slipway.dev/agent-deployment": "support"});
        let container = json!({"name": "agent-runtime", "state": state, "image": "", "imageID": "", "ready": false,
            "restartCount": 0});
        let status = json!({"podIP": "10.0.0.7", "containerStatuses": [container],
            "conditions": [{"type": "Ready", "status": ready}]});
        serde_json::from_value(json!({"metadata": {"labels": labels}, "status": status})).expect("a pod")
    }

    #[rstest]
    #[case::that_waits("False", json!({"running": {}}), elsewhere(), true)]
    #[case::that_is_ready("True", json!({"running": {}}), elsewhere(), false)]
    #[case::that_has_not_begun("False", json!({"waiting": {}}), elsewhere(), false)]
    #[case::with_an_engine("False", json!({"running": {}}), beside(), false)]
    fn a_pod_is_asked(#[case] ready: &str, #[case] state: Value, #[case] of: Revision, #[case] is_asked: bool) {
        let found = waiting(&pod(ready, state), "support", &[of]);
        assert_eq!(found, is_asked.then(|| ("a".to_owned(), "10.0.0.7".to_owned())));
    }

    #[rstest]
    #[case("not ready: the upstream refuses\n its\tcredentials\n", Some("the upstream refuses its credentials"))]
    #[case("not ready: \n", None)]
    #[case("draining: 2 run(s) in flight\n", None)]
    #[case("<html>", None)]
    fn the_reason_is_one_line(#[case] answer: &str, #[case] expected: Option<&str>) {
        assert_eq!(told(answer).as_deref(), expected);
        assert_eq!(told(&format!("not ready: {}", "x".repeat(9_000))).map(|line| line.len()), Some(MAX_CHARACTERS));
    }
}
