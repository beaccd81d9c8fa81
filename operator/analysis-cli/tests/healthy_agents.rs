//! Healthy canaries of agents are not rolled back: a fast part of the sealed rows of `operator/evaluation/sealed`,
//! whose evidence another program makes. `run.py` there judges all rows with as many rollouts as one has time for.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

mod support;

use std::{path::Path, process::Command};

use rstest::rstest;
use support::Bench;

/// The results of some rollouts of a row: how each ended, and the reason of the last window.
fn judged(row: &str, rollouts: u32) -> Vec<(String, String)> {
    let generator = Path::new(env!("CARGO_MANIFEST_DIR")).join("../evaluation/sealed/generate.py");
    let bench = Bench::new();
    let one = |rollout: u32| {
        let made = Command::new("python3")
            .arg(&generator)
            .args(["--row", row, "--rollout", &rollout.to_string()])
            .output()
            .expect("python3 makes the evidence");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        bench.file("e.jsonl", &String::from_utf8(made.stdout).unwrap());
        let ran = bench.run(&["judge", "--evidence", "e.jsonl"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let lines: Vec<serde_json::Value> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (last, end) = (&lines[lines.len() - 2], &lines[lines.len() - 1]);
        (end["final"].as_str().unwrap().to_owned(), last["reason"].as_str().unwrap().to_owned())
    };
    (0..rollouts).map(one).collect()
}

/// Of the first ones an older judge rolled back from a tenth to a half. In the last ones pods have other loads.
#[rstest]
#[case::calls_that_stall_in_both_arms("stalls", 5)]
#[case::lognormal_calls("lognormal-calls", 5)]
#[case::a_drained_pod("drain-at-50", 3)]
#[case::a_drained_pod_whose_last_windows_nobody_reads("drain-unread", 3)]
#[case::an_outage_of_one_pod_in_each_arm("outage-in-each-arm", 5)]
#[case::pods_that_differ("offsets", 3)]
#[case::latency_that_grows_with_the_load("load-dependent", 3)]
#[case::everything_at_once("everything-at-once", 3)]
fn a_healthy_canary_is_not_rolled_back(#[case] row: &str, #[case] rollouts: u32) {
    for (verdict, reason) in judged(row, rollouts) {
        assert_ne!(verdict, "Rollback", "{row}: {reason}");
    }
}

#[rstest]
#[case("model-plus-50", "RelativeHarm")]
#[case("canary-never-answers", "Hanging")]
#[case("canary-fails-all", "ErrorHarm")]
fn a_harmful_canary_is_rolled_back_for_what_it_does(#[case] row: &str, #[case] code: &str) {
    for (verdict, reason) in judged(row, 2) {
        assert_eq!((verdict.as_str(), reason.split(':').next()), ("Rollback", Some(code)), "{row}: {reason}");
    }
}
