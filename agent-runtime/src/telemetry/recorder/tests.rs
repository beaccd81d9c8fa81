use std::time::Duration;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_runtime_config::{LatencyMetric, Percentile};
use slipway_vocabulary::evidence::{CacheState, Load};

use super::*;
use crate::telemetry::Waiting;

/// The first second of window 177000000.
const START: Timestamp = Timestamp::from_micros(1_770_000_000_000_000);

fn at(seconds: f64) -> Timestamp {
    START.plus(Duration::from_secs_f64(seconds))
}

fn stratum() -> Stratum {
    Stratum::new(CacheState::Miss, 100, 1)
}

fn recorder() -> Recorder {
    let objective = |name: &str, metric, max_microseconds| LatencyObjective {
        name: name.into(),
        metric,
        percentile: Percentile::P99,
        max_microseconds,
    };
    let objectives = vec![
        objective("answer", LatencyMetric::AgentRunLatency, 4_000_000),
        objective("token", LatencyMetric::RequestTimeToFirstToken, 300_000),
    ];
    Recorder::new(Identity { revision: "agent-1".into(), pod: "agent-1-x".into() }, objectives, START)
}

fn two_seconds() -> RunValues {
    RunValues {
        run_micros: 2_000_000,
        model_micros: 1_500_000,
        tool_micros: 400_000,
        worst_request_micros: Some(800_000),
        first_token_micros: Some(1_900_000),
        worst_request_first_token_micros: Some(90_000),
        worst_inter_token_micros: None,
        model_calls: 2,
        output_tokens: 40,
    }
}

fn row(window: &Window, metric: Metric) -> MetricWindow {
    window.metrics.iter().find(|row| row.metric == metric).cloned().expect("the metric has a row")
}

fn empty(metric: Metric) -> MetricWindow {
    Counts::default().into_row(metric, stratum())
}

#[test]
fn a_window_is_reported_once_it_has_ended() {
    let mut recorder = recorder();
    let unit = recorder.start(at(1.0), stratum(), Session::New, Delivery::InParts);
    recorder.finish(at(3.0), unit, Completion::Succeeded(two_seconds()));
    assert_eq!(recorder.evidence(at(9.999_999), None).windows, []);
    let evidence = recorder.evidence(at(10.0), None);
    assert_eq!(evidence.windows.len(), 1);
    assert_eq!(evidence.windows[0].id, 177_000_000);
    let expected = MetricWindow {
        started: 1,
        new_sessions: 1,
        count: 1,
        sum_microseconds: 2_000_000,
        buckets: Histogram::from_iter([2_000_000]),
        ..empty(Metric::AgentRunLatency)
    };
    assert_eq!(row(&evidence.windows[0], Metric::AgentRunLatency), expected);
}

#[test]
fn the_answer_is_what_the_operator_reads() {
    let mut recorder = recorder();
    let unit = recorder.start(at(1.0), stratum(), Session::New, Delivery::InParts);
    recorder.finish(at(3.0), unit, Completion::Succeeded(two_seconds()));
    recorder.start(at(9.0), stratum(), Session::Continued, Delivery::InParts);
    recorder.shed(at(9.5), stratum());
    insta::assert_json_snapshot!(recorder.evidence(at(20.0), None));
}

#[test]
fn each_window_is_read_once_and_idle_ones_are_present() {
    let mut recorder = recorder();
    let ids = |evidence: Evidence| evidence.windows.iter().map(|window| window.id - 177_000_000).collect::<Vec<_>>();
    assert_eq!(ids(recorder.evidence(at(30.0), None)), [0, 1, 2]);
    assert_eq!(ids(recorder.evidence(at(45.0), Some(177_000_002))), [3]);
    assert_eq!(ids(recorder.evidence(at(45.0), Some(177_000_003))), [0; 0]);
}

#[test]
fn counts_are_awaited_by_who_asked_lately_until_they_are_read() {
    let mut recorder = recorder();
    let unit = recorder.start(at(1.0), stratum(), Session::New, Delivery::InParts);
    recorder.finish(at(3.0), unit, Completion::Succeeded(two_seconds()));
    assert!(!recorder.is_awaited(at(4.0)), "nobody has ever asked");
    recorder.evidence(at(5.0), None);
    assert!(recorder.is_awaited(at(6.0)), "the window is still open");
    assert!(recorder.is_awaited(at(11.0)), "it has ended, and was not read");
    recorder.evidence(at(12.0), None);
    assert!(!recorder.is_awaited(at(13.0)), "it was read");
    assert!(!recorder.is_awaited(at(25.0)), "windows without counts are not waited for");
    recorder.shed(at(26.0), stratum());
    assert!(recorder.is_awaited(at(71.0)));
    assert!(!recorder.is_awaited(at(72.0)), "whoever asked asks no more");
}

#[test]
fn an_hour_is_kept() {
    let mut recorder = recorder();
    let unit = recorder.start(at(1.0), stratum(), Session::New, Delivery::InParts);
    recorder.finish(at(2.0), unit, Completion::Failed);
    let windows = recorder.evidence(at(3_600.0), None).windows;
    assert_eq!((windows.len(), windows[0].id), (360, 177_000_000));
    let windows = recorder.evidence(at(86_400.0), None).windows;
    assert_eq!((windows.len(), windows[0].id), (360, 177_000_000 + 8_640 - 360));
    assert!(windows.iter().all(|window| window.metrics.is_empty()));
}

#[test]
fn what_is_in_flight_at_a_windows_end_has_its_age() {
    let mut recorder = recorder();
    recorder.start(at(4.0), stratum(), Session::New, Delivery::InParts);
    let late = recorder.start(at(7.0), stratum(), Session::New, Delivery::InParts);
    recorder.finish(at(11.0), late, Completion::Failed);
    let windows = recorder.evidence(at(20.0), None).windows;
    let in_flight = |window| {
        let row = row(window, Metric::AgentRunLatency);
        (row.in_flight, row.oldest_in_flight_microseconds)
    };
    assert_eq!(in_flight(&windows[0]), (2, 6_000_000));
    assert_eq!(in_flight(&windows[1]), (1, 16_000_000));
}

#[test]
fn the_age_of_a_run_is_the_number_of_windows_that_ended_since_it_started() {
    let mut recorder = recorder();
    for start in [0.0, 4.0, 19.0, 20.0] {
        recorder.start(at(start), stratum(), Session::New, Delivery::InParts);
    }
    let windows = recorder.evidence(at(40.0), None).windows;
    let ages = |window| row(window, Metric::AgentRunLatency).in_flight_ages.clone();
    let expected = [vec![], vec![(1, 2)], vec![(1, 1), (2, 2)], vec![(1, 1), (2, 1), (3, 2)]].map(Some);
    assert_eq!([0, 1, 2, 3].map(|window: usize| ages(&windows[window])), expected);
}

/// A slow call of the past makes no other run of the pod old.
#[test]
fn each_run_in_flight_has_an_age_of_its_own() {
    let mut recorder = recorder();
    let slow = recorder.start(at(0.0), stratum(), Session::New, Delivery::InParts);
    let waiting = Waiting::Model { since: at(0.0), has_first_token: false };
    recorder.progress(at(0.0), slow, Progress { waiting, ..Progress::default() });
    for start in [1.0, 2.0, 3.0] {
        recorder.start(at(start), stratum(), Session::New, Delivery::InParts);
    }
    let windows = recorder.evidence(at(30.0), None).windows;
    let ages = |metric| row(&windows[2], metric).in_flight_ages.clone();
    assert_eq!(ages(Metric::AgentRunLatency), Some(vec![(2, 4)]));
    assert_eq!(ages(Metric::RequestLatency), Some(vec![(2, 1)]));
    assert_eq!(ages(Metric::OutputTokensPerRun), Some(Vec::new()));
}

#[test]
fn a_wait_for_the_first_token_of_a_request_shows_before_it_ends_and_not_after() {
    let mut recorder = recorder();
    let unit = recorder.start(at(0.0), stratum(), Session::New, Delivery::InParts);
    let waiting = |since, has_first_token| Waiting::Model { since: at(since), has_first_token };
    recorder.progress(at(8.0), unit, Progress { waiting: waiting(8.0, false), ..Progress::default() });
    let first_token =
        Progress { worst_request_first_token_micros: 3_000_000, waiting: waiting(8.0, true), ..Progress::default() };
    recorder.progress(at(11.0), unit, first_token);
    let windows = recorder.evidence(at(20.0), None).windows;
    let oldest = |window, metric| row(window, metric).oldest_in_flight_microseconds;
    assert_eq!(oldest(&windows[0], Metric::RequestTimeToFirstToken), 2_000_000);
    assert_eq!(oldest(&windows[1], Metric::RequestTimeToFirstToken), 3_000_000);
    assert_eq!(oldest(&windows[1], Metric::RequestLatency), 12_000_000);
    assert_eq!(oldest(&windows[1], Metric::ToolTime), 0);
}

#[test]
fn what_is_carried_is_added_up_over_time() {
    let mut recorder = recorder();
    let waiting = |waiting| Progress { waiting, ..Progress::default() };
    let model = |since| waiting(Waiting::Model { since: at(since), has_first_token: false });
    let loads = |recorder: &mut Recorder, now| {
        let windows = recorder.evidence(at(now), None).windows;
        windows.into_iter().map(|window| window.load.expect("it is counted")).collect::<Vec<_>>()
    };
    let one = recorder.start(at(0.0), stratum(), Session::New, Delivery::InParts);
    recorder.progress(at(1.0), one, model(1.0));
    let other = recorder.start(at(4.0), stratum(), Session::New, Delivery::InParts);
    recorder.progress(at(4.0), other, model(4.0));
    // The first token changes nothing, a tool does.
    recorder.progress(at(5.0), one, waiting(Waiting::Model { since: at(1.0), has_first_token: true }));
    recorder.progress(at(7.0), one, waiting(Waiting::Tools { since: at(7.0) }));
    assert_eq!(recorder.model_requests_in_flight(), 1);
    let first = Load { run_microseconds: 16_000_000, model_request_microseconds: 12_000_000 };
    assert_eq!(loads(&mut recorder, 10.0), [first]);
    recorder.finish(at(12.0), one, Completion::Failed);
    recorder.finish(at(13.0), other, Completion::Cancelled);
    let second = Load { run_microseconds: 5_000_000, model_request_microseconds: 3_000_000 };
    assert_eq!(loads(&mut recorder, 30.0), [first, second, Load::default()]);
}

#[test]
fn what_is_in_flight_for_longer_than_the_ring_counts_once_in_each_window() {
    let mut recorder = recorder();
    recorder.start(at(1.0), stratum(), Session::New, Delivery::InParts);
    let windows = recorder.evidence(at(86_400.0), None).windows;
    let full = Load { run_microseconds: 10_000_000, model_request_microseconds: 0 };
    assert!(windows.iter().all(|window| window.load == Some(full)), "{windows:?}");
}

#[test]
fn failures_count_in_every_metric_and_fill_no_bucket() {
    let mut recorder = recorder();
    let unit = recorder.start(at(0.0), stratum(), Session::Continued, Delivery::InParts);
    let judged = recorder.finish(at(1.0), unit, Completion::Failed);
    assert_eq!(judged, [("answer".into(), false), ("token".into(), false)]);
    let windows = recorder.evidence(at(10.0), None).windows;
    let expected = RUN_METRICS.map(|metric| MetricWindow { started: 1, count: 1, errors: 1, ..empty(metric) });
    assert_eq!(windows[0].metrics, expected);
}

#[test]
fn a_cancel_within_the_objectives_is_a_series_of_its_own() {
    let mut recorder = recorder();
    let unit = recorder.start(at(0.0), stratum(), Session::Continued, Delivery::InParts);
    assert_eq!(recorder.finish(at(3.0), unit, Completion::Cancelled), []);
    let window = recorder.evidence(at(10.0), None).windows.remove(0);
    let buckets = Histogram::from_iter([3_000_000]);
    let cancelled = MetricWindow { count: 1, sum_microseconds: 3_000_000, buckets, ..empty(Metric::Cancelled) };
    assert_eq!(row(&window, Metric::Cancelled), cancelled);
    assert_eq!(row(&window, Metric::AgentRunLatency), MetricWindow { started: 1, ..empty(Metric::AgentRunLatency) });
}

#[test]
fn a_cancel_past_an_objective_is_an_error() {
    let mut recorder = recorder();
    let slow = recorder.start(at(0.0), stratum(), Session::Continued, Delivery::InParts);
    assert_eq!(recorder.finish(at(4.1), slow, Completion::Cancelled), [("answer".into(), false)]);
    let mute = recorder.start(at(5.0), stratum(), Session::Continued, Delivery::InParts);
    let waiting = Waiting::Model { since: at(5.0), has_first_token: false };
    recorder.progress(at(5.0), mute, Progress { waiting, ..Progress::default() });
    assert_eq!(recorder.finish(at(5.5), mute, Completion::Cancelled), [("token".into(), false)]);
    let window = recorder.evidence(at(10.0), None).windows.remove(0);
    assert_eq!(row(&window, Metric::AgentRunLatency).errors, 2);
    assert!(window.metrics.iter().all(|row| row.metric != Metric::Cancelled));
}

#[test]
fn a_user_waits_for_the_first_token_from_the_start_of_the_run_until_the_answer_begins() {
    let mut recorder = recorder();
    let unit = recorder.start(at(1.0), stratum(), Session::New, Delivery::InParts);
    let waiting = Waiting::Tools { since: at(2.0) };
    recorder.progress(at(2.0), unit, Progress { waiting, ..Progress::default() });
    let answering = Progress { first_token_micros: Some(14_000_000), ..Progress::default() };
    recorder.progress(at(15.0), unit, answering);
    let windows = recorder.evidence(at(20.0), None).windows;
    let oldest = |window| row(window, Metric::TimeToFirstToken).oldest_in_flight_microseconds;
    assert_eq!([oldest(&windows[0]), oldest(&windows[1])], [9_000_000, 14_000_000]);
}

#[test]
fn objectives_judge_the_values_of_a_success() {
    let mut recorder = recorder();
    let unit = recorder.start(at(0.0), stratum(), Session::New, Delivery::InParts);
    let values = RunValues { worst_request_first_token_micros: Some(300_001), ..two_seconds() };
    let judged = recorder.finish(at(2.0), unit, Completion::Succeeded(values));
    assert_eq!(judged, [("answer".into(), true), ("token".into(), false)]);
}

#[test]
fn a_run_is_counted_once() {
    let mut recorder = recorder();
    let unit = recorder.start(at(0.0), stratum(), Session::New, Delivery::InParts);
    recorder.finish(at(1.0), unit, Completion::Failed);
    assert_eq!(recorder.finish(at(1.0), unit, Completion::Cancelled), []);
    let window = recorder.evidence(at(10.0), None).windows.remove(0);
    assert_eq!(row(&window, Metric::AgentRunLatency).count, 1);
}

proptest! {
    #[test]
    fn what_started_finished_was_cancelled_or_is_in_flight(
        runs in prop::collection::vec((0.0_f64..100.0, 0.0_f64..60.0, 0_u8..3, 1_u64..9), 0..40),
    ) {
        let mut changes: Vec<_> = runs.iter().enumerate()
            .flat_map(|(i, (start, length, _, _))| [(*start, i, true), (start + length, i, false)]).collect();
        changes.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
        let mut recorder = recorder();
        let mut units = std::collections::HashMap::new();
        let end = 120.0;
        for (time, run, is_start) in changes.into_iter().filter(|(time, _, _)| *time < end) {
            let (_, _, kind, in_flight) = runs[run];
            if is_start {
                let stratum = Stratum::new(CacheState::Miss, 1, in_flight);
                units.insert(run, recorder.start(at(time), stratum, Session::New, Delivery::InParts));
            } else if let Some(unit) = units.get(&run) {
                let completion = match kind {
                    0 => Completion::Succeeded(two_seconds()),
                    1 => Completion::Failed,
                    _ => Completion::Cancelled,
                };
                recorder.finish(at(time), *unit, completion);
            }
        }
        let windows = recorder.evidence(at(end), None).windows;
        let total = |field: fn(&MetricWindow) -> u64, metric: Metric| -> u64 {
            windows.iter().flat_map(|w| &w.metrics).filter(|row| row.metric == metric).map(field).sum()
        };
        let last = windows.last().expect("time has passed");
        let in_flight: u64 =
            last.metrics.iter().filter(|row| row.metric == Metric::AgentRunLatency).map(|row| row.in_flight).sum();
        let finished = total(|row| row.count, Metric::AgentRunLatency) + total(|row| row.count, Metric::Cancelled);
        prop_assert_eq!(total(|row| row.started, Metric::AgentRunLatency), finished + in_flight);
        for row in windows.iter().flat_map(|window| &window.metrics).filter(|row| row.metric != Metric::RunSuccess) {
            prop_assert_eq!(row.buckets.count(), row.count - row.errors);
        }
    }
}

/// Nobody saw its first token: as a unit of that metric it would seem to hang, and then to be lost.
#[test]
fn a_run_whose_answers_come_as_one_is_no_unit_of_metrics_of_tokens() {
    let mut recorder = recorder();
    let whole = recorder.start(at(1.0), stratum(), Session::New, Delivery::Whole);
    recorder.start(at(2.0), stratum(), Session::New, Delivery::Whole);
    let values = RunValues { first_token_micros: None, worst_request_first_token_micros: None, ..two_seconds() };
    recorder.finish(at(3.0), whole, Completion::Succeeded(values));
    let failed = recorder.start(at(4.0), stratum(), Session::New, Delivery::Whole);
    recorder.finish(at(5.0), failed, Completion::Failed);
    let evidence = recorder.evidence(at(10.0), None);
    let [window] = evidence.windows.as_slice() else { panic!("one window has ended: {evidence:?}") };
    let metrics: Vec<Metric> = window.metrics.iter().map(|row| row.metric).collect();
    let all = RUN_METRICS.into_iter().filter(|metric| !is_of_tokens(*metric));
    let mut expected: Vec<Metric> = all.collect();
    expected.sort();
    assert_eq!(metrics, expected);
    let latency = row(window, Metric::RequestLatency);
    assert_eq!((latency.started, latency.count, latency.errors, latency.in_flight), (3, 2, 1, 1));
}
