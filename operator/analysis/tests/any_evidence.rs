//! Evidence that nobody can have counted: the judge reads whatever the wire can carry, and never panics.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

use proptest::{prelude::*, sample::select};
use slipway_analysis::judge::{Arm, Config, CountedObjective, Judge, Observation, Reference, Window};
use slipway_vocabulary::{
    Percentile,
    evidence::{Evidence, Histogram, Metric, MetricWindow, Unit, window_end},
};

/// Counts: none, few, the most that are plausible and more, and the largest there are.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..3,
        0_u64..100,
        Just(1_000_000_000),
        Just(1_000_000_001),
        Just(u64::MAX - 1),
        Just(u64::MAX),
        any::<u64>()
    ]
}

fn buckets() -> impl Strategy<Value = Histogram> {
    prop::collection::vec((0_u16..2_048, count()), 0..4)
        .prop_map(|pairs| Histogram::from_pairs(pairs).unwrap_or_default())
}

prop_compose! {
    fn metric_window()(
        metric in select(Metric::ALL.to_vec()),
        unit in select(vec![Unit::Run, Unit::Request, Unit::Session]),
        stratum in select(vec!["", "miss/p1/f1", "cold/p1/f1", "////", "é"]),
        counts in prop::array::uniform7(count()),
        ages in prop::option::of(prop::collection::vec((any::<u16>(), count()), 0..4)),
        buckets in buckets(),
    ) -> MetricWindow {
        let [started, new_sessions, in_flight, oldest, count, errors, sum] = counts;
        MetricWindow {
            metric, unit, stratum: stratum.to_owned(), started, new_sessions, in_flight,
            oldest_in_flight_microseconds: oldest, in_flight_ages: ages, count, errors, sum_microseconds: sum, buckets,
        }
    }
}

prop_compose! {
    /// Counts that pods can have, and that reach far into the judge: at its thresholds, its processes and its memory.
    fn plausible_window()(
        mut window in metric_window(),
        counts in prop::array::uniform4(prop_oneof![0_u64..3, 0_u64..100, 0_u64..1_000_000_000]),
    ) -> MetricWindow {
        let [started, in_flight, count, errors] = counts;
        window.buckets = Histogram::from_pairs([(600, count - errors.min(count))]).unwrap();
        (window.started, window.in_flight, window.count, window.errors) = (started, in_flight, count, errors.min(count));
        window.new_sessions = started;
        window.in_flight_ages = Some(vec![(1, in_flight / 2), (7, in_flight / 2)]);
        window
    }
}

prop_compose! {
    fn window(of: impl Strategy<Value = MetricWindow>)(
        seconds in prop_oneof![9 => (0_u64..2_000).prop_map(window_end), 1 => Just(window_end(u64::MAX))],
        weights in prop::array::uniform2(prop::option::of(prop_oneof![
            0.0..100.0_f64, Just(f64::NAN), Just(f64::INFINITY), Just(-5.0), Just(100.0),
        ])),
        pods in prop::collection::vec((any::<bool>(), select(vec!["", "a@1", "a@2", "b", "c", "@"]), of), 0..8),
        ended in prop::collection::btree_set(select(vec!["a", "b@x", "", "@"]).prop_map(str::to_owned), 0..3),
    ) -> Window {
        let arm = |is_canary| if is_canary { Arm::Canary } else { Arm::Stable };
        Window {
            end_seconds: seconds,
            weight_percent: weights[0],
            reference_percent: weights[1],
            observations: pods.iter().map(|(is_canary, pod, metric)| Observation::from_evidence(arm(*is_canary), pod, metric)).collect(),
            ended_pods: ended,
        }
    }
}

fn config() -> Config {
    let objective = |metric| CountedObjective { metric, percentile: Percentile::P95, max_microseconds: 400_000 };
    Config {
        objectives: [Metric::AgentRunLatency, Metric::RequestLatency].map(objective).to_vec(),
        warm_up_seconds: 10,
        error_rate_max: Some(0.01),
        ..Config::default()
    }
}

/// Reads every window in order of time, and goes on from the memory after each.
fn judge(mut windows: Vec<Window>) {
    windows.sort_by_key(|window| window.end_seconds);
    let mut judge = Judge::new(config());
    for window in &windows {
        if let Some(judgement) = judge.consume(window) {
            assert!(!judgement.reason.to_string().contains("NaN"), "{judgement:?}");
        }
        judge.hold();
        assert!(!judge.ln_combined().is_nan());
        let _ = (judge.blame(), judge.split_mismatch(), judge.expected_time_to_verdict(Reference::Rest));
        let resumed = Judge::resume(config(), &judge.encode()).unwrap();
        assert_eq!(resumed, judge);
    }
    // Any answer will do, as long as there is one.
    let _ = judge.is_split_kept(&windows);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_the_wire_carries_is_read(windows in prop::collection::vec(window(metric_window()), 0..12)) {
        judge(windows);
    }

    #[test]
    fn whatever_pods_can_count_is_judged(windows in prop::collection::vec(window(plausible_window()), 0..40)) {
        judge(windows);
    }

    #[test]
    fn whatever_a_pod_answers_is_evidence_or_refused(text in r#"[\[\]{}",:0-9a-zA-Z]{0,60}"#, windows in prop::collection::vec(metric_window(), 0..3)) {
        let read = serde_json::from_str::<Evidence>(&text);
        prop_assert!(read.is_err() || read.unwrap().check().is_ok());
        let metrics = serde_json::to_string(&windows).unwrap();
        let text = format!(r#"{{"revision":"r","pod":"p","startedAt":"t","windows":[{{"id":7,"metrics":{metrics}}}]}}"#);
        if let Ok(evidence) = serde_json::from_str::<Evidence>(&text) {
            let _ = evidence.check();
        }
    }
}
