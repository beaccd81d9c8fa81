//! The API as a real API server sees it: what it accepts, what it refuses, and in which words.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine};

fn fixture_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crds/tests/fixtures")
}

fn fixtures() -> Vec<(String, String, Value)> {
    let mut fixtures: Vec<_> = fs::read_dir(fixture_folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let expected = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, expected, serde_norway::from_str(&text).unwrap())
        })
        .collect();
    fixtures.sort_by(|one, other| one.0.cmp(&other.0));
    fixtures
}

async fn client() -> Client {
    slipway_e2e::cluster::client().await.unwrap()
}

/// What a user reads after `kubectl apply`.
fn apply_with_kubectl(name: &str) -> String {
    let path = fixture_folder().join(format!("{name}.yaml"));
    let output = slipway_e2e::cluster::kubectl(&["apply", "--dry-run=server", "-f", path.to_str().unwrap()]).unwrap();
    if output.status.success() { "accepted".to_owned() } else { String::from_utf8_lossy(&output.stderr).into_owned() }
}

#[test]
fn each_manifest_is_accepted_or_refused_in_the_words_that_its_fixture_expects() {
    let wrong: Vec<_> = fixtures()
        .into_iter()
        .map(|(name, expected, _)| (apply_with_kubectl(&name), name, expected))
        .filter(|(answer, _, expected)| !answer.contains(expected))
        .map(|(answer, name, expected)| format!("{name}\n  expected: {expected}\n  answered: {answer}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_a_user_leaves_out_is_filled_in_and_shown() {
    let client = client().await;
    let mut object = fixtures().into_iter().find(|(name, ..)| name == "good").unwrap().2;
    object["spec"].as_object_mut().unwrap().remove("search");
    let agent_deployments: Api<AgentDeployment> = Api::namespaced(client, "default");
    let dry_run = PatchParams { dry_run: true, ..PatchParams::apply("api-test") };
    let accepted = agent_deployments.patch("support-agent", &dry_run, &Patch::Apply(&object)).await.unwrap();
    let spec = serde_json::to_value(&accepted.spec).unwrap();
    assert_eq!(
        (&spec["search"], &spec["serving"]["replicas"], &spec["agent"]["runTimeout"]),
        (&json!({"precision": ["FP32"], "concurrency": [1, 4, 8]}), &json!(1), &json!("60s"))
    );
}

#[tokio::test]
async fn an_engine_keeps_its_build() {
    let client = client().await;
    let engines: Api<Engine> = Api::namespaced(client, "default");
    let engine = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Engine",
        "metadata": {"name": "engine-api-test"},
        "spec": {
            "build": {"backend": "Custom", "sourceDigest": "1f", "builderImageDigest": "sha256:2e", "precision": "FP32"},
            "placement": {"builderImage": "builder:1"},
        },
    });
    engines.create(&PostParams::default(), &serde_json::from_value(engine).unwrap()).await.unwrap();
    let moved = json!({"spec": {"placement": {"builderImage": "mirror/builder:1"}}});
    let changed = json!({"spec": {"build": {"precision": "INT8"}}});
    let patch = |patch: Value| {
        let engines = engines.clone();
        async move { engines.patch("engine-api-test", &PatchParams::default(), &Patch::Merge(patch)).await }
    };
    let answers =
        (patch(moved).await.map(|_| ()).map_err(|e| e.to_string()), patch(changed).await.unwrap_err().to_string());
    engines.delete("engine-api-test", &Default::default()).await.unwrap();
    assert_eq!(answers.0, Ok(()));
    assert!(answers.1.contains("an engine's build cannot change: another build is another Engine"), "{}", answers.1);
}
