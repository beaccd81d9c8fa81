//! Whatever a pod writes: what the operator takes for plausible is remembered and added up without a panic.

use proptest::prelude::*;
use serde_json::{Value, json};
use slipway_vocabulary::evidence::{Evidence, Metric, window_end};

use super::cluster::world;
use crate::agent_deployment::monitoring::{
    counted::{CountedHour, Keep},
    load::ObservedLoad,
    observed_objectives::ObservedObjectives,
};

const FIRST_WINDOW: u64 = 178_900_000;
const WINDOWS: u64 = 4;

/// What a pod with a GPU counts, with every metric.
fn written() -> Value {
    let metric = |metric: &Metric| {
        json!({
            "metric": metric, "unit": "Run", "started": 40, "newSessions": 7, "inFlight": 3,
            "oldestInFlightMicroseconds": 31_000_000, "inFlightAges": [[1, 2], [3, 1]], "count": 38, "errors": 1,
            "sumMicroseconds": 400_000, "buckets": [[500, 20], [520, 17]],
        })
    };
    let gpu = json!({
        "gpu": 0, "samples": 50, "slowed": [["Heat", 20]], "xids": [13], "utilizationPercent": 70,
        "memoryUsedMib": 40_000, "powerWatts": 400, "clockMhz": 1_500, "maxClockMhz": 1_980,
    });
    let window = |n| {
        json!({
            "id": FIRST_WINDOW + n, "metrics": Metric::ALL.iter().map(metric).collect::<Vec<_>>(), "gpus": [gpu],
            "load": {"runMicroseconds": 30_000_000, "modelRequestMicroseconds": 20_000_000},
        })
    };
    json!({
        "version": 2, "revision": "r", "pod": "p", "startedAt": "2026-01-01T00:00:00Z",
        "windows": (0..WINDOWS).map(window).collect::<Vec<_>>(),
    })
}

/// What stands in the place of a number: what pods count, the most that is plausible, and what is not.
const STRANGE: [u64; 10] =
    [0, 1, 37, 79, 100_000, 1_000_000_000, 1_000_000_001, FIRST_WINDOW + 1, 4_294_967_295, u64::MAX];

fn numbers<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    match value {
        Value::Number(_) => found.push(value),
        Value::Array(all) => all.iter_mut().for_each(|of| numbers(of, found)),
        Value::Object(all) => all.values_mut().for_each(|of| numbers(of, found)),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The evidence with some of its numbers replaced, where it still is evidence that a pod can have counted.
fn altered(changes: &[(usize, usize)]) -> Option<Evidence> {
    let mut pod = written();
    let mut found = Vec::new();
    numbers(&mut pod, &mut found);
    let count = found.len();
    for (which, strange) in changes {
        *found[which % count] = Value::from(STRANGE[strange % STRANGE.len()]);
    }
    let pod: Evidence = serde_json::from_value(pod).ok()?;
    pod.check().is_ok().then_some(pod)
}

/// Reads it in each way in which the operator does. Whether what is remembered knows of broken GPUs what the pod says.
fn is_read(pod: &Evidence) -> bool {
    let spec = world().world.spec;
    let mut hour = CountedHour::new(Keep::of(&spec));
    let _ = hour.add(pod, 0);
    let now = window_end(pod.windows.last().map_or(FIRST_WINDOW, |window| window.id)) + 5;
    for load in [ObservedLoad::of([Some(pod)]), ObservedLoad::of_hours([Some(&hour)])] {
        for look in load.past(now, 3_600).flatten().chain(load.present(now)) {
            let _ = (look.with_refused(8), look.is_busy_with_the_model());
        }
    }
    let text = "{name: run, metric: AgentRunLatency, percentile: p95, max: 2s}";
    let objective = serde_norway::from_str(text).expect("an objective");
    for observed in [ObservedObjectives::of([pod]), ObservedObjectives::of_hours([&hour])] {
        let _ = observed.surely_missed(&objective);
    }
    let faults = pod.windows.iter().flat_map(|window| &window.gpus).flat_map(|gpu| gpu.faults()).count();
    let broken = pod.windows.iter().flat_map(|window| &window.gpus).any(|gpu| gpu.broken().is_some());
    (faults > 0 || !broken) && broken != hour.broken().is_empty()
}

#[test]
fn evidence_that_nothing_was_altered_in_is_read() {
    let pod = altered(&[]).expect("it is plausible");
    assert!(is_read(&pod));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_evidence_makes_the_operator_panic(
        changes in prop::collection::vec((any::<usize>(), any::<usize>()), 1..6),
    ) {
        if let Some(pod) = altered(&changes) {
            prop_assert!(is_read(&pod));
        }
    }
}
