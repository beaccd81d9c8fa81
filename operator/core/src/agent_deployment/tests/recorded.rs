//! What pods remember of runs, and campaigns of what was recorded.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{Precision, Profiling, Recording, RecordingLevel},
    profile::ProfileInputs,
};

use super::{
    clients::config,
    cluster::{Cluster, world},
    profiling::{inputs, message, profiled},
};
use crate::agent_deployment::world::WorkloadView;

fn at(cluster: Cluster, level: RecordingLevel) -> Cluster {
    cluster.edited(|spec| spec.serving.recording = Recording { level })
}

#[test]
fn who_opts_in_to_texts_gets_a_revision_that_remembers_them_and_nobody_else_does() {
    let serving = world().serving();
    let stable = serving.stable();
    let mut written = at(serving.clone(), RecordingLevel::Lengths);
    written.settle();
    assert_eq!((written.stable(), written.world.serving.len()), (stable.clone(), 1), "it is what pods remember anyway");
    assert_eq!(config(&serving, &stable).recording, RecordingLevel::Lengths);
    let mut texts = at(serving, RecordingLevel::Texts);
    texts.settle();
    assert_ne!(texts.canary(), stable);
    assert_eq!(config(&texts, &texts.canary()).recording, RecordingLevel::Texts);
}

const LENGTHS: &str = "recordedLengths: {configMap: {name: live, key: runs.jsonl}}";
const TRACE: &str = "agentTrace: {configMap: {name: live, key: runs.jsonl}}";

/// Two runs of 28 and 60 tokens, 500 s apart.
const RUNS: &str = r#"{"arrivedMicros":0,"inputTokens":8,"turns":[{"outputTokens":20}]}

{"arrivedMicros":500000000,"inputTokens":9,"turns":[{"outputTokens":20,"calls":[{"tool":"lookup","resultTokens":10,"latencyMicros":5}]},{"outputTokens":21}]}
"#;

fn profiling(source: &str) -> Option<Profiling> {
    let yaml = format!("{{workloads: [{{name: live, {source}}}]}}");
    Some(serde_norway::from_str(&yaml).expect("a valid workload"))
}

fn holds(mut cluster: Cluster, view: WorkloadView) -> Cluster {
    cluster.world.workloads.insert(("live".to_owned(), "runs.jsonl".to_owned()), view);
    cluster
}

fn recorded(source: &str) -> Cluster {
    profiled().edited(|spec| {
        spec.profiling = profiling(source);
        spec.serving.replicas = 3;
    })
}

/// What the campaign is about to freeze, and its name.
fn campaign(cluster: &Cluster) -> (ProfileInputs, Option<String>) {
    (inputs(cluster), cluster.plan().status.profile)
}

#[test]
fn recorded_lengths_are_frozen_by_their_digest() {
    let of = |text: &str| campaign(&holds(recorded(LENGTHS), WorkloadView::read_lengths(text)));
    let ((inputs, first), (_, other)) = (of(RUNS), of(&RUNS.replace("21", "22")));
    let WorkloadView::Runs { digest, .. } = WorkloadView::read_lengths(RUNS) else {
        panic!("the lines are as they must be")
    };
    assert_eq!(inputs.recorded_lengths.map(|data| data.digest), Some(digest.to_string()));
    assert_ne!(first, other);
    let missing = "spec.profiling.workloads: ConfigMap live: it does not exist or has no key runs.jsonl: create it";
    assert_eq!(message(&recorded(LENGTHS), "Reconciling"), missing);
}

/// A hundred lines, 5 s apart.
fn every_five_seconds(line: &str) -> String {
    let lines: Vec<_> = (0..100_u64).map(|run| line.replace("TIME", &(run * 5_000_000).to_string())).collect();
    lines.join("\n")
}

#[test]
fn the_rate_of_recorded_runs_is_that_of_all_pods_and_who_knows_no_rate_has_none() {
    let of = |cluster: Cluster, view: WorkloadView| {
        let (inputs, _) = campaign(&holds(cluster, view));
        (inputs.recorded_runs_per_second.map(|runs| runs.value()), inputs.recorded_replicas, inputs.replicas)
    };
    let lengths = every_five_seconds(r#"{"arrivedMicros":TIME,"inputTokens":8,"turns":[{"outputTokens":20}]}"#);
    let timeless = lengths.replacen("\"arrivedMicros\":0,", "", 1);
    assert_eq!(of(recorded(LENGTHS), WorkloadView::read_lengths(&lengths)), (Some(0.2), Some(3), 1));
    assert_eq!(of(recorded(LENGTHS), WorkloadView::read_lengths(&timeless)), (None, None, 1));
    assert_eq!(of(recorded(LENGTHS), WorkloadView::read_lengths(RUNS)), (None, None, 1), "two runs are no rate");
    let texts = every_five_seconds(r#"{"input":"Bela?","calls":[],"arrivedMicros":TIME}"#);
    assert_eq!(of(recorded(TRACE), WorkloadView::read_trace(&texts)), (Some(0.2), Some(3), 1));
    let old = r#"{"input":"Bela?","calls":[]}"#;
    assert_eq!(of(recorded(TRACE), WorkloadView::read_trace(old)), (None, None, 1), "traces of before have no times");
}

#[test]
fn recorded_runs_are_shared_by_the_fewest_pods_and_who_scales_gets_no_other_campaign() {
    let text = every_five_seconds(r#"{"arrivedMicros":TIME,"inputTokens":8,"turns":[{"outputTokens":20}]}"#);
    let of = |edit: fn(&mut AgentDeploymentSpec)| {
        let (inputs, name) = campaign(&holds(recorded(LENGTHS).edited(edit), WorkloadView::read_lengths(&text)));
        (inputs.recorded_replicas, name)
    };
    let (written, name) = of(|_| {});
    let (scaled, same) = of(|spec| spec.serving.replicas = 7);
    assert_eq!((written, scaled), (Some(3), Some(7)));
    assert_eq!((name.is_some(), same), (true, name.clone()));
    let (least, same) = of(|spec| {
        let autoscaling = "{minReplicas: 2, maxReplicas: 9}";
        spec.serving.autoscaling = serde_norway::from_str(autoscaling).expect("a valid block");
    });
    assert_eq!((least, same), (Some(2), name), "each of the fewest has the most of them");
}

#[test]
fn a_recorded_run_that_fits_no_sequence_is_named_by_its_line() {
    let of = |max_seq_len: i32| {
        let cluster = world().edited(|spec| {
            let engine = format!("{{backend: VLLM, vllm: {{version: 0.27.1, maxSeqLen: {max_seq_len}}}}}");
            spec.engine = Some(serde_norway::from_str(&engine).expect("a valid block"));
            spec.search.precision = vec![Precision::BF16];
            spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-H100-80GB-HBM3".to_owned());
            spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
            spec.profiling = profiling(LENGTHS);
        });
        let cluster = holds(cluster, WorkloadView::read_lengths(RUNS));
        message(&cluster.resolved().fetched().with_engine_built(Precision::BF16), "Stalled")
    };
    let refused = "spec.profiling.workloads: line 3 of ConfigMap live is a run of 60 tokens, and a sequence has 60: \
                   remove the line, or raise maxSeqLen of the backend";
    assert_eq!((of(60).as_str(), of(61).as_str()), (refused, "nothing blocks progress"));
}

#[rstest]
#[case::a_line_of_a_trace(
    r#"{"input":"Bela?"}"#,
    "line 2 is not a recorded run (inputTokens, turns with outputTokens and calls)"
)]
#[case::no_request(r#"{"inputTokens":1,"turns":[]}"#, "line 2 has no turns: a run has at least one model request")]
#[case::too_much_to_make_up(
    r#"{"inputTokens":7999979,"turns":[{"outputTokens":1}]}"#,
    "its runs have 8000017 tokens, and a campaign takes 8000000: remove lines"
)]
fn lengths_that_no_campaign_can_use_are_refused_with_the_line(#[case] line: &str, #[case] expected: &str) {
    let good = r#"{"inputTokens":17,"turns":[{"outputTokens":20}]}"#;
    let WorkloadView::Invalid { problem } = WorkloadView::read_lengths(&format!("{good}\n{line}")) else {
        panic!("it is refused")
    };
    assert!(problem.contains(expected), "{problem}");
}
