//! A canary whose tail alone is longer, and the number of units that the power calculation states beforehand. Below it
//! the judge says that there are too few. From it on such a canary is rarely promoted.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use slipway_vocabulary::evidence::{Quantile, bucket};

use super::*;
use crate::judge::{
    Reason,
    power::{UnitsAtPercentile, units_at_percentiles},
};

/// Units of each revision in a window.
const PER_WINDOW: u64 = 200;

fn bounded() -> Config {
    let objective =
        CountedObjective { metric: Metric::RequestLatency, percentile: Percentile::P95, max_microseconds: 60_000_000 };
    let step = Step { weight_percent: 50.0, min_soak_seconds: 60, max_soak_seconds: 7 * 24 * 3600 };
    Config { objectives: vec![objective], steps: vec![step], ..Config::default() }
}

/// Windows of equal shares; the canary's latencies above its p90 are `longer` times as long.
fn with_tail(seed: u64, windows: u64, longer: f64) -> Vec<Window> {
    let rollout = Rollout {
        per_window: 2 * PER_WINDOW,
        weights: vec![50.0],
        windows_per_step: windows,
        errors: [0, 0],
        ..rollout()
    };
    let mut windows = rollout.windows(seed);
    let mut canary = Histogram::new();
    let of_canary = |window: &Window| window.observations.iter().filter(|of| of.arm == Arm::Canary).cloned().collect();
    windows
        .iter()
        .flat_map(|window| -> Vec<Observation> { of_canary(window) })
        .for_each(|of| canary.merge(&of.buckets));
    let p90 = canary.quantile(Quantile::P90).expect("values").lower;
    // 15 % are 6 buckets, which are 13.9 %.
    let bins = (longer.log2() * 32.0).round() as u16;
    for of in windows.iter_mut().flat_map(|window| &mut window.observations).filter(|of| of.arm == Arm::Canary) {
        let moved = |(index, count): (u16, u64)| {
            let is_tail = bucket::lower_edge(index).is_some_and(|edge| edge >= p90);
            (if is_tail { index + bins } else { index }, count)
        };
        of.buckets = Histogram::from_pairs(of.buckets.pairs().map(moved).collect::<BTreeMap<_, _>>()).expect("buckets");
    }
    windows
}

/// What the power calculation states from an hour of stable's own traffic.
fn stated() -> u64 {
    let stable = with_tail(1, 360, 1.0);
    let said = units_at_percentiles(&bounded(), &stable);
    let [UnitsAtPercentile { metric, percentile, units: Some(units) }] = said[..] else { panic!("{said:?}") };
    assert_eq!((metric, percentile), (Metric::RequestLatency, Percentile::P95));
    units
}

#[test]
fn a_tail_that_is_15_percent_longer_is_promoted_in_one_of_twenty_at_most_from_the_stated_units_on() {
    let needed = stated();
    assert!((1_000..20_000).contains(&needed), "{needed}");
    let (mut promoted, mut early, mut rolled_back) = (0, 0, 0);
    const ROLLOUTS: u64 = 200;
    for seed in 0..ROLLOUTS {
        let (judge, judgements) = judge_all(bounded(), &with_tail(100 + seed, 4 * needed / PER_WINDOW, 1.15));
        let is_promotion = |judgement: &&Judgement| judgement.verdict == Verdict::Promote;
        // Half of what is stated: pods that seem to differ by chance move the number.
        let half = 1_789_000_000 + 10 * (needed / 2 / PER_WINDOW);
        early += u64::from(judgements.iter().filter(is_promotion).any(|judgement| judgement.end_seconds < half));
        promoted += u64::from(matches!(judge.decided(), Some((Verdict::Promote, _))));
        rolled_back += u64::from(matches!(judge.decided(), Some((Verdict::Rollback, _))));
    }
    println!("{needed} units: {promoted} of {ROLLOUTS} promoted, {rolled_back} rolled back");
    assert_eq!(early, 0);
    assert!(promoted * 20 <= ROLLOUTS, "{promoted} of {ROLLOUTS}");
}

#[test]
fn below_the_stated_units_the_judge_says_that_there_are_too_few_of_them_though_the_canary_equals_stable() {
    let needed = stated();
    const ROLLOUTS: usize = 50;
    // What the judge itself asks for follows from the units that it has seen, and from pods that seem to differ.
    let too_few = |units: u64| {
        let told = (0..ROLLOUTS as u64).map(|seed| {
            let (_, judgements) = judge_all(bounded(), &with_tail(500 + seed, units / PER_WINDOW, 1.0));
            judgements.last().cloned().expect("a judgement")
        });
        told.filter(|told| {
            told.verdict == Verdict::Hold && matches!(told.reason, Reason::TooFewUnitsAtPercentile { .. })
        })
        .count()
    };
    let (quarter, half) = (too_few(needed / 4), too_few(needed / 2));
    println!("{needed} units: {quarter} and {half} of {ROLLOUTS} have too few at a quarter and at a half");
    assert!(quarter == ROLLOUTS && half * 10 >= ROLLOUTS * 9, "{quarter} and {half} of {ROLLOUTS}");
}
