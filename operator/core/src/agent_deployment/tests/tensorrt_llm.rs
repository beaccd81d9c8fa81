//! Engines of TensorRT-LLM: what is built, and what is refused before anything is fetched.

use k8s_openapi::api::core::v1::Container;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{AgentDeploymentStatus, EngineEntry, Precision, SearchSpace, ServeParameter, Stage},
    engine::TensorRtLlmBuild,
};
use slipway_worker_contract::{ModelShape, Task};

use super::{
    cluster::{Cluster, digest, world},
    quality::{Found, scored},
};
use crate::{
    agent_deployment::world::{CalibrationView, DatasetView, WorkloadView},
    plan::{Child, Plan},
};

const ENGINE: &str = "
backend: TensorRTLLM
tensorRTLLM:
  version: 0.16.0
  image: example.com/tritonserver:24.12
  maxSeqLen: 4096
  calibration: {configMap: {name: texts, key: train.jsonl}}
";

/// Llama-3.1-8B's shape.
pub(super) fn llama_8b() -> ModelShape {
    ModelShape {
        architecture: "LlamaForCausalLM".to_owned(),
        hidden_size: 4096,
        layers: 32,
        heads: 32,
        key_value_heads: 8,
        head_dim: 128,
        intermediate_size: Some(14_336),
        experts: None,
        experts_per_token: None,
        dense_layers: 0,
        dense_intermediate_size: 0,
        shared_intermediate_size: 0,
        latent_size: 0,
        tied_embeddings: false,
        vocabulary: 128_256,
        max_positions: Some(131_072),
        dtype: Some("bfloat16".to_owned()),
        quantization: None,
        quantization_method: None,
        parameters: 8_030_000_000,
        parameter_bytes: 16_060_000_000,
    }
}

fn on(product: &str, precisions: &[Precision]) -> Cluster {
    let mut cluster = world().edited(|spec| {
        spec.engine = Some(serde_norway::from_str(ENGINE).expect("a valid block"));
        spec.search.precision = precisions.to_vec();
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), product.to_owned());
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
    });
    cluster.world.calibration = Some(CalibrationView::Texts { digest: digest("texts") });
    cluster
}

fn parameters(text: &str) -> Vec<ServeParameter> {
    serde_norway::from_str(text).expect("parameters")
}

pub(super) fn stalled(plan: &Plan<AgentDeploymentStatus>) -> String {
    let stalled = plan.status.conditions.iter().find(|c| c.type_ == "Stalled" && c.status == "True");
    stalled.map(|condition| condition.message.clone()).unwrap_or_default()
}

fn builds(cluster: &Cluster) -> Vec<(Precision, TensorRtLlmBuild)> {
    let specs = cluster.engines.values().map(|(spec, _)| &spec.build);
    specs.filter_map(|build| Some((build.precision, build.tensorrt_llm.clone()?))).collect()
}

#[test]
fn fp8_on_an_a100_is_refused_before_the_checkpoint_is_fetched() {
    let cluster = on("NVIDIA-A100-SXM4-80GB", &[Precision::FP8]).resolved();
    let plan = cluster.plan();
    assert_eq!(
        stalled(&plan),
        "spec.search.precision[0]: FP8 engines do not run on a100-sxm (SM80); it runs FP16, BF16, INT8WeightOnly, \
         INT8SmoothQuant, INT4WeightOnly, INT4AWQ"
    );
    assert_eq!(plan.status.stage, Some(Stage::Refused));
    assert_eq!(cluster.running_jobs(), Vec::<String>::new());
}

#[rstest]
#[case::layers_do_not_split(
    |c: Cluster| c.edited(|spec| spec.search.pipeline_parallel = vec![5]),
    "spec.search.pipelineParallel[0]: 32 layers do not split into 5 equal groups; use a divisor of 32"
)]
#[case::too_few_gpus(
    |c: Cluster| c.edited(|spec| spec.search.tensor_parallel = vec![1, 2]),
    "spec.serving.tritonResources.limits: 2 GPUs are needed: set nvidia.com/gpu to 2 or more"
)]
#[case::an_unknown_gpu(
    |c: Cluster| c.edited(|spec| {
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-H100-MIG-1g.10gb".to_owned());
    }),
    "spec.hardware.nodeSelector[nvidia.com/gpu.product]: \"NVIDIA-H100-MIG-1g.10gb\" is the MIG slice 1g.10gb of a GPU, whose \
     figures are not known: name nodes without MIG (NVIDIA-H100), or use backend Custom"
)]
#[case::a_version_without_an_engine_flow(
    |c: Cluster| c.edited(|spec| spec.engine.as_mut().unwrap().tensorrt_llm.as_mut().unwrap().version = Some("1.3.0".to_owned())),
    "spec.engine.tensorRTLLM.version: 1.3.0 no longer builds engines (the tools were removed in 1.3); use 1.2.1 or earlier, \
     or backend TensorRTLLMPyTorch or VLLM, which serve without a build"
)]
#[case::an_argument_against_a_field(
    |c: Cluster| c.edited(|spec| {
        spec.engine.as_mut().unwrap().tensorrt_llm.as_mut().unwrap().options.extra_args.build = vec!["--max_seq_len=1".to_owned()];
    }),
    "spec.engine.tensorRTLLM.extraArgs.build[0]: --max_seq_len=1 contradicts --max_seq_len=4096, which a typed field sets: \
     change that field and remove it here"
)]
#[case::a_parameter_that_no_engine_reads(
    |c: Cluster| c.edited(|spec| spec.search.parameters = parameters("[{name: kv_cache_free_gpu_mem_fraction, values: ['90']}]")),
    "spec.search.parameters[0]: kv_cache_free_gpu_mem_fraction takes a share between 0 and 1, as in 0.85, not 90"
)]
#[case::parameters_that_would_be_compared(
    |c: Cluster| c.edited(|spec| {
        spec.search.parameters = parameters("[{name: cuda_graph_mode, values: ['true', 'false']}]");
        spec.profiling = serde_norway::from_str(PROFILING).expect("profiling");
        of_two_gpus(spec);
    }),
    "spec.search.parameters: an engine split over several GPUs is loaded once, so its parameters cannot vary: remove parameters or profiling, or use engines of one GPU"
)]
#[case::queue_delays_that_would_be_compared(
    |c: Cluster| c.edited(|spec| {
        spec.search.queue_delay_microseconds = vec![0, 250];
        spec.profiling = serde_norway::from_str(PROFILING).expect("profiling");
        of_two_gpus(spec);
    }),
    "spec.search.queueDelayMicroseconds: an engine split over several GPUs is loaded once, so its queue delay cannot vary: remove queueDelayMicroseconds or profiling, or use engines of one GPU"
)]
#[case::several_reasons(
    |c: Cluster| c.edited(|spec| {
        spec.search.tensor_parallel = vec![3];
        spec.search.pipeline_parallel = vec![5];
    }),
    "spec.search.tensorParallel[0]: 32 attention heads, 8 KV heads and an MLP of 14336 do not split over 3 GPUs; possible: \
     1, 2, 4, 8 (and 1 further problems)"
)]
fn what_cannot_be_built_names_field_and_remedy(#[case] edit: fn(Cluster) -> Cluster, #[case] message: &str) {
    let cluster = edit(on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8]));
    let cluster = if message.contains("version") { cluster } else { cluster.resolved() };
    assert_eq!(stalled(&cluster.plan()), message);
}

#[test]
fn a_checkpoint_in_awq_is_an_engine_in_awq_that_nothing_calibrates() {
    let awq = |version: &'static str, precision| {
        let mut cluster = on("NVIDIA-H100-80GB-HBM3", &[precision]).edited(|spec| {
            spec.engine.as_mut().unwrap().tensorrt_llm.as_mut().unwrap().version = Some(version.to_owned())
        });
        (cluster.quantization, cluster.quantization_method) = (Some("INT4AWQ"), Some("awq"));
        cluster.resolved()
    };
    let cluster = awq("1.0.0", Precision::INT4AWQ).fetched();
    let built: Vec<_> = builds(&cluster);
    assert_eq!(built.len(), 1);
    assert_eq!((built[0].1.prequantized, built[0].1.calibration.clone()), (true, None));
    assert_eq!(
        stalled(&awq("1.0.0", Precision::FP16).plan()),
        "spec.search.precision[0]: the checkpoint is quantized as INT4AWQ, and TensorRT-LLM's converter keeps that whatever is asked \
         for; use INT4AWQ alone, or a checkpoint that is not quantized"
    );
}

#[test]
fn calibration_texts_are_waited_for_by_name() {
    let mut cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8]);
    cluster.world.calibration = Some(CalibrationView::Missing);
    let plan = cluster.resolved().plan();
    let reconciling = plan.status.conditions.iter().find(|c| c.type_ == "Reconciling").expect("a condition");
    assert_eq!(
        reconciling.message,
        "spec.engine.tensorRTLLM.calibration: ConfigMap texts: it does not exist or has no key train.jsonl: create it"
    );
}

#[test]
fn each_point_of_the_build_axes_is_an_engine_that_says_what_it_is() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::INT8WeightOnly, Precision::FP8])
        .edited(|spec| spec.search.max_batch_size = vec![16, 64])
        .resolved()
        .fetched();
    let names: Vec<_> = cluster.world.status.engines.iter().map(|engine| engine.display_name.clone()).collect();
    assert_eq!(names, ["int8weightonly-b16", "int8weightonly-b64", "fp8-b16", "fp8-b64"]);
    let is_calibrated = |wanted| {
        let of = builds(&cluster).into_iter().filter(move |(precision, _)| *precision == wanted);
        of.map(|(_, build)| build.calibration.map(|texts| texts.digest)).collect::<Vec<_>>()
    };
    assert_eq!(is_calibrated(Precision::INT8WeightOnly), [None, None]);
    assert_eq!(is_calibrated(Precision::FP8), [Some(digest("texts").to_string()), Some(digest("texts").to_string())]);
}

/// A container of the pods that the plan serves with, of those before the agent runtime.
pub(super) fn serving_container(cluster: &Cluster, name: &str) -> Container {
    let plan = cluster.plan();
    let deployment = plan.children.iter().find_map(|child| match child {
        Child::Deployment(deployment) => Some(deployment),
        _ => None,
    });
    let pod = deployment.and_then(|d| d.spec.clone()).and_then(|spec| spec.template.spec).expect("a pod");
    pod.init_containers.into_iter().flatten().find(|container| container.name == name).expect("the container")
}

#[test]
fn a_serving_parameter_is_one_of_the_engines_and_not_of_its_entry() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8])
        .edited(|spec| {
            spec.search.parameters = parameters("[{name: batch_scheduler_policy, values: [max_utilization]}]");
        })
        .resolved()
        .fetched()
        .with_engine_built(Precision::FP8);
    let arguments = serving_container(&cluster, "materialize").args.unwrap_or_default();
    assert!(arguments.contains(&"--model=tensorrt_llm".to_owned()), "{arguments:?}");
    let overrides = arguments.iter().find(|argument| argument.starts_with("--serve-config=")).expect("overrides");
    assert!(overrides.contains(r#""batch_scheduler_policy":"max_utilization""#), "{overrides}");
}

#[test]
fn the_build_job_runs_the_tools_in_their_order_and_serves_with_one_process_a_gpu() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8])
        .edited(|spec| {
            spec.search.tensor_parallel = vec![2];
            spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "2".to_owned());
        })
        .resolved()
        .fetched();
    let (name, (spec, _)) = cluster.engines.iter().next().expect("one engine");
    let order = crate::engine::tensorrt_llm::order_of(spec).expect("an order").expect("of TensorRT-LLM");
    let steps: Vec<_> = order.steps.iter().map(|step| (step.name.as_str(), step.script.as_deref())).collect();
    assert_eq!(steps, [("quantize", Some("quantization/quantize.py")), ("build", None)]);
    let quantize = order.steps[0].arguments.join(" ");
    assert!(
        quantize.contains("--qformat=fp8 --tp_size=2 --pp_size=1 --calib_dataset=/slipway/calibration"),
        "{quantize}"
    );
    assert!(order.steps[1].arguments.contains(&"--workers=2".to_owned()), "{:?}", order.steps[1].arguments);

    let name = name.clone();
    let cluster = cluster.with_engine_built(Precision::FP8);
    let command = serving_container(&cluster, "triton").command.unwrap_or_default();
    assert_eq!(command.iter().filter(|word| *word == "tritonserver").count(), 2, "{command:?}");
    assert_eq!(cluster.world.status.selected.and_then(|selected| selected.engine().cloned()), Some(name));
}

/// What is asked of an engine behind models of text, by whom and of which models, when it is scored, measured and
/// served.
#[rstest]
#[case(EngineEntry::Ensemble, "ensemble", "--entry=Ensemble")]
#[case(EngineEntry::BLS, "tensorrt_llm_bls", "--entry=BLS")]
fn an_engine_behind_models_of_text_is_asked_by_its_entry(
    #[case] entry: EngineEntry,
    #[case] model: &str,
    #[case] told: &str,
) {
    let cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8]).edited(|spec| {
        spec.engine.as_mut().unwrap().tensorrt_llm.as_mut().unwrap().options.entry = entry;
        spec.slo = serde_norway::from_str(SLO).expect("objectives");
    });
    let mut cluster = cluster.resolved().fetched().with_engine_built(Precision::FP8);
    let prompts = r#"{"id":"1","prompt":"Question: 1+1\n","maxTokens":8,"stopWords":[]}"#.to_owned();
    cluster.world.dataset = Some(DatasetView::Samples { digest: digest("samples"), prompts });
    let job = next(&mut cluster, |child| match child {
        Child::Job(job) if job.metadata.name.as_ref().is_some_and(|name| name.starts_with("quality-")) => {
            job.spec.clone()?.template.spec
        }
        _ => None,
    });
    let evaluate = job.init_containers.into_iter().flatten().find(|container| container.name == "evaluate");
    let arguments = evaluate.and_then(|container| container.args).unwrap_or_default();
    assert_eq!(arguments, ["evaluate".to_owned(), format!("--model={model}"), told.to_owned()]);

    let mut cluster = scored(cluster, Found { score: 980_000, drop: None });
    cluster.settle();
    let triton = serving_container(&cluster, "triton");
    let loads: Vec<_> = triton.command.into_iter().flatten().filter(|word| word.starts_with("--load-model=")).collect();
    let expected =
        ["preprocessing", "tensorrt_llm", "postprocessing", model].map(|name| format!("--load-model={name}"));
    assert_eq!(loads, expected);
    assert!(
        triton.env.into_iter().flatten().any(|variable| variable.name == "HF_HUB_OFFLINE"),
        "no tokenizer is looked up"
    );
}

const LATENCY: &str = "objectives: [{name: run, metric: AgentRunLatency, percentile: p95, max: 10s}]";
pub(super) const SLO: &str = "
objectives: [{name: run, metric: AgentRunLatency, percentile: p95, max: 10s}]
quality: {maxDrop: 2%, dataset: {configMap: {name: samples, key: samples.jsonl}}}
";
pub(super) const PROFILING: &str = "
driver: AgentRun
workloads: [{name: runs, agentTrace: {configMap: {name: workload, key: trace.jsonl}}}]
";

fn of_two_gpus(spec: &mut AgentDeploymentSpec) {
    spec.search.tensor_parallel = vec![2];
    spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "2".to_owned());
}

#[test]
fn what_an_engine_of_one_gpu_reads_when_it_is_loaded_is_compared() {
    let names = configurations(|search| {
        search.parameters = parameters("[{name: cuda_graph_mode, values: ['true', 'false']}]");
    });
    assert_eq!(names, ["cuda_graph_mode-true", "cuda_graph_mode-false"]);
}

#[test]
fn queue_delays_are_compared_each_with_every_parameter() {
    let names = configurations(|search| {
        search.queue_delay_microseconds = vec![0, 250];
        search.parameters = parameters("[{name: cuda_graph_mode, values: ['true', 'false']}]");
    });
    let expected = ["0us,cuda_graph_mode-true", "0us,cuda_graph_mode-false", "250us,cuda_graph_mode-true"]
        .map(|name| format!("delay-{name}"));
    assert_eq!((&names[..3], names.len()), (&expected[..], 4));
}

#[test]
fn an_engine_serves_with_its_queue_delay_in_its_own_model() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8])
        .edited(|spec| spec.search.queue_delay_microseconds = vec![250])
        .resolved()
        .fetched()
        .with_engine_built(Precision::FP8);
    let arguments = serving_container(&cluster, "materialize").args.unwrap_or_default();
    assert!(arguments.contains(&"--model=tensorrt_llm".to_owned()), "{arguments:?}");
    let overrides = arguments.iter().find_map(|argument| argument.strip_prefix("--serve-config="));
    assert_eq!(overrides, Some(r#"{"queueDelayMicros":250}"#));
}

/// The names of the configurations that a campaign compares.
fn configurations(search: impl Fn(&mut SearchSpace)) -> Vec<String> {
    let mut cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8]).edited(|spec| {
        search(&mut spec.search);
        spec.slo = serde_norway::from_str(LATENCY).expect("objectives");
        spec.profiling = serde_norway::from_str(PROFILING).expect("profiling");
    });
    let trace = WorkloadView::Lines { digest: digest("trace") };
    cluster.world.workloads.insert(("workload".to_owned(), "trace.jsonl".to_owned()), trace);
    let mut cluster = cluster.resolved().fetched().with_engine_built(Precision::FP8);
    // It is made again, so that it can be read.
    cluster.world.profiles.clear();
    let inputs = next(&mut cluster, |child| match child {
        Child::Profile(profile) => Some(profile.spec.inputs.clone()),
        _ => None,
    });
    inputs.configurations.into_iter().map(|configuration| configuration.name).collect()
}

/// The first of its children that a plan makes, as the cluster goes on.
pub(super) fn next<T>(cluster: &mut Cluster, pick: impl Fn(&Child) -> Option<T>) -> T {
    for _ in 0..10 {
        let plan = cluster.plan();
        if let Some(found) = plan.children.iter().find_map(&pick) {
            return found;
        }
        cluster.carry_out(plan);
    }
    panic!("no such child: {:?}", cluster.world.status);
}

#[test]
fn an_engine_is_scored_and_measured_by_as_many_processes_as_it_is_served_by() {
    let mut cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP8]).edited(|spec| {
        spec.search.tensor_parallel = vec![2];
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "2".to_owned());
        spec.slo = serde_norway::from_str(SLO).expect("objectives");
        spec.profiling = serde_norway::from_str(PROFILING).expect("profiling");
    });
    let trace = WorkloadView::Lines { digest: digest("trace") };
    cluster.world.workloads.insert(("workload".to_owned(), "trace.jsonl".to_owned()), trace);
    let mut cluster = cluster.resolved().fetched().with_engine_built(Precision::FP8);
    let prompts = r#"{"id":"1","prompt":"Question: 1+1\n","maxTokens":8,"stopWords":[]}"#.to_owned();
    cluster.world.dataset = Some(DatasetView::Samples { digest: digest("samples"), prompts });

    let job = next(&mut cluster, |child| match child {
        Child::Job(job) if job.metadata.name.as_ref().is_some_and(|name| name.starts_with("quality-")) => {
            job.spec.clone()?.template.spec
        }
        _ => None,
    });
    let steps: Vec<_> =
        job.init_containers.into_iter().flatten().map(|c| (c.name, c.args.unwrap_or_default())).collect();
    let names: Vec<_> = steps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["materialize", "install-worker", "triton", "evaluate"]);
    assert_eq!(steps[2].1, ["supervise", "--tensorrt-llm-ranks=2"]);
    assert_eq!(steps[3].1, ["evaluate"]);

    let mut cluster = scored(cluster, Found { score: 980_000, drop: None });
    let inputs = next(&mut cluster, |child| match child {
        Child::Profile(profile) => Some(profile.spec.inputs.clone()),
        _ => None,
    });
    let ranks: Vec<_> = inputs.engines.iter().map(|engine| engine.tensorrt_llm_ranks).collect();
    assert_eq!((ranks, inputs.configurations.len()), (vec![Some(2)], 1));
}

#[test]
fn a_task_survives_its_file() {
    let cluster = on("NVIDIA-H100-80GB-HBM3", &[Precision::FP16]).resolved().fetched();
    let (_, (spec, _)) = cluster.engines.iter().next().expect("one engine");
    let order = crate::engine::tensorrt_llm::order_of(spec).expect("an order");
    let task = slipway_worker_contract::BuildTask {
        identity: "engine-1".to_owned(),
        model: "agent".to_owned(),
        quality: None,
        tensorrt_llm: order,
        no_build: None,
    };
    let task = Task::Build(Box::new(task));
    assert_eq!(Task::parse(task.to_json().as_bytes()), Ok(task));
}
