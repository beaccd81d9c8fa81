//! Expectations of AIConfigurator: from a ConfigMap to the inputs of a campaign.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::{
    identity::content_hash,
    v1alpha1::{
        agent_deployment::{EngineBuilds, Precision},
        profile::ProfileInputs,
    },
};

use super::{
    cluster::{Cluster, world},
    profiling::{campaign, inputs, message},
    tensorrt_llm::stalled,
};
use crate::{agent_deployment::world::PriorView, plan::Child};

const SPEC: &str = "
model: {uri: 'hf://Qwen/Qwen3-32B@main'}
engine: {backend: VLLM, vllm: {version: 0.11.0, image: example.com/vllm:25.11, maxSeqLen: 8192}}
search: {precision: [BF16], concurrency: [4, 8, 16], maxBatchSize: [32, 64]}
hardware: {nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}}
slo: {objectives: [{name: run, metric: AgentRunLatency, percentile: p95, max: 10s}]}
profiling:
  driver: AgentRun
  workloads: [{name: usual, synthetic: {inputTokens: 800, outputTokens: 150}}]
  prior: {configMap: {name: expectations, key: pareto.csv}}
serving: {tritonResources: {limits: {nvidia.com/gpu: '1'}}}
agent: {systemPrompt: Answer.}
";

const TABLE: &str = "model,system,backend,concurrency,tp,pp,gemm,kvcache,seq/s,ttft,tpot,request_latency
Qwen/Qwen3-32B,h100_sxm,vllm,4,1,1,bfloat16,bfloat16,2.0,100,10,2000
Qwen/Qwen3-32B,h100_sxm,vllm,8,1,1,bfloat16,bfloat16,3.0,200,12,2600
";

/// With an engine for each batch, and a view of the table.
fn expecting(view: PriorView) -> Cluster {
    let mut cluster = world().edited(|spec| *spec = serde_norway::from_str(SPEC).expect("a valid spec"));
    cluster.world.prior = Some(view);
    let cluster = cluster.resolved().fetched();
    cluster.with_engine_built(Precision::BF16).with_engine_built(Precision::BF16)
}

fn without(mut cluster: Cluster) -> Cluster {
    cluster = cluster.edited(|spec| spec.profiling.as_mut().expect("it is profiled").prior = None);
    cluster.world.prior = None;
    cluster
}

#[test]
fn every_engine_of_a_campaign_has_what_is_expected_of_it() {
    let view = PriorView::read(TABLE);
    let inputs = inputs(&expecting(view.clone()));
    let prior = inputs.prior.as_ref().expect("it is frozen");
    let PriorView::Table { digest, .. } = view else { panic!("the table is as it must be") };
    assert_eq!((prior.config_map.name.as_str(), prior.digest.as_str()), ("expectations", digest.as_str()));
    let expected: Vec<Vec<(i32, i64, i64)>> = inputs
        .engines
        .iter()
        .map(|engine| engine.expected.iter().map(|of| (of.level, of.per_kilosecond, of.request_microseconds)).collect())
        .collect();
    assert_eq!(expected, vec![vec![(4, 2000, 2_000_000), (8, 3000, 2_600_000)]; 2], "no row reaches 16");
}

#[test]
fn a_campaign_that_asks_for_engines_has_the_same_expectations() {
    let all = expecting(PriorView::read(TABLE));
    let asking = all.clone().edited(|spec| {
        spec.profiling.as_mut().expect("it is profiled").engines = EngineBuilds::WhenAsked;
    });
    let of = |inputs: ProfileInputs| inputs.engines.into_iter().map(|engine| engine.expected).collect::<Vec<_>>();
    assert_eq!(of(inputs(&asking)), of(inputs(&all)));
}

#[test]
fn a_table_makes_another_campaign_and_its_absence_changes_none() {
    let with = expecting(PriorView::read(TABLE));
    let bare = without(with.clone());
    assert_ne!(campaign(&with), campaign(&bare));
    let edited = expecting(PriorView::read(&TABLE.replace("2.0,100", "2.1,100")));
    assert_ne!(campaign(&with), campaign(&edited));
    // What is written of inputs without a table has no member of it.
    let bare = inputs(&bare);
    let written = serde_json::to_string(&bare).expect("inputs are data");
    assert!(!written.contains("prior") && !written.contains("expected"), "{written}");
    let read: ProfileInputs = serde_json::from_str(&written).expect("inputs");
    assert_eq!(content_hash(&read).expect("a hash"), content_hash(&bare).expect("a hash"));
}

#[rstest]
#[case::no_table(
    "{}",
    "its first line lacks the columns model, system, backend, concurrency, tp, gemm, seq/s, ttft, tpot: take \
     AIConfigurator's pareto.csv or best_config_topn.csv as it is"
)]
#[case::no_number(
    &TABLE.replace(",100,10,", ",0,10,"),
    "line 2, column ttft: \"0\" is not a positive number: correct the line, or remove it"
)]
#[case::another_model(
    &TABLE.replace("Qwen/Qwen3-32B", "QWEN2_7B"),
    "its rows are of QWEN2_7B, and spec.model.uri is hf://Qwen/Qwen3-32B@main: give AIConfigurator that model, or \
     correct the column model"
)]
#[case::another_gpu(
    &TABLE.replace("h100_sxm", "h200_sxm"),
    "of its 2 rows of this model none is of an engine of vllm on NVIDIA-H100-80GB-HBM3: 2 of another GPU; give a table \
     of the search space, or remove spec.profiling.prior"
)]
fn a_table_that_cannot_be_used_stops_with_the_field_and_the_remedy(#[case] text: &str, #[case] problem: &str) {
    let plan = expecting(PriorView::read(text)).plan();
    assert_eq!(stalled(&plan), format!("spec.profiling.prior: ConfigMap expectations: {problem}"));
    assert!(!plan.children.iter().any(|child| matches!(child, Child::Profile(_))), "nothing is measured");
}

#[test]
fn a_table_that_is_not_there_yet_is_waited_for() {
    let cluster = expecting(PriorView::Missing);
    let words = "spec.profiling.prior: ConfigMap expectations: it does not exist or has no key pareto.csv: create it";
    assert_eq!((message(&cluster, "Reconciling"), stalled(&cluster.plan())), (words.to_owned(), String::new()));
}
