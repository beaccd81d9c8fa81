//! Two GPU models in one campaign: each engine is measured on a node with its own, the cheaper one is chosen by the
//! prices of both, and it serves there. Another load then begins with what this campaign chose.
//!
//! Engines are served by a STAND-IN image (`e2e/images/slipway-no-build-stand-in`): nothing here ran vLLM or a GPU. The
//! only node takes the label that a waiting pod asks for, as a node of that model would come from an autoscaler.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{
    AgentDeployment, Profile, ProfileStatus,
    profile::{MeasurementPurpose, ProfileInputs, WarmStart},
};
use slipway_e2e::{
    checkpoints::{Checkpoint, GPU},
    namespace::Namespace,
    operator::Operator,
    plugin::printed,
};

const AGENT: &str = "llama-small";
const IMAGE: &str = "slipway.dev/slipway-no-build-stand-in:dev";
const PRODUCT: &str = "nvidia.com/gpu.product";
const H200: &str = "NVIDIA-H200";
const L40S: &str = "NVIDIA-L40S";
/// US dollars an hour. Stand-ins are as fast on both.
const PRICES: [(&str, &str); 2] = [(H200, "4"), (L40S, "1")];
const LIMIT: Duration = Duration::from_secs(300);

fn agent(trace: &str) -> Value {
    let objective = json!({"name": "run", "metric": "AgentRunLatency", "percentile": "p50", "max": "20s"});
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": AGENT},
        "spec": {
            "model": {"uri": format!("pvc://models/{AGENT}")},
            "engine": {"backend": "VLLM", "vllm": {"version": "0.11.0", "image": IMAGE, "maxSeqLen": 4096}},
            "search": {"precision": ["BF16"], "gpuProducts": [H200, L40S], "concurrency": [1, 2]},
            "slo": {"objectives": [objective], "optimizeFor": "Cost"},
            "profiling": {
                "driver": "AgentRun",
                "workloads": [{"name": "runs", "agentTrace": {"configMap": {"name": "runs", "key": trace}}}],
            },
            "serving": {"tritonResources": {"limits": {GPU: "1"}}},
            "agent": {"maxSteps": 2},
        },
    })
}

/// What a waiting pod asks for, if the node is of another GPU model.
async fn asked_for(pods: &Api<Pod>, label: &str) -> Option<String> {
    let pods = pods.list(&ListParams::default()).await.ok()?.items;
    let waits = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Pending");
    let product = |pod: &Pod| pod.spec.as_ref()?.node_selector.as_ref()?.get(PRODUCT).cloned();
    pods.iter().filter(|pod| waits(pod)).filter_map(product).find(|product| product != label)
}

/// Gives the node the label that a waiting pod asks for, for as long as the task runs. Pods that run stay.
fn follow_pods(namespace: &Namespace) -> (tokio::task::JoinHandle<()>, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(vec![H200.to_owned()]));
    let (pods, nodes) = (namespace.api::<Pod>(), Api::<Node>::all(namespace.client()));
    let of_task = seen.clone();
    let task = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let label = of_task.lock().unwrap().last().cloned().unwrap_or_default();
            let Some(product) = asked_for(&pods, &label).await else { continue };
            let name = nodes.list(&ListParams::default()).await.unwrap().items[0].name_any();
            let labels = json!({"metadata": {"labels": {PRODUCT: product}}});
            nodes.patch(&name, &PatchParams::default(), &Patch::Merge(labels)).await.unwrap();
            of_task.lock().unwrap().push(product);
        }
    });
    (task, seen)
}

fn price_of(product: &str) -> i64 {
    let (_, dollars) = PRICES.into_iter().find(|(of, _)| *of == product).unwrap();
    dollars.parse::<i64>().unwrap() * 1_000_000
}

/// Every row costs what its GPU model does.
fn every_row_is_priced_by_its_gpu_model(inputs: &ProfileInputs, status: &ProfileStatus) -> BTreeSet<String> {
    let mut measured = BTreeSet::new();
    for row in &status.measurements {
        let engine = inputs.engines.iter().find(|engine| engine.name == row.engine).unwrap();
        let product = engine.gpu_product.clone().unwrap();
        let expected = price_of(&product) as f64 / 3_600.0 * 1e6 / row.per_kilosecond as f64;
        let cost = row.cost.unwrap().microdollars_per_thousand as f64;
        println!(
            "{:?} {} at {}: {} runs in 1,000 s, {cost} of $1e-6",
            row.purpose, product, row.level, row.per_kilosecond
        );
        assert!((cost - expected).abs() <= 1.0, "{cost} {expected}");
        measured.extend((row.purpose == MeasurementPurpose::Explore).then_some(product));
    }
    measured
}

async fn serves_on_the_cheaper(namespace: &Namespace) {
    let object: AgentDeployment = namespace.api().get(AGENT).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap().status.unwrap();
    assert_eq!(served.selected.unwrap().display_name, "bf16-l40s");
    let pods = namespace.pods(&format!("app.kubernetes.io/instance={AGENT}")).await.unwrap();
    let selector = |pod: &Pod| pod.spec.as_ref()?.node_selector.as_ref()?.get(PRODUCT).cloned();
    assert_eq!(pods.iter().filter_map(selector).collect::<BTreeSet<_>>(), BTreeSet::from([L40S.to_owned()]));
    let run = namespace.ask(AGENT, "What is it?").await.unwrap();
    assert_eq!((run["status"].as_str(), run["answer"].as_str()), (Some("succeeded"), Some("42")), "{run}");
}

/// The campaign of another load begins with what this one chose, and its rows are its own.
fn begins_with(earlier: &Profile, status: &ProfileStatus) {
    let choice = earlier.status.as_ref().and_then(|status| status.choice.clone()).unwrap();
    let expected = WarmStart {
        profile: earlier.name_any(),
        engine: choice.engine,
        configuration: choice.configuration,
        level: choice.level,
    };
    assert_eq!(status.warm_start.as_ref(), Some(&expected));
    assert!(status.measurements.iter().all(|row| row.measured_in.is_none()));
}

#[tokio::test]
async fn the_cheaper_of_two_gpu_models_is_chosen_and_serves() {
    let operator = Operator::find().await.unwrap();
    for (product, dollars) in PRICES {
        operator.configure(&format!("prices.gpus.{product}.perHour={dollars}")).unwrap();
    }
    let namespace = Namespace::create("gpu-products").await.unwrap();
    namespace.advertise_gpus(H200).await.unwrap();
    namespace.give_checkpoints(&[Checkpoint { name: AGENT.to_owned(), order: None, adapter: None }]).await.unwrap();
    let runs = (0..4).map(|n| json!({"input": format!("What is {n}?"), "calls": []}));
    namespace.give_lines("runs", "trace.jsonl", runs).await.unwrap();
    let (follower, seen) = follow_pods(&namespace);

    let first = namespace.campaign(&agent("trace.jsonl")).await.unwrap();
    let status = first.status.clone().unwrap();
    let measured = every_row_is_priced_by_its_gpu_model(&first.spec.inputs, &status);
    assert_eq!(measured, BTreeSet::from([H200.to_owned(), L40S.to_owned()]));
    println!("the node was {:?}", seen.lock().unwrap());
    let choice = status.choice.as_ref().unwrap();
    println!("{} at {}: {}", choice.configuration, choice.level, choice.why);
    assert!(choice.why.starts_with("lowest cost of "), "{}", choice.why);
    serves_on_the_cheaper(&namespace).await;
    println!("{}", printed(&namespace, &["status", AGENT]));

    let others = (0..4).map(|n| json!({"input": format!("Who is number {n}, and why?"), "calls": []}));
    namespace.give_lines("others", "trace.jsonl", others).await.unwrap();
    let mut other_load = agent("trace.jsonl");
    other_load["spec"]["profiling"]["workloads"][0]["agentTrace"]["configMap"]["name"] = json!("others");
    let second = namespace.campaign(&other_load).await.unwrap();
    begins_with(&first, &second.status.clone().unwrap());
    follower.abort();
    for (product, _) in PRICES {
        operator.configure(&format!("prices.gpus.{product}=null")).unwrap();
    }
    namespace.delete().await.unwrap();
}
