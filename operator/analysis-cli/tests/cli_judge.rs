//! The verb `judge`, as a user runs it.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

mod support;

use pretty_assertions::assert_eq;
use rstest::rstest;

use support::Bench;

const CONFIG: &str = r#"{"config":{"steps":[{"weightPercent":50,"minSoakSeconds":300,"maxSoakSeconds":600}],"objectives":[{"metric":"RequestLatency","percentile":"p95","maxMicroseconds":900000}]}}"#;

/// A recorded rollout: each arm answers 400 units a window, whose latencies walk over a fixed set.
fn evidence(windows: u64, canary_bins: u64) -> String {
    let mut text = String::new();
    for t in 1..=windows {
        for (arm, shift) in [("stable", 0), ("canary", canary_bins)] {
            let buckets: Vec<String> =
                (0..80).map(|i| format!("[{},{}]", 480 + i * 2 + (t * 7 + i * 3) % 5 + shift, 5)).collect();
            text.push_str(&format!(
                "{{\"t\":{},\"arm\":\"{arm}\",\"pod\":\"{arm}-0\",\"weightPercent\":50,\"metric\":\"RequestLatency\",\"unit\":\"Request\",\"started\":400,\"inFlight\":2,\"count\":400,\"errors\":0,\"buckets\":[{}]}}\n",
                t * 10,
                buckets.join(",")
            ));
        }
    }
    text
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_equal_canary_is_promoted_and_nothing_but_the_last_line_follows() {
    let bench = Bench::new();
    bench.file("e.jsonl", &format!("{CONFIG}\n{}", evidence(60, 0)));
    let ran = bench.run(&["judge", "--evidence", "e.jsonl"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let lines = lines(&ran.stdout);
    assert_eq!(lines.len(), 31, "30 windows of ten seconds and the last line");
    assert_eq!(lines[0]["verdict"], "Hold");
    assert_eq!(lines[0]["reason"], "Soaking: 10 of 300 s");
    assert_eq!(lines[29]["verdict"], "Promote");
    assert_eq!((&lines[29]["t"], &lines[29]["step"]), (&300.into(), &0.into()));
    let names: Vec<&String> = lines[29]["logEvidence"].as_object().unwrap().keys().collect();
    let expected = [
        "RequestLatency/absolute/0",
        "RequestLatency/errors",
        "RequestLatency/hanging",
        "RequestLatency/nonInferiority",
        "RequestLatency/relative",
        "combined",
        "newSessions/split",
    ];
    assert_eq!(names, expected);
    assert_eq!(lines[30], serde_json::json!({"final": "Promote", "decidedAt": 300, "blame": []}));
}

#[test]
fn a_slow_canary_is_rolled_back_with_blame() {
    let bench = Bench::new();
    bench.file("e.jsonl", &evidence(60, 20));
    let ran = bench.run(&["judge", "--evidence", "e.jsonl"]);
    let lines = lines(&ran.stdout);
    let last = &lines[lines.len() - 2];
    assert_eq!(last["verdict"], "Rollback");
    assert!(last["reason"].as_str().unwrap().starts_with("RelativeHarm: RequestLatency/relative"), "{last}");
    assert_eq!(lines[lines.len() - 1]["blame"], serde_json::json!(["Engine"]));
    assert_eq!(lines[lines.len() - 1]["decidedAt"], last["t"]);
}

#[test]
fn evidence_that_ends_early_is_held() {
    let bench = Bench::new();
    bench.file("e.jsonl", &evidence(5, 0));
    let ran = bench.run(&["judge", "--evidence", "e.jsonl"]);
    assert_eq!(lines(&ran.stdout)[5], serde_json::json!({"final": "Hold", "decidedAt": null, "blame": []}));
    bench.file("empty.jsonl", "");
    let ran = bench.run(&["judge", "--evidence", "empty.jsonl"]);
    assert_eq!(ran.stdout, "{\"final\":\"Hold\",\"decidedAt\":null,\"blame\":[]}\n");
}

const LINE: &str = r#"{"t":20,"arm":"canary","pod":"c0","metric":"RequestLatency","count":3,"errors":1}"#;

#[rstest]
#[case("{\"t\":10", "line 1: the line: EOF while parsing an object at line 1 column 7; write one JSON object per line")]
#[case(
    r#"{"config":{"maxRegression":"ten"}}"#,
    "line 1: config.maxRegression: maxRegression: \"ten\" is not a percentage between 0% and 1000%, such as \"10%\"; see the documented form of the first line"
)]
#[case(
    r#"{"config":{"warmUpSeconds":"soon"}}"#,
    "line 1: config.warmUpSeconds: invalid type: string \"soon\", expected u64; see the documented form of the first line"
)]
#[case(
    r#"{"arm":"canary","metric":"RequestLatency","count":3,"errors":1}"#,
    "line 1: t: missing; give the second at which the window ends"
)]
#[case(
    r#"{"t":1.5,"arm":"canary","metric":"RequestLatency","count":3,"errors":1}"#,
    "line 1: t: 1.5 is not a whole number of seconds; windows end at whole seconds"
)]
#[case(
    r#"{"t":10,"arm":"blue","metric":"RequestLatency","count":3,"errors":1}"#,
    "line 1: arm: unknown variant `blue`, expected `stable` or `canary`; write \"stable\" or \"canary\""
)]
#[case(
    r#"{"t":10,"arm":"canary","metric":"RequestLatency","count":3,"errors":4}"#,
    "line 1: errors: 4 errors among 3 finished units; count holds the errors too"
)]
#[case(
    r#"{"t":10,"arm":"canary","metric":"RequestLatency","count":-3,"errors":0}"#,
    "line 1: count: invalid value: integer `-3`, expected u64; give the units that finished in the window"
)]
#[case(
    r#"{"t":10,"arm":"canary","metric":"RequestLatency","count":1,"errors":0,"buckets":[[5,2]]}"#,
    "line 1: buckets: 2 values for 1 finished units; buckets hold one value per success"
)]
#[case(
    r#"{"t":10,"arm":"canary","metric":"RequestLatency","count":1,"errors":0,"buckets":[[5000,1]]}"#,
    "line 1: buckets: bucket index 5000 is beyond the table: use 0 to 2047; correct the field or leave it out"
)]
#[case(
    r#"{"t":10,"arm":"canary","metric":"RequestLatency","count":1,"errors":0,"weightPercent":120}"#,
    "line 1: weightPercent: not between 0 and 100; give the canary's share in percent"
)]
fn a_bad_line_is_named_with_its_field(#[case] text: &str, #[case] expected: &str) {
    let bench = Bench::new();
    bench.file("e.jsonl", text);
    assert_eq!(bench.refusal(&["judge", "--evidence", "e.jsonl"]), format!("e.jsonl: {expected}"));
}

#[test]
fn lines_that_contradict_each_other_are_named() {
    let bench = Bench::new();
    let earlier = LINE.replace("20", "10");
    bench.file("e.jsonl", &format!("{LINE}\n{earlier}\n"));
    let message = bench.refusal(&["judge", "--evidence", "e.jsonl"]);
    assert_eq!(message, "e.jsonl: line 2: t: 10 comes after a later window; sort the lines by t");
    bench.file("e.jsonl", &format!("{LINE}\n{LINE}\n"));
    let message = bench.refusal(&["judge", "--evidence", "e.jsonl"]);
    let expected = "e.jsonl: line 2: pod: \"c0\" reports RequestLatency twice for t 20; keep one line per window, pod, metric and stratum";
    assert_eq!(message, expected);
    let message = bench.refusal(&["judge", "--evidence", "missing.jsonl"]);
    assert!(message.starts_with("failed to read missing.jsonl: No such file"), "{message}");
}
