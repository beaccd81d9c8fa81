//! Every object that the operator writes, as files: one snapshot for each fixture and kind, and what must hold among
//! them.

#![allow(clippy::panic, reason = "a file that cannot be read fails the test, with its path")]

mod campaign;
mod invariants;
mod objects;

use std::{collections::BTreeMap, path::PathBuf};

use objects::Objects;
use slipway_operator_core::agent_deployment::rollout::layout::Layout;

const FIXTURES: [&str; 11] = [
    "minimal",
    "full",
    "claim",
    "profiled",
    "agent-run",
    "tensorrt-llm",
    "tensorrt-llm-ensemble",
    "tensorrt-llm-pytorch",
    "vllm",
    "vllm-open-ai",
    "sglang",
];

/// The objects of a fixture whose plan is new.
fn fixture(name: &str) -> Objects {
    fixture_of(name, Layout::CURRENT)
}

fn fixture_of(name: &str, layout: Layout) -> Objects {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.yaml"));
    let yaml = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = serde_norway::from_str(&yaml).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Objects::of(&read, layout)
}

/// Snapshots lie in one folder, named by fixture and kind.
fn with_snapshots(assertion: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("../snapshots");
    settings.set_omit_expression(true);
    settings.bind(assertion);
}

#[test]
fn what_is_remembered_of_what_serves() {
    let object =
        serde_norway::to_string(&fixture_of("profiled", Layout::V1).drift_memory()).expect("an object is YAML");
    with_snapshots(|| insta::assert_snapshot!("drift-ConfigMap", object));
}

#[test]
fn network_policies_where_they_are_asked_for() {
    let policies = fixture_of("full", Layout::V1).network_policies();
    let documents: Vec<_> =
        policies.iter().map(|object| serde_norway::to_string(object).expect("an object is YAML")).collect();
    with_snapshots(|| insta::assert_snapshot!("full-NetworkPolicy", documents.join("---\n")));
}

#[test]
fn every_object_of_every_fixture() {
    for name in FIXTURES {
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in fixture_of(name, Layout::V1).all {
            let kind = object["kind"].as_str().expect("an object has a kind").to_owned();
            kinds.entry(kind).or_default().push(serde_norway::to_string(&object).expect("an object is YAML"));
        }
        for (kind, documents) in kinds {
            with_snapshots(|| insta::assert_snapshot!(format!("{name}-{kind}"), documents.join("---\n")));
        }
    }
}

/// What users' clusters have from before there was a layout, and what they get with the next revision. Objects of an
/// older layout never change: a Deployment that did would replace every pod that serves, and nothing would judge the
/// new ones.
#[test]
fn pods_of_every_layout() {
    for name in FIXTURES {
        let objects = fixture_of(name, Layout::V2);
        with_snapshots(|| insta::assert_snapshot!(format!("{name}-V2"), pods(&objects, &[])));
    }
    // The third layout makes other pods and another configuration only where a checkpoint comes with the engine.
    for name in FIXTURES
        .into_iter()
        .filter(|name| name.starts_with("tensorrt-llm") || name.contains("vllm") || *name == "sglang")
    {
        let objects = fixture_of(name, Layout::V3);
        with_snapshots(|| insta::assert_snapshot!(format!("{name}-V3"), pods(&objects, &["ConfigMap"])));
    }
}

/// Revision and pods, and objects of further kinds, as YAML.
fn pods(objects: &Objects, others: &[&str]) -> String {
    let of_layout = ["ControllerRevision", "Deployment"].iter().chain(others).flat_map(|kind| objects.kind(kind));
    let documents = of_layout.map(|object| serde_norway::to_string(object).expect("an object is YAML"));
    documents.collect::<Vec<_>>().join("---\n")
}
