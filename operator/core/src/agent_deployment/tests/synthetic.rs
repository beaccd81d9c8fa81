//! Campaigns whose runs are made up.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::agent_deployment::{EngineConfiguration, Precision, Profiling};

use super::{
    cluster::{Cluster, world},
    profiling::{campaign, inputs, message, profiled},
};

const LENGTHS: &str = "inputTokens: 800, outputTokens: 150, toolCalls: 2";

fn profiling(synthetic: &str) -> Option<Profiling> {
    let yaml = format!("{{workloads: [{{name: usual, synthetic: {{{synthetic}}}}}]}}");
    Some(serde_norway::from_str(&yaml).expect("a valid workload"))
}

fn made_up(synthetic: &str) -> Cluster {
    profiled().edited(|spec| spec.profiling = profiling(synthetic))
}

#[test]
fn a_campaign_of_made_up_runs_needs_no_file_and_is_named_by_its_lengths() {
    let cluster = made_up(LENGTHS);
    let inputs = inputs(&cluster);
    assert_eq!(inputs.synthetic.as_ref().map(|runs| (runs.input_tokens, runs.tool_calls)), Some((800, 2)));
    assert_eq!((inputs.prompts, inputs.agent_trace, inputs.replicas), (Vec::new(), None, 1));
    assert_eq!(campaign(&cluster), campaign(&made_up(LENGTHS)), "equal lengths are the same campaign");
    assert_ne!(campaign(&cluster), campaign(&made_up("inputTokens: 801, outputTokens: 150, toolCalls: 2")));
    let written = format!("{LENGTHS}, toolResultTokens: 100, toolLatency: 100ms, arrival: {{burst: 1}}");
    assert_eq!(campaign(&cluster), campaign(&made_up(&written)), "who writes the defaults changes nothing");
}

#[test]
fn a_rate_of_arrivals_is_that_of_all_pods() {
    let at_rate = format!("{LENGTHS}, arrival: {{runsPerSecond: '4'}}");
    let cluster = made_up(&at_rate).edited(|spec| spec.serving.replicas = 3);
    let inputs = inputs(&cluster);
    assert_eq!((inputs.replicas, inputs.runs_per_second().map(|runs| runs.value())), (3, Some(4.0)));
    assert_eq!(campaign(&made_up(LENGTHS)), campaign(&made_up(LENGTHS).edited(|spec| spec.serving.replicas = 3)));
}

/// One engine of vLLM's, which takes sequences of so many tokens.
fn of_vllm(max_seq_len: i32, synthetic: &str) -> Cluster {
    let cluster = world().edited(|spec| {
        let engine = format!("{{backend: VLLM, vllm: {{version: 0.27.1, maxSeqLen: {max_seq_len}}}}}");
        spec.engine = Some(serde_norway::from_str::<EngineConfiguration>(&engine).expect("a valid block"));
        spec.search.precision = vec![Precision::BF16];
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-H100-80GB-HBM3".to_owned());
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
        spec.profiling = profiling(synthetic);
    });
    cluster.resolved().fetched().with_engine_built(Precision::BF16)
}

#[rstest]
#[case::of_one_length(LENGTHS, 1_450)]
#[case::twice_the_percentile("inputTokens: 800, inputTokensP95: 1000, outputTokens: 150", 2_150)]
#[case::no_more_than_the_agent_writes("inputTokens: 800, outputTokens: 150, outputTokensP95: 900", 1_056)]
fn runs_that_fit_no_sequence_are_refused_before_they_are_measured(#[case] synthetic: &str, #[case] most: i32) {
    let refused = format!(
        "spec.profiling.workloads: made-up runs have up to {most} tokens, and a sequence {most}: lower inputTokens, \
         outputTokens, toolCalls or toolResultTokens of synthetic, or raise maxSeqLen of the backend"
    );
    assert_eq!(message(&of_vllm(most, synthetic), "Stalled"), refused);
    assert_eq!(message(&of_vllm(most + 1, synthetic), "Stalled"), "nothing blocks progress");
}
