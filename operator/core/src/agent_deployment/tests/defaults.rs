//! What a spec leaves out: it means what a spec that names it means, and stays so until somebody says otherwise.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{
        EngineConfiguration, NoBuildBackend, Precision, ProfilingDriver, RecordingLevel, TakenDefaults, TakenVersion,
        VersionedBackend, WrittenObjective,
    },
    profile::ProfilePhase,
};

use super::{
    cluster::{Cluster, world},
    profiling::{ended, message, profiled},
};
use crate::{
    agent_deployment::{defaults, rollout::revision},
    plan::Child,
    settings::BackendSettings,
};

const H100: &str = "NVIDIA-H100-80GB-HBM3";

fn on(product: &str, engine: &str, precisions: &[Precision]) -> Cluster {
    world().edited(|spec| {
        spec.engine = Some(engine_of(engine));
        spec.search.precision = precisions.to_vec();
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), product.to_owned());
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
    })
}

fn engine_of(yaml: &str) -> EngineConfiguration {
    serde_norway::from_str(yaml).expect("a valid block")
}

fn served(cluster: Cluster, precision: Precision) -> Cluster {
    cluster.resolved().fetched().with_engine_built(precision).with_pods_ready()
}

/// The engines, the revision that serves, and the part of the spec that made it.
fn identities(cluster: &Cluster) -> (Vec<&String>, String) {
    (cluster.engines.keys().collect(), cluster.stable())
}

fn pinned(mut cluster: Cluster, version: Option<&str>) -> Cluster {
    let mut settings = (*cluster.world.settings).clone();
    let of_vllm = BackendSettings { version: version.map(str::to_owned) };
    settings.backends.0.insert("vllm".to_owned(), of_vllm);
    cluster.world.settings = Arc::new(settings);
    cluster
}

fn version_of(cluster: &Cluster) -> Vec<String> {
    let builds = cluster.engines.values().filter_map(|(spec, _)| spec.build.no_build.as_ref());
    builds.map(|build| build.version.clone()).collect()
}

fn took(version: &str) -> TakenDefaults {
    let vllm = VersionedBackend::NoBuild(NoBuildBackend::VLLM);
    let versions = vec![TakenVersion::new(vllm, version.to_owned())];
    TakenDefaults { versions, ..TakenDefaults::default() }
}

/// Golden: an upgrade that changed one would rebuild engines or restart pods.
#[rstest]
#[case(
    "{backend: VLLM, vllm: {version: 0.27.1, maxSeqLen: 131072}}",
    "{backend: VLLM}",
    "engine-186c6a6535",
    "f9b51eae8b"
)]
#[case(
    "{backend: VLLM, vllm: {version: 0.25.0, server: OpenAI, maxSeqLen: 131072}}",
    "{backend: VLLM, vllm: {server: OpenAI}}",
    "engine-7a144c40d2",
    "9051ba14f3"
)]
#[case(
    "{backend: SGLang, sglang: {version: 0.5.9, maxSeqLen: 131072}}",
    "{backend: SGLang}",
    "engine-15d6d93336",
    "91fd782dce"
)]
#[case(
    "{backend: TensorRTLLMPyTorch, tensorRTLLMPyTorch: {version: 1.2.1, maxSeqLen: 131072}}",
    "{backend: TensorRTLLMPyTorch}",
    "engine-523cc07d58",
    "065b7a8c81"
)]
#[case(
    "{backend: TensorRTLLMPyTorch, tensorRTLLMPyTorch: {version: 1.2.1, server: OpenAI, maxSeqLen: 131072}}",
    "{backend: TensorRTLLMPyTorch, tensorRTLLMPyTorch: {server: OpenAI}}",
    "engine-47fed64840",
    "685f9bcffc"
)]
#[case(
    "{backend: TensorRTLLM, tensorRTLLM: {version: 1.2.1, maxSeqLen: 131072}}",
    "{backend: TensorRTLLM}",
    "engine-66ef2b8576",
    "562585e836"
)]
fn a_spec_that_leaves_out_its_defaults_has_the_identities_of_one_that_names_them(
    #[case] named: &str,
    #[case] left_out: &str,
    #[case] engine: &str,
    #[case] plan: &str,
) {
    let expected = (vec![engine.to_owned()], plan.to_owned());
    for cluster in [on(H100, named, &[Precision::BF16]), on(H100, left_out, &[])] {
        let cluster = served(cluster, Precision::BF16);
        let (engines, plan) = identities(&cluster);
        assert_eq!((engines.into_iter().cloned().collect::<Vec<_>>(), plan), expected);
    }
}

#[test]
fn a_builder_of_ones_own_still_begins_with_fp32() {
    let hash = |precisions: &[Precision]| {
        let cluster = world().edited(|spec| spec.search.precision = precisions.to_vec());
        revision::input_hash(&defaults::completed(&cluster.world)).expect("a spec has a hash")
    };
    assert_eq!(hash(&[]), hash(&[Precision::FP32]));
    assert_eq!(world().serving().stable(), world().edited(|spec| spec.search.precision.clear()).serving().stable());
}

#[test]
fn what_was_taken_stands_in_the_status() {
    let cluster = on(H100, "{backend: VLLM}", &[]).edited(|spec| {
        let profiling = "{workloads: [{name: runs, agentTrace: {configMap: {name: traffic, key: trace.jsonl}}}]}";
        spec.profiling = Some(serde_norway::from_str(profiling).expect("profiling"));
    });
    let before = cluster.plan().status.defaults;
    let driver = Some(ProfilingDriver::AgentRun);
    assert_eq!(before, TakenDefaults { driver, ..took("0.27.1") }, "the model is not known yet");
    let known = cluster.resolved().world.status.defaults;
    let (precision, max_seq_len) = (Some(Precision::BF16), Some(131_072));
    assert_eq!(known, TakenDefaults { driver, precision, max_seq_len, ..took("0.27.1") });
}

#[test]
fn what_a_spec_names_is_not_taken() {
    let named = "{backend: VLLM, vllm: {version: 0.24.0, maxSeqLen: 8192}}";
    let cluster = on(H100, named, &[Precision::FP16]).resolved();
    assert_eq!(cluster.world.status.defaults, TakenDefaults::default());
}

#[rstest]
#[case::quantized(H100, Some("INT4AWQ"), Precision::INT4AWQ)]
#[case::a_gpu_without_bf16("Tesla-T4", None, Precision::FP16)]
fn a_checkpoint_is_served_in_its_own_precision(
    #[case] product: &str,
    #[case] quantization: Option<&'static str>,
    #[case] expected: Precision,
) {
    let mut cluster = on(product, "{backend: VLLM, vllm: {maxSeqLen: 1024}}", &[]);
    cluster.quantization = quantization;
    assert_eq!(cluster.resolved().world.status.defaults.precision, Some(expected));
}

#[test]
fn a_later_release_with_a_newer_default_changes_nothing_that_serves() {
    let mut cluster = on(H100, "{backend: VLLM}", &[]);
    // The release before took this one, and knew no newer.
    cluster.world.status.defaults = took("0.24.0");
    let cluster = served(cluster, Precision::BF16);
    assert_eq!(version_of(&cluster), ["0.24.0"]);
    assert_eq!(cluster.world.status.defaults.versions, took("0.24.0").versions);
}

#[test]
fn a_version_that_the_platform_team_pins_is_a_new_revision_and_stays_when_it_is_not_pinned_any_more() {
    let cluster = served(on(H100, "{backend: VLLM}", &[]), Precision::BF16);
    let before = cluster.stable();
    let cluster = pinned(cluster, Some("0.24.0"));
    let jobs = cluster.plan().children.into_iter().filter(|child| matches!(child, Child::Job(_))).count();
    assert_eq!((cluster.stable(), jobs), (before.clone(), 0), "an attempt is recorded first, and stable serves on");
    let cluster = cluster.resolved().with_engine_built(Precision::BF16).with_pods_ready();
    assert_eq!(cluster.world.status.defaults.versions, took("0.24.0").versions);
    let after = cluster.stable();
    assert!(after != before, "{after}");
    let cluster = pinned(cluster, None).with_pods_ready();
    assert_eq!(cluster.stable(), after);
}

#[test]
fn a_reverted_spec_finds_its_revision_with_the_version_that_it_took() {
    let mut cluster = on(H100, "{backend: VLLM}", &[]);
    cluster.world.status.defaults = took("0.24.0");
    let cluster = served(cluster, Precision::BF16);
    let first = cluster.stable();
    let cluster = cluster.edited(|spec| spec.engine = Some(engine_of("{backend: SGLang}")));
    let cluster = cluster.resolved().with_engine_built(Precision::BF16).with_pods_ready();
    assert!(cluster.stable() != first);
    let jobs = cluster.world.jobs.len();
    let cluster = cluster.edited(|spec| spec.engine = Some(engine_of("{backend: VLLM}"))).with_pods_ready();
    assert_eq!((cluster.stable(), cluster.world.jobs.len()), (first, jobs));
}

/// Prompts and made-up runs, with objectives on these latencies.
fn measured(metrics: &[&str]) -> Cluster {
    profiled().edited(|spec| {
        spec.slo.objectives = objectives(metrics);
        let runs = json!({"name": "runs", "synthetic": {"inputTokens": 80, "outputTokens": 15}});
        let runs = serde_json::from_value(runs).expect("a valid workload");
        spec.profiling.as_mut().expect("it is profiled").workloads.push(runs);
    })
}

fn objectives(metrics: &[&str]) -> Vec<WrittenObjective> {
    let objective =
        |(at, metric)| json!({"name": format!("of-{at}"), "metric": metric, "percentile": "p95", "max": "1s"});
    let all = ["a", "b", "c"].into_iter().zip(metrics).map(objective).collect();
    serde_json::from_value(all).expect("valid objectives")
}

/// An earlier release served it: it took Model Analyzer wherever that measures one of the objectives.
fn served_before(metrics: &[&str]) -> Cluster {
    let named = measured(metrics).edited(|spec| driver(spec, Some(ProfilingDriver::ModelAnalyzer)));
    let mut cluster = ended(named, ProfilePhase::Chosen).with_pods_ready();
    cluster.world.status.defaults.driver = Some(ProfilingDriver::ModelAnalyzer);
    driver(&mut cluster.world.spec, None);
    cluster
}

fn driver(spec: &mut AgentDeploymentSpec, driver: Option<ProfilingDriver>) {
    spec.profiling.as_mut().expect("it is profiled").driver = driver;
}

fn taken_driver(cluster: &Cluster) -> Option<ProfilingDriver> {
    cluster.world.status.defaults.driver
}

const REQUEST_AND_TOKEN: [&str; 2] = ["RequestLatency", "TimeToFirstToken"];

#[test]
fn candidates_are_compared_by_the_first_token_that_a_user_waits_for() {
    let mut cluster = measured(&REQUEST_AND_TOKEN);
    cluster.settle();
    assert_eq!(taken_driver(&cluster), Some(ProfilingDriver::AgentRun));
    assert_eq!(message(&cluster, "ObjectivesUncompared"), "");
}

#[test]
fn an_objective_that_no_candidate_is_compared_by_is_named_with_the_remedy() {
    let mut cluster = measured(&REQUEST_AND_TOKEN).edited(|spec| driver(spec, Some(ProfilingDriver::ModelAnalyzer)));
    cluster.settle();
    assert_eq!(
        message(&cluster, "ObjectivesUncompared"),
        "no candidate is compared by of-b (TimeToFirstToken): driver ModelAnalyzer does not measure it, and only the \
         confirm run judges it. To compare candidates by it, set spec.profiling.driver to AgentRun"
    );
}

/// The identity of what serves has the driver: another one would measure everything again.
#[rstest]
#[case::as_the_status_says(false)]
#[case::as_the_record_of_its_revision_says(true)]
fn a_driver_that_an_earlier_release_took_stays(#[case] is_status_lost: bool) {
    let mut cluster = served_before(&REQUEST_AND_TOKEN);
    let (stable, campaigns) = (cluster.stable(), cluster.world.profiles.len());
    if is_status_lost {
        cluster.world.status.slo.clear();
    }
    cluster.settle();
    assert_eq!((cluster.stable(), cluster.world.profiles.len()), (stable.clone(), campaigns));
    assert_eq!(taken_driver(&cluster), Some(ProfilingDriver::ModelAnalyzer));
    assert!(message(&cluster, "ObjectivesUncompared").starts_with("no candidate is compared by of-b"));
    // Pods are others, and what was measured is the same.
    let cluster = cluster.edited(|spec| spec.serving.recording.level = RecordingLevel::None).with_pods_ready();
    assert!(cluster.stable() != stable);
    let taken = taken_driver(&cluster);
    assert_eq!((taken, cluster.world.profiles.len()), (Some(ProfilingDriver::ModelAnalyzer), campaigns));
}

#[test]
fn a_driver_that_was_taken_is_taken_again_once_other_latencies_are_bounded_and_a_revert_finds_its_revision() {
    let cluster = served_before(&REQUEST_AND_TOKEN);
    let (first, prompt) = (cluster.stable(), cluster.world.spec.agent.system_prompt.clone());
    let edit = |spec: &mut AgentDeploymentSpec, metrics: &[&str], prompt: &str| {
        spec.slo.objectives = objectives(metrics);
        spec.agent.system_prompt = prompt.to_owned();
    };
    let edited = cluster.edited(|spec| edit(spec, &["RequestLatency", "InterTokenLatency"], "Be brief."));
    let edited = ended(edited, ProfilePhase::Chosen).with_pods_ready();
    assert_eq!(taken_driver(&edited), Some(ProfilingDriver::AgentRun));
    let campaigns = edited.world.profiles.len();
    let back = edited.edited(|spec| edit(spec, &REQUEST_AND_TOKEN, &prompt)).with_pods_ready();
    assert_eq!((back.stable(), back.world.profiles.len()), (first, campaigns));
    assert_eq!(taken_driver(&back), Some(ProfilingDriver::ModelAnalyzer));
}
