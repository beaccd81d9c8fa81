//! An adapter of LoRA, a folder of the checkpoint: a wrong folder is a condition, and the adapter answers in place of
//! the model. Served by a STAND-IN for vLLM's own server (`e2e/images/slipway-no-build-stand-in`), which answers to the
//! names that vLLM would: nothing here ran vLLM or a GPU.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::labels;
use slipway_e2e::{
    checkpoints::{Checkpoint, GPU},
    namespace::Namespace,
};

const AGENT: &str = "support-agent";
const H100: &str = "NVIDIA-H100-80GB-HBM3";
const FOLDER: &str = "adapters/support";
const LIMIT: Duration = Duration::from_secs(300);

fn agent(folder: &str) -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": AGENT},
        "spec": {
            "model": {"uri": format!("pvc://models/{AGENT}")},
            "engine": {"backend": "VLLM", "vllm": {
                "version": "0.11.0", "server": "OpenAI", "image": "slipway.dev/slipway-no-build-stand-in:dev",
                "maxSeqLen": 4096, "lora": {"folder": folder, "rank": 9},
            }},
            "search": {"precision": ["BF16"], "maxBatchSize": [16]},
            "hardware": {"nodeSelector": {"nvidia.com/gpu.product": H100}},
            "serving": {"tritonResources": {"limits": {GPU: "1"}}},
            "agent": {"maxSteps": 2},
        },
    })
}

/// What the stand-in says that it was told.
async fn told(namespace: &Namespace) -> Value {
    let selector = format!("{}=serve,{}={AGENT}", labels::APP_COMPONENT, labels::APP_INSTANCE);
    let pods = namespace.pods(&selector).await.unwrap();
    let log = namespace.log(&pods[0].name_any(), "triton").await.unwrap();
    let line = log.lines().find(|line| line.contains("stand-in for vllm serve: ")).unwrap();
    serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap()
}

#[tokio::test]
async fn an_adapter_of_the_checkpoint_answers_in_place_of_the_model() {
    let namespace = Namespace::create("adapter").await.unwrap();
    namespace.advertise_gpus(H100).await.unwrap();
    let checkpoint = Checkpoint { name: AGENT.to_owned(), order: None, adapter: Some(FOLDER.to_owned()) };
    namespace.give_checkpoints(&[checkpoint]).await.unwrap();

    namespace.apply(&agent("adapters/suport")).await.unwrap();
    let words = "the checkpoint has no adapters/suport/adapter_config.json: engine.vllm.lora.folder names the folder";
    let message = namespace.wait_for_message(AGENT, "Stalled", words, LIMIT).await.unwrap();
    println!("{message}");

    let object = namespace.apply(&agent(FOLDER)).await.unwrap();
    namespace.wait_until_served(&object, LIMIT).await.unwrap();
    let run = namespace.ask(AGENT, "What is it?").await.unwrap();
    assert_eq!((run["status"].as_str(), run["answer"].as_str()), (Some("succeeded"), Some("42")), "{run}");
    let told = told(&namespace).await;
    let module = format!(r#"{{"name":"agent","path":"/slipway/engine/checkpoint/{FOLDER}"}}"#);
    let options = ["served_model_name", "enable_lora", "max_loras", "max_lora_rank", "lora_modules"];
    assert_eq!(
        options.map(|name| told[name].clone()),
        [json!("agent-base"), json!(true), json!("1"), json!("16"), json!([module])]
    );
    namespace.delete().await.unwrap();
}
