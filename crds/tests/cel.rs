//! The rules of the API on the client's side: the same fixtures go to a real API server in `e2e/tests/api.rs`.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::AgentDeployment;

fn fixture(name: &str) -> (String, AgentDeployment) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.yaml"));
    let text = fs::read_to_string(&path).unwrap();
    let expected = text.lines().next().unwrap().trim_start_matches("# ").to_owned();
    (expected, serde_norway::from_str(&text).unwrap())
}

#[test]
fn a_good_manifest_breaks_no_rule() {
    let (_, object) = fixture("good");
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
#[case("bad-two-ways-of-traffic")]
#[case("bad-receiver-named-twice")]
fn a_broken_rule_says_what_to_do(#[case] name: &str) {
    let (expected, object) = fixture(name);
    let errors = object.validate_cel().expect_err("the rule must refuse this manifest");
    let text = format!("{errors:?}");
    assert!(text.contains(&expected), "{text}");
}

#[rstest]
#[case("bad-percentile", "unknown variant `p55`")]
#[case(
    "bad-duration-without-unit",
    "\"2000\" is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"
)]
fn a_value_that_is_none_cannot_even_be_read(#[case] name: &str, #[case] message: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.yaml"));
    let error = serde_norway::from_str::<AgentDeployment>(&fs::read_to_string(path).unwrap()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}
