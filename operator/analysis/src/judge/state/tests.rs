use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_vocabulary::{Percentile, evidence::Metric};

use super::{
    StateError,
    codec::{z85_decode, z85_encode},
};
use crate::judge::{Config, CountedObjective, Judge, Verdict, Window, at_percentile::AtPercentile};

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
    assert_eq!(error.to_string(), "stored state has version \"7\", this program reads version \"2\", \"3\" or \"4\"");
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
    let error = Judge::resume(Config::default(), "4:00000\"0000").unwrap_err();
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
    fn no_text_makes_reading_panic(text in "([234]:)?[ -~]{0,200}") {
        let _ = Judge::resume(Config::default(), &text);
    }
}

/// A state with pods of both arms, a guard and a verdict, as releases wrote it whose fingerprint was that of a derived
/// text.
const STORED: &str = include_str!("stored.txt");

#[test]
fn a_state_of_an_earlier_release_goes_on_where_it_ended() {
    let judge = Judge::resume(Config::default(), STORED.trim_end()).expect("a state of this configuration");
    assert_eq!((judge.consumed_to(), judge.decided()), (100, Some((Verdict::Rollback, 90))));
    let now = judge.encode();
    assert_eq!(&now[..2], "4:");
    assert_eq!(Judge::resume(Config::default(), &now), Ok(judge));
}

/// What version 3 wrote at 5 % of the traffic, with an objective.
const STORED_V3: &str = include_str!("stored_v3.txt");

#[test]
fn a_state_of_version_3_keeps_its_evidence_but_for_the_percentile() {
    let objective =
        CountedObjective { metric: Metric::RequestLatency, percentile: Percentile::P95, max_microseconds: 900_000 };
    let config = || Config { objectives: vec![objective], ..Config::default() };
    let judge = Judge::resume(config(), STORED_V3.trim_end()).expect("a state of this configuration");
    assert_eq!((judge.consumed_to(), judge.decided(), judge.guards.len()), (1_789_000_140, None, 1));
    let guard = &judge.guards[0];
    assert_eq!(guard.non_inferior.at, AtPercentile::default());
    let of = |chain: usize| (guard.non_inferior.chains[chain].blocks, guard.non_inferior.chains[chain].sum);
    assert_eq!([of(0), of(1)], [0, 1].map(|chain| (guard.slow[chain].blocks, guard.slow[chain].sum)));
    assert!(guard.slow[0].blocks > 0, "{:?}", guard.slow);
    assert_eq!(Judge::resume(config(), &judge.encode()), Ok(judge));
}
