//! The rules of the API on the client's side: the same fixtures go to a real API server in `e2e/tests/api.rs`.
//!
//! A bad fixture begins with what its reader is told, and the merge patch that mends it.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::Value;
use slipway_crds::v1alpha1::AgentDeployment;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Applies a JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    for (name, member) in members {
        if member.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], member);
        }
    }
}

fn fixture(name: &str) -> (String, AgentDeployment) {
    let path = folder().join(format!("{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap();
    let expected = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
    (expected, serde_norway::from_str(&text).unwrap())
}

#[rstest]
#[case("good")]
#[case("good-alerts-off")]
fn a_good_manifest_breaks_no_rule(#[case] name: &str) {
    let (_, object) = fixture(name);
    assert_eq!(object.validate_cel().map_err(|errors| format!("{errors:?}")), Ok(()));
}

#[rstest]
#[case("bad-two-objectives")]
#[case("bad-custom-without-block")]
#[case("bad-long-name")]
#[case("bad-name-of-digits")]
#[case("bad-tool-without-http")]
#[case("bad-retries-of-an-unsafe-call")]
#[case("bad-throughput-without-profiling")]
#[case("bad-driver-without-prompts")]
#[case("bad-run-objective-without-trace")]
#[case("bad-steps-out-of-order")]
#[case("bad-steps-without-split")]
#[case("bad-gateway-without-block")]
#[case("bad-guardrail-with-two-limits")]
#[case("bad-guardrail-without-pods")]
#[case("bad-two-ways-of-traffic")]
#[case("bad-alerts-without-objectives")]
#[case("bad-receiver-named-twice")]
fn a_broken_rule_says_what_to_do(#[case] name: &str) {
    let (expected, object) = fixture(name);
    let errors = object.validate_cel().expect_err("the rule must refuse this manifest");
    let text = format!("{errors:?}");
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn every_bad_manifest_is_accepted_once_it_is_mended() {
    for entry in fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().starts_with("bad-") {
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let patch = text.lines().nth(1).unwrap().strip_prefix("# mended by ").expect(&text);
        let mut object: Value = serde_norway::from_str(&text).unwrap();
        merge(&mut object, &serde_json::from_str(patch).unwrap());
        let object: AgentDeployment = serde_json::from_value(object).expect(&text);
        assert_eq!(object.validate_cel().map_err(|errors| format!("{errors:?}")), Ok(()), "{text}");
    }
}

#[rstest]
#[case("bad-percentile", "unknown variant `p55`")]
#[case("bad-capacity", "unknown variant `Recreate`, expected one of `SurgeIfPossible`, `InPlace`, `RequireSurge`")]
#[case(
    "bad-capacity-deadline",
    "\"600\" is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"
)]
#[case(
    "bad-duration-without-unit",
    "\"2000\" is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"
)]
fn a_value_that_is_none_cannot_even_be_read(#[case] name: &str, #[case] message: &str) {
    let path = folder().join(format!("{name}.yaml"));
    let error = serde_norway::from_str::<AgentDeployment>(&fs::read_to_string(path).unwrap()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}
