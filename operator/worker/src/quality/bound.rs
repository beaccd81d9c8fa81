//! One-sided upper confidence bounds on how much worse an engine is than its reference, from paired scores. Pure.

use statrs::distribution::{Beta, Binomial, ContinuousCDF, Discrete, DiscreteCDF};

/// Points at which the unknown share of disagreements is tried; the tail probability is smooth in it.
const NUISANCE_POINTS: u32 = 17;
/// Share of alpha given up to bound that share.
const NUISANCE_SHARE: f64 = 0.05;
/// Steps of the search for a bound in [-1, 1]: to 2^-15, 0.003 %.
const BISECTIONS: u32 = 16;
/// Candidates for the mean of bounded differences: steps of 0.0005 in their unit.
const MEAN_STEPS: u32 = 4_000;
/// Largest share of the capital that a bet risks (Waudby-Smith and Ramdas recommend 1/2 or 3/4).
const MOST_RISKED: f64 = 0.5;

/// Bounds the drop in accuracy of an engine from `worse` samples on which only the reference was right and `better` on
/// which only the engine was, of `samples` in all.
///
/// The test of "drop >= d" orders outcomes by worse - better, as McNemar's does, and is exact. It sums the tail of the
/// trinomial. The nuisance parameter is the share of samples on which the two disagree. The test maximises over its
/// Clopper-Pearson interval at confidence 1 - gamma, and adds gamma to the p-value. The bound is the least d that is
/// rejected. Source: Berger and Boos, "P values maximized over a confidence set for the nuisance parameter", JASA 89,
/// 1994.
pub fn accuracy_drop(samples: u32, worse: u32, better: u32, alpha: f64) -> f64 {
    let gamma = alpha * NUISANCE_SHARE;
    let disagreements = clopper_pearson(worse + better, samples, gamma / 2.0);
    let observed = i64::from(worse) - i64::from(better);
    let rejected = |drop: f64| gamma + worst_tail(samples, observed, drop, disagreements) <= alpha;
    let (mut low, mut high) = (observed as f64 / f64::from(samples), 1.0);
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(low, high);
        if rejected(middle) { high = middle } else { low = middle }
    }
    high
}

/// Bounds the mean of differences in [-1, 1] (reference minus engine, sample by sample, in the data set's order).
///
/// A bettor who does not know the mean bets against "the mean is at least m" before each difference. Under that
/// hypothesis the capital is a non-negative supermartingale, so that reaching 1 / alpha refutes m (Ville). The stakes
/// are the predictable plug-ins for a fixed number of samples (Waudby-Smith and Ramdas, "Estimating means of bounded
/// random variables by betting", JRSS B 86, 2024, section 4). Nothing is assumed about the differences' distribution.
pub fn mean_drop(differences: &[f64], alpha: f64) -> f64 {
    let unit: Vec<f64> = differences.iter().map(|d| f64::midpoint(*d, 1.0)).collect();
    let stakes = stakes(&unit, alpha);
    let refuted = |mean: f64| {
        let mut capital = 1.0;
        unit.iter().zip(&stakes).any(|(x, stake)| {
            capital *= 1.0 - stake.min(MOST_RISKED / (1.0 - mean)) * (x - mean);
            capital >= 1.0 / alpha
        })
    };
    // From above, so that the bound is that of the whole set of means that are not refuted, whatever its form.
    let candidate = |step: u32| f64::from(step) / f64::from(MEAN_STEPS);
    let first_kept = (0..MEAN_STEPS).rev().find(|step| !refuted(candidate(*step))).map_or(0, |step| step + 1);
    2.0 * candidate(first_kept) - 1.0
}

/// P(worse - better <= observed) when the true drop is `drop`, at the share of disagreements that makes it largest.
fn worst_tail(samples: u32, observed: i64, drop: f64, (least, most): (f64, f64)) -> f64 {
    let least = least.max(drop.abs());
    if least > most {
        return 0.0;
    }
    let share = |point: u32| least + (most - least) * f64::from(point) / f64::from(NUISANCE_POINTS - 1);
    (0..NUISANCE_POINTS).map(|point| tail(samples, observed, drop, share(point))).fold(0.0, f64::max)
}

fn tail(samples: u32, observed: i64, drop: f64, share: f64) -> f64 {
    if share <= 0.0 {
        return f64::from(u8::from(observed >= 0));
    }
    let worse_given_disagreement = (f64::midpoint(share, drop) / share).clamp(0.0, 1.0);
    let Ok(disagreements) = Binomial::new(share.min(1.0), u64::from(samples)) else { return 1.0 };
    let mean = share * f64::from(samples);
    // Beyond ten standard deviations and a bit nothing is left to sum.
    let reach = 10.0 * (mean * (1.0 - share.min(1.0))).sqrt() + 40.0;
    let from = (mean - reach).max(0.0) as u64;
    let to = ((mean + reach) as u64).min(u64::from(samples));
    let sum: f64 = (from..=to)
        .map(|m| {
            let most_worse = (m as i64 + observed).div_euclid(2);
            let Ok(most_worse) = u64::try_from(most_worse) else { return 0.0 };
            let worse = Binomial::new(worse_given_disagreement, m).map_or(1.0, |b| b.cdf(most_worse));
            disagreements.pmf(m) * worse
        })
        .sum();
    sum.min(1.0)
}

fn clopper_pearson(hits: u32, samples: u32, alpha: f64) -> (f64, f64) {
    let (hits, misses) = (f64::from(hits), f64::from(samples - hits));
    let lower = Beta::new(hits, misses + 1.0).map_or(0.0, |beta| beta.inverse_cdf(alpha));
    let upper = Beta::new(hits + 1.0, misses).map_or(1.0, |beta| beta.inverse_cdf(1.0 - alpha));
    (lower, upper)
}

/// The stake before each value, from the values before it only.
fn stakes(unit: &[f64], alpha: f64) -> Vec<f64> {
    let n = unit.len() as f64;
    let (mut sum, mut squares) = (0.5, 0.25);
    let mut stakes = Vec::with_capacity(unit.len());
    for (i, x) in unit.iter().enumerate() {
        let count = i as f64 + 1.0;
        let variance: f64 = squares / count;
        stakes.push((2.0 * (1.0 / alpha).ln() / (n * variance)).sqrt());
        sum += x;
        squares += (x - sum / (count + 1.0)).powi(2);
    }
    stakes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn without_any_disagreement_the_bound_is_a_little_above_the_rule_of_three() {
        // Were all disagreements drops, it would be 3 / n; that some may cancel costs the rest.
        let bound = accuracy_drop(400, 0, 0, 0.05);
        assert!((0.0075..0.0120).contains(&bound), "{bound}");
    }

    #[test]
    fn a_drop_shows_as_soon_as_it_is_there() {
        let perturbed = accuracy_drop(400, 40, 4, 0.05);
        assert!((0.105..0.13).contains(&perturbed), "{perturbed}");
        let sound = accuracy_drop(400, 4, 4, 0.05);
        assert!((0.01..0.02).contains(&sound), "{sound}");
    }

    #[test]
    fn equal_scores_leave_a_small_bound_and_a_constant_drop_is_found() {
        assert!(mean_drop(&[0.0; 400], 0.05) < 0.05);
        let bound = mean_drop(&[0.2; 400], 0.05);
        assert!((0.2..0.25).contains(&bound), "{bound}");
    }

    /// Share of 200 seeded draws in which the bound lies below the true drop; alpha is 5 %.
    fn misses(bound: impl Fn(&[f64]) -> f64, draw: impl Fn(&mut Pcg64Mcg) -> f64, truth: f64) -> f64 {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        let missed = (0..200).filter(|_| {
            let differences: Vec<f64> = (0..100).map(|_| draw(&mut rng)).collect();
            bound(&differences) < truth
        });
        missed.count() as f64 / 200.0
    }

    #[test]
    fn both_bounds_miss_the_truth_no_more_often_than_they_say() {
        let three = |rng: &mut Pcg64Mcg| match rng.random::<f64>() {
            u if u < 0.10 => 1.0,
            u if u < 0.14 => -1.0,
            _ => 0.0,
        };
        let counts = |d: &[f64]| {
            let count = |value: f64| d.iter().filter(|x| **x == value).count() as u32;
            accuracy_drop(d.len() as u32, count(1.0), count(-1.0), 0.05)
        };
        // 5 % plus three standard errors of 200 draws.
        let allowed = 0.05 + 3.0 * (0.05_f64 * 0.95 / 200.0).sqrt();
        let exact = misses(counts, three, 0.06);
        assert!((0.005..allowed).contains(&exact), "{exact}: too often, or so seldom that it is useless");
        assert!(misses(|d| mean_drop(d, 0.05), three, 0.06) < allowed);
        let graded = |rng: &mut Pcg64Mcg| rng.random::<f64>() * 0.4 - 0.1;
        assert!(misses(|d| mean_drop(d, 0.05), graded, 0.1) < allowed);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn more_worse_samples_never_lower_the_bound(n in 20_u32..200, worse in 0_u32..10, better in 0_u32..10) {
            let bound = accuracy_drop(n, worse, better, 0.05);
            prop_assert!(bound >= (f64::from(worse) - f64::from(better)) / f64::from(n));
            prop_assert!(accuracy_drop(n, worse + 1, better, 0.05) >= bound - 4e-5);
            prop_assert!(accuracy_drop(n, worse, better, 0.01) >= bound - 4e-5, "more confidence, more distance");
        }
    }
}
