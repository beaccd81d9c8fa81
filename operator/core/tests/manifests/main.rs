//! Every object that the operator writes, as files: one snapshot for each fixture and kind, and what must hold among
//! them.

#![allow(clippy::panic, reason = "a file that cannot be read fails the test, with its path")]

mod campaign;
mod invariants;
mod objects;
mod stdio;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use objects::Objects;
use serde_json::{Value, json};
use slipway_operator_core::{
    agent_deployment::rollout::layout::Layout,
    settings::{self, Retention, Settings},
    store::{
        decide::{decide, record_object},
        references::References,
        world::StoreWorld,
    },
};

const FIXTURES: [&str; 14] = [
    "minimal",
    "full",
    "claim",
    "profiled",
    "agent-run",
    "tensorrt-llm",
    "tensorrt-llm-ensemble",
    "tensorrt-llm-pytorch",
    "trtllm-serve",
    "vllm",
    "vllm-open-ai",
    "sglang",
    "synthetic",
    "recorded",
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

/// The record of a store, and the Job that sweeps it with its task.
#[test]
fn a_store_and_its_sweep() {
    let record = json!({
        "version": 1, "sweeps": 3, "sweep": {"number": 3, "at": "2026-01-09T00:00:00Z"},
        "items": {
            "engines/engine-0123456789/old": {
                "bytes": 17_400_000, "isSwept": true,
                "unreferencedSince": "2026-01-01T00:00:00Z", "freeSince": "2026-01-01T00:00:00Z",
            },
            "profiles/7c1f9a": {"unreferencedSince": "2026-01-08T00:00:00Z", "freeSince": "2026-01-08T00:00:00Z"},
        },
    });
    let settings = objects::settings();
    let retention = Some(Retention { seconds: 604_800, max_unreferenced: None });
    let settings = Settings { store: settings::Store { retention, ..settings.store.clone() }, ..(*settings).clone() };
    let world = StoreWorld {
        now: "2026-01-09T00:00:00Z".parse().expect("a time"),
        settings: Arc::new(settings),
        namespace: "team".to_owned(),
        owner: OwnerReference {
            api_version: "v1".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
            name: "slipway-store".to_owned(),
            uid: "11111111-2222-3333-4444-555555555555".to_owned(),
            controller: Some(true),
            block_owner_deletion: None,
        },
        record: serde_json::from_value(record).expect("a record"),
        references: Some(References::default()),
        jobs: Vec::new(),
        tasks: Vec::new(),
    };
    let plan = decide(&world);
    let record = objects::value(&record_object(&world, &plan.status));
    let all = std::iter::once(record).chain(plan.children.iter().map(objects::child));
    let documents: Vec<_> = all.map(|object| serde_norway::to_string(&object).expect("an object is YAML")).collect();
    with_snapshots(|| insta::assert_snapshot!("sweep", documents.join("---\n")));
}

#[test]
fn network_policies_where_they_are_asked_for() {
    let policies = fixture_of("full", Layout::V1).network_policies();
    let documents: Vec<_> =
        policies.iter().map(|object| serde_norway::to_string(object).expect("an object is YAML")).collect();
    with_snapshots(|| insta::assert_snapshot!("full-NetworkPolicy", documents.join("---\n")));
}

/// What comes with clients that have tokens, with a receiver of traces, and with a model that another server has:
/// containers, volumes, mounts and the sidecar's configuration.
#[test]
fn pods_whose_clients_have_tokens_or_that_reach_out() {
    for name in ["tenants", "tenants-of-mounted-keys", "traced", "upstream"] {
        let objects = fixture(name);
        let config = objects.kind("ConfigMap").filter(|object| object["data"].get("config.json").is_some());
        let policies = objects.network_policies();
        let all: Vec<_> = objects.kind("Deployment").chain(config).collect();
        let all = all.into_iter().map(serde_norway::to_string).chain(policies.iter().map(serde_norway::to_string));
        let documents: Vec<_> = all.map(|document| document.expect("an object is YAML")).collect();
        with_snapshots(|| insta::assert_snapshot!(name, documents.join("---\n")));
    }
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
    let as_yaml = |objects: Vec<&Value>| {
        let documents = objects.into_iter().map(|object| serde_norway::to_string(object).expect("an object is YAML"));
        documents.collect::<Vec<_>>().join("---\n")
    };
    let of_layout = |objects: &Objects| {
        let kinds = ["ControllerRevision", "Deployment"].map(|kind| objects.kind(kind));
        kinds.into_iter().flatten().cloned().collect::<Vec<_>>()
    };
    for name in FIXTURES {
        let objects = of_layout(&fixture_of(name, Layout::V2));
        with_snapshots(|| insta::assert_snapshot!(format!("{name}-V2"), as_yaml(objects.iter().collect())));
    }
    // The third layout makes other pods, and gives the sidecar another configuration, where a checkpoint comes with the
    // engine.
    let has_checkpoint =
        |name: &&str| ["tensorrt-llm", "trtllm-serve", "vllm", "sglang"].iter().any(|start| name.starts_with(start));
    for name in FIXTURES.into_iter().filter(has_checkpoint) {
        let objects = fixture_of(name, Layout::V3);
        let is_of_sidecar = |object: &&Value| object["data"].get("config.json").is_some();
        let config: Vec<Value> = objects.kind("ConfigMap").filter(is_of_sidecar).cloned().collect();
        let all = of_layout(&objects).into_iter().chain(config).collect::<Vec<_>>();
        with_snapshots(|| insta::assert_snapshot!(format!("{name}-V3"), as_yaml(all.iter().collect())));
    }
    // The fourth makes other pods where Triton serves.
    for name in FIXTURES.into_iter().filter(|name| !["vllm-open-ai", "sglang", "trtllm-serve"].contains(name)) {
        let objects = of_layout(&fixture_of(name, Layout::V4));
        with_snapshots(|| insta::assert_snapshot!(format!("{name}-V4"), as_yaml(objects.iter().collect())));
    }
    // The fifth bounds the sidecar's memory where the agent does not. The sixth bounds its processors, and what else is
    // ours.
    for (version, layout) in [("V5", Layout::V5), ("V6", Layout::V6)] {
        for name in FIXTURES.into_iter().chain(["vllm-watched"]) {
            let objects = of_layout(&fixture_of(name, layout));
            with_snapshots(|| insta::assert_snapshot!(format!("{name}-{version}"), as_yaml(objects.iter().collect())));
        }
    }
}
