use pretty_assertions::assert_eq;

use super::{Evidence, Load, Metric, MetricWindow, Unit, VERSION, Window};
use crate::evidence::{window_end, window_id};

fn evidence() -> Evidence {
    Evidence {
        version: VERSION,
        revision: "r7".into(),
        pod: "agent-r7-0".into(),
        started_at: "2026-11-21T09:00:00Z".into(),
        windows: vec![Window {
            id: 178_000_000,
            metrics: vec![MetricWindow {
                metric: Metric::TimeToFirstToken,
                unit: Unit::Request,
                stratum: "miss/p11/f2".into(),
                started: 4,
                new_sessions: 1,
                in_flight: 2,
                oldest_in_flight_microseconds: 21_500_000,
                in_flight_ages: Some(vec![(2, 1)]),
                count: 3,
                errors: 1,
                sum_microseconds: 501_000,
                buckets: [1_000, 500_000].into_iter().collect(),
            }],
            load: Some(Load { run_microseconds: 9_000_000, model_request_microseconds: 6_500_000 }),
            gpus: Vec::new(),
        }],
    }
}

#[test]
fn the_wire_form_has_the_documented_names() {
    let expected = concat!(
        r#"{"version":2,"revision":"r7","pod":"agent-r7-0","startedAt":"2026-11-21T09:00:00Z","windows":[{"id":178000000,"metrics":["#,
        r#"{"metric":"TimeToFirstToken","unit":"Request","stratum":"miss/p11/f2","started":4,"newSessions":1,"inFlight":2,"#,
        r#""oldestInFlightMicroseconds":21500000,"inFlightAges":[[2,1]],"count":3,"errors":1,"sumMicroseconds":501000,"buckets":[[318,1],[605,1]]}],"#,
        r#""load":{"runMicroseconds":9000000,"modelRequestMicroseconds":6500000}}]}"#,
    );
    assert_eq!(serde_json::to_string(&evidence()).unwrap(), expected);
    assert_eq!(serde_json::from_str::<Evidence>(expected).unwrap(), evidence());
}

#[test]
fn a_newer_pod_may_add_fields() {
    let text = r#"{"metric":"ModelTime","unit":"Run","count":1,"errors":0,"fresh":true}"#;
    let read: MetricWindow = serde_json::from_str(text).unwrap();
    assert_eq!((read.metric, read.count, read.stratum.as_str()), (Metric::ModelTime, 1, ""));
}

#[test]
fn an_older_pod_says_no_version_and_no_ages() {
    let evidence: Evidence =
        serde_json::from_str(r#"{"revision":"r","pod":"p","startedAt":"t","windows":[]}"#).unwrap();
    assert_eq!(evidence.version, 1);
    let ages = |in_flight: u64| {
        let text = format!(r#"{{"metric":"ModelTime","unit":"Run","inFlight":{in_flight},"count":1,"errors":0}}"#);
        serde_json::from_str::<MetricWindow>(&text).unwrap().ages()
    };
    assert_eq!([ages(0), ages(3)], [Some(Vec::new()), None], "nothing in flight has no age");
}

#[test]
fn the_first_token_that_an_older_pod_reports_is_the_worst_of_the_runs_requests() {
    let read = |version: &str| {
        let metric = r#"{"metric":"TimeToFirstToken","unit":"Run","count":3,"errors":0}"#;
        let text = format!(
            r#"{{{version}"revision":"r","pod":"p","startedAt":"t","windows":[{{"id":7,"metrics":[{metric}]}}]}}"#
        );
        let evidence: Evidence = serde_json::from_str(&text).unwrap();
        (evidence.windows[0].metrics[0].metric, evidence.has_time_to_first_token())
    };
    assert_eq!(read(""), (Metric::RequestTimeToFirstToken, false));
    assert_eq!(read(r#""version":1,"#), (Metric::RequestTimeToFirstToken, false));
    assert_eq!(read(r#""version":2,"#), (Metric::TimeToFirstToken, true));
}

#[test]
fn a_pod_that_does_not_count_its_load_says_nothing_of_it() {
    let window: Window = serde_json::from_str(r#"{"id":7,"metrics":[]}"#).unwrap();
    assert_eq!(window, Window { id: 7, metrics: Vec::new(), load: None, gpus: Vec::new() });
    assert_eq!(serde_json::to_string(&window).unwrap(), r#"{"id":7,"metrics":[]}"#);
}

#[test]
fn every_metric_is_named_as_it_is_written() {
    for metric in Metric::ALL {
        assert_eq!(serde_json::to_string(&metric).unwrap(), format!("\"{metric}\""));
    }
}

#[test]
fn windows_are_aligned_to_ten_seconds() {
    assert_eq!((window_id(1_789_000_009), window_id(1_789_000_010)), (178_900_000, 178_900_001));
    assert_eq!(window_end(178_900_000), 1_789_000_010);
}
