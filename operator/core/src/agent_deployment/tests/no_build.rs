//! Engines without a build: from a manifest to what serves it, and what is refused before anything is fetched.

use k8s_openapi::api::core::v1::Container;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_crds::{
    identity::content_hash,
    v1alpha1::{
        EngineStatus,
        agent_deployment::{EngineBuilds, EngineServer, NoBuildBackend, Precision, Stage},
        engine::NoBuild,
        profile::ProfileInputs,
    },
};
use slipway_worker_contract::Task;

use super::{
    cluster::{Cluster, Ending, digest, world},
    quality::{Found, scored},
    tensorrt_llm::{PROFILING, SLO, next, serving_container, stalled},
};
use crate::{
    agent_deployment::world::{DatasetView, WorkloadView},
    plan::Child,
};

const VLLM: &str = "
backend: VLLM
vllm: {version: 0.11.0, image: example.com/vllm:25.11, maxSeqLen: 8192}
";
const PY_TORCH: &str = "
backend: TensorRTLLMPyTorch
tensorRTLLMPyTorch: {version: 1.2.1, image: example.com/trtllm:26.07, maxSeqLen: 8192}
";

const OPEN_AI: &str = "
backend: VLLM
vllm: {version: 0.11.0, server: OpenAI, image: example.com/vllm-openai:0.11.0, maxSeqLen: 8192, prefixCaching: false}
";

pub(super) const SGLANG: &str = "
backend: SGLang
sglang: {version: 0.5.9, image: example.com/sglang:0.5.9, maxSeqLen: 8192, prefixCaching: false}
";

pub(super) const TRTLLM_SERVE: &str = "
backend: TensorRTLLMPyTorch
tensorRTLLMPyTorch: {version: 1.2.1, server: OpenAI, image: example.com/trtllm:1.2.1, maxSeqLen: 8192, prefixCaching: false}
";

fn on(product: &str, engine: &str, precisions: &[Precision]) -> Cluster {
    world().edited(|spec| {
        spec.engine = Some(serde_norway::from_str(engine).expect("a valid block"));
        spec.search.precision = precisions.to_vec();
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), product.to_owned());
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
    })
}

pub(super) fn h100(engine: &str) -> Cluster {
    on("NVIDIA-H100-80GB-HBM3", engine, &[Precision::BF16])
}

/// Engines are scored, and then measured by recorded runs.
fn gated_and_measured(cluster: Cluster) -> Cluster {
    let mut cluster = cluster.edited(|spec| {
        spec.slo = serde_norway::from_str(SLO).expect("objectives");
        spec.profiling = serde_norway::from_str(PROFILING).expect("profiling");
    });
    let trace = WorkloadView::Lines { digest: digest("trace") };
    cluster.world.workloads.insert(("workload".to_owned(), "trace.jsonl".to_owned()), trace);
    cluster
}

/// The questions of the quality gate are there.
fn with_samples(mut cluster: Cluster) -> Cluster {
    let prompts = r#"{"id":"1","prompt":"Question: 1+1\n","maxTokens":8,"stopWords":[]}"#.to_owned();
    cluster.world.dataset = Some(DatasetView::Samples { digest: digest("samples"), prompts });
    cluster
}

fn builds(cluster: &Cluster) -> Vec<(Precision, NoBuild)> {
    let specs = cluster.engines.values().map(|(spec, _)| &spec.build);
    specs.filter_map(|build| Some((build.precision, build.no_build.clone()?))).collect()
}

/// What an engine is told, as its backend reads it.
pub(super) fn told(cluster: &Cluster) -> Value {
    let (_, (spec, _)) = cluster.engines.iter().next().expect("one engine");
    let order = crate::engine::no_build::order_of(spec).expect("an order").expect("of one without a build");
    serde_json::from_str(&order.arguments).expect("JSON")
}

#[rstest]
#[case(VLLM, json!({
    "model": "/slipway/engine/checkpoint", "dtype": "bfloat16", "kv_cache_dtype": "auto", "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1, "max_model_len": 8192, "max_num_seqs": 64, "max_num_batched_tokens": 8192,
    "gpu_memory_utilization": 0.9, "enable_prefix_caching": true, "enable_chunked_prefill": true,
}), "Vllm")]
#[case(PY_TORCH, json!({
    "model": "/slipway/engine/checkpoint", "backend": "pytorch", "dtype": "bfloat16", "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1, "max_seq_len": 8192, "max_batch_size": 64, "max_num_tokens": 8192,
    "enable_chunked_prefill": true, "kv_cache_config": {"enable_block_reuse": true, "free_gpu_memory_fraction": 0.9},
    "triton_config": {"max_batch_size": 0, "decoupled": true},
}), "LlmApi")]
fn a_manifest_becomes_an_engine_and_pods_that_speak_as_it_does(
    #[case] engine: &str,
    #[case] arguments: Value,
    #[case] dialect: &str,
) {
    let cluster = h100(engine).resolved().fetched();
    assert_eq!(told(&cluster), arguments);

    let cluster = cluster.with_engine_built(Precision::BF16);
    let triton = serving_container(&cluster, "triton");
    assert_eq!(triton.image.as_deref().map(|image| image.starts_with("example.com/")), Some(true));
    let command = triton.command.unwrap_or_default();
    assert_eq!(command.iter().filter(|word| *word == "--load-model=agent").count(), 1, "{command:?}");
    let home = triton.env.unwrap_or_default().into_iter().find(|variable| variable.name == "HOME");
    assert_eq!(home.and_then(|variable| variable.value).as_deref(), Some("/tmp"));
    assert_eq!(
        sidecars_server(&cluster),
        json!({"endpoint": "http://127.0.0.1:8001", "modelName": "agent", "dialect": dialect})
    );
}

/// With the model resolved on a node that pulled the image, or has it under another name.
fn resolved_on_node(image_id: Option<&str>) -> Cluster {
    let mut cluster = h100(VLLM);
    cluster.settle();
    let resolve = cluster.running_jobs().remove(0);
    cluster.end_job(&resolve, Ending::Success);
    let job = cluster.world.jobs.get_mut(&resolve).expect("the resolve Job exists");
    job.pinned_images = image_id.map(|id| ("example.com/vllm:25.11".to_owned(), id.to_owned())).into_iter().collect();
    cluster
}

/// A tag that moves would change pods of a plan one by one, and nobody would judge it.
#[rstest]
#[case::by_digest_where_it_can_be_pulled_so(Some("example.com/vllm@sha256:2e"), "example.com/vllm@sha256:2e")]
#[case::as_it_is_named_where_it_was_imported(None, "example.com/vllm:25.11")]
fn a_plan_names_the_image_that_was_checked(#[case] image_id: Option<&str>, #[case] serves: &str) {
    let cluster = resolved_on_node(image_id).fetched().with_engine_built(Precision::BF16);
    assert_eq!(serving_container(&cluster, "triton").image.as_deref(), Some(serves));
}

/// The status of an older release knows no name by digest.
#[test]
fn a_plan_keeps_its_text_when_the_operator_learns_to_name_images_by_digest() {
    let mut cluster = resolved_on_node(None).fetched().with_engine_built(Precision::BF16).with_pods_ready();
    let revision = cluster.stable();
    let job = cluster.world.jobs.values_mut().find(|job| job.name.starts_with("resolve-")).expect("it is kept");
    job.pinned_images.insert("example.com/vllm:25.11".to_owned(), "example.com/vllm@sha256:2e".to_owned());
    let cluster = cluster.edited(|spec| spec.serving.replicas = 2).with_pods_ready();
    assert_eq!(cluster.stable(), revision);
}

#[test]
fn vllms_own_server_takes_tritons_place() {
    let cluster = h100(OPEN_AI).resolved().fetched();
    assert_eq!(
        told(&cluster),
        json!({
            "host": "127.0.0.1", "port": 8000, "served-model-name": "agent", "generation-config": "vllm", "dtype": "bfloat16",
            "kv-cache-dtype": "auto", "tensor-parallel-size": 1, "pipeline-parallel-size": 1, "max-model-len": 8192,
            "max-num-seqs": 64, "max-num-batched-tokens": 8192, "gpu-memory-utilization": 0.9,
            "no-enable-prefix-caching": true, "enable-chunked-prefill": true,
        })
    );
    let cluster = cluster.with_engine_built(Precision::BF16);
    let server = serving_container(&cluster, "triton");
    assert_eq!(server.image.as_deref(), Some("example.com/vllm-openai:0.11.0"));
    let command = "vllm serve /slipway/engine/checkpoint --config /slipway/engine/server/config.yaml";
    assert_eq!(server.command.unwrap_or_default().join(" "), command);
    let probe = server.startup_probe.expect("a probe");
    let limit = (probe.period_seconds, probe.failure_threshold);
    assert_eq!((probe.http_get, limit), (None, (Some(5), Some(120))), "nobody outside of the pod reaches it");
    let words = probe.exec.and_then(|exec| exec.command).unwrap_or_default().join(" ");
    assert_eq!(
        words,
        "python3 -c import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"
    );
    assert_eq!(
        sidecars_server(&cluster),
        json!({"endpoint": "http://127.0.0.1:8000", "modelName": "agent", "dialect": "OpenAi"})
    );
}

/// Where the sidecar of the pods that serve finds its engine.
pub(super) fn sidecars_server(cluster: &Cluster) -> Value {
    let config = cluster.plan().children.iter().find_map(|child| match child {
        Child::ConfigMap(map) => map.data.as_ref()?.get("config.json").cloned(),
        _ => None,
    });
    let config: Value = serde_json::from_str(&config.expect("a configuration")).expect("JSON");
    config["triton"].clone()
}

#[test]
fn the_build_job_writes_the_repository_without_a_gpu() {
    let cluster = h100(VLLM).resolved().fetched();
    let (name, (spec, _)) = cluster.engines.iter().next().expect("one engine");
    let world = cluster.engine_world(name, spec, EngineStatus::default());
    let (task, job) = crate::engine::build::build_job(&world, "build-1").expect("a Job");
    let pod = job.spec.and_then(|spec| spec.template.spec).expect("a pod");
    let all = pod.init_containers.into_iter().flatten().chain(pod.containers);
    let has_gpu = |container: &Container| {
        container
            .resources
            .iter()
            .flat_map(|resources| resources.limits.iter().flatten())
            .any(|(name, _)| name.contains("gpu"))
    };
    let steps: Vec<_> = all.map(|container| (container.name.clone(), has_gpu(&container))).collect();
    let expected =
        [("check-checkpoint", false), ("install-worker", false), ("assemble", false), ("finish-build", false)];
    assert_eq!(steps, expected.map(|(name, has_gpu)| (name.to_owned(), has_gpu)));
    let data = task.data.unwrap_or_default();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["task.json"]);
    let Ok(Task::Build(task)) = Task::parse(data["task.json"].as_bytes()) else { panic!("a build task") };
    let checkpoint = task.no_build.map(|order| order.checkpoint);
    let uri = cluster.world.spec.model.uri.as_deref().unwrap();
    assert_eq!((task.model.as_str(), checkpoint), ("agent", Some(digest(uri))));
}

#[test]
fn each_point_of_the_build_axes_is_an_engine_and_only_vllm_makes_fp8_while_it_loads() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", VLLM, &[Precision::BF16, Precision::FP8])
        .edited(|spec| spec.search.max_batch_size = vec![16, 64])
        .resolved()
        .fetched();
    let names: Vec<_> = cluster.world.status.engines.iter().map(|engine| engine.display_name.clone()).collect();
    assert_eq!(names, ["bf16-b16", "bf16-b64", "fp8-b16", "fp8-b64"]);
    let made: Vec<_> = builds(&cluster).into_iter().filter(|(_, of)| of.quantized_at_load).map(|(p, _)| p).collect();
    assert_eq!(made, [Precision::FP8, Precision::FP8]);
}

#[test]
fn a_quantized_checkpoint_is_served_as_it_is() {
    let mut cluster = on("NVIDIA-H100-80GB-HBM3", VLLM, &[Precision::FP8]);
    cluster.quantization = Some("FP8");
    let cluster = cluster.resolved().fetched();
    assert_eq!(told(&cluster)["dtype"], "auto");
    assert_eq!(told(&cluster).get("quantization"), None);
}

#[test]
fn features_of_vllm_are_part_of_the_engine_and_engines_without_any_keep_their_names() {
    const FEATURES: &str = "
backend: VLLM
vllm:
  version: 0.25.0
  server: OpenAI
  maxSeqLen: 8192
  ngramSpeculation: {tokens: 4}
  kvOffload: {hostMemoryGib: 8}
  structuredOutputs: {backend: XGrammar, compact: true}
  lora: {folder: adapters/sql, rank: 16}
";
    let name = |cluster: &Cluster| cluster.engines.keys().next().cloned().expect("an engine");
    let plain = h100("{backend: VLLM, vllm: {version: 0.25.0, server: OpenAI, maxSeqLen: 8192}}").resolved().fetched();
    let cluster = h100(FEATURES).resolved().fetched();
    assert_ne!(name(&cluster), name(&plain));
    let text = serde_json::to_string(&builds(&plain)[0].1).expect("data");
    assert!(!text.contains("features"), "{text}");
    let told = told(&cluster);
    assert_eq!(
        (&told["speculative-config"], &told["kv-offloading-size"], &told["structured-outputs-config"]),
        (
            &json!(r#"{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}"#),
            &json!(8),
            &json!(r#"{"backend":"xgrammar","disable_any_whitespace":true}"#),
        )
    );
    let module = r#"{"name":"agent","path":"/slipway/engine/checkpoint/adapters/sql"}"#;
    assert_eq!((&told["served-model-name"], &told["lora-modules"]), (&json!("agent-base"), &json!([module])));
    let small = h100(FEATURES).edited(|spec| {
        spec.serving.triton_resources.limits.insert("memory".to_owned(), "8Gi".to_owned());
    });
    assert!(
        stalled(&small.resolved().plan())
            .starts_with("spec.engine.vllm.kvOffload.hostMemoryGib: 8 GiB of KV cache leave"),
        "the pod's limit is known before anything is fetched"
    );
}

#[test]
fn a_quantized_checkpoint_is_the_reference_of_its_own_quality() {
    let mut cluster = gated_and_measured(on("NVIDIA-H100-80GB-HBM3", VLLM, &[Precision::FP8]));
    cluster.quantization = Some("FP8");
    let cluster = cluster.resolved().fetched().with_engine_built(Precision::FP8);
    let cluster = scored(with_samples(cluster), Found { score: 980_000, drop: None });
    let states: Vec<_> = cluster.plan().status.engines.into_iter().map(|engine| engine.state).collect();
    let [state] = states.as_slice() else { panic!("{states:?}") };
    assert!(
        state.ends_with("quality 98.00 %; the checkpoint is quantized, so nothing more exact is compared with it"),
        "{state}"
    );
}

#[test]
fn a_format_that_the_checkpoint_does_not_have_is_refused_before_it_is_fetched() {
    let mut cluster = on("NVIDIA-H100-80GB-HBM3", PY_TORCH, &[Precision::BF16]);
    cluster.quantization = Some("FP8");
    let cluster = cluster.resolved();
    let plan = cluster.plan();
    assert_eq!(
        stalled(&plan),
        "spec.search.precision[0]: the checkpoint is quantized as FP8, and TensorRTLLMPyTorch does not requantize it; \
         use FP8 alone, or a checkpoint that is not quantized"
    );
    assert_eq!(plan.status.stage, Some(Stage::Refused));
    assert_eq!(cluster.running_jobs(), Vec::<String>::new());
}

#[test]
fn what_was_built_serves_on_when_a_later_release_knows_better() {
    let mut cluster = h100(VLLM).resolved().fetched().with_engine_built(Precision::BF16);
    let children = |cluster: &Cluster| format!("{:?}", cluster.plan().children);
    let before = children(&cluster);
    // As if a mixture's experts had not been counted when this model was resolved.
    let model = cluster.world.status.model.as_mut().expect("a model");
    model.parameters = Some(100_000_000_000);
    model.shape.as_mut().expect("a shape").parameter_bytes = Some(200_000_000_000);
    assert_eq!((stalled(&cluster.plan()), children(&cluster)), (String::new(), before));
    let fresh = cluster.edited(|spec| spec.search.max_batch_size = vec![8]);
    assert!(stalled(&fresh.plan()).starts_with("spec.search.precision[0]: BF16 needs "), "{}", stalled(&fresh.plan()));
}

#[test]
fn the_exact_bytes_of_a_checkpoint_decide_whether_it_fits() {
    let mut cluster = on("NVIDIA-L40S", VLLM, &[Precision::FP8]);
    cluster.quantization = Some("FP8");
    cluster.parameter_bytes = Some(60 << 30);
    let message = stalled(&cluster.resolved().plan());
    assert!(message.contains("weights (60."), "{message}");
}

#[rstest]
#[case::too_few_gpus(
    |c: Cluster| c.edited(|spec| spec.search.tensor_parallel = vec![2]),
    "spec.serving.tritonResources.limits: 2 GPUs are needed: set nvidia.com/gpu to 2 or more"
)]
#[case::an_unknown_gpu(
    |c: Cluster| c.edited(|spec| {
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-H100-MIG-1g.10gb".to_owned());
    }),
    "spec.hardware.nodeSelector[nvidia.com/gpu.product]: \"NVIDIA-H100-MIG-1g.10gb\" is the MIG slice 1g.10gb of a GPU, whose \
     figures are not known: name nodes without MIG (NVIDIA-H100), or use backend Custom"
)]
#[case::a_version_in_no_image(
    |c: Cluster| c.edited(|spec| {
        let vllm = spec.engine.as_mut().unwrap().vllm.as_mut().unwrap();
        (vllm.version, vllm.image) = (Some("0.5.5".to_owned()), None);
    }),
    "spec.engine.vllm.version: 0.5.5 is older than 0.6.3, the first version that says why and after how many tokens an answer ends; \
     use 0.6.3.post1 or later"
)]
#[case::a_server_that_reads_no_file(
    |c: Cluster| c.edited(|spec| {
        let vllm = spec.engine.as_mut().unwrap().vllm.as_mut().unwrap();
        (vllm.version, vllm.server) = (Some("0.8.5".to_owned()), EngineServer::OpenAI);
    }),
    "spec.engine.vllm.version: 0.8.5 is older than 0.9.0, the first version whose own server takes every option from a file; use \
     0.9.0 or later, or from 0.6.3.post1 on engine.vllm.server Triton"
)]
#[case::an_argument_against_a_field(
    |c: Cluster| c.edited(|spec| {
        spec.engine.as_mut().unwrap().vllm.as_mut().unwrap().options.extra_args = vec!["max_num_seqs=1".to_owned()];
    }),
    "spec.engine.vllm.extraArgs[0]: max_num_seqs=1 contradicts max_num_seqs=64: change the field or the element that sets it, and \
     remove this one"
)]
#[case::several_reasons(
    |c: Cluster| c.edited(|spec| {
        spec.search.tensor_parallel = vec![3];
        spec.engine.as_mut().unwrap().vllm.as_mut().unwrap().max_seq_len = Some(200_000);
    }),
    "spec.search.tensorParallel[0]: 32 attention heads, 8 KV heads and an MLP of 14336 do not split over 3 GPUs; possible: \
     1, 2, 4, 8 (and 1 further problems)"
)]
fn what_cannot_be_served_names_field_and_remedy(#[case] edit: fn(Cluster) -> Cluster, #[case] message: &str) {
    let cluster = edit(h100(VLLM));
    let cluster = if message.contains("older") { cluster } else { cluster.resolved() };
    assert_eq!(stalled(&cluster.plan()), message);
}

#[rstest]
#[case(VLLM, "VLLM", NoBuildBackend::VLLM, &["supervise"], true)]
#[case(OPEN_AI, "VLLMOpenAI", NoBuildBackend::VLLMOpenAI, &["supervise", "--vllm-engine=/slipway/engine"], false)]
#[case(
    SGLANG,
    "SGLang",
    NoBuildBackend::SGLang,
    &["supervise", "--own-server=SGLang", "--engine=/slipway/engine"],
    false
)]
#[case(
    TRTLLM_SERVE,
    "TensorRTLLMPyTorchOpenAI",
    NoBuildBackend::TensorRTLLMPyTorchOpenAI,
    &["supervise", "--own-server=TensorRTLLMPyTorchOpenAI", "--engine=/slipway/engine"],
    false
)]
fn an_engine_is_scored_and_measured_as_it_is_served(
    #[case] engine: &str,
    #[case] word: &str,
    #[case] backend: NoBuildBackend,
    #[case] supervise: &[&str],
    #[case] has_probe: bool,
) {
    let cluster = gated_and_measured(h100(engine)).resolved().fetched().with_engine_built(Precision::BF16);
    let mut cluster = with_samples(cluster);

    let job = next(&mut cluster, |child| match child {
        Child::Job(job) if job.metadata.name.as_ref().is_some_and(|name| name.starts_with("quality-")) => {
            job.spec.clone()?.template.spec
        }
        _ => None,
    });
    let served = job.init_containers.iter().flatten().find(|container| container.name == "triton");
    assert_eq!(served.map(|container| container.startup_probe.is_some()), Some(has_probe));
    let steps: Vec<_> =
        job.init_containers.into_iter().flatten().map(|c| (c.name, c.args.unwrap_or_default())).collect();
    let names: Vec<_> = steps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["materialize", "install-worker", "triton", "evaluate"]);
    assert_eq!(steps[2].1, supervise);
    assert_eq!(steps[3].1, ["evaluate".to_owned(), "--model=agent".to_owned(), format!("--no-build={word}")]);

    let mut cluster = scored(cluster, Found { score: 980_000, drop: None });
    let inputs = next(&mut cluster, |child| match child {
        Child::Profile(profile) => Some(profile.spec.inputs.clone()),
        _ => None,
    });
    let backends: Vec<_> = inputs.engines.iter().map(|engine| engine.no_build).collect();
    assert_eq!((backends, inputs.configurations.len()), (vec![Some(backend)], 1));
}

#[test]
fn a_campaign_that_asks_for_engines_is_told_the_models_size_and_is_the_same_campaign() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", VLLM, &[Precision::BF16, Precision::FP8]);
    let cluster = gated_and_measured(cluster).edited(|spec| {
        spec.profiling.as_mut().expect("profiling").engines = EngineBuilds::WhenAsked;
    });
    let cluster = with_samples(cluster.resolved().fetched().with_engine_built(Precision::BF16));
    let mut cluster = scored(cluster, Found { score: 980_000, drop: None });
    let spec = next(&mut cluster, |child| match child {
        Child::Profile(profile) => Some(profile.spec.clone()),
        _ => None,
    });
    let size = spec.inputs.model.clone().expect("a size");
    assert!(size.parameters > 1_000_000_000 && size.active_parameters <= size.parameters, "{size:?}");
    let untold = ProfileInputs { model: None, ..spec.inputs };
    assert_eq!(content_hash(&untold).expect("data").as_str(), spec.input_hash);
}
