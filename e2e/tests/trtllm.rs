//! Engines of TensorRT-LLM, built and served by a STAND-IN image (`e2e/images/slipway-tensorrt-llm-stand-in`): its
//! tools have the argument parsers of 0.16.0 and write files of the right names and sizes. Nothing here ran
//! TensorRT-LLM or a GPU.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine, engine::FailureClass, profile::MeasurementPurpose};
use slipway_e2e::{checkpoints::Checkpoint, namespace::Namespace};

const IMAGE: &str = "slipway.dev/slipway-tensorrt-llm-stand-in:dev";
const LIMIT: Duration = Duration::from_secs(300);

/// Puts one folder a model into a claim; each may tell the stand-in's tools to fail.
async fn give_models(namespace: &Namespace, models: &[(&str, Value)]) {
    let checkpoint = |(name, order): &(&str, Value)| Checkpoint {
        name: (*name).to_owned(),
        order: Some(order.clone()),
        adapter: None,
    };
    namespace.give_checkpoints(&models.iter().map(checkpoint).collect::<Vec<_>>()).await.unwrap();
}

async fn give_texts(namespace: &Namespace) {
    let texts = (0..16).map(|n| json!({"text": format!("calibration text {n}")}));
    namespace.give_lines("texts", "train.jsonl", texts).await.unwrap();
}

fn agent(name: &str, product: &str, search: &Value) -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": name},
        "spec": {
            "model": {"uri": format!("pvc://models/{name}")},
            "engine": {"backend": "TensorRTLLM", "tensorRTLLM": {
                "version": "0.16.0", "image": IMAGE, "maxSeqLen": 4096, "reduceFusion": true,
                "calibration": {"configMap": {"name": "texts", "key": "train.jsonl"}, "samples": 16},
            }},
            "search": search,
            "hardware": {"nodeSelector": {"nvidia.com/gpu.product": product}},
            "serving": {"tritonResources": {"limits": {"nvidia.com/gpu": "1"}}},
            "agent": {"maxSteps": 2},
        },
    })
}

/// The whole chain: resolve, fetch, quantize, build, check, repository, publish, serve, answer.
#[tokio::test]
async fn an_fp8_engine_is_built_by_the_tools_and_answers() {
    let namespace = Namespace::create("trtllm-serves").await.unwrap();
    namespace.advertise_gpus("NVIDIA-H100-80GB-HBM3").await.unwrap();
    give_models(&namespace, &[("whole", json!({}))]).await;
    give_texts(&namespace).await;
    let search = json!({"precision": ["FP8"], "kvCachePrecision": ["FP8"], "maxBatchSize": [16]});
    let object = namespace.apply(&agent("whole", "NVIDIA-H100-80GB-HBM3", &search)).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap();

    let engine = namespace.first_engine_of("whole").await.unwrap();
    let artifact = engine.status.unwrap().artifact.unwrap();
    // 4 layers x (4 x 256 x 256 + 3 x 256 x 512) weights of a byte, and two embeddings of 768 x 256 x 2 bytes.
    assert!(artifact.size_bytes > 3_400_000, "{artifact:?}");
    assert_eq!(served.status.unwrap().selected.unwrap().display_name, "fp8");
    let run = namespace.ask("whole", "What is it?").await.unwrap();
    assert_eq!((run["status"].as_str(), run["answer"].as_str()), (Some("succeeded"), Some("42")), "{run}");
    namespace.delete().await.unwrap();
}

/// Lines of the quality gate's data set. Of 400 questions that are answered alike no more than 2 % can be answered
/// worse.
async fn give_samples(namespace: &Namespace) {
    // The stand-in answers every question so; its stop word keeps the rest back.
    let samples = (0..400).map(|n| {
        let (id, prompt) = (format!("q{n}"), format!("Question: {n}?\n"));
        json!({"id": id, "prompt": prompt, "expected": "Answer: 42", "maxTokens": 32, "stopWords": ["\n\n"]})
    });
    namespace.give_lines("samples", "quality.jsonl", samples).await.unwrap();
}

fn quality() -> Value {
    json!({"maxDrop": "2%", "dataset": {"configMap": {"name": "samples", "key": "quality.jsonl"}}})
}

/// The same engine behind models of the image's that take text: it is scored and served through them.
#[tokio::test]
async fn an_engine_behind_an_ensemble_or_bls_is_asked_in_text() {
    let namespace = Namespace::create("trtllm-text").await.unwrap();
    namespace.advertise_gpus("NVIDIA-H100-80GB-HBM3").await.unwrap();
    let entries = [("ensemble", "Ensemble", "ensemble"), ("bls", "BLS", "tensorrt_llm_bls")];
    give_models(&namespace, &entries.map(|(name, ..)| (name, json!({})))).await;
    give_texts(&namespace).await;
    give_samples(&namespace).await;
    let mut objects = Vec::new();
    for (name, entry, _) in entries {
        let mut agent = agent(name, "NVIDIA-H100-80GB-HBM3", &json!({"precision": ["FP16"], "maxBatchSize": [4]}));
        agent["spec"]["engine"]["tensorRTLLM"]["entry"] = json!(entry);
        agent["spec"]["slo"] = json!({"quality": quality()});
        objects.push(namespace.apply(&agent).await.unwrap());
    }
    for (object, (name, _, model)) in objects.iter().zip(entries) {
        let status = namespace.wait_until_served(object, LIMIT).await.unwrap().status.unwrap();
        let scored = status.engines[0].quality.clone().unwrap();
        assert_eq!((scored.samples, scored.score_parts_per_million), (400, 1_000_000), "{name}");
        let run = namespace.ask(name, "What is it?").await.unwrap();
        assert_eq!((run["status"].as_str(), run["answer"].as_str()), (Some("succeeded"), Some("42")), "{run}");
        let revisions = namespace.api::<ConfigMap>().list(&ListParams::default()).await.unwrap().items;
        let asked = revisions.iter().filter_map(|object| object.data.as_ref()?.get("config.json"));
        let asks = |config: &String| config.contains(&format!("\"modelName\": \"{model}\""));
        assert_eq!(asked.filter(|config| asks(config)).count(), 1, "{name}");
    }
    namespace.delete().await.unwrap();
}

/// Two engines, each before Triton in Jobs of its own: questions, then whole runs, and one is chosen.
#[tokio::test]
async fn engines_are_scored_and_measured_before_one_of_them_serves() {
    let namespace = Namespace::create("trtllm-measures").await.unwrap();
    namespace.advertise_gpus("NVIDIA-H100-80GB-HBM3").await.unwrap();
    give_models(&namespace, &[("measured", json!({}))]).await;
    give_texts(&namespace).await;
    give_samples(&namespace).await;
    let runs = (0..4).map(|n| json!({"input": format!("What is {n}?"), "calls": []}));
    namespace.give_lines("runs", "trace.jsonl", runs).await.unwrap();

    let search = json!({"precision": ["FP16", "FP8"], "maxBatchSize": [16], "concurrency": [2]});
    let mut agent = agent("measured", "NVIDIA-H100-80GB-HBM3", &search);
    agent["spec"]["slo"] = json!({
        "objectives": [{"name": "run", "metric": "AgentRunLatency", "percentile": "p95", "max": "20s"}],
        "quality": quality(),
    });
    agent["spec"]["profiling"] = json!({
        "driver": "AgentRun",
        "workloads": [{"name": "runs", "agentTrace": {"configMap": {"name": "runs", "key": "trace.jsonl"}}}],
    });
    let profile = namespace.campaign(&agent).await.unwrap();
    let status = profile.status.unwrap();
    status.measurements.iter().for_each(|row| println!("  {} at {}: {}", row.engine, row.level, row.reason));
    // The confirm run may bring more runs than two in flight can take.
    let explored = status.measurements.iter().filter(|row| row.purpose == MeasurementPurpose::Explore);
    assert!(explored.clone().all(|row| row.errors == 0 && row.count > 0), "{:?}", status.measurements);
    assert_eq!(explored.map(|row| &row.engine).collect::<BTreeSet<_>>().len(), 2, "{:?}", status.measurements);

    let object: AgentDeployment = namespace.api().get("measured").await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap().status.unwrap();
    let scores: Vec<_> = served
        .engines
        .iter()
        .map(|engine| {
            let quality = engine.quality.clone().unwrap();
            (engine.display_name.as_str(), quality.samples, quality.score_parts_per_million, quality.accepted)
        })
        .collect();
    assert_eq!(scores, [("fp16", 400, 1_000_000, true), ("fp8", 400, 1_000_000, true)]);
    assert_eq!(served.selected.unwrap().engine(), Some(&status.choice.unwrap().engine));
    let run = namespace.ask("measured", "What is it?").await.unwrap();
    assert_eq!(run["answer"].as_str(), Some("42"), "{run}");
    namespace.delete().await.unwrap();
}

/// What a tool does wrong, and what the Engine says of it.
#[tokio::test]
async fn a_tool_that_fails_says_why_in_the_engines_status() {
    let namespace = Namespace::create("trtllm-fails").await.unwrap();
    namespace.advertise_gpus("NVIDIA-H100-80GB-HBM3").await.unwrap();
    let cases = [
        ("memory", "build", FailureClass::InsufficientMemory, "CUDA out of memory. Tried to allocate 224.00 MiB."),
        ("device", "quantize", FailureClass::UnsupportedPrecision, "FP8 is not supported on pre SM89 GPUs"),
        ("weights", "quantize", FailureClass::BadModel, "HeaderTooLarge"),
        ("version", "build", FailureClass::ImageMismatch, "built by TensorRT-LLM 0.17.0, not 0.16.0"),
        ("rank", "build", FailureClass::BadModel, "rank0.engine is missing: the build of that rank failed"),
        ("killed", "convert", FailureClass::InsufficientMemory, "convert exited with code 137"),
        ("killed", "quantize", FailureClass::InsufficientMemory, "quantize exited with code 137"),
        ("killed", "build", FailureClass::InsufficientMemory, "build exited with code 137"),
        ("disk", "quantize", FailureClass::Infrastructure, "No space left on device"),
    ];
    let cases = cases.map(|(failure, tool, class, text)| (format!("{failure}-{tool}"), failure, tool, class, text));
    let order = |failure: &str, tool: &str| json!({"tool": tool, "failure": failure});
    let models: Vec<_> = cases.iter().map(|(name, failure, tool, ..)| (name.as_str(), order(failure, tool))).collect();
    give_models(&namespace, &models).await;
    give_texts(&namespace).await;
    for (name, _, tool, ..) in &cases {
        // What is quantized is not converted.
        let precision = if *tool == "convert" { "FP16" } else { "FP8" };
        namespace.apply(&agent(name, "NVIDIA-H100-80GB-HBM3", &json!({"precision": [precision]}))).await.unwrap();
    }
    for (name, _, _, class, text) in &cases {
        let failure = namespace
            .wait(name, "a failed attempt", LIMIT, |agent: &AgentDeployment| {
                let engine = agent.status.as_ref().and_then(|status| status.engines.first());
                engine.map(|engine| engine.name.clone()).ok_or_else(|| "no engine".to_owned())
            })
            .await
            .unwrap();
        let found = namespace
            .wait(&failure, "a failed attempt", LIMIT, |engine: &Engine| {
                let attempts = engine.status.as_ref().map(|status| status.attempts.clone()).unwrap_or_default();
                attempts.iter().find_map(|attempt| attempt.failure.clone()).ok_or_else(|| format!("{attempts:?}"))
            })
            .await
            .unwrap();
        assert_eq!(found.class, *class, "{name}: {}", found.message);
        assert!(found.message.contains(text), "{name}: {}", found.message);
        println!("{name}: {class:?}: {}", found.message);
    }
    namespace.delete().await.unwrap();
}

/// No Job of a refused spec but the one that read config.json.
#[tokio::test]
async fn fp8_on_an_a100_is_refused_before_anything_is_fetched() {
    let namespace = Namespace::create("trtllm-refused").await.unwrap();
    namespace.advertise_gpus("NVIDIA-A100-SXM4-80GB").await.unwrap();
    give_models(&namespace, &[("refused", json!({}))]).await;
    give_texts(&namespace).await;
    namespace.apply(&agent("refused", "NVIDIA-A100-SXM4-80GB", &json!({"precision": ["FP8"]}))).await.unwrap();
    let message = namespace.wait_for_message("refused", "Stalled", "SM80", LIMIT).await.unwrap();
    assert_eq!(
        message,
        "spec.search.precision[0]: FP8 engines do not run on a100-sxm (SM80); it runs FP16, BF16, INT8WeightOnly, \
         INT8SmoothQuant, INT4WeightOnly, INT4AWQ"
    );
    let jobs = namespace.api::<k8s_openapi::api::batch::v1::Job>().list(&ListParams::default()).await.unwrap();
    let jobs: Vec<_> = jobs.items.iter().map(ResourceExt::name_any).collect();
    assert!(jobs.len() == 1 && jobs[0].starts_with("resolve-"), "{jobs:?}");
    namespace.delete().await.unwrap();
}
