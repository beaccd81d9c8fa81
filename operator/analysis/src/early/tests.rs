use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

fn watch() -> EarlyWatch {
    EarlyWatch::new(EarlyRule::default(), &[Quantile::P95, Quantile::P95])
}

#[test]
fn a_run_far_above_its_limit_is_aborted_within_ten_requests() {
    let mut watch = watch();
    watch.observe(0, 0, 10);
    assert_eq!(watch.verdict(), EarlyVerdict::Undecided);
    watch.observe(1, 10, 0);
    assert_eq!(watch.verdict(), EarlyVerdict::Infeasible { objective: 1 });
}

#[test]
fn a_run_is_feasible_only_when_every_objective_is_shown() {
    let mut watch = watch();
    watch.observe(0, 0, 2000);
    assert_eq!(watch.verdict(), EarlyVerdict::Undecided);
    watch.observe(1, 0, 2000);
    assert_eq!(watch.verdict(), EarlyVerdict::Feasible);
}

#[test]
fn no_objective_is_never_shown() {
    assert_eq!(EarlyWatch::new(EarlyRule::default(), &[]).verdict(), EarlyVerdict::Undecided);
}

#[test]
fn independent_requests_at_the_limit_are_aborted_at_most_at_alpha() {
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let aborted = (0..400).filter(|_| {
        let mut watch = watch();
        (0..400).any(|_| {
            for objective in 0..2 {
                let exceeds = u64::from(rng.random::<f64>() < 0.05);
                watch.observe(objective, exceeds, 1 - exceeds);
            }
            matches!(watch.verdict(), EarlyVerdict::Infeasible { .. })
        })
    });
    let aborted = aborted.count();
    assert!(aborted <= 20, "{aborted} of 400");
}

#[test]
fn a_slower_run_is_proved_unable_to_win_and_an_equal_one_is_not() {
    let mut rng = Pcg64Mcg::seed_from_u64(6);
    let mut evidence = |latency: f64| {
        let mut test = IncumbentTest::new(8.0, 10.0, 1.0);
        for _ in 0..200 {
            test.observe(latency * (0.5 + rng.random::<f64>()), 1.0);
        }
        test.log_evidence()
    };
    // At 10 requests a second eight users may take 0.8 s each.
    assert!(evidence(1.2) > 20f64.ln());
    assert!(evidence(0.8) < 20f64.ln());
}

/// The mean of the evidence over every outcome of n requests whose latency is 0 or 2 s with even odds.
#[test]
fn incumbent_evidence_has_mean_one_at_the_incumbents_rate_by_enumeration() {
    for n in [1u32, 4, 10] {
        let mean: f64 = (0..1u32 << n)
            .map(|outcome| {
                let mut test = IncumbentTest::new(1.0, 1.0, 1.0);
                (0..n).for_each(|k| test.observe(f64::from(outcome >> k & 1) * 2.0, 1.0));
                test.log_evidence().exp() / f64::from(1u32 << n)
            })
            .sum();
        assert!((mean - 1.0).abs() < 1e-9, "{mean}");
    }
}

proptest! {
    #[test]
    fn chunks_give_the_verdict_of_single_requests(outcomes in prop::collection::vec(any::<bool>(), 0..300)) {
        let (mut single, mut chunk) = (watch(), watch());
        outcomes.iter().for_each(|bad| single.observe(0, u64::from(*bad), u64::from(!bad)));
        let bad = outcomes.iter().filter(|b| **b).count() as u64;
        chunk.observe(0, bad, outcomes.len() as u64 - bad);
        prop_assert_eq!(single, chunk);
    }

    #[test]
    fn a_saved_watch_continues_as_if_never_saved(first in 0u64..500, second in 0u64..500) {
        let mut watch = watch();
        watch.observe(0, first, second);
        let saved = serde_json::to_string(&watch).unwrap();
        prop_assert_eq!(serde_json::from_str::<EarlyWatch>(&saved).unwrap(), watch);
    }
}
