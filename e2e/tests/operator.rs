//! The operator beside agents at rest: it writes nothing, needs little, and another version of it restarts nothing.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment},
    batch::v1::Job,
};
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::v1alpha1::{AgentDeployment, Engine};
use slipway_e2e::{
    agents::{READY_LIMIT, facts_agent, namespace_with_servers},
    namespace::Namespace,
    operator::{Mark, Operator, Write},
};

const NAMESPACE: &str = "at-rest";
/// Agents with objectives are looked at every 30 seconds.
const LIMIT: Duration = Duration::from_secs(300);
/// Resident memory that the operator is meant to stay below, idle.
const MEMORY_LIMIT: u64 = 40 << 20;

/// Everything of two live agents that another version could restart, with what changes when it does.
async fn what_lives(namespace: &Namespace) -> BTreeSet<String> {
    let all = ListParams::default();
    let mut found = BTreeSet::new();
    for job in namespace.api::<Job>().list(&all).await.unwrap() {
        found.insert(format!("Job {} {}", job.name_any(), job.uid().unwrap()));
    }
    for revision in namespace.api::<ControllerRevision>().list(&all).await.unwrap() {
        found.insert(format!("ControllerRevision {} {}", revision.name_any(), revision.uid().unwrap()));
    }
    for engine in namespace.api::<Engine>().list(&all).await.unwrap() {
        found.insert(format!("Engine {} {}", engine.name_any(), engine.resource_version().unwrap()));
    }
    for agent in namespace.api::<AgentDeployment>().list(&all).await.unwrap() {
        found.insert(format!("AgentDeployment {} {}", agent.name_any(), agent.resource_version().unwrap()));
    }
    for deployment in namespace.api::<Deployment>().list(&all).await.unwrap() {
        found.insert(format!("Deployment {} {:?}", deployment.name_any(), deployment.metadata.generation));
    }
    for pod in namespace.pods("").await.unwrap() {
        let containers = pod.status.iter().flat_map(|s| s.container_statuses.iter().flatten());
        let restarts: i32 = containers.map(|container| container.restart_count).sum();
        found.insert(format!("Pod {} {} {restarts}", pod.name_any(), pod.uid().unwrap()));
    }
    found
}

/// Writes to this scenario's objects; other scenarios' agents may be under way.
fn writes_here(operator: &Operator, since: Mark) -> Vec<Write> {
    let writes = operator.writes_since(since).unwrap();
    assert!(writes.iter().any(is_lease), "the audit log shows not even the lease: {writes:?}");
    writes.into_iter().filter(|write| write.object_ref.as_ref().is_some_and(|o| o.namespace == NAMESPACE)).collect()
}

fn is_lease(write: &Write) -> bool {
    write.object_ref.as_ref().is_some_and(|object| object.resource == "leases")
}

async fn two_agents(namespace: &Namespace) {
    let first = facts_agent().unwrap();
    let mut second = first.clone();
    second["metadata"]["name"] = json!("second-agent");
    second["spec"]["agent"]["systemPrompt"] = json!("You are the second agent.");
    let (first, second) = (namespace.apply(&first).await.unwrap(), namespace.apply(&second).await.unwrap());
    namespace.wait_until_served(&first, READY_LIMIT).await.unwrap();
    namespace.wait_until_served(&second, READY_LIMIT).await.unwrap();
}

#[tokio::test]
async fn beside_agents_at_rest_the_operator_writes_nothing_and_another_version_starts_nothing() {
    let namespace = namespace_with_servers(NAMESPACE).await.unwrap();
    two_agents(&namespace).await;
    let operator = Operator::find().await.unwrap();
    let leader = operator.leader(":dev", LIMIT).await.unwrap();
    // What the pods' becoming ready has set going comes to its end.
    operator.wait_for_reconciliations(&leader, "AgentDeployment", 4, LIMIT).await.unwrap();

    let start = operator.mark().unwrap();
    let looks = operator.wait_for_reconciliations(&leader, "AgentDeployment", 6, LIMIT).await.unwrap();
    assert_eq!(writes_here(&operator, start), [], "in {looks} reconciliations");
    let (working_set, resident) = operator.memory(&leader).await.unwrap();
    println!("0 writes but the lease in {looks} reconciliations; working set {working_set} B, resident {resident} B");
    assert!(resident > 0 && working_set < MEMORY_LIMIT, "working set {working_set} B, resident {resident} B");

    let before = what_lives(&namespace).await;
    for tag in ["next", "dev"] {
        let start = operator.mark().unwrap();
        operator.upgrade(tag).unwrap();
        let leader = operator.leader(&format!(":{tag}"), LIMIT).await.unwrap();
        operator.wait_for_reconciliations(&leader, "AgentDeployment", 2, LIMIT).await.unwrap();
        assert_eq!(writes_here(&operator, start), [], "by the operator of {tag}");
        assert_eq!(what_lives(&namespace).await, before, "under the operator of {tag}");
    }
    namespace.delete().await.unwrap();
}
