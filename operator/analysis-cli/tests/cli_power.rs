//! `slipway-analysis power` says from recorded traffic what a rollout would find.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

mod support;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use support::Bench;

/// Two minutes in which four pods of stable finish so many requests each window, of 0.7 to 1.4 seconds.
fn traffic(bench: &Bench, per_window: u64) {
    traffic_under(bench, per_window, &json!({}));
}

fn traffic_under(bench: &Bench, per_window: u64, config: &Value) {
    let mut lines = vec![json!({"config": config}).to_string()];
    for window in 1..=12 {
        for pod in 0..4 {
            let buckets: Vec<(u64, u64)> = (0..per_window).map(|i| (620 + i * 32 / per_window, 1)).collect();
            let line = json!({
                "t": 1_789_000_000 + window * 10, "arm": "stable", "pod": format!("s{pod}"), "metric": "RequestLatency",
                "count": per_window, "errors": 0, "started": per_window, "inFlight": 0, "buckets": buckets,
            });
            lines.push(line.to_string());
        }
    }
    bench.file("e.jsonl", &lines.join("\n"));
}

fn answer(bench: &Bench, more: &[&str]) -> Value {
    let ran = bench.run(&[&["power", "--evidence", "e.jsonl"], more].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn the_fastest_schedule_stands_first_and_the_given_one_is_marked() {
    let bench = Bench::new();
    traffic(&bench, 8);
    let answer = answer(&bench, &["--canary-pods", "4"]);
    let schedules = answer["schedules"].as_array().unwrap();
    let given: Vec<&Value> = schedules.iter().filter(|schedule| schedule["isAsGiven"] == true).collect();
    assert_eq!((given.len(), &given[0]["weightsPercent"]), (1, &json!([5.0, 20.0, 50.0])));
    let first = &schedules[0];
    assert_eq!((&answer["stablePods"], &first["isDecidable"]), (&json!(4), &json!(true)));
    assert!(first["rollbackSeconds"].as_u64() <= given[0]["rollbackSeconds"].as_u64(), "{schedules:?}");
}

#[test]
fn the_units_that_a_promotion_takes_at_a_percentile_are_stated_for_every_objective() {
    let bench = Bench::new();
    let objective =
        |percentile: &str| json!({"metric": "RequestLatency", "percentile": percentile, "maxMicroseconds": 60_000_000});
    let of = |percentile: &str| {
        traffic_under(&bench, 60, &json!({"objectives": [objective(percentile)]}));
        let said = answer(&bench, &[])["percentiles"].clone();
        assert_eq!((&said[0]["metric"], &said[0]["percentile"]), (&json!("RequestLatency"), &json!(percentile)));
        (said.as_array().unwrap().len(), said[0]["unitsOfEachRevision"].as_u64().unwrap())
    };
    assert_eq!([of("p90"), of("p95")], [(1, 106), (1, 179)]);
    traffic(&bench, 60);
    assert_eq!(answer(&bench, &[])["percentiles"], json!([]), "no objective asks");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let bench = Bench::new();
    traffic(&bench, 8);
    let refused = |more: &[&str]| bench.refusal(&[&["power", "--evidence", "e.jsonl"], more].concat());
    assert_eq!(
        refused(&["--slower", "0"]),
        "--slower: 0 is not between 0 and 10,000; give percent, 50 for half again as slow"
    );
    assert_eq!(refused(&["--canary-pods", "0"]), "--canary-pods: 0 pods serve nothing; give 1 or more");
}
