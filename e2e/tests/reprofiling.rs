//! A choice that waits for a person, and a campaign by schedule beside what serves.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment, AgentDeploymentStatus,
        agent_deployment::{ReprofilingResult, Stage},
    },
};
use slipway_e2e::{
    agents::{facts_agent, namespace_with_servers, workload_source},
    campaigns::CAMPAIGN_LIMIT,
    cluster,
    namespace::{Namespace, condition_of},
    rollouts::rollout_of,
};

const AGENT: &str = "facts-agent";

/// An agent whose choices a person approves.
fn agent(precision: &[&str]) -> Value {
    let mut agent = facts_agent().unwrap();
    agent["spec"]["search"] = json!({"precision": precision, "concurrency": [4]});
    let reply = json!({"name": "reply", "metric": "RequestLatency", "percentile": "p50", "max": "30s"});
    agent["spec"]["slo"] = json!({"objectives": [reply], "optimizeFor": "Throughput"});
    agent["spec"]["profiling"] = json!({
        "workloads": [{"name": "turns", "prompts": workload_source("prompts.jsonl")}],
        "approval": "Manual",
    });
    agent
}

async fn wait_for(
    namespace: &Namespace,
    what: &str,
    is_so: impl Fn(&AgentDeploymentStatus) -> bool,
) -> AgentDeployment {
    let look = |agent: &AgentDeployment| {
        let status = agent.status.clone().unwrap_or_default();
        if is_so(&status) { Ok(agent.clone()) } else { Err(format!("{:?} {:?}", status.stage, status.reprofiling)) }
    };
    namespace.wait(AGENT, what, CAMPAIGN_LIMIT, look).await.unwrap()
}

/// The pods of the plan that serves; those of the one before may still be leaving.
async fn uids(namespace: &Namespace, served: &AgentDeployment) -> Vec<String> {
    let stable = rollout_of(served).stable.unwrap();
    let pods = namespace.pods(&format!("{}={stable}", labels::REVISION)).await.unwrap();
    pods.into_iter().filter_map(|pod| pod.metadata.uid).collect()
}

#[tokio::test]
async fn a_choice_waits_for_a_person_and_is_measured_anew_by_schedule() {
    let namespace = namespace_with_servers("reprofiling").await.unwrap();
    namespace.give_workload().await.unwrap();
    let first = namespace.apply(&agent(&["FP32"])).await.unwrap();
    let served = namespace.wait_until_served(&first, CAMPAIGN_LIMIT).await.unwrap();
    let serving = uids(&namespace, &served).await;

    namespace.apply(&agent(&["FP32", "INT8"])).await.unwrap();
    let waiting =
        wait_for(&namespace, "awaiting approval", |status| status.stage == Some(Stage::AwaitingApproval)).await;
    let state = |condition| condition_of(&waiting, condition).map(|(status, reason, _)| (status, reason));
    let told = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    assert_eq!(state("Ready"), told("True", "Serving"));
    assert_eq!(state("Suspended"), told("True", "AwaitingApproval"));
    assert_eq!(uids(&namespace, &waiting).await, serving, "what serves goes on");

    let output = cluster::slipway(&["--namespace", namespace.name(), "rollout", AGENT]).unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{shown}");
    assert!(shown.contains("fp32 -> int8") && shown.contains(&format!("kubectl slipway approve {AGENT}")), "{shown}");
    let output = cluster::slipway(&["--namespace", namespace.name(), "approve", AGENT]).unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    let is_int8 = |status: &AgentDeploymentStatus| {
        let selected = status.selected.as_ref().is_some_and(|selected| selected.display_name == "int8");
        selected && status.stage == Some(Stage::Serving)
    };
    let served = wait_for(&namespace, "served by INT8", is_int8).await;

    a_campaign_by_schedule_leaves_what_serves_alone(&namespace, &served).await;
    namespace.delete().await.unwrap();
}

async fn a_campaign_by_schedule_leaves_what_serves_alone(namespace: &Namespace, served: &AgentDeployment) {
    let serving = uids(namespace, served).await;
    let mut scheduled = agent(&["FP32", "INT8"]);
    scheduled["spec"]["profiling"]["schedule"] = json!({"cron": "* * * * *"});
    scheduled["spec"]["profiling"]["budget"] = json!({"perMonth": "1"});
    namespace.apply(&scheduled).await.unwrap();
    let has_ended = |status: &AgentDeploymentStatus| {
        let run = status.reprofiling.as_ref().and_then(|reprofiling| reprofiling.run.as_ref());
        run.is_some_and(|run| run.ended_at.is_some())
    };
    let ended = wait_for(namespace, "measured by schedule", has_ended).await;
    let run = ended.status.clone().unwrap().reprofiling.unwrap().run.unwrap();
    println!("measured anew: {}", run.message);
    assert_eq!(run.result, Some(ReprofilingResult::Unchanged), "{}", run.message);
    assert_eq!(uids(namespace, &ended).await, serving);
}
