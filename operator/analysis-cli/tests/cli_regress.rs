//! The verb `regress`, as a user runs it.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

mod support;

use pretty_assertions::assert_eq;
use rstest::rstest;

use support::Bench;

const ARGS: [&str; 7] = ["regress", "--baselines", "b.json", "--current", "r.json", "--configuration", "70b-tp4"];

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_first_run_is_recorded_and_the_next_one_is_compared_with_it() {
    let bench = Bench::new();
    bench.file("r.json", r#"{"timestamp":"2026-11-01","metrics":{"p95_ms":100,"decode_tokens_per_sec":50}}"#);
    let first = bench.run(&ARGS);
    assert_eq!(first.stdout, "{\"configuration\":\"70b-tp4\",\"status\":\"no_baseline\",\"recorded\":true}\n");
    bench.file("r.json", r#"{"metrics":{"p95_ms":125,"decode_tokens_per_sec":49}}"#);
    let expected = serde_json::json!({
        "configuration": "70b-tp4", "status": "regression", "recorded": false,
        "compared": [
            {"metric": "decode_tokens_per_sec", "baseline": 50.0, "current": 49.0, "degradation_pct": 2.0, "regressed": false},
            {"metric": "p95_ms", "baseline": 100.0, "current": 125.0, "degradation_pct": 25.0, "regressed": true},
        ],
    });
    let second = bench.run(&ARGS);
    assert_eq!((second.code, json(&second.stdout)), (Some(0), expected));
    assert_eq!(bench.run(&ARGS).stdout, second.stdout, "a compared run does not become the baseline");
}

#[test]
fn another_identity_is_incomparable() {
    let bench = Bench::new();
    bench.file("b.json", r#"{"70b-tp4":{"identity":{"gpu":"H100"},"metrics":{"p95_ms":100}}}"#);
    bench.file("r.json", r#"{"identity":{"gpu":"A100"},"metrics":{"p95_ms":300}}"#);
    let expected = serde_json::json!({
        "configuration": "70b-tp4", "status": "incomparable", "recorded": false,
        "difference": {"field": "gpu", "baseline": "H100", "current": "A100"},
    });
    assert_eq!(json(&bench.run(&ARGS).stdout), expected);
}

#[test]
fn records_give_bounds_and_a_rolling_p95() {
    let bench = Bench::new();
    let records = |scale: f64| -> String {
        (0..40).map(|i| format!("{{\"request_id\":\"r{i}\",\"total_ms\":{}}}\n", scale * f64::from(100 + i))).collect()
    };
    bench.file("r.json", "{}");
    bench.file("r.jsonl", &records(1.0));
    let with_records = [&ARGS[..], &["--records", "r.jsonl", "--rolling-window", "20"]].concat();
    bench.run(&with_records);
    bench.file("r.jsonl", &records(1.5));
    let report = json(&bench.run(&with_records).stdout);
    assert_eq!(report["status"], "regression");
    let median = &report["compared"][0];
    assert_eq!((&median["metric"], &median["degradation_pct"]), (&"p50_ms".into(), &50.0.into()));
    assert!(median["degradation_lower_bound_pct"].as_f64().unwrap() > 10.0, "{median}");
    assert_eq!(report["rolling"]["alert_at_record"], 20);
}

#[rstest]
#[case("[1]", "r.json: the file: not an object; write {\"metrics\":{...}}")]
#[case("{", "failed to parse r.json; it must be one JSON object: EOF while parsing an object at line 1 column 1")]
#[case(r#"{"metrics":{"p95_ms":"fast"}}"#, "r.json: metrics.p95_ms: \"fast\" is not a number; give a number")]
#[case(r#"{"records":5}"#, "r.json: records: not a list; give one object per iteration")]
#[case(r#"{"records":[{"total_ms":"5"}]}"#, "r.json: records[0]: total_ms: \"5\" is not a number; give milliseconds")]
#[case(
    r#"{"metric":{}}"#,
    "r.json: the run: unknown field `metric`, expected one of `timestamp`, `identity`, `metrics`, `records`; use timestamp, identity, metrics and records"
)]
fn a_bad_run_is_named_with_its_field(#[case] text: &str, #[case] expected: &str) {
    let bench = Bench::new();
    bench.file("r.json", text);
    assert_eq!(bench.refusal(&ARGS), expected);
}

#[test]
fn a_bad_threshold_and_bad_records_are_named() {
    let bench = Bench::new();
    bench.file("r.json", "{}");
    let message = bench.refusal(&[&ARGS[..], &["--threshold", "lots"]].concat());
    assert_eq!(message, "--threshold lots: not a percentage between 0% and 1000%; write 10%, the default");
    bench.file("r.jsonl", "{}\n7\n");
    let message = bench.refusal(&[&ARGS[..], &["--records", "r.jsonl"]].concat());
    assert_eq!(message, "r.jsonl: line 2: not an object; write one JSON object per iteration");
}
