//! Every object that the operator writes, as files: one snapshot for each fixture and kind, and what must hold among
//! them.

#![allow(clippy::panic, reason = "a file that cannot be read fails the test, with its path")]

mod campaign;
mod invariants;
mod objects;

use std::{collections::BTreeMap, path::PathBuf};

use objects::Objects;

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

fn fixture(name: &str) -> Objects {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.yaml"));
    let yaml = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Objects::of(&serde_norway::from_str(&yaml).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
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
    let object = serde_norway::to_string(&fixture("profiled").drift_memory()).expect("an object is YAML");
    with_snapshots(|| insta::assert_snapshot!("drift-ConfigMap", object));
}

#[test]
fn every_object_of_every_fixture() {
    for name in FIXTURES {
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for object in fixture(name).all {
            let kind = object["kind"].as_str().expect("an object has a kind").to_owned();
            kinds.entry(kind).or_default().push(serde_norway::to_string(&object).expect("an object is YAML"));
        }
        for (kind, documents) in kinds {
            with_snapshots(|| insta::assert_snapshot!(format!("{name}-{kind}"), documents.join("---\n")));
        }
    }
}
