use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use slipway_vocabulary::evidence::Histogram;

use super::{Arm, Arms, AtPercentile, Clustering, Contrast, OfPod, Strata, Table};

const LN_20: f64 = 2.995_732_273_553_991;

fn hits(rng: &mut Pcg64Mcg, n: u64, share: f64) -> u64 {
    (0..n).filter(|_| rng.random::<f64>() < share).count() as u64
}

/// Whether the evidence reaches 20 within so many windows of twenty units of each arm.
fn is_shown(seed: u64, windows: usize, canary_share: f64) -> bool {
    let mut rng = Pcg64Mcg::new(u128::from(seed));
    let mut at = AtPercentile::default();
    (0..windows).any(|_| {
        let (canary, stable) = (hits(&mut rng, 20, canary_share), hits(&mut rng, 20, 0.05));
        at.bet(Table { canary: 20, stable: 20, events: canary + stable, canary_events: canary });
        at.ln_below() >= LN_20
    })
}

/// A canary whose tail is just at the margin is above it as often as stable is above its percentile.
#[test]
fn a_canary_at_the_margin_is_shown_in_one_of_twenty_at_most_however_long_one_looks() {
    let shown = (0..400).filter(|seed| is_shown(*seed, 1_000, 0.05)).count();
    assert!(shown <= 20, "{shown} of 400");
}

#[test]
fn an_equal_canary_is_mostly_shown_at_the_units_that_the_power_calculation_names() {
    // At a margin of 9 % of a lognormal latency with sigma 0.7, 3.8 % are above the margin instead of 5 %.
    let contrast = Contrast::new(-0.3, 1.05, 1.05 / 0.021_2).unwrap();
    let needed = contrast.needed_information(LN_20, Clustering::default()).unwrap();
    let windows = (contrast.units(needed) / 20.0).ceil() as usize;
    let shown = |windows| (0..200).filter(|seed| is_shown(*seed, windows, 0.038)).count();
    assert!((60..=160).contains(&shown(windows)), "{} of 200 in {windows} windows", shown(windows));
    assert!(2 * shown(windows / 4) <= shown(windows), "{} of 200 in a quarter of them", shown(windows / 4));
}

/// Two strata of pods with so many units in a window, of which each has a share above the percentile.
fn windows_of_pods(shares: &[(Arm, f64)], windows: usize, seed: u64) -> AtPercentile {
    let mut rng = Pcg64Mcg::new(u128::from(seed));
    let mut strata = Strata::default();
    strata.learn("", &Histogram::from_pairs([(100, 1_000)]).unwrap());
    let mut at = AtPercentile::default();
    for _ in 0..windows {
        let mut arms = Arms::default();
        for (pod, (arm, share)) in shares.iter().enumerate() {
            let above = hits(&mut rng, 50, *share);
            let values = Histogram::from_pairs([(90, 50 - above), (200, above)]).unwrap();
            let sum = match arm {
                Arm::Canary => &mut arms.canary,
                Arm::Stable => &mut arms.stable,
            };
            sum.strata.entry(String::new()).or_default().merge(&values);
            sum.pods.push(OfPod { pod: (pod as u32) << 16, stratum: String::new(), values });
        }
        at.compare_pods(&arms, &strata, (4, 4));
    }
    at
}

#[test]
fn pods_that_differ_make_units_worth_less_and_pods_that_are_alike_do_not() {
    let of = |shares: [f64; 6]| {
        let arms = [Arm::Canary, Arm::Canary, Arm::Stable, Arm::Stable, Arm::Stable, Arm::Stable];
        let shares: Vec<(Arm, f64)> = arms.into_iter().zip(shares).collect();
        windows_of_pods(&shares, 400, 3).clustering()
    };
    let (alike, apart) = (of([0.05; 6]), of([0.04, 0.06, 0.035, 0.05, 0.05, 0.07]));
    assert_eq!(alike.concentration, 0.75, "two pods and four, of the same size");
    assert!(alike.variance < 0.01 && (0.03..0.3).contains(&apart.variance), "{alike:?} {apart:?}");
    assert!(apart.design_effect(500.0) > 10.0 && alike.design_effect(500.0) < 4.0);
}

#[test]
fn the_first_three_pods_of_each_arm_are_told_apart() {
    let mut at = AtPercentile::default();
    let of_stable = [7, 3, 9, 5].map(|id| at.cluster(id, Arm::Stable).is_some());
    assert_eq!((of_stable, at.cluster(5, Arm::Canary).is_some()), ([true, true, true, false], true));
    let ids: Vec<(Arm, u16)> = at.pods.iter().map(|pod| (pod.arm, pod.id)).collect();
    assert_eq!(ids, [(Arm::Stable, 3), (Arm::Stable, 7), (Arm::Stable, 9), (Arm::Canary, 5)]);
}

proptest! {
    #[test]
    fn pods_that_differ_more_need_more_units_until_none_suffice(
        excess in -50.0..-0.5_f64, variance in 1.0..200.0_f64, units in 10.0..5_000.0_f64, spread in 0.0..0.05_f64,
        more in 1.0..4.0_f64,
    ) {
        let contrast = Contrast::new(excess, variance, units).unwrap();
        let needed = |variance| contrast.needed_information(LN_20, Clustering { variance, concentration: 0.75 });
        let (few, many) = (needed(spread), needed(spread * more));
        prop_assert!(few.unwrap_or(f64::INFINITY) <= many.unwrap_or(f64::INFINITY));
        prop_assert!(few.is_none_or(|few| few > 0.0 && contrast.units(few) > 0.0));
    }
}
