//! What pods remember of runs, and campaigns of what was recorded.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::{Recording, RecordingLevel};

use super::{
    clients::config,
    cluster::{Cluster, digest, world},
    profiling::{message, profiled},
};
use crate::{agent_deployment::world::WorkloadView, plan::Child};

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

const RECORDED: &str = "{workloads: [{name: live, recordedLengths: {configMap: {name: live, key: runs.jsonl}}}]}";

fn recorded() -> Cluster {
    profiled().edited(|spec| spec.profiling = Some(serde_norway::from_str(RECORDED).expect("a valid workload")))
}

#[test]
fn recorded_lengths_are_frozen_by_their_digest() {
    let campaign = |text: &str| {
        let mut cluster = recorded();
        let data = WorkloadView::Lines { digest: digest(text) };
        cluster.world.workloads.insert(("live".to_owned(), "runs.jsonl".to_owned()), data);
        let plan = cluster.plan();
        let inputs = plan.children.into_iter().find_map(|child| match child {
            Child::Profile(profile) => Some(profile.spec.inputs),
            _ => None,
        });
        (plan.status.profile, inputs.expect("a campaign begins").recorded_lengths.map(|data| data.digest))
    };
    let (first, frozen) = campaign("runs");
    assert_eq!(frozen, Some(digest("runs").to_string()));
    assert_ne!(campaign("other runs").0, first);
    let missing = "spec.profiling.workloads: ConfigMap live: it does not exist or has no key runs.jsonl: create it";
    assert_eq!(message(&recorded(), "Reconciling"), missing);
}

#[test]
fn lengths_are_read_line_by_line() {
    let good = r#"{"inputTokens":17,"turns":[{"outputTokens":20}]}"#;
    assert!(matches!(WorkloadView::read_lengths(good), WorkloadView::Lines { .. }));
    let WorkloadView::Invalid { problem } = WorkloadView::read_lengths(&format!("{good}\n{{\"input\":\"Bela?\"}}")) else {
        panic!("a line of a trace has no lengths")
    };
    assert!(problem.starts_with("line 2 is not a recorded run (inputTokens, turns with outputTokens"), "{problem}");
}
