//! A sweep of an artifact store: what an agent left goes, and what another needs stays.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeSet, time::Duration};

use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, agent_deployment::Stage},
};
use slipway_e2e::{
    agents::{READY_LIMIT, draw_question, facts_agent, fresh_seed, namespace_with_servers},
    cluster,
    namespace::Namespace,
    operator::Operator,
    store::RETENTION,
};

/// How long a namespace may take to go: pods that serve stay for their longest run first.
const NAMESPACE_LIMIT: Duration = Duration::from_secs(180);

/// Folders of engines that are in the store.
async fn engines(namespace: &Namespace, pod: &str) -> BTreeSet<String> {
    let listed = namespace.run_in_store(pod, "cd /store && ls -d engines/*").await.unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_sweep_removes_what_an_agent_left_and_nothing_that_another_needs() {
    Operator::find().await.unwrap().configure(RETENTION).unwrap();
    let namespace = namespace_with_servers("swept").await.unwrap();
    let stays = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    let served = namespace.wait_until_served(&stays, READY_LIMIT).await.unwrap().status.unwrap();
    let mut other = facts_agent().unwrap();
    other["metadata"]["name"] = json!("leaves");
    other["spec"]["search"] = json!({"precision": ["INT8"]});
    let leaves = namespace.apply(&other).await.unwrap();
    namespace.wait_until_served(&leaves, READY_LIMIT).await.unwrap();
    let before = engines(&namespace, "before").await;
    assert_eq!(before.len(), 2, "{before:?}");

    let (gone, end) = namespace.sweep_after("leaves").await.unwrap();
    let figures = end.figures.unwrap_or_else(|| unreachable!("{:?}", end.failure));
    // The folder of the artifact; its Engine's follows.
    assert!(figures.removed >= 1 && figures.removed_bytes > 1_000_000, "{figures:?}");
    assert!(figures.capacity_bytes > figures.free_bytes && figures.free_bytes > 0, "{figures:?}");
    let kept = format!("engines/{}", served.selected.unwrap().engine().unwrap());
    let after = engines(&namespace, "after").await;
    assert!(after.contains(&kept), "{after:?}");
    assert!(before.contains(&gone), "{before:?}");
    let left =
        namespace.run_in_store("left", &format!("find /store/{gone} -type f -size +100k | wc -l")).await.unwrap();
    assert_eq!(left.trim(), "0", "files of {gone}");

    let shown = cluster::slipway(&["--namespace", "swept", "store"]).unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    println!("{shown}");
    assert!(shown.contains("Sweep 1 ended at ") && shown.contains("AgentDeployment facts-agent"), "{shown}");

    // What it keeps is enough for a new pod.
    namespace.delete_pods(&format!("{}={}", labels::REVISION, served.rollout.unwrap().stable.unwrap())).await.unwrap();
    namespace.wait_until_served(&stays, READY_LIMIT).await.unwrap();
    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.unwrap();
    let run = namespace.ask("facts-agent", &question.question).await.unwrap();
    assert_eq!(run["answer"].as_str(), Some(question.answer.as_str()), "{run}");
    namespace_goes_while_an_agent_serves_and_another_begins(namespace, &other).await;
}

/// Nothing of ours has a finalizer, so nothing waits for the operator.
async fn namespace_goes_while_an_agent_serves_and_another_begins(namespace: Namespace, other: &Value) {
    let begins = namespace.apply(other).await.unwrap();
    let is_under_way = |agent: &AgentDeployment| {
        let stage = agent.status.as_ref().and_then(|status| status.stage);
        if stage.is_some_and(|stage| stage != Stage::Serving) { Ok(()) } else { Err(format!("{stage:?}")) }
    };
    namespace.wait(&begins.name_any(), "under way", READY_LIMIT, is_under_way).await.unwrap();
    namespace.delete_to_its_end(NAMESPACE_LIMIT).await.unwrap();
}
