//! How many runs may arrive at random where a run that finds all places taken is refused.
//!
//! A replica with `c` runs in flight at most is a loss system, M/G/c/c: arrivals are a Poisson process, and a run that
//! finds `c` others is refused. The share of the refused is Erlang's formula B, whatever the law of the durations is
//! (A. K. Erlang, *Solution of some problems in the theory of probabilities of significance in automatic telephone
//! exchanges*, 1917; its insensitivity: B. A. Sevastyanov, *Theory of Probability and its Applications* 2(1), 1957).

use statrs::distribution::{DiscreteCDF, Poisson};

/// Halvings of an interval, after which a double holds no finer answer.
const HALVINGS: u32 = 60;

/// The share of arrivals that `places` refuse, by Erlang's formula B. The offered load is in erlangs: arrivals in the
/// mean duration of a run.
pub fn refused_share(places: u32, erlangs: f64) -> f64 {
    let one_more = |refused: f64, place: u32| erlangs * refused / (f64::from(place) + erlangs * refused);
    (1..=places).fold(1.0, one_more)
}

/// The greatest offered load in erlangs of which `places` refuse no more than a share. It is `places` at most: with as
/// much, every place would always be taken if arrivals were not random.
pub fn offered_load(places: u32, refused: f64) -> f64 {
    greatest(f64::from(places), |erlangs| refused_share(places, erlangs) <= refused)
}

/// The greatest share of refused runs at which `runs` of them show more than a share `allowed` with a risk of 2 % only.
///
/// Refusals are few and counted as a Poisson variable. Among 81 runs, an allowed 1 % admits no refusal at all, so that
/// the true share may be 0.025 %.
pub fn tolerable_share(allowed: f64, runs: u64) -> f64 {
    const RISK: f64 = 0.02;
    let runs = runs.max(1) as f64;
    let most = (allowed * runs + 1e-9).floor() as u64;
    let is_safe = |mean: f64| Poisson::new(mean).is_ok_and(|refusals| refusals.sf(most) <= RISK);
    greatest(allowed * runs, is_safe) / runs
}

/// The greatest number from 0 to `end` that passes, where every lower one does too; 0 if none does.
fn greatest(end: f64, passes: impl Fn(f64) -> bool) -> f64 {
    if passes(end) {
        return end;
    }
    let halved = (0..HALVINGS).fold((0.0, end), |(low, high), _| {
        let middle = f64::midpoint(low, high);
        if passes(middle) { (middle, high) } else { (low, middle) }
    });
    halved.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// Published tables of Erlang's formula B, to their three digits.
    #[rstest]
    #[case(1, 0.01, 0.0101)]
    #[case(2, 0.01, 0.153)]
    #[case(5, 0.01, 1.36)]
    #[case(10, 0.01, 4.46)]
    #[case(20, 0.01, 12.0)]
    #[case(100, 0.01, 84.1)]
    #[case(10, 0.001, 3.09)]
    #[case(10, 0.05, 6.22)]
    fn offered_loads_are_those_of_the_published_table(#[case] places: u32, #[case] refused: f64, #[case] erlangs: f64) {
        let found = offered_load(places, refused);
        assert!((found / erlangs - 1.0).abs() < 5e-3, "{found} for {erlangs}");
    }

    #[test]
    fn one_place_at_half_its_capacity_refuses_a_third() {
        assert!((refused_share(1, 0.5) - 1.0 / 3.0).abs() < 1e-12);
        assert!((refused_share(2, 1.0) - 0.2).abs() < 1e-12);
    }

    #[rstest]
    #[case(0.01, 81, 0.000_249)]
    #[case(0.05, 81, 0.018_9)]
    #[case(0.0, 81, 0.0)]
    fn a_share_is_tolerable_if_few_samples_exceed_what_is_allowed(
        #[case] allowed: f64,
        #[case] runs: u64,
        #[case] share: f64,
    ) {
        let found = tolerable_share(allowed, runs);
        assert!((found - share).abs() < 1e-4 * allowed.max(1e-3) * 10.0, "{found}");
    }

    proptest! {
        #[test]
        fn every_load_and_share_is_within_its_bounds(places in 1_u32..2_000, share in 0.0_f64..=1.0, runs in 1_u64..100_000) {
            let load = offered_load(places, share);
            prop_assert!((0.0..=f64::from(places)).contains(&load));
            prop_assert!(refused_share(places, load) <= share + 1e-9);
            let tolerable = tolerable_share(share, runs);
            prop_assert!((0.0..=share).contains(&tolerable), "{tolerable}");
        }
    }
}
