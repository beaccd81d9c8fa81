use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_vocabulary::{
    Percentile,
    evidence::{Histogram, Metric, MetricWindow, Unit},
};

use super::{
    StateError,
    codec::{z85_decode, z85_encode},
};
use crate::judge::{Arm, Config, CountedObjective, Judge, Observation, Window};

fn state() -> String {
    let mut judge = Judge::new(Config::default());
    judge.consume(&Window { end_seconds: 10, weight_percent: Some(5.0), ..Window::default() });
    judge.encode()
}

#[test]
fn a_fresh_judge_resumes() {
    let judge = Judge::new(Config::default());
    assert_eq!(Judge::resume(Config::default(), &judge.encode()), Ok(judge));
}

#[test]
fn a_state_of_another_version_says_which() {
    let error = Judge::resume(Config::default(), "7:00000").unwrap_err();
    assert_eq!(error.to_string(), "stored state has version \"7\", this program reads version \"2\"");
}

#[test]
fn a_state_of_another_configuration_is_refused() {
    let other = Config { margin_bins: 6, ..Config::default() };
    let error = Judge::resume(other, &state()).unwrap_err();
    assert_eq!(error.to_string(), "stored state belongs to another configuration or baseline");
}

#[test]
fn a_damaged_state_is_refused() {
    let state = state();
    let cut = &state[..state.len() - 9];
    assert!(matches!(Judge::resume(Config::default(), cut), Err(StateError::Damaged { .. })));
    let changed = state.replacen('0', "1", 1);
    assert!(matches!(Judge::resume(Config::default(), &changed), Err(StateError::Damaged { .. })));
    let error = Judge::resume(Config::default(), "2:00000\"0000").unwrap_err();
    assert_eq!(error.to_string(), "stored state is damaged at byte 5");
}

/// The test case of ZeroMQ RFC 32.
#[test]
fn z85_is_that_of_the_rfc() {
    let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
    assert_eq!(z85_encode(&bytes), "HelloWorld");
    assert_eq!(z85_decode("HelloWorld").unwrap(), bytes);
}

proptest! {
    #[test]
    fn z85_reads_back(words in prop::collection::vec(any::<[u8; 4]>(), 0..30)) {
        let bytes = words.concat();
        prop_assert_eq!(z85_decode(&z85_encode(&bytes)).unwrap(), bytes);
    }

    #[test]
    fn no_text_makes_reading_panic(text in "(1:)?[ -~]{0,200}") {
        let _ = Judge::resume(Config::default(), &text);
    }
}

/// What a release wrote whose fingerprint and codes were those of derived texts and positions.
const STORED: &str = include_str!("stored.txt");

/// A judge with an objective that has seen a few windows of both arms.
fn seen() -> (Config, Judge) {
    let objective =
        CountedObjective { metric: Metric::AgentRunLatency, percentile: Percentile::P95, max_microseconds: 500_000 };
    let config = Config { objectives: vec![objective], error_rate_max: Some(0.02), ..Config::default() };
    let mut judge = Judge::new(config.clone());
    for window in 1..4 {
        let observation = |arm, pod: &str| Observation {
            new_sessions: 20,
            ..Observation::from_evidence(
                arm,
                pod,
                &MetricWindow {
                    metric: Metric::AgentRunLatency,
                    unit: Unit::Run,
                    stratum: "miss/p9/f0".to_owned(),
                    started: 40,
                    new_sessions: 20,
                    in_flight: 1,
                    oldest_in_flight_microseconds: 0,
                    count: 40,
                    errors: 1,
                    sum_microseconds: 0,
                    buckets: Histogram::from_pairs([(500, 30), (540, 9)]).unwrap(),
                },
            )
        };
        judge.consume(&Window {
            end_seconds: window * 10,
            weight_percent: Some(5.0),
            observations: vec![observation(Arm::Stable, "stable-0"), observation(Arm::Canary, "canary-0")],
            ..Window::default()
        });
    }
    (config, judge)
}

#[test]
fn a_state_of_an_earlier_release_goes_on_where_it_ended() {
    let (config, judge) = seen();
    let resumed = Judge::resume(config, STORED.trim_end()).expect("a state of this configuration");
    assert_eq!((resumed.encode().as_str(), judge.encode().as_str()), (STORED.trim_end(), STORED.trim_end()));
}
