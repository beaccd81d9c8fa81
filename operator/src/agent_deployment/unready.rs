//! Asks pods that are not ready what they wait for: a server elsewhere, or one of their tools. Reads IO.
//!
//! The agent runtime starts once the engine in its pod has started, so what it waits for then shows nowhere else.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use reqwest::StatusCode;
use slipway_crds::labels;
use slipway_operator_core::agent_deployment::{
    rollout::revision::{Revision, baseline_of},
    world::ServingView,
};

use crate::{
    bounded_body,
    evidence::{ADMIN_PORT, Pods, host},
};

/// Container that answers.
const AGENT_RUNTIME: &str = "agent-runtime";
const PATH: &str = "/readyz";
/// How an answer begins that says why.
const NOT_READY: &str = "not ready: ";
/// How long a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pods asked of a revision, and in all: one says as much as many. The newest revisions come first.
const MOST_OF_REVISION: usize = 2;
const MOST_PODS: usize = 8;
/// What a pod says before its first question was answered: nothing yet.
const UNCHECKED: &str = "the engine has not been checked yet";
/// Digits of an id.
const FEWEST_DIGITS: usize = 5;
/// Bytes of an answer, and characters that are kept of it.
const MAX_BYTES: usize = 16 * 1024;
const MAX_CHARACTERS: usize = 512;

/// A pod that waits: its revision and its address.
pub(super) type Unready = (String, String);

/// What pods of a namespace say that run and are not ready, by revision. Silent ones have nothing to say yet.
pub(super) async fn read(
    (http, turns): (&reqwest::Client, &Pods),
    namespace: &str,
    pods: &[Unready],
) -> BTreeMap<String, String> {
    let ask = |(revision, address): Unready| async move {
        let _turn = turns.turn_of_unready(namespace).await?;
        Some((revision, ask(http, &address).await?))
    };
    stream::iter(pods.to_vec()).map(ask).buffered(MOST_PODS).filter_map(|answer| async move { answer }).collect().await
}

/// Adds it to what is seen of revisions; whatever Kubernetes says comes first.
pub(super) fn tell(serving: &mut BTreeMap<String, ServingView>, unready: &BTreeMap<String, String>) {
    for (revision, view) in serving {
        view.failure = view.failure.take().or_else(|| unready.get(revision).cloned());
    }
}

/// Whether a pod's agent runtime runs and is not ready. A pod that leaves has nothing to wait for.
pub(super) fn can_tell(pod: &Pod) -> bool {
    let Some(status) = pod.status.as_ref().filter(|_| pod.metadata.deletion_timestamp.is_none()) else { return false };
    let is_ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let runs = status.container_statuses.iter().flatten().any(|container| {
        container.name == AGENT_RUNTIME && container.state.as_ref().is_some_and(|state| state.running.is_some())
    });
    runs && !is_ready
}

/// The pods to ask.
pub(super) fn asked(pods: &[Pod], agent: &str, revisions: &[Revision]) -> Vec<Unready> {
    let mut found: Vec<_> = pods.iter().filter_map(|pod| waiting(pod, agent, revisions)).collect();
    found.sort_by(|(a, ..), (b, ..)| b.cmp(a));
    let mut of_revision: BTreeMap<String, usize> = BTreeMap::new();
    let few = found.into_iter().filter_map(|(_, revision, address)| {
        let place = of_revision.entry(revision.clone()).or_default();
        *place += 1;
        (*place <= MOST_OF_REVISION).then_some((revision, address))
    });
    few.take(MOST_PODS).collect()
}

/// The number, the revision as the pod has it, and the address of a pod that can say why it is not ready.
fn waiting(pod: &Pod, agent: &str, revisions: &[Revision]) -> Option<(i64, String, String)> {
    let revision = pod.labels().get(labels::REVISION)?;
    let known = revisions.iter().find(|known| known.hash == *revision || baseline_of(&known.hash) == *revision)?;
    let is_own = pod.labels().get(labels::AGENT_DEPLOYMENT).is_some_and(|of| of == agent);
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).filter(|_| is_own && can_tell(pod))?;
    Some((known.number, revision.clone(), address))
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
    let words = why.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let words = words.map(|word| if is_id(word) { "…" } else { word });
    let line: String = words.collect::<Vec<_>>().join(" ").chars().take(MAX_CHARACTERS).collect();
    (!line.is_empty() && line != UNCHECKED).then_some(line)
}

/// Whether a word may be another one in each answer: the id of a request, a time. A status that keeps such words is
/// written without end. Addresses stay.
fn is_id(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_address = word.contains("://") || word.parse::<IpAddr>().is_ok() || word.parse::<SocketAddr>().is_ok();
    !is_address && word.chars().filter(char::is_ascii_digit).count() >= FEWEST_DIGITS
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

    fn pod(ready: &str, state: Value) -> Pod {
        let labels = json!({"slipway.dev/revision": "a", "slipway.dev/agent-deployment": "support"});
        let container = json!({"name": "agent-runtime", "state": state, "image": "", "imageID": "", "ready": false,
            "restartCount": 0});
        let status = json!({"podIP": "10.0.0.7", "containerStatuses": [container],
            "conditions": [{"type": "Ready", "status": ready}]});
        serde_json::from_value(json!({"metadata": {"labels": labels}, "status": status})).expect("a pod")
    }

    fn with_an_engine(mut pod: Pod) -> Pod {
        let spec = json!({"containers": [], "initContainers": [{"name": "triton"}]});
        pod.spec = Some(serde_json::from_value(spec).expect("a pod's spec"));
        pod
    }

    fn leaving(mut pod: Pod) -> Pod {
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-27T00:00:00Z")).expect("a time");
        pod
    }

    #[rstest]
    #[case::that_waits(pod("False", json!({"running": {}})), true)]
    #[case::that_is_ready(pod("True", json!({"running": {}})), false)]
    #[case::that_has_not_begun(pod("False", json!({"waiting": {}})), false)]
    #[case::with_an_engine_that_waits_for_a_tool(with_an_engine(pod("False", json!({"running": {}}))), true)]
    #[case::that_leaves(leaving(pod("False", json!({"running": {}}))), false)]
    fn a_pod_is_asked(#[case] pod: Pod, #[case] is_asked: bool) {
        let found = asked(&[pod], "support", &[elsewhere()]);
        let expected = is_asked.then(|| ("a".to_owned(), "10.0.0.7".to_owned()));
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }

    /// A pod that waits, of this revision.
    fn waits(revision: &str, address: &str) -> Pod {
        let mut pod = pod("False", json!({"running": {}}));
        pod.metadata.labels.as_mut().unwrap().insert(labels::REVISION.to_owned(), revision.to_owned());
        pod.status.as_mut().unwrap().pod_ip = Some(address.to_owned());
        pod
    }

    #[test]
    fn the_newest_revision_is_asked_first_and_a_baseline_too() {
        let new = Revision { hash: "b".to_owned(), number: 2, ..elsewhere() };
        let pods = ["1", "2", "3"].map(|address| waits("a", address));
        let pods = [pods.as_slice(), &[waits("a-base", "4"), waits("b", "5")]].concat();
        let found = asked(&pods, "support", &[elsewhere(), new]);
        let expected = [("b", "5"), ("a", "1"), ("a", "2"), ("a-base", "4")];
        assert_eq!(found, expected.map(|(revision, address)| (revision.to_owned(), address.to_owned())));
    }

    #[rstest]
    #[case("not ready: the upstream refuses\n its\tcredentials\n", Some("the upstream refuses its credentials"))]
    #[case("not ready: \n", None)]
    #[case("not ready: the engine has not been checked yet\n", None)]
    #[case(
        "not ready: HTTP status 404: no model (request id: 20261126065719123456, req_011CSHoEeqs5C35K2UUqR7Fy).",
        Some("HTTP status 404: no model (request id: … …")
    )]
    #[case(
        "not ready: the engine at https://llm12345.example cannot be reached: 10.244.130.117:8000 is silent",
        Some("the engine at https://llm12345.example cannot be reached: 10.244.130.117:8000 is silent")
    )]
    #[case("draining: 2 run(s) in flight\n", None)]
    #[case("<html>", None)]
    fn the_reason_is_one_line(#[case] answer: &str, #[case] expected: Option<&str>) {
        assert_eq!(told(answer).as_deref(), expected);
        assert_eq!(told(&format!("not ready: {}", "x".repeat(9_000))).map(|line| line.len()), Some(MAX_CHARACTERS));
    }
}
