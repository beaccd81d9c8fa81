//! `kubectl slipway check`: what a person reads of files that no API server has seen.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use kubectl_slipway::check::{File, check};
use pretty_assertions::assert_eq;
use rstest::rstest;

fn file(path: &str) -> File {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    File { name: path.to_owned(), text: fs::read_to_string(root.join(path)).unwrap() }
}

fn typed(text: &str) -> File {
    File { name: "agent.yaml".to_owned(), text: text.to_owned() }
}

/// What is printed, and what the command ends with.
fn told(files: &[File]) -> (String, String) {
    match check(files) {
        Ok(checked) => (checked.text.clone(), checked.verdict(files).map_or_else(|e| e.to_string(), |()| "0".into())),
        Err(unfit) => (String::new(), unfit.to_string()),
    }
}

#[test]
fn the_demos_manifest_is_accepted_with_what_it_will_take() {
    let (text, end) = told(&[file("e2e/manifests/demo/agent.yaml")]);
    insta::assert_snapshot!("check_demo", text);
    assert_eq!(end, "0");
}

#[test]
fn an_engine_for_several_gpus_counts_them_for_every_pod() {
    let (text, end) = told(&[file("docs/examples/lab-react-fp8.yaml")]);
    insta::assert_snapshot!("check_lab", text);
    assert_eq!(end, "0");
}

#[test]
fn a_refused_object_is_shown_with_every_reason_and_the_others_are_checked_too() {
    let files = [
        file("crds/tests/fixtures/good.yaml"),
        file("crds/tests/fixtures/bad-weight.yaml"),
        file("crds/tests/fixtures/bad-unknown-field.yaml"),
    ];
    let (text, end) = told(&files);
    insta::assert_snapshot!("check_refused", text);
    assert_eq!(end, "2 of 3 objects would be refused");
}

const FOREIGN: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: runs}\n";

#[rstest]
#[case::foreign(
    FOREIGN,
    "no object of slipway.dev in agent.yaml: name a file with an AgentDeployment, Engine or Profile"
)]
#[case::empty(
    "---\n",
    "no object of slipway.dev in agent.yaml: name a file with an AgentDeployment, Engine or Profile"
)]
#[case::broken("spec: [", "agent.yaml cannot be read as YAML")]
fn a_file_with_nothing_to_check_says_so(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(told(&[typed(text)]), (String::new(), expected.to_owned()));
}

#[test]
fn documents_and_lists_are_checked_object_by_object() {
    let engine = "{apiVersion: slipway.dev/v1alpha1, kind: Engine, metadata: {name: engine-1}, spec: {}}";
    let text = format!("{FOREIGN}---\nkind: List\napiVersion: v1\nitems: [{engine}, {engine}]\n");
    let (text, end) = told(&[typed(&text)]);
    let of_each =
        "agent.yaml: Engine engine-1: refused\n  spec.build: Required value\n  spec.placement: Required value\n";
    let unchecked = "  some validation rules were not checked because the object was invalid; correct the existing \
                     errors to complete validation\n";
    let of_each = format!("{of_each}{unchecked}");
    assert_eq!((text, end.as_str()), (of_each.repeat(2), "2 of 2 objects would be refused"));
}
