//! The fixtures that a real API server answers in `e2e/tests/api.rs`: here the same are answered in the same words.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_manifest::{Definitions, Refused};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Name, first line without its mark, and object of every fixture.
fn fixtures() -> Vec<(String, String, Value)> {
    let files = fs::read_dir(root().join("crds/tests/fixtures")).unwrap().map(|entry| entry.unwrap().path());
    let fixture = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let expected = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
        (path.file_stem().unwrap().to_string_lossy().into_owned(), expected, serde_norway::from_str(&text).unwrap())
    };
    let mut fixtures: Vec<_> = files.map(fixture).collect();
    fixtures.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    fixtures
}

fn answer(definitions: &Definitions, object: &Value) -> String {
    match definitions.check(object) {
        Ok(_) => "accepted".to_owned(),
        Err(refused) => refused.to_string(),
    }
}

#[test]
fn each_fixture_is_answered_in_the_api_servers_words() {
    let definitions = Definitions::new();
    let answers =
        fixtures().into_iter().map(|(name, expected, object)| (name, expected, answer(&definitions, &object)));
    let differing: Vec<_> = answers
        .filter(
            |(name, expected, answer)| {
                if name.starts_with("good") { answer != "accepted" } else { !answer.contains(expected.as_str()) }
            },
        )
        .collect();
    assert_eq!(differing, Vec::new());
}

fn yaml_of(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let documents = serde_norway::Deserializer::from_str(&text);
    documents.map(|document| serde::Deserialize::deserialize(document).unwrap()).collect()
}

/// The manifests that people copy.
#[rstest]
#[case("docs/examples")]
#[case("e2e/manifests/demo")]
fn manifests_to_be_copied_are_accepted(#[case] folder: &str) {
    let definitions = Definitions::new();
    let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let objects = files.flat_map(|path| yaml_of(&path).into_iter().map(move |object| (path.clone(), object)));
    let mut checked = 0;
    for (path, object) in objects {
        match definitions.check(&object) {
            Err(Refused::Foreign { .. }) => continue,
            answer => assert_eq!((&path, answer.err()), (&path, None)),
        }
        checked += 1;
    }
    assert!(checked > 3, "{checked} of {folder}");
}

fn good() -> Value {
    fixtures().into_iter().find(|(name, ..)| name == "good").unwrap().2
}

#[rstest]
#[case::unknown(json!({"spec": {"rollouts": {}}}), r#"strict decoding error: unknown field "spec.rollouts": did you mean "rollout"?"#)]
#[case::strange(json!({"spec": {"zzz": 1}}), r#"strict decoding error: unknown field "spec.zzz""#)]
#[case::missing(json!({"spec": {"model": null}}), "spec.model: Required value")]
#[case::typed(
    json!({"spec": {"serving": {"replicas": "two"}}}),
    r#"spec.serving.replicas: Invalid value: "string": spec.serving.replicas in body must be of type integer: "string""#
)]
#[case::wide(
    json!({"spec": {"serving": {"replicas": 4_294_967_296_i64}}}),
    r#"spec.serving.replicas: Invalid value: "integer": spec.serving.replicas in body must be of type int32: "integer""#
)]
#[case::version(
    json!({"apiVersion": "slipway.dev/v1"}),
    r#"no kind "AgentDeployment" in slipway.dev/v1: write AgentDeployment of slipway.dev/v1alpha1, Engine of slipway.dev/v1alpha1, Profile of slipway.dev/v1alpha1"#
)]
#[case::foreign(json!({"apiVersion": "apps/v1", "kind": "Deployment"}), "apps/v1 Deployment is not of slipway.dev")]
#[case::nameless(json!({"metadata": {"name": null}}), "metadata.name: Required value")]
#[case::loud(json!({"metadata": {"name": "Support"}}), r#"metadata.name: Invalid value: "Support": a lowercase RFC 1123"#)]
fn what_is_wrong_is_told_by_its_field(#[case] change: Value, #[case] expected: &str) {
    let mut object = good();
    merge(&mut object, &change);
    let answer = answer(&Definitions::new(), &object);
    assert!(answer.contains(expected), "{answer}");
}

/// RFC 7386, but that null stays null.
fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (name, change) in change {
                merge(target.entry(name).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change.clone(),
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let mut object = good();
    let change = json!({"spec": {"rollouts": {}, "serving": {"replicas": -1}, "agent": {"maxSteps": "many"}}});
    merge(&mut object, &change);
    let told = answer(&Definitions::new(), &object);
    let unchecked = "some validation rules were not checked because the object was invalid; correct the existing errors \
                     to complete validation";
    assert_eq!((told.lines().count(), told.lines().last()), (4, Some(unchecked)), "{told}");
}

#[test]
fn a_null_is_as_nothing_and_a_status_is_not_the_authors() {
    let mut object = good();
    merge(&mut object, &json!({"spec": {"rollout": {"steps": null}}, "status": {"stage": 5}}));
    assert_eq!(answer(&Definitions::new(), &object), "accepted");
}

/// Keywords of the definitions' schemas.
fn keywords(schema: &Value, found: &mut BTreeSet<String>) {
    let Some(members) = schema.as_object() else { return };
    for (keyword, below) in members {
        found.insert(keyword.clone());
        match keyword.as_str() {
            "properties" => below.as_object().unwrap().values().for_each(|below| keywords(below, found)),
            "items" | "additionalProperties" => keywords(below, found),
            _ => {}
        }
    }
}

#[test]
fn the_definitions_use_no_keyword_that_is_not_read() {
    let mut found = BTreeSet::new();
    for definition in slipway_crds::definitions() {
        for version in definition.spec.versions {
            keywords(&serde_json::to_value(version.schema.unwrap().open_api_v3_schema).unwrap(), &mut found);
        }
    }
    let read = [
        "additionalProperties",
        "default",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let is_said_alone = |keyword: &&String| !["description", "title"].contains(&keyword.as_str());
    let unread: Vec<_> = found.iter().filter(is_said_alone).filter(|word| !read.contains(&word.as_str())).collect();
    assert_eq!(unread, Vec::<&String>::new());
}
