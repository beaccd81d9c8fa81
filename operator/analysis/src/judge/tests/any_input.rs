//! Whatever a pod writes, nothing panics: a fuzzer alters the evidence of both arms, and what still is evidence is
//! judged, stored, resumed and forecast from.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_vocabulary::evidence::{Evidence as OfPod, window_end};

use super::*;
use crate::judge::{
    power::{CanaryPods, Plan, outlooks, units_at_percentiles},
    self_check,
};

const FIRST_WINDOW: u64 = 178_900_000;
const WINDOWS: u64 = 8;

/// Eight windows of a pod, with every metric.
fn written(pod: &str, slower: u64) -> Value {
    let metric = |metric: &Metric| {
        json!({
            "metric": metric, "unit": "Run", "stratum": "miss/p9/f1", "started": 40, "newSessions": 7, "inFlight": 3,
            "oldestInFlightMicroseconds": 31_000_000, "inFlightAges": [[1, 2], [3, 1]], "count": 38, "errors": 1,
            "sumMicroseconds": 400_000, "buckets": [[500 + slower, 20], [520 + slower, 17]],
        })
    };
    let gpu = json!({"gpu": 0, "samples": 50, "slowed": [["Heat", 5]], "xids": [13], "utilizationPercent": 70});
    let window = |n| {
        json!({
            "id": FIRST_WINDOW + n, "metrics": Metric::ALL.iter().map(metric).collect::<Vec<_>>(), "gpus": [gpu],
            "load": {"runMicroseconds": 30_000_000, "modelRequestMicroseconds": 20_000_000},
        })
    };
    json!({
        "version": 2, "revision": "r", "pod": pod, "startedAt": "2026-01-01T00:00:00Z",
        "windows": (0..WINDOWS).map(window).collect::<Vec<_>>(),
    })
}

/// What stands in the place of a number.
const STRANGE: [&str; 14] = [
    "0",
    "1",
    "-1",
    "65535",
    "65536",
    "4294967296",
    "999999999",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "0.5",
    "null",
    "[]",
];

fn numbers(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(_) => found.push(path.to_owned()),
        Value::Array(all) => all.iter().enumerate().for_each(|(k, of)| numbers(of, &format!("{path}/{k}"), found)),
        Value::Object(all) => all.iter().for_each(|(name, of)| numbers(of, &format!("{path}/{name}"), found)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The evidence with some of its numbers replaced.
fn altered(mut pod: Value, changes: &[(usize, usize)]) -> Option<OfPod> {
    let mut found = Vec::new();
    numbers(&pod, "", &mut found);
    for (which, strange) in changes {
        let strange = serde_json::from_str(STRANGE[strange % STRANGE.len()]).ok()?;
        *pod.pointer_mut(&found[which % found.len()])? = strange;
    }
    serde_json::from_value(pod).ok()
}

fn windows(pods: &[(Arm, OfPod)], weight_percent: f64) -> Vec<Window> {
    let mut by_id = BTreeMap::<u64, Vec<Observation>>::new();
    for (arm, pod) in pods {
        for window in &pod.windows {
            let of = window.metrics.iter().map(|metric| Observation::from_evidence(*arm, &pod.pod, metric));
            by_id.entry(window.id).or_default().extend(of);
        }
    }
    let window = |(id, observations)| Window {
        end_seconds: window_end(id),
        weight_percent: Some(weight_percent),
        observations,
        ..Window::default()
    };
    by_id.into_iter().map(window).collect()
}

fn config() -> Config {
    let objective =
        |percentile| CountedObjective { metric: Metric::AgentRunLatency, percentile, max_microseconds: 900_000 };
    let objectives = [Percentile::P50, Percentile::P99_9].map(objective).to_vec();
    Config { objectives, task_failures_max: Some(1.5), error_rate_max: Some(0.02), ..Config::default() }
}

/// Judges, stores, resumes and forecasts. Whether the judge reads its own memory again.
fn carries_on(pods: &[(Arm, OfPod)]) -> bool {
    let windows = windows(pods, 20.0);
    let mut judge = Judge::new(config());
    for window in &windows {
        judge.consume(window);
        let text = judge.encode();
        match Judge::resume(config(), &text) {
            Ok(resumed) if resumed.encode() == text => judge = resumed,
            Ok(_) | Err(_) => return false,
        }
    }
    let plan =
        Plan { steps: config().steps, stable_pods: 2, canary_pods: CanaryPods::ByWeight, reference: Reference::Rest };
    let has_outlooks = outlooks(&config(), &windows, &plan, 1.5).len() == plan.steps.len();
    let has_one_objective = units_at_percentiles(&config(), &windows).len() <= 1;
    let _ = self_check::self_check(&config(), &windows, 1);
    has_outlooks && has_one_objective
}

fn unaltered() -> Vec<(Arm, OfPod)> {
    let pod = |arm, name, slower| (arm, altered(written(name, slower), &[]).expect("evidence"));
    vec![pod(Arm::Stable, "s0", 0), pod(Arm::Stable, "s1", 1), pod(Arm::Canary, "c0", 0)]
}

#[test]
fn evidence_that_nothing_was_altered_in_is_read_and_judged() {
    let pods = unaltered();
    assert!(pods.iter().all(|(_, pod)| pod.check().is_ok()));
    assert_eq!(windows(&pods, 20.0).len() as u64, WINDOWS);
    assert!(carries_on(&pods));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(384))]

    #[test]
    fn no_evidence_makes_the_judge_panic_or_forget(
        changes in prop::collection::vec((any::<usize>(), any::<usize>()), 1..12), arm in 0_usize..3,
    ) {
        let mut pods = unaltered();
        let name = pods[arm].1.pod.clone();
        if let Some(pod) = altered(written(&name, 0), &changes) {
            // The operator leaves out what is implausible; the judge must bear it all the same.
            let _ = pod.check();
            pods[arm].1 = pod;
            prop_assert!(carries_on(&pods));
        }
    }

    #[test]
    fn no_bytes_make_the_reader_of_evidence_panic(cut in any::<usize>(), at in any::<usize>(), byte in any::<u8>()) {
        let mut text = written("s0", 0).to_string().into_bytes();
        text.truncate(cut % text.len() + 1);
        let at = at % text.len();
        text[at] = byte;
        if let Ok(pod) = serde_json::from_slice::<OfPod>(&text) {
            let _ = pod.check();
        }
    }
}
