//! A campaign: engines and configurations are measured by Triton and Model Analyzer, one is chosen, confirmed and
//! served.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment, Profile,
        profile::{MeasurementPurpose, ProfilePhase},
    },
};
use slipway_e2e::{
    agents::{facts_agent, namespace_with_servers, workload_source},
    namespace::Namespace,
};

/// Two engines, two instance counts, three levels, and a confirm run on one core.
const CAMPAIGN_LIMIT: Duration = Duration::from_secs(1_200);

fn profiled_agent(objectives: &Value) -> Value {
    let mut agent = facts_agent().unwrap();
    agent["spec"]["search"] = json!({"precision": ["FP32", "INT8"], "concurrency": [1, 4, 16], "instances": [1, 2]});
    agent["spec"]["slo"] = json!({"objectives": objectives, "optimizeFor": "Throughput"});
    agent["spec"]["profiling"] = json!({"workloads": [
        {"name": "turns", "prompts": workload_source("prompts.jsonl")},
        {"name": "runs", "agentTrace": workload_source("trace.jsonl")},
    ]});
    agent
}

fn objectives(reply: &str) -> Value {
    json!([
        {"name": "reply", "metric": "RequestLatency", "percentile": "p50", "max": reply},
        {"name": "answer", "metric": "AgentRunLatency", "percentile": "p50", "max": "20s"},
    ])
}

async fn only_profile(namespace: &Namespace) -> Profile {
    let profiles = namespace.api::<Profile>().list(&ListParams::default()).await.unwrap();
    assert_eq!(profiles.items.len(), 1, "{:?}", profiles.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    profiles.items.into_iter().next().unwrap()
}

/// Pods of a campaign that run.
async fn measuring(namespace: &Namespace, profile: &str) -> usize {
    let pods = namespace.pods(&format!("{}={profile}", labels::PROFILE)).await.unwrap();
    let is_running = |pod: &&Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"));
    pods.iter().filter(is_running).count()
}

#[tokio::test]
async fn two_engines_that_the_search_asks_for_are_measured_at_once_on_two_gpus() {
    let namespace = namespace_with_servers("profile-asking").await.unwrap();
    namespace.give_workload().await.unwrap();
    namespace.advertise_gpus("NVIDIA-L4").await.unwrap();
    let mut agent = profiled_agent(&objectives("5s"));
    agent["spec"]["serving"]["tritonResources"]["limits"]["nvidia.com/gpu"] = json!("1");
    agent["spec"]["profiling"]["engines"] = json!("WhenAsked");
    agent["spec"]["profiling"]["parallelJobs"] = json!(2);
    let applied = namespace.apply(&agent).await.unwrap();
    let name = applied.name_any();
    let begun = namespace.wait(&name, "with a campaign", CAMPAIGN_LIMIT, |object: &AgentDeployment| {
        object.status.as_ref().and_then(|status| status.profile.clone()).ok_or_else(|| "no campaign yet".to_owned())
    });
    let profile = begun.await.unwrap();
    let mut most_at_once = 0;
    let status = loop {
        most_at_once = most_at_once.max(measuring(&namespace, &profile).await);
        let status = only_profile(&namespace).await.status.unwrap_or_default();
        if matches!(status.phase, Some(ProfilePhase::Chosen | ProfilePhase::Infeasible | ProfilePhase::Failed)) {
            break status;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    println!("{}; asked: {:?}; at most {most_at_once} at once", status.message, status.asked);
    assert_eq!((status.phase, status.asked.len(), most_at_once), (Some(ProfilePhase::Chosen), 2, 2));
    namespace.wait_until_served(&applied, CAMPAIGN_LIMIT).await.unwrap();
}

#[tokio::test]
async fn what_a_campaign_measured_decides_what_serves() {
    let namespace = namespace_with_servers("profile").await.unwrap();
    namespace.give_workload().await.unwrap();
    let agent = namespace.apply(&profiled_agent(&objectives("5s"))).await.unwrap();
    let served = namespace.wait_until_served(&agent, CAMPAIGN_LIMIT).await.unwrap();

    let profile = only_profile(&namespace).await;
    let status = profile.status.unwrap();
    assert_eq!(status.phase, Some(ProfilePhase::Chosen), "{}", status.message);
    let explored: BTreeSet<_> = status
        .measurements
        .iter()
        .filter(|row| row.purpose == MeasurementPurpose::Explore)
        .map(|row| (row.engine.clone(), row.configuration.clone(), row.level))
        .collect();
    assert_eq!(explored.len(), 12, "{explored:?}");
    assert!(status.front.len() >= 3, "{:?}", status.front);

    let choice = status.choice.unwrap();
    let confirmed = &status.measurements[usize::try_from(choice.predicted_by).unwrap()];
    assert_eq!(
        (confirmed.purpose, &confirmed.engine, &confirmed.configuration, confirmed.level),
        (MeasurementPurpose::Confirm, &choice.engine, &choice.configuration, choice.level)
    );
    let of_agent = served.status.unwrap();
    let selected = of_agent.selected.unwrap();
    assert_eq!((selected.engine(), selected.max_in_flight), (Some(&choice.engine), choice.level));
    let answer = of_agent.slo.iter().find(|entry| entry.name == "answer").unwrap();
    assert!(answer.predicted.is_some(), "{answer:?}");
    assert!(namespace.calls().await.unwrap().is_empty(), "a campaign calls no tool");
    an_edited_objective_is_answered_from_what_was_measured(&namespace).await;
}

async fn an_edited_objective_is_answered_from_what_was_measured(namespace: &Namespace) {
    let edited = namespace.campaign(&profiled_agent(&objectives("10s"))).await.unwrap();
    let status = edited.status.unwrap();
    let own = status.measurements.iter().filter(|row| row.measured_in.is_none());
    // Other points may be close to each other than were before: they are measured again, in turn.
    let own: Vec<_> = own.map(|row| row.purpose).filter(|purpose| *purpose != MeasurementPurpose::Repeat).collect();
    assert_eq!(own, [MeasurementPurpose::Confirm]);
}

#[tokio::test]
async fn an_impossible_objective_starts_nothing_and_names_what_binds() {
    let namespace = namespace_with_servers("infeasible").await.unwrap();
    namespace.give_workload().await.unwrap();
    let mut agent =
        profiled_agent(&json!([{"name": "reply", "metric": "RequestLatency", "percentile": "p50", "max": "1ms"}]));
    agent["spec"]["search"] = json!({"precision": ["INT8"], "concurrency": [1]});
    namespace.apply(&agent).await.unwrap();
    let message = namespace.wait_for_message("facts-agent", "Stalled", "reply", CAMPAIGN_LIMIT).await.unwrap();
    assert!(message.contains("meets spec.slo"), "{message}");
    assert!(namespace.pods("app.kubernetes.io/component=serve").await.unwrap().is_empty());
}
