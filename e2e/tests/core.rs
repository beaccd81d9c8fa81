//! The main job, end to end: from a manifest to an agent that answers by calling tools.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{labels, v1alpha1::AgentDeployment};
use slipway_e2e::{
    agents::{READY_LIMIT, draw_question, facts_agent, fresh_seed, namespace_with_servers},
    namespace::{Namespace, condition_of},
    plugin::{check_and_apply, document, first_watched, printed},
};

/// The agent whose manifest the plugin writes.
const SECOND: &str = "second-agent";

async fn jobs_of_kind(namespace: &Namespace, component: &str) -> Vec<String> {
    let selector = format!("{}={component}", labels::APP_COMPONENT);
    let jobs = namespace.api::<Job>().list(&ListParams::default().labels(&selector)).await.unwrap();
    jobs.items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn a_question_with_names_and_numbers_of_this_run_is_answered_by_calling_tools() {
    let namespace = namespace_with_servers("answers").await.unwrap();
    let agent = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();

    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.unwrap();
    let run = namespace.ask("facts-agent", &question.question).await.unwrap();
    let mut expected: Vec<_> = question.lookups.iter().map(|l| (l.entity.clone(), l.property.clone())).collect();
    expected.sort();
    assert_eq!(
        (run["status"].as_str(), run["answer"].as_str(), namespace.calls().await.unwrap()),
        (Some("succeeded"), Some(question.answer.as_str()), expected),
        "{question:?}: {run}"
    );

    let chat = json!({"model": "facts-agent", "messages": [{"role": "user", "content": question.question}]});
    let completion = namespace.request("POST", "facts-agent", "/v1/chat/completions", Some(&chat)).await.unwrap();
    assert_eq!(completion["choices"][0]["message"]["content"], json!(question.answer), "{completion}");

    an_autoscaler_finds_the_pods_that_serve(&namespace).await;
    an_endpoint_picker_finds_the_queue_of_triton(&namespace).await;
    a_run_without_its_tool_ends_in_an_error_and_never_in_the_number(&namespace).await;
    a_second_agent_of_the_same_files_from_a_claim_shares_engine_and_build(&namespace).await;
    a_changed_prompt_takes_over_once_its_pod_is_ready(&namespace).await;
}

/// What a HorizontalPodAutoscaler reads: how many pods there are, and by which labels it finds them.
async fn an_autoscaler_finds_the_pods_that_serve(namespace: &Namespace) {
    let agents = namespace.api::<slipway_crds::v1alpha1::AgentDeployment>();
    let scale = agents.get_scale("facts-agent").await.unwrap().status.unwrap();
    let pods = namespace.pods(&scale.selector.unwrap()).await.unwrap();
    let ready = pods.iter().filter(|pod| {
        let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    assert_eq!((scale.replicas, ready.count(), pods.len()), (1, 1, 1));
}

/// What an InferencePool's picker reads of a pod: nothing waits in a Triton that nobody asks.
async fn an_endpoint_picker_finds_the_queue_of_triton(namespace: &Namespace) {
    let metrics = namespace.request_text("GET", "facts-agent", "/metrics", None).await.unwrap();
    let of_engine: Vec<_> = metrics.lines().filter(|line| line.starts_with("slipway_engine_")).collect();
    assert_eq!(of_engine, ["slipway_engine_requests_waiting 0.0"], "a model without a KV cache: {metrics}");
}

async fn a_run_without_its_tool_ends_in_an_error_and_never_in_the_number(namespace: &Namespace) {
    let question = draw_question(fresh_seed() + 1).unwrap();
    namespace.teach(&question).await.unwrap();
    namespace.scale("facts", 0).await.unwrap();
    namespace.wait_until_no_pods("app=facts", Duration::from_secs(60)).await.unwrap();
    let run = namespace.ask("facts-agent", &question.question).await.unwrap();
    let first_calls = run["steps"][0]["toolCalls"].as_array().cloned().unwrap_or_default();
    assert!(first_calls.iter().all(|call| call["status"] == "error") && !first_calls.is_empty(), "{run}");
    let answer = run["answer"].as_str().unwrap_or_default();
    assert!(
        answer.starts_with("error: "),
        "the run ends in its tool's error, not in a number that no tool gave: {run}"
    );
    namespace.scale("facts", 1).await.unwrap();
    namespace.wait_until_available("facts", Duration::from_secs(60)).await.unwrap();
}

/// The manifest of the second agent is the plugin's. The files of its model lie in a claim: those that were fetched for
/// the first.
async fn a_second_agent_of_the_same_files_from_a_claim_shares_engine_and_build(namespace: &Namespace) {
    let first = namespace.api::<AgentDeployment>().get("facts-agent").await.unwrap();
    let digest = first.status.and_then(|status| status.model).unwrap().source_digest;
    let before = (jobs_of_kind(namespace, "build").await, jobs_of_kind(namespace, "fetch").await);
    let model = format!("pvc://slipway-store/checkpoints/{digest}/files");
    let images = ["--builder-image", "slipway.dev/slipway-model-builder:dev"];
    let images = [&images[..], &["--triton-image", "slipway.dev/slipway-triton:dev"]].concat();
    let flags = ["init", SECOND, "--model", &model, "--backend", "Custom", "--slo", "p50=5s"];
    let manifest = printed(namespace, &[&flags[..], &images].concat());
    check_and_apply(namespace, SECOND, &manifest);
    let agent = namespace.api::<AgentDeployment>().get(SECOND).await.unwrap();
    let served = namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    let after = (jobs_of_kind(namespace, "build").await, jobs_of_kind(namespace, "fetch").await);
    assert_eq!(after, before, "a second agent of the same files starts no build and no fetch");
    let engine = served.status.unwrap().selected.unwrap().artifact.unwrap().engine;
    assert_eq!(before.0, [format!("build-{}-1", engine.trim_start_matches("engine-"))]);
    the_plugin_shows_and_explains_it(namespace, &engine).await;
}

async fn the_plugin_shows_and_explains_it(namespace: &Namespace, engine: &str) {
    assert!(printed(namespace, &["get", SECOND]).starts_with("second-agent in answers: "));
    for tree in [document(namespace, &["get", SECOND]), first_watched(namespace, SECOND).await] {
        let revisions = tree["revisions"].as_array().unwrap();
        let shares: Vec<_> =
            revisions.iter().map(|of| (&of["role"], &of["sharePercent"], of["pods"][0].is_object())).collect();
        assert_eq!(shares, [(&json!("Stable"), &json!(100), true)], "{tree}");
        let told = [&tree["apiVersion"], &tree["kind"], &tree["stage"], &tree["selected"], &tree["progress"]["state"]];
        assert_eq!(told, ["cli.slipway.dev/v1alpha1", "Tree", "Serving", "fp32", "Ready"], "{tree}");
    }

    let explained = document(namespace, &["explain", SECOND]);
    let chosen = &explained["chosen"];
    assert_eq!(
        (&explained["kind"], &chosen["engineObject"], &chosen["isMeasured"], &chosen["standing"]["state"]),
        (&json!("Explanation"), &json!(engine), &json!(false), &json!("Serving")),
        "{explained}"
    );
    let text = printed(namespace, &["explain", SECOND]);
    assert!(text.contains("nothing was measured, because the spec has no profiling"), "{text}");
}

async fn a_changed_prompt_takes_over_once_its_pod_is_ready(namespace: &Namespace) {
    let stable = |agent: &AgentDeployment| {
        agent.status.clone().and_then(|status| status.rollout).and_then(|rollout| rollout.stable).unwrap_or_default()
    };
    let mut changed: Value = facts_agent().unwrap();
    let first = namespace.wait_until_served(&namespace.apply(&changed).await.unwrap(), READY_LIMIT).await.unwrap();
    changed["spec"]["agent"]["systemPrompt"] = json!("Look facts up before you answer.");
    let second = namespace.wait_until_served(&namespace.apply(&changed).await.unwrap(), READY_LIMIT).await.unwrap();
    assert_ne!(stable(&first), stable(&second), "a changed prompt is another revision");

    // Going back is a kept revision: it needs no Job, and it is the very revision that served before.
    let before = jobs_of_kind(namespace, "resolve").await;
    let back = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    let back = namespace.wait_until_served(&back, READY_LIMIT).await.unwrap();
    assert_eq!((stable(&back), jobs_of_kind(namespace, "resolve").await), (stable(&first), before));
}

#[tokio::test]
async fn one_flipped_byte_in_the_store_keeps_triton_from_starting() {
    let namespace = namespace_with_servers("flipped-byte").await.unwrap();
    let agent = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    let served = namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    flip_a_byte_of_the_engine(&namespace).await;

    let revision = served.status.unwrap().rollout.unwrap().stable.unwrap();
    let selector = format!("{}={revision}", labels::REVISION);
    namespace.delete_pods(&selector).await.unwrap();
    let message =
        namespace.wait_for_message("facts-agent", "Reconciling", "model.onnx", Duration::from_secs(90)).await.unwrap();
    assert!(message.contains("materialize"), "{message}");
    let pods = namespace.pods(&selector).await.unwrap();
    let started: Vec<_> = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .flat_map(|pod| pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten()))
        .filter(|container| container.name == "triton" && container.started == Some(true))
        .collect();
    assert!(started.is_empty(), "Triton started on a damaged engine: {started:?}");
    let agent = namespace.api().get("facts-agent").await.unwrap();
    assert_eq!(condition_of(&agent, "Ready").map(|(status, ..)| status), Some("False".to_owned()));
}

/// Someone, or a failing disk, changes one byte of the largest file of the artifact.
async fn flip_a_byte_of_the_engine(namespace: &Namespace) {
    let script = "f=$(find /store/engines -name model.onnx | head -1); chmod u+w \"$(dirname \"$f\")\" \"$f\"; \
                  printf '\\377' | dd of=\"$f\" bs=1 seek=1000000 conv=notrunc";
    namespace.run_in_store("flip", script).await.unwrap();
}
