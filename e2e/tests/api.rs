//! The API as a real API server sees it: what it accepts, what it refuses, and in which words.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{collections::BTreeMap, env, fs, path::PathBuf, process::Command, time::Duration};

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile};
use slipway_e2e::{agents::path, namespace::Namespace, operator::HELM};

fn fixture_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../crds/tests/fixtures")
}

/// A manifest, what its reader is told, and, of a bad one, the merge patch that fixes it.
struct Fixture {
    name: String,
    expected: String,
    object: Value,
    mended_by: Option<Value>,
}

fn fixtures() -> Vec<Fixture> {
    let mut fixtures: Vec<_> = fs::read_dir(fixture_folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines();
            Fixture {
                expected: lines.next().unwrap().trim_start_matches("# ").to_owned(),
                mended_by: lines
                    .next()
                    .and_then(|line| line.strip_prefix("# mended by "))
                    .map(|patch| serde_json::from_str(patch).unwrap()),
                name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                object: serde_norway::from_str(&text).unwrap(),
            }
        })
        .collect();
    fixtures.sort_by(|one, other| one.name.cmp(&other.name));
    fixtures
}

async fn client() -> Client {
    slipway_e2e::cluster::client().await.unwrap()
}

/// How often a dry run is repeated whose object the operator changed between kubectl's read and its write.
const TRIES: usize = 10;

/// What a user reads after a dry run of `kubectl apply` or `kubectl replace`.
///
/// `replace` reads the object's version first. The operator may write status before the replacement arrives; the API
/// server then answers Conflict, which says nothing of the manifest. Users repeat the command, and so does this.
fn tried_with_kubectl(verb: &str, namespace: &str, object: &Value) -> String {
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    fs::write(file.path(), object.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    let arguments = [verb, "--namespace", namespace, "--dry-run=server", "-f", path];
    let mut answers = (0..TRIES).map(|_| {
        let output = slipway_e2e::cluster::kubectl(&arguments).unwrap();
        let accepted = output.status.success();
        if accepted { "accepted".to_owned() } else { String::from_utf8_lossy(&output.stderr).into_owned() }
    });
    answers.find(|answer| !answer.contains("(Conflict)")).unwrap_or_else(|| format!("{TRIES} conflicts"))
}

/// Fixtures that are answered in other words than those that they expect.
fn answered_otherwise(verb: &str, namespace: &str, fixtures: Vec<Fixture>) -> Vec<String> {
    let answers = fixtures.into_iter().map(|fixture| (tried_with_kubectl(verb, namespace, &fixture.object), fixture));
    answers
        .filter(|(answer, fixture)| !answer.contains(&fixture.expected))
        .map(|(answer, Fixture { name, expected, .. })| format!("{name}\n  expected: {expected}\n  answered: {answer}"))
        .collect()
}

#[test]
fn each_manifest_is_accepted_or_refused_in_the_words_that_its_fixture_expects() {
    assert_eq!(answered_otherwise("apply", "default", fixtures()), Vec::<String>::new());
}

#[test]
fn each_bad_manifest_is_accepted_once_it_is_mended() {
    let mended = fixtures().into_iter().filter_map(|mut fixture| {
        json_patch::merge(&mut fixture.object, &fixture.mended_by.take()?);
        Some(Fixture { expected: "accepted".to_owned(), ..fixture })
    });
    let mended: Vec<_> = mended.collect();
    assert!(mended.len() > 15);
    assert_eq!(answered_otherwise("apply", "default", mended), Vec::<String>::new());
}

/// Rules hold for what is there already as they do for what is new; a name cannot be changed at all.
#[tokio::test]
async fn an_update_is_refused_in_the_same_words() {
    let namespace = Namespace::create("api-updates").await.unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = fixtures().into_iter().partition(|fixture| fixture.mended_by.is_none());
    // Of those that share a name the last stands.
    let named = good.iter().map(|fixture| (fixture.object["metadata"]["name"].to_string(), &fixture.object));
    for object in named.collect::<BTreeMap<_, _>>().values() {
        namespace.apply(object).await.unwrap();
    }
    let is_there =
        |fixture: &Fixture| good.iter().any(|g| g.object["metadata"]["name"] == fixture.object["metadata"]["name"]);
    let updates: Vec<_> = bad.into_iter().filter(is_there).collect();
    assert!(updates.len() > 15);
    assert_eq!(answered_otherwise("replace", namespace.name(), updates), Vec::<String>::new());
    namespace.delete().await.unwrap();
}

#[tokio::test]
async fn what_a_user_leaves_out_is_filled_in_and_shown() {
    let client = client().await;
    let mut object = fixtures().into_iter().find(|fixture| fixture.name == "good").unwrap().object;
    object["spec"].as_object_mut().unwrap().remove("search");
    let agent_deployments: Api<AgentDeployment> = Api::namespaced(client, "default");
    let dry_run = PatchParams { dry_run: true, ..PatchParams::apply("api-test") };
    let accepted = agent_deployments.patch("support-agent", &dry_run, &Patch::Apply(&object)).await.unwrap();
    let spec = serde_json::to_value(&accepted.spec).unwrap();
    assert_eq!(
        (&spec["search"], &spec["serving"]["replicas"], &spec["agent"]["runTimeout"]),
        (&json!({"concurrency": [1, 4, 8]}), &json!(1), &json!("60s"))
    );
}

/// What helm makes of the operator's chart with other defaults.
fn rendered(defaults: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-r").arg(path("../charts/slipway/.")).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    fs::write(folder.path().join("values.yaml"), serde_norway::to_string(defaults).unwrap()).unwrap();
    let output = Command::new(env::var_os(HELM).unwrap()).arg("template").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_chart_renders_from_the_values_of_a_release_that_lacks_its_newer_keys() {
    let defaults = fs::read_to_string(path("../charts/slipway/values.yaml")).unwrap();
    let defaults: BTreeMap<String, Value> = serde_norway::from_str(&defaults).unwrap();
    let images = ["operator", "worker", "agentRuntime"].map(|name| (name.to_owned(), defaults["image"][name].clone()));
    let images = Value::Object(images.into_iter().collect());
    let all_but = |missing: &str| defaults.iter().filter(|(key, _)| *key != missing).collect::<BTreeMap<_, _>>();
    let without = defaults.keys().filter(|key| *key != "image").map(|key| json!(all_but(key)));
    for values in without.chain([json!({"image": images})]) {
        let objects = rendered(&values);
        assert!(!objects.contains("null") && !objects.contains("<no value>"), "{objects}");
    }
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
    assert!(answers.1.contains("build is immutable: create another Engine for another build"), "{}", answers.1);
}

#[tokio::test]
async fn a_profile_keeps_its_inputs() {
    let namespace = Namespace::create("api-profiles").await.unwrap();
    let profile = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Profile", "metadata": {"name": "profile-api-test"},
        "spec": {"agentDeployment": "support-agent", "inputHash": "5f0c2a", "inputs": {
            "engines": [{"name": "engine-a", "manifestDigest": "1f", "displayName": "fp32"}],
            "configurations": [{"name": "default", "settings": {}}],
            "levels": [1], "driver": "ModelAnalyzer", "objectives": [], "replicas": 1, "optimizeFor": "Throughput",
            "budget": {"gpuHours": "1", "measurements": 10}, "agent": {}, "placement": {"tritonImage": "triton:1"},
        }},
    });
    namespace.create_object::<Profile>(&serde_json::from_value(profile).unwrap()).await.unwrap();
    let changed = Patch::Merge(json!({"spec": {"inputs": {"replicas": 2}}}));
    let answer = namespace.api::<Profile>().patch("profile-api-test", &PatchParams::default(), &changed).await;
    let answer = answer.unwrap_err().to_string();
    assert!(answer.contains("inputs is immutable: create another Profile for other inputs"), "{answer}");
    namespace.delete().await.unwrap();
}

/// Whatever has the name that an AgentDeployment needs serves on.
#[tokio::test]
async fn a_service_of_somebody_elses_is_left_as_it_is_and_an_event_says_so() {
    let namespace = Namespace::create("api-foreign").await.unwrap();
    let service = json!({
        "metadata": {"name": "support-agent"},
        "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]},
    });
    let before = namespace.create_object::<Service>(&serde_json::from_value(service).unwrap()).await.unwrap();
    let object = fixtures().into_iter().find(|fixture| fixture.name == "good").unwrap().object;
    namespace.apply(&object).await.unwrap();
    let message = namespace.wait_for_event("support-agent", "ApplyFailed", Duration::from_secs(60)).await.unwrap();
    let words = "Service support-agent exists and was not made by Slipway; it is left as it is: remove it, or give the AgentDeployment \
                 another name";
    assert_eq!(message, words);
    assert_eq!(namespace.api::<Service>().get("support-agent").await.unwrap(), before);
    namespace.delete().await.unwrap();
}

/// `kubectl scale`, HorizontalPodAutoscalers and KEDA know nothing of an AgentDeployment but this.
#[tokio::test]
async fn an_agent_is_scaled_through_the_api_of_any_workload_and_the_api_server_keeps_who_did_it() {
    let namespace = Namespace::create("api-scale").await.unwrap();
    let mut object = fixtures().into_iter().find(|fixture| fixture.name == "good").unwrap().object;
    object["spec"].as_object_mut().unwrap().remove("serving");
    namespace.apply(&object).await.unwrap();
    let agents = namespace.api::<AgentDeployment>();
    let scale = agents.get_scale("support-agent").await.unwrap();
    assert_eq!(scale.spec.and_then(|spec| spec.replicas), Some(1));
    assert_eq!(agents.get("support-agent").await.unwrap().scaled_by(), None);
    let arguments = ["scale", "agd", "support-agent", "--replicas", "5", "--namespace", namespace.name()];
    let output = slipway_e2e::cluster::kubectl(&arguments).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scaled = agents.get("support-agent").await.unwrap();
    // Nobody had set the number: the API server keeps no name of who did then.
    assert_eq!((scaled.spec.serving.replicas, scaled.scaled_by()), (5, Some("somebody")));
    // A manifest with another number takes the field back, and with it the warning.
    object["spec"]["serving"] = json!({"replicas": 2});
    namespace.apply(&object).await.unwrap();
    let edited = agents.get("support-agent").await.unwrap();
    assert_eq!((edited.spec.serving.replicas, edited.scaled_by()), (2, None));
    assert!(slipway_e2e::cluster::kubectl(&arguments).unwrap().status.success());
    let scaled = agents.get("support-agent").await.unwrap();
    assert!(scaled.scaled_by().is_some_and(|manager| manager.starts_with("kubectl")), "{:?}", scaled.scaled_by());
    namespace.delete().await.unwrap();
}
