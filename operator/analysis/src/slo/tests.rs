use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rstest::rstest;
use slipway_vocabulary::evidence::Quantile;

use super::*;

fn uniform(rng: &mut impl Rng) -> f64 {
    rng.random::<f64>()
}

#[rstest]
#[case(Quantile::P95, 59)]
#[case(Quantile::P99, 299)]
#[case(Quantile::P99_9, 2995)]
fn below_the_least_sample_a_quantile_is_unbounded(#[case] quantile: Quantile, #[case] least: u64) {
    assert_eq!(least_sample(quantile, CONFIDENCE), least);
    let sorted = |n: u64| (0..n).map(|i| i as f64).collect::<Vec<_>>();
    let upper = |n: u64| quantile_bounds(&sorted(n), quantile, CONFIDENCE).unwrap().upper;
    assert_eq!((upper(least - 1), upper(least)), (None, Some((least - 1) as f64)));
    let verdict = |n: u64| judge_counts(0, n, quantile, CONFIDENCE);
    assert_eq!((verdict(least - 1), verdict(least)), (SampleVerdict::Unbounded, SampleVerdict::Feasible));
}

#[test]
fn an_objective_can_be_refuted_by_a_sample_too_small_to_prove_it() {
    assert_eq!(judge_counts(5, 10, Quantile::P99, CONFIDENCE), SampleVerdict::Infeasible);
}

#[rstest]
#[case(Quantile::P50, 40)]
#[case(Quantile::P95, 200)]
#[case(Quantile::P99, 600)]
fn order_statistic_bounds_cover_on_seeded_draws(#[case] quantile: Quantile, #[case] n: usize) {
    let mut rng = Pcg64Mcg::seed_from_u64(11);
    let (rounds, mut missed_above, mut missed_below) = (4000, 0, 0);
    for _ in 0..rounds {
        let mut sample: Vec<f64> = (0..n).map(|_| uniform(&mut rng)).collect();
        sample.sort_by(f64::total_cmp);
        let bounds = quantile_bounds(&sample, quantile, CONFIDENCE).unwrap();
        missed_above += u32::from(bounds.upper.is_some_and(|u| u < quantile.probability()));
        missed_below += u32::from(bounds.lower.is_some_and(|l| l > quantile.probability()));
    }
    // Four standard errors above 5 % of the rounds; the bound may only be conservative.
    let limit = 200 + 55;
    assert!(missed_above <= limit && missed_below <= limit, "{missed_above} and {missed_below} of {rounds}");
}

/// The mean of E over every outcome of n units, each unit hitting with the given rate.
fn mean_evidence(side: Side, reference: f64, rate: f64, n: u64) -> f64 {
    use statrs::distribution::{Binomial, Discrete};
    let law = Binomial::new(rate, n).unwrap();
    (0..=n)
        .map(|hits| {
            let mut test = RateTest::new(side, reference);
            test.observe(hits, n - hits);
            law.pmf(hits) * test.log_evidence().exp()
        })
        .sum()
}

#[rstest]
#[case(0.05)]
#[case(0.01)]
#[case(0.5)]
fn evidence_has_mean_at_most_one_under_the_null_by_enumeration(#[case] reference: f64) {
    for n in [1, 2, 5, 17, 60] {
        assert!((mean_evidence(Side::Above, reference, reference, n) - 1.0).abs() < 1e-6);
        assert!((mean_evidence(Side::Below, reference, reference, n) - 1.0).abs() < 1e-6);
        assert!(mean_evidence(Side::Above, reference, reference * 0.7, n) <= 1.0 + 1e-9);
        assert!(mean_evidence(Side::Below, reference, reference * 1.3, n) <= 1.0 + 1e-9);
    }
}

proptest! {
    #[test]
    fn more_exceedances_are_never_better_news(n in 1u64..2000, hits in 0u64..2000, per_mille in prop::sample::select(vec![500u16, 900, 950, 990, 999])) {
        let hits = hits.min(n - 1);
        let quantile = Quantile::from_parts(10 * per_mille).unwrap();
        let rank = |verdict| match verdict { SampleVerdict::Feasible => 0, SampleVerdict::Undecided | SampleVerdict::Unbounded => 1, SampleVerdict::Infeasible => 2 };
        let fewer = judge_counts(hits, n, quantile, CONFIDENCE);
        let more = judge_counts(hits + 1, n, quantile, CONFIDENCE);
        prop_assert!(rank(more) >= rank(fewer), "{fewer:?} then {more:?}");
    }

    #[test]
    fn evidence_above_rises_with_hits_and_falls_with_misses(hits in 0u64..500, misses in 0u64..2000, q in 0.001f64..0.9) {
        let evidence = |h, m| { let mut t = RateTest::new(Side::Above, q); t.observe(h, m); t.log_evidence() };
        let now = evidence(hits, misses);
        prop_assert!(evidence(hits + 1, misses) >= now - 1e-9);
        prop_assert!(evidence(hits, misses + 1) <= now + 1e-9);
    }

    #[test]
    fn bounds_enclose_the_estimate(mut sample in prop::collection::vec(0.0f64..1e6, 1..400), per_mille in 1u16..999) {
        sample.sort_by(f64::total_cmp);
        let bounds = quantile_bounds(&sample, Quantile::from_parts(10 * per_mille).unwrap(), CONFIDENCE).unwrap();
        prop_assert!(bounds.lower.is_none_or(|l| l <= bounds.point));
        prop_assert!(bounds.upper.is_none_or(|u| u >= bounds.point));
    }

    #[test]
    fn the_count_verdict_is_that_of_the_order_statistics(mut sample in prop::collection::vec(0.0f64..1.0, 1..400), limit in 0.0f64..1.0, per_mille in prop::sample::select(vec![500u16, 900, 950, 990])) {
        sample.sort_by(f64::total_cmp);
        let quantile = Quantile::from_parts(10 * per_mille).unwrap();
        let exceeding = sample.iter().filter(|v| **v > limit).count() as u64;
        let bounds = quantile_bounds(&sample, quantile, CONFIDENCE).unwrap();
        let verdict = judge_counts(exceeding, sample.len() as u64, quantile, CONFIDENCE);
        prop_assert_eq!(verdict == SampleVerdict::Feasible, bounds.upper.is_some_and(|u| u <= limit));
        prop_assert_eq!(verdict == SampleVerdict::Infeasible, bounds.lower.is_some_and(|l| l > limit));
    }
}

#[test]
fn the_nearest_point_misses_its_worst_objective_by_the_least() {
    let limits = [Limit::new("ttft", Bound::AtMost(100.0)), Limit::new("throughput", Bound::AtLeast(10.0))];
    let points = [
        vec![Some(300.0), Some(20.0)],
        vec![Some(120.0), Some(8.0)],
        vec![Some(101.0), None],
        vec![Some(90.0), Some(2.0)],
    ];
    let ttft = Shortfall { limit: "ttft".into(), value: 120.0, excess: 1.2 };
    let throughput = Shortfall { limit: "throughput".into(), value: 8.0, excess: 1.25 };
    let expected = Nearest { point: 1, binding: throughput.clone(), missed: vec![throughput, ttft] };
    assert_eq!(nearest(&limits, &points), Some(expected));
}

#[test]
fn nothing_is_nearest_when_a_point_is_feasible() {
    assert_eq!(nearest(&[Limit::new("ttft", Bound::AtMost(1.0))], &[vec![Some(0.5)], vec![Some(2.0)]]), None);
}
