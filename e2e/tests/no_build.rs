//! Engines without a build (VLLM, SGLang, TensorRTLLMPyTorch) served by a STAND-IN image
//! (`e2e/images/slipway-no-build-stand-in`): its backend, its model and its servers have the files, arguments and
//! tensors of upstream's. Nothing here ran vLLM, SGLang, TensorRT-LLM or a GPU.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Container, Pod},
};
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{
        AgentDeployment, Engine, Profile,
        agent_deployment::{Precision, ProfilingDriver, TakenDefaults, TakenVersion, VersionedBackend},
        engine::FailureClass,
        profile::{Measurement, MeasurementPurpose},
    },
};
use slipway_e2e::{
    checkpoints::{Checkpoint, GPU, checkpoint_bytes},
    cluster,
    namespace::{Namespace, condition_of},
};
use slipway_vocabulary::serving::NoBuildBackend;

const IMAGE: &str = "slipway.dev/slipway-no-build-stand-in:dev";
/// NVIDIA's image with the version that manifests/values.yaml pins.
const NVIDIAS_IMAGE: &str = "nvcr.io/nvidia/tritonserver:25.11-vllm-python-py3";
const PINNED: &str = "0.11.0";
/// Triton with neither backend.
const OTHER_IMAGE: &str = "slipway.dev/slipway-triton:dev";
const H100: &str = "NVIDIA-H100-80GB-HBM3";
const A100: &str = "NVIDIA-A100-SXM4-80GB";
const LIMIT: Duration = Duration::from_secs(300);

fn vllm(image: &str) -> Value {
    json!({"backend": "VLLM", "vllm": {
        "version": "0.11.0", "image": image, "maxSeqLen": 4096, "extraArgs": ["enforce_eager=true"],
    }})
}

/// vLLM's own server in Triton's place.
fn open_ai(extra_args: &Value) -> Value {
    json!({"backend": "VLLM", "vllm": {
        "version": "0.11.0", "server": "OpenAI", "image": IMAGE, "maxSeqLen": 4096, "prefixCaching": false,
        "extraArgs": extra_args,
    }})
}

/// SGLang's own server.
fn sglang() -> Value {
    json!({"backend": "SGLang", "sglang": {"version": "0.5.9", "image": IMAGE, "maxSeqLen": 4096, "prefixCaching": false}})
}

/// TensorRT-LLM's own server.
fn trtllm_serve() -> Value {
    json!({"backend": "TensorRTLLMPyTorch", "tensorRTLLMPyTorch": {
        "version": "1.2.1", "server": "OpenAI", "image": IMAGE, "maxSeqLen": 4096, "prefixCaching": false,
    }})
}

/// Questions that the stand-in answers; its stop word keeps the rest back.
async fn give_questions(namespace: &Namespace) {
    let samples = (0..200).map(|n| {
        let (id, prompt) = (format!("q{n}"), format!("Question: {n}?\n"));
        json!({"id": id, "prompt": prompt, "expected": "Answer: 42", "maxTokens": 32, "stopWords": ["\n\n"]})
    });
    namespace.give_lines("samples", "quality.jsonl", samples).await.unwrap();
}

fn quality() -> Value {
    json!({"maxDrop": "2%", "dataset": {"configMap": {"name": "samples", "key": "quality.jsonl"}}})
}

fn py_torch(image: &str) -> Value {
    json!({"backend": "TensorRTLLMPyTorch", "tensorRTLLMPyTorch": {
        "version": "1.2.1", "image": image, "maxSeqLen": 4096,
    }})
}

fn agent(name: &str, product: &str, (engine, precision): (Value, &str)) -> Value {
    json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": name},
        "spec": {
            "model": {"uri": format!("pvc://models/{name}")},
            "engine": engine,
            "search": {"precision": [precision], "maxBatchSize": [16]},
            "hardware": {"nodeSelector": {"nvidia.com/gpu.product": product}},
            "serving": {"tritonResources": {"limits": {GPU: "1"}}},
            "agent": {"maxSteps": 2},
        },
    })
}

async fn namespace_with(name: &str, product: &str, checkpoints: &[&str]) -> Namespace {
    let namespace = Namespace::create(name).await.unwrap();
    namespace.advertise_gpus(product).await.unwrap();
    let of_name = |name: &&str| Checkpoint { name: (*name).to_owned(), order: None, adapter: None };
    namespace.give_checkpoints(&checkpoints.iter().map(of_name).collect::<Vec<_>>()).await.unwrap();
    namespace
}

/// All containers of a pod, each with whether it asks for a GPU.
fn containers(pod: &Pod) -> Vec<(String, bool)> {
    let asks = |container: &Container| {
        let resources = container.resources.clone().unwrap_or_default();
        [resources.limits, resources.requests].into_iter().flatten().any(|list| list.contains_key(GPU))
    };
    let spec = pod.spec.as_ref().unwrap();
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    all.map(|container| (container.name.clone(), asks(container))).collect()
}

/// The engine is the checkpoint with what was assembled around it, under its content's digest, and no GPU was asked
/// for.
async fn an_artifact_without_a_gpu(namespace: &Namespace, agent: &str, versions: (&str, &str)) {
    let engine = namespace.first_engine_of(agent).await.unwrap();
    let (name, status) = (engine.name_any(), engine.status.unwrap());
    let artifact = status.artifact.unwrap();
    assert_eq!(artifact.location, format!("engines/{name}/{}", artifact.manifest_digest));
    assert_eq!(artifact.versions, BTreeMap::from([(versions.0.to_owned(), versions.1.to_owned())]));
    let (size, checkpoint) = (artifact.size_bytes, i64::try_from(checkpoint_bytes().unwrap()).unwrap());
    assert!(size > checkpoint && size < checkpoint + 20_000, "{size} with a checkpoint of {checkpoint}");
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.message.as_str()), ("True", "the artifact is in the store"));

    let selector = format!("{}=build,{}={name}", labels::APP_COMPONENT, labels::ENGINE);
    let pods = namespace.pods(&selector).await.unwrap();
    let steps: Vec<_> = pods.iter().map(containers).collect();
    let expected =
        ["check-checkpoint", "install-worker", "assemble", "finish-build"].map(|step| (step.to_owned(), false));
    assert_eq!(steps, [expected]);
}

/// The one pod that serves an agent.
async fn serving_pod(namespace: &Namespace, agent: &str) -> Pod {
    let selector = format!("{}=serve,{}={agent}", labels::APP_COMPONENT, labels::APP_INSTANCE);
    let mut pods = namespace.pods(&selector).await.unwrap();
    assert_eq!(pods.len(), 1, "{:?}", pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
    pods.remove(0)
}

/// Asks once, and gives the answer with the tokens that the sidecar counted.
async fn asked(namespace: &Namespace, agent: &str) -> (String, u64) {
    let run = namespace.ask(agent, "What is it?").await.unwrap();
    assert_eq!(run["status"].as_str(), Some("succeeded"), "{run}");
    let tokens = run["usage"]["outputTokens"].as_u64().unwrap();
    (run["answer"].as_str().unwrap().to_owned(), tokens)
}

/// The arguments as the stand-in wrote them to its log.
fn told(log: &str, engine: &str) -> Value {
    let line = log.lines().find(|line| line.contains(&format!("stand-in for {engine}: "))).unwrap();
    let text = &line[line.find('{').unwrap()..=line.rfind('}').unwrap()];
    serde_json::from_str(&text.replace("\\\"", "\"")).unwrap()
}

/// Until a line is in a log: what a client does without waiting for an answer is noticed a moment later.
async fn wait_for_line(namespace: &Namespace, pod: &str, words: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let log = namespace.log(pod, "triton").await.unwrap();
        if log.contains(words) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "no {words:?} in {log}");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// The whole chain: resolve, fetch, assemble, publish, serve, answer.
#[tokio::test]
async fn vllm_serves_a_checkpoint_with_its_arguments_and_answers() {
    let namespace = namespace_with("vllm-serves", H100, &["vllm"]).await;
    let object = namespace.apply(&agent("vllm", H100, (vllm(IMAGE), "FP8"))).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap();
    assert_eq!(served.status.unwrap().selected.unwrap().display_name, "fp8");
    an_artifact_without_a_gpu(&namespace, "vllm", ("vllm", "0.11.0")).await;

    let pod = serving_pod(&namespace, "vllm").await;
    assert!(containers(&pod).contains(&("triton".to_owned(), true)), "{:?}", containers(&pod));
    // vLLM says how many tokens each piece has; the stand-in makes one of every character, and cuts at the stop word
    // itself.
    assert_eq!(asked(&namespace, "vllm").await, ("42".to_owned(), 10));
    let log = namespace.log(&pod.name_any(), "triton").await.unwrap();
    assert_eq!(
        told(&log, "vLLM"),
        json!({
            "model": "/slipway/engine/checkpoint", "dtype": "auto", "quantization": "fp8", "kv_cache_dtype": "auto",
            "tensor_parallel_size": 1, "pipeline_parallel_size": 1, "max_model_len": 4096, "max_num_seqs": 16,
            "max_num_batched_tokens": 8192, "gpu_memory_utilization": 0.9, "enable_prefix_caching": true,
            "enable_chunked_prefill": true, "enforce_eager": true,
        })
    );
    assert!(!log.contains("stand-in: cancelled"), "{log}");
    namespace.delete().await.unwrap();
}

/// The smallest manifest of the README, with a checkpoint of the namespace. It names neither version nor image.
fn smallest() -> Value {
    let mut manifest: Value = serde_norway::from_str(include_str!("../../docs/examples/smallest.yaml")).unwrap();
    manifest["spec"]["model"]["uri"] = json!("pvc://models/support-agent");
    // The stand-in makes a token of every character, and takes 2,048 of them.
    manifest["spec"]["profiling"]["workloads"][0]["synthetic"] =
        json!({"inputTokens": 60, "outputTokens": 30, "toolCalls": 2, "toolResultTokens": 20});
    manifest
}

/// Gives the stand-in the name of NVIDIA's image on the node.
fn name_the_stand_in_as_nvidias_image() {
    let tag = ["ctr", "--namespace", "k8s.io", "images", "tag", "--force", IMAGE, NVIDIAS_IMAGE];
    let output = cluster::on_node(&tag).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What serves is the image that has the pinned version.
async fn the_pinned_version_serves(namespace: &Namespace) {
    let pod = serving_pod(namespace, "support-agent").await.spec.unwrap();
    let triton = pod.init_containers.into_iter().flatten().find(|container| container.name == "triton");
    assert_eq!(triton.and_then(|triton| triton.image).as_deref(), Some(NVIDIAS_IMAGE));
}

/// What the smallest manifest leaves out is taken from the checkpoint, and stands in the status.
#[tokio::test]
async fn the_smallest_manifest_is_served() {
    name_the_stand_in_as_nvidias_image();
    let namespace = namespace_with("smallest", H100, &["support-agent"]).await;
    namespace.campaign(&smallest()).await.unwrap();
    let object = namespace.apply(&smallest()).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap().status.unwrap();
    assert_eq!(served.selected.unwrap().display_name, "bf16");
    let TakenDefaults { versions, precision, max_seq_len, driver } = served.defaults;
    let pinned = TakenVersion::new(VersionedBackend::NoBuild(NoBuildBackend::VLLM), PINNED.to_owned());
    assert_eq!((&versions, precision, max_seq_len.is_some()), (&vec![pinned], Some(Precision::BF16), true));
    the_pinned_version_serves(&namespace).await;
    assert_eq!(driver, Some(ProfilingDriver::AgentRun));
    let profiles = namespace.api::<Profile>().list(&ListParams::default()).await.unwrap().items;
    let rows = profiles.iter().flat_map(|profile| profile.status.iter().flat_map(|status| &status.measurements));
    let rows: Vec<_> = rows.collect();
    let (confirmed, explored): (Vec<&Measurement>, Vec<_>) =
        rows.iter().copied().partition(|row| row.purpose == MeasurementPurpose::Confirm);
    assert!(explored.iter().all(|row| row.count > 0 && row.errors == 0), "{explored:?}");
    assert!(!confirmed.is_empty() && confirmed.into_iter().all(fails_by_refusals_alone), "{rows:?}");
    assert_eq!(asked(&namespace, "support-agent").await.0, "42");

    // Who writes down what was taken changes nothing.
    let revision = served.rollout.unwrap().stable;
    let mut written = smallest();
    written["spec"]["search"] = json!({"precision": ["BF16"]});
    written["spec"]["engine"]["vllm"] = json!({"version": PINNED, "maxSeqLen": max_seq_len});
    let object = namespace.apply(&written).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap().status.unwrap();
    assert_eq!(served.rollout.unwrap().stable, revision);
    assert_eq!(served.defaults, TakenDefaults { versions, driver, ..TakenDefaults::default() });
    what_it_was_asked_is_measured(&namespace, written).await;
    namespace.delete().await.unwrap();
}

/// Its live traffic is recorded, and takes the place of the runs that were made up.
async fn what_it_was_asked_is_measured(namespace: &Namespace, mut manifest: Value) {
    for _ in 0..4 {
        asked(namespace, "support-agent").await;
    }
    let file = std::env::temp_dir().join(format!("{}-runs.jsonl", namespace.name()));
    let path = file.display().to_string();
    let record = ["--namespace", namespace.name(), "record", "support-agent", "--for", "30m", "--output", &path];
    let output = cluster::slipway(&record).unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.starts_with("5 runs of 1 pod in "), "{told}");
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(!lines.contains("What is it?") && !lines.contains("\"42"), "texts are left out: {lines}");
    namespace
        .give_lines("live", "runs.jsonl", lines.lines().map(|line| serde_json::from_str(line).unwrap()))
        .await
        .unwrap();
    let recorded = json!({"configMap": {"name": "live", "key": "runs.jsonl"}});
    manifest["spec"]["profiling"] = json!({"workloads": [{"name": "live", "recordedLengths": recorded}]});
    let profile = namespace.campaign(&manifest).await.unwrap();
    let inputs = &profile.spec.inputs;
    let of_rate = (&inputs.recorded_runs_per_second, inputs.recorded_replicas);
    assert_eq!((inputs.recorded_lengths.is_some(), of_rate), (true, (&None, None)), "five runs make no rate");
    let rows = profile.status.unwrap().measurements;
    let confirms = |row: &Measurement| row.purpose == MeasurementPurpose::Confirm && fails_by_refusals_alone(row);
    assert!(rows.iter().any(confirms), "{rows:?}");
}

/// Runs arrive at random and no limit on errors makes them fewer, so the chosen places are all taken at times.
fn fails_by_refusals_alone(row: &Measurement) -> bool {
    row.count > 0 && (row.errors == 0 || row.reason.contains("the sidecar answered 429"))
}

#[tokio::test]
async fn the_py_torch_flow_serves_a_checkpoint_and_stops_where_the_sidecar_has_read_enough() {
    let namespace = namespace_with("py-torch-serves", H100, &["py-torch"]).await;
    let object = namespace.apply(&agent("py-torch", H100, (py_torch(IMAGE), "BF16"))).await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap();
    assert_eq!(served.status.unwrap().selected.unwrap().display_name, "bf16");
    an_artifact_without_a_gpu(&namespace, "py-torch", ("tensorrt_llm", "1.2.1")).await;

    let pod = serving_pod(&namespace, "py-torch").await;
    assert!(containers(&pod).contains(&("triton".to_owned(), true)), "{:?}", containers(&pod));
    // Every response counts as a token, those of the stop word too.
    assert_eq!(asked(&namespace, "py-torch").await, ("42".to_owned(), 12));
    wait_for_line(&namespace, &pod.name_any(), "stand-in: cancelled after").await;
    let log = namespace.log(&pod.name_any(), "triton").await.unwrap();
    assert_eq!(
        told(&log, "TensorRT-LLM"),
        json!({
            "model": "/slipway/engine/checkpoint", "backend": "pytorch", "dtype": "bfloat16", "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1, "max_seq_len": 4096, "max_batch_size": 16, "max_num_tokens": 8192,
            "enable_chunked_prefill": true,
            "kv_cache_config": {"enable_block_reuse": true, "free_gpu_memory_fraction": 0.9},
        })
    );
    namespace.delete().await.unwrap();
}

/// What an engine's own server was told, and the tokens of an answer: once it was assembled, scored, measured by whole
/// runs and asked.
async fn told_to_own_server(
    namespace: &Namespace,
    (engine, versions): (Value, (&str, &str)),
    server: &str,
) -> (Value, u64) {
    give_questions(namespace).await;
    let runs = (0..4).map(|n| json!({"input": format!("What is {n}?"), "calls": []}));
    namespace.give_lines("runs", "trace.jsonl", runs).await.unwrap();
    let mut manifest = agent("own-server", H100, (engine, "BF16"));
    manifest["spec"]["search"]["concurrency"] = json!([2]);
    manifest["spec"]["slo"] = json!({
        "objectives": [{"name": "run", "metric": "AgentRunLatency", "percentile": "p95", "max": "20s"}],
        "quality": quality(),
    });
    let trace = json!({"configMap": {"name": "runs", "key": "trace.jsonl"}});
    manifest["spec"]["profiling"] = json!({"driver": "AgentRun", "workloads": [{"name": "runs", "agentTrace": trace}]});
    let profile = namespace.campaign(&manifest).await.unwrap().status.unwrap();
    let explored = profile.measurements.iter().filter(|row| row.purpose == MeasurementPurpose::Explore);
    let counts: Vec<_> = explored.map(|row| (row.errors, row.count > 0)).collect();
    assert_eq!(counts, [(0, true)], "{:?}", profile.measurements);

    let object: AgentDeployment = namespace.api().get("own-server").await.unwrap();
    let served = namespace.wait_until_served(&object, LIMIT).await.unwrap().status.unwrap();
    let score = served.engines[0].quality.clone().unwrap();
    assert_eq!((score.samples, score.score_parts_per_million, score.accepted), (200, 1_000_000, true));
    an_artifact_without_a_gpu(namespace, "own-server", versions).await;
    let (answer, tokens) = asked(namespace, "own-server").await;
    assert_eq!(answer, "42");
    let pod = serving_pod(namespace, "own-server").await;
    (told(&namespace.log(&pod.name_any(), "triton").await.unwrap(), server), tokens)
}

#[tokio::test]
async fn vllms_own_server_is_scored_measured_and_answers() {
    let namespace = namespace_with("vllm-open-ai", H100, &["own-server"]).await;
    let engine = (open_ai(&json!([])), ("vllm", "0.11.0"));
    let (told, tokens) = told_to_own_server(&namespace, engine, "vllm serve").await;
    assert_eq!(tokens, 10);
    let numbers =
        ["model", "max_num_seqs", "max_model_len", "dtype"].map(|name| told[name].as_str().unwrap_or_default());
    assert_eq!(numbers, ["/slipway/engine/checkpoint", "16", "4096", "bfloat16"]);
    assert_eq!((&told["enable_prefix_caching"], &told["enable_chunked_prefill"]), (&json!(false), &json!(true)));
    namespace.delete().await.unwrap();
}

#[tokio::test]
async fn sglangs_server_is_scored_measured_and_answers() {
    let namespace = namespace_with("sglang", H100, &["own-server"]).await;
    let engine = (sglang(), ("sglang", "0.5.9"));
    let (told, tokens) = told_to_own_server(&namespace, engine, "sglang.launch_server").await;
    // The tokens of the stop word count, which the sidecar takes out.
    assert_eq!(tokens, 12);
    let names = ["model_path", "max_running_requests", "context_length", "dtype"];
    let numbers = names.map(|name| told[name].as_str().unwrap_or_default());
    assert_eq!(numbers, ["/slipway/engine/checkpoint", "16", "4096", "bfloat16"]);
    assert_eq!(told["disable_radix_cache"], json!(true));
    namespace.delete().await.unwrap();
}

#[tokio::test]
async fn trtllm_serve_is_scored_measured_and_answers() {
    let namespace = namespace_with("trtllm-serve", H100, &["own-server"]).await;
    let engine = (trtllm_serve(), ("tensorrt_llm", "1.2.1"));
    let (told, tokens) = told_to_own_server(&namespace, engine, "trtllm-serve").await;
    assert_eq!(tokens, 12, "those of the stop word count");
    assert_eq!(
        told,
        json!({
            "model": "/slipway/engine/checkpoint", "dtype": "bfloat16", "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1, "max_seq_len": 4096, "max_batch_size": 16, "max_num_tokens": 8192,
            "enable_chunked_prefill": true, "guided_decoding_backend": "xgrammar",
            "kv_cache_config": {"enable_block_reuse": false, "free_gpu_memory_fraction": 0.9},
        })
    );
    namespace.delete().await.unwrap();
}

/// No Job of a refused spec but the one that read config.json.
#[tokio::test]
async fn what_cannot_be_served_is_refused_before_anything_is_fetched() {
    let namespace = namespace_with("no-build-refused", A100, &["fp4", "argument"]).await;
    namespace.apply(&agent("fp4", A100, (vllm(IMAGE), "NVFP4"))).await.unwrap();
    let mut contradicts = vllm(IMAGE);
    contradicts["vllm"]["extraArgs"] = json!(["enforce_eager=true", "max_num_seqs=1"]);
    namespace.apply(&agent("argument", A100, (contradicts, "BF16"))).await.unwrap();

    let message = namespace.wait_for_message("fp4", "Stalled", "NVFP4", LIMIT).await.unwrap();
    assert_eq!(
        message,
        "spec.search.precision[0]: VLLM does not quantize, and the checkpoint is not in NVFP4; use FP16, BF16 or FP8, or \
         a checkpoint in NVFP4"
    );
    let message = namespace.wait_for_message("argument", "Stalled", "extraArgs", LIMIT).await.unwrap();
    assert_eq!(
        message,
        "spec.engine.vllm.extraArgs[1]: max_num_seqs=1 contradicts max_num_seqs=16: change the field or the element that \
         sets it, and remove this one"
    );
    let jobs = namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
    let jobs: Vec<_> = jobs.items.iter().map(ResourceExt::name_any).collect();
    assert!(jobs.len() == 2 && jobs.iter().all(|name| name.starts_with("resolve-")), "{jobs:?}");
    namespace.delete().await.unwrap();
}

/// An image of another backend is found out before an engine counts as built, an argument that vLLM does not know when
/// it is served.
#[tokio::test]
async fn an_image_without_the_backend_and_an_unknown_argument_are_conditions() {
    let namespace = namespace_with("no-build-fails", H100, &["vllm", "py-torch", "unknown", "own-server"]).await;
    // vLLM's own server is asked its questions first, and is waited for in vain.
    give_questions(&namespace).await;
    let mut own_server = agent("own-server", H100, (open_ai(&json!(["enforce_eagerly=true"])), "BF16"));
    own_server["spec"]["slo"] = json!({"quality": quality()});
    namespace.apply(&own_server).await.unwrap();
    let cases = [
        (
            "vllm",
            vllm(OTHER_IMAGE),
            "/opt/tritonserver/backends/vllm/model.py: check that it is Triton's image of vLLM 0.11.0",
        ),
        (
            "py-torch",
            py_torch(OTHER_IMAGE),
            "/app/all_models/llmapi/tensorrt_llm/1/model.py: check that it is Triton's image of TensorRT-LLM 1.2.1",
        ),
    ];
    let mut unknown = vllm(IMAGE);
    unknown["vllm"]["extraArgs"] = json!(["enforce_eagerly=true"]);
    namespace.apply(&agent("unknown", H100, (unknown, "BF16"))).await.unwrap();
    for (name, engine, _) in &cases {
        namespace.apply(&agent(name, H100, (engine.clone(), "BF16"))).await.unwrap();
    }
    for (name, _, words) in cases {
        let condition = namespace.wait_for_message(name, "Stalled", words, LIMIT).await.unwrap();
        println!("{name}: {condition}");
        let engine = namespace.first_engine_of(name).await.unwrap();
        let attempts = engine.status.unwrap().attempts;
        let failures: Vec<_> = attempts.iter().filter_map(|attempt| attempt.failure.clone()).collect();
        assert_eq!(failures.iter().map(|failure| failure.class).collect::<Vec<_>>(), [FailureClass::ImageMismatch]);
        assert!(failures[0].message.contains(words), "{failures:?}");
    }
    let words = "got an unexpected keyword argument 'enforce_eagerly'";
    let condition = namespace.wait_for_message("unknown", "Reconciling", words, LIMIT).await.unwrap();
    println!("unknown: {condition}");
    let words = "error: unrecognized arguments: --enforce-eagerly";
    let condition = namespace.wait_for_message("own-server", "Stalled", words, LIMIT).await.unwrap();
    println!("own-server: {condition}");
    let engines = namespace.api::<Engine>().list(&ListParams::default()).await.unwrap().items;
    let built = engines.iter().filter(|engine| engine.status.as_ref().is_some_and(|status| status.artifact.is_some()));
    assert_eq!(built.count(), 2, "only the engines whose image has what serves them");
    namespace.delete().await.unwrap();
}

/// The node says that it has GPUs, and has no driver: the checks run in the pod there, and refuse it.
#[tokio::test]
async fn a_node_whose_gpus_will_not_do_is_a_condition_with_its_name() {
    let namespace = namespace_with("preflight", H100, &["checked"]).await;
    let mut checked = agent("checked", H100, (vllm(IMAGE), "BF16"));
    checked["spec"]["serving"]["preflight"] = json!({"minDriver": "580.65.06"});
    namespace.apply(&checked).await.unwrap();
    let words = "whose GPUs its preflight refuses: libnvidia-ml.so.1 cannot be loaded";
    let message = namespace.wait_for_message("checked", "Reconciling", words, LIMIT).await.unwrap();
    println!("checked: {message}");
    let object: AgentDeployment = namespace.api().get("checked").await.unwrap();
    let (_, reason, _) = condition_of(&object, "Reconciling").unwrap();
    assert_eq!(reason, "PreflightFailed");
    let pod = serving_pod(&namespace, "checked").await;
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();
    assert!(message.contains(&format!("does not start on node {node},")), "{message}");
    let steps = [("materialize", false), ("preflight", true), ("triton", true), ("agent-runtime", false)];
    assert_eq!(containers(&pod), steps.map(|(name, asks)| (name.to_owned(), asks)));
    namespace.delete().await.unwrap();
}
