//! A model that another server has: over TLS of a private authority, with a key of a Secret, without an engine.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, time::Duration};

use k8s_openapi::api::{batch::v1::Job, core::v1::PersistentVolumeClaim};
use kube::api::{DeleteParams, ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_e2e::{
    agents::{Lookup, Question, READY_LIMIT, namespace_with_servers, path},
    credentials::Certificates,
    load::pod::LoadPlan,
    namespace::{Namespace, condition_of},
};

const AGENT: &str = "hosted-agent";
/// Longest time until the operator tells what pods wait for.
const TOLD_LIMIT: Duration = Duration::from_secs(90);

fn agent() -> Value {
    serde_norway::from_str(&fs::read_to_string(path("manifests/upstream/agent.yaml")).unwrap()).unwrap()
}

/// The server, and what the agent needs of it but for the key.
async fn with_server(namespace: &Namespace) {
    let certificates = Certificates::of("llm");
    namespace.give_secret("llm-tls", &certificates.for_secret()).await.unwrap();
    namespace.give_config_map("llm-authorities", &json!({"ca.crt": certificates.authority})).await.unwrap();
    let program = fs::read_to_string(path("manifests/upstream/server.py")).unwrap();
    namespace.give_config_map("llm-server", &json!({"server.py": program})).await.unwrap();
    namespace.kubectl_apply(&path("manifests/upstream/server.yaml").to_string_lossy()).unwrap();
    namespace.wait_until_available("llm", Duration::from_secs(60)).await.unwrap();
}

fn stable_of(agent: &AgentDeployment) -> String {
    agent.status.clone().and_then(|status| status.rollout).and_then(|rollout| rollout.stable).unwrap()
}

#[tokio::test]
async fn an_agent_asks_a_server_elsewhere_from_its_first_pod_to_its_last() {
    let namespace = namespace_with_servers("upstream").await.unwrap();
    with_server(&namespace).await;
    let applied = namespace.apply(&agent()).await.unwrap();
    let missing = namespace.wait_for_message(AGENT, "Reconciling", "create Secret llm-key", TOLD_LIMIT).await.unwrap();
    println!("{missing}");
    namespace.give_secret("llm-key", &json!({"authorization": "Bearer right"})).await.unwrap();
    let served = namespace.wait_until_served(&applied, READY_LIMIT).await.unwrap();
    let (status, reason, _) = condition_of(&served, "SLOAttainable").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "ServedElsewhere"));
    nothing_was_built(&namespace).await;

    let question = Question {
        seed: 1,
        question: "What is the height of Bela?".to_owned(),
        lookups: vec![Lookup { entity: "Bela".to_owned(), property: "height".to_owned(), value: "731".to_owned() }],
        answer: "Surely 731".to_owned(),
    };
    namespace.teach(&question).await.unwrap();
    let run = namespace.ask(AGENT, &question.question).await.unwrap();
    let calls = namespace.calls().await.unwrap();
    assert_eq!(run["answer"].as_str(), Some("Surely 731"), "{run}");
    assert_eq!(calls, [("Bela".to_owned(), "height".to_owned())]);

    let served = a_changed_prompt_takes_over_without_a_failed_request(&namespace, &served).await;
    let run = namespace.ask(AGENT, &question.question).await.unwrap();
    assert_eq!(run["answer"].as_str(), Some("Perhaps 731"), "{run}");
    a_wrong_key_is_told_and_harms_nobody(&namespace, &served).await;
    nothing_was_built(&namespace).await;
    it_goes_with_everything(&namespace).await;
    namespace.delete().await.unwrap();
}

async fn nothing_was_built(namespace: &Namespace) {
    let ours = ListParams::default().labels("app.kubernetes.io/managed-by=slipway");
    let jobs = namespace.api::<Job>().list(&ours).await.unwrap().items.len();
    let engines = namespace.api::<Engine>().list(&ours).await.unwrap().items.len();
    let profiles = namespace.api::<Profile>().list(&ours).await.unwrap().items.len();
    let claims = namespace.api::<PersistentVolumeClaim>().list(&ours).await.unwrap().items.len();
    assert_eq!((jobs, engines, profiles, claims), (0, 0, 0, 0));
}

fn another_prompt() -> Value {
    let mut changed = agent();
    changed["spec"]["agent"]["systemPrompt"] = json!("Perhaps");
    changed
}

async fn a_changed_prompt_takes_over_without_a_failed_request(
    namespace: &Namespace,
    before: &AgentDeployment,
) -> AgentDeployment {
    let load = LoadPlan {
        agent: AGENT.to_owned(),
        url: format!("http://{AGENT}"),
        host: None,
        keeps_connections: false,
        rate: 5,
    };
    let load = namespace.start_load(&load).await.unwrap();
    load.next_intervals(1).await.unwrap();
    let applied = namespace.apply(&another_prompt()).await.unwrap();
    let served = namespace.wait_until_served(&applied, READY_LIMIT).await.unwrap();
    assert_ne!(stable_of(before), stable_of(&served));
    load.next_intervals(2).await.unwrap();
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!(summary.failed(), 0, "{summary:?}");
    assert!(summary.ok_of(&stable_of(&served)) > 0, "{summary:?}");
    served
}

/// A key that the server refuses keeps the new pods from becoming ready. The old ones have theirs.
async fn a_wrong_key_is_told_and_harms_nobody(namespace: &Namespace, served: &AgentDeployment) {
    namespace.give_secret("wrong-key", &json!({"authorization": "Bearer wrong"})).await.unwrap();
    let mut changed = another_prompt();
    changed["spec"]["model"]["upstream"]["headersFrom"] = json!({"name": "wrong-key"});
    namespace.apply(&changed).await.unwrap();
    let words = "refuses its credentials (HTTP status 401)";
    let told = namespace.wait_for_message(AGENT, "Reconciling", words, TOLD_LIMIT).await.unwrap();
    println!("{told}");
    let run = namespace.ask(AGENT, "Hello").await.unwrap();
    assert_eq!(run["status"].as_str(), Some("succeeded"), "{run}");
    let back = namespace.apply(&another_prompt()).await.unwrap();
    let back = namespace.wait_until_served(&back, READY_LIMIT).await.unwrap();
    assert_eq!(stable_of(&back), stable_of(served));
}

async fn it_goes_with_everything(namespace: &Namespace) {
    namespace.api::<AgentDeployment>().delete(AGENT, &DeleteParams::default()).await.unwrap();
    let pods = format!("{}={AGENT}", labels::AGENT_DEPLOYMENT);
    namespace.wait_until_no_pods(&pods, Duration::from_secs(120)).await.unwrap();
}
