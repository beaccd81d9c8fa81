use pretty_assertions::assert_eq;

use super::*;
use crate::evidence::{Histogram, Load, Metric, Unit};

/// A pod that finished two runs in window 100, one of them with an error.
fn pod() -> Evidence {
    Evidence {
        version: VERSION,
        revision: "r1".into(),
        pod: "p1".into(),
        started_at: "t".into(),
        windows: vec![window(100)],
    }
}

fn window(id: u64) -> Window {
    let metric = MetricWindow {
        metric: Metric::AgentRunLatency,
        unit: Unit::Run,
        stratum: String::new(),
        started: 2,
        new_sessions: 1,
        in_flight: 0,
        oldest_in_flight_microseconds: 0,
        in_flight_ages: None,
        count: 2,
        errors: 1,
        sum_microseconds: 5,
        buckets: Histogram::from_iter([5]),
    };
    Window { id, metrics: vec![metric], load: Some(Load::default()), gpus: Vec::new() }
}

/// What is said of a pod whose only window was changed.
fn said(change: impl FnOnce(&mut Window)) -> String {
    let mut pod = pod();
    change(&mut pod.windows[0]);
    pod.check().map_or_else(|implausible| implausible.to_string(), |()| "plausible".to_owned())
}

#[test]
fn what_a_pod_counts_is_plausible() {
    assert_eq!(pod().check(), Ok(()));
    assert_eq!(said(|window| window.metrics.clear()), "plausible");
}

#[test]
fn counts_that_nothing_could_have_reached_are_named_with_their_window() {
    assert_eq!(
        said(|window| window.metrics[0].count = u64::MAX),
        "window 100 reports count 18446744073709551615: too large for ten seconds"
    );
    assert_eq!(
        said(|window| window.metrics[0].started = MOST_UNITS + 1),
        "window 100 reports started 1000000001: too large for ten seconds"
    );
    assert_eq!(
        said(|window| window.metrics[0].sum_microseconds = u64::MAX),
        "window 100 reports sumMicroseconds 18446744073709551615: too large for ten seconds"
    );
    let load = Load { run_microseconds: u64::MAX, model_request_microseconds: 0 };
    assert_eq!(
        said(|window| window.load = Some(load)),
        "window 100 reports runMicroseconds 18446744073709551615: too large for ten seconds"
    );
}

#[test]
fn errors_and_values_are_parts_of_what_finished() {
    assert_eq!(
        said(|window| window.metrics[0].errors = 2),
        "window 100 reports 3 errors and values of 2 finished units"
    );
}

#[test]
fn only_what_is_in_flight_has_an_age() {
    let aged = |in_flight: u64, ages: Vec<(u16, u64)>| {
        said(|window| (window.metrics[0].in_flight, window.metrics[0].in_flight_ages) = (in_flight, Some(ages)))
    };
    assert_eq!(aged(3, vec![(1, 2), (7, 1)]), "plausible");
    assert_eq!(aged(2, vec![(1, 2), (7, 1)]), "window 100 reports ages of 3 units of 2 in flight");
    let many = "window 100 reports ages of 18446744073709551615 units of 2 in flight";
    assert_eq!(aged(2, vec![(1, u64::MAX), (2, u64::MAX)]), many);
}

#[test]
fn evidence_of_a_later_version_is_refused_with_what_helps() {
    let later = Evidence { version: 9, ..pod() };
    let words = "version 9 of the evidence is later than 2, the latest that is known here: upgrade the operator and \
                 kubectl-slipway";
    assert_eq!(later.check().map_err(|implausible| implausible.to_string()), Err(words.to_owned()));
}

#[test]
fn windows_are_as_many_as_a_pod_keeps_and_in_order() {
    let mut many = pod();
    many.windows = (0..361).map(window).collect();
    assert_eq!(many.check(), Err(Implausible::Windows { windows: 361 }));
    many.windows.truncate(360);
    assert_eq!(many.check(), Ok(()));
    many.windows.swap(0, 1);
    assert_eq!(many.check(), Err(Implausible::Order { id: 0 }));
    assert_eq!(said(|window| window.id = u64::MAX), "window 18446744073709551615 is out of order");
}

#[test]
fn a_window_has_no_more_metrics_than_exist() {
    let metric = window(100).metrics.remove(0);
    assert_eq!(
        said(|window| window.metrics = vec![metric; MOST_METRICS + 1]),
        "window 100 has 4097 metrics: 4096 are possible"
    );
}
