//! Confidence sequences for quantiles: what dashboards show, never what decides. Pure.

use slipway_vocabulary::evidence::Quantile;
use statrs::function::beta::ln_beta;

/// The number of samples for which the sequence is tightest.
pub const OPTIMAL_SAMPLES: f64 = 1_000.0;

/// Returns the ranks, counted from one, of the order statistics that bound a quantile of `n` samples at level `alpha`.
///
/// The number `k` of samples at or below the quantile is binomial. The beta-binomial mixture `M(k) = B(a + k, b + n -
/// k) / (B(a, b) p^k (1 - p)^(n - k))` is a martingale. So `k` with `M(k) < 1 / alpha` are compatible with the data at
/// all times (Howard and Ramdas, Bernoulli 28(3) 2022, arXiv 1906.09712, theorem 1(b) and section 3). A rank that no
/// sample has is `None`: the bound is infinite, not the largest sample.
#[must_use]
pub fn rank_bounds(n: u64, quantile: Quantile, alpha: f64) -> (Option<u64>, Option<u64>) {
    let p = quantile.probability();
    let scale = p * (1.0 - p);
    let ln_inverse = -alpha.ln();
    let rho = OPTIMAL_SAMPLES * scale / (2.0 * ln_inverse + (1.0 + 2.0 * ln_inverse).ln());
    let r = (rho - scale).max(1e-3 * scale);
    let (a, b) = (r / (1.0 - p), r / p);
    let is_compatible = |k: u64| {
        let (k, rest) = (k as f64, (n - k) as f64);
        ln_beta(a + k, b + rest) - ln_beta(a, b) - k * p.ln() - rest * (1.0 - p).ln() < ln_inverse
    };
    let center = ((n as f64 * p).round() as u64).min(n);
    let lowest = partition(0, center, |k| is_compatible(center - k));
    let highest = partition(0, n - center, |k| is_compatible(center + k));
    let lower = center - lowest;
    let upper = center + highest + 1;
    ((lower > 0).then_some(lower), (upper <= n).then_some(upper))
}

/// The largest `k` in `low..=high` with `holds(k)`, which holds at `low` and is monotone.
fn partition(low: u64, high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::evidence::Quantile;

    use super::rank_bounds;

    #[test]
    fn few_samples_do_not_bound_a_high_quantile() {
        assert_eq!(rank_bounds(10, Quantile::P99, 0.05).1, None);
        assert_eq!(rank_bounds(0, Quantile::P50, 0.05), (None, None));
    }

    #[test]
    fn a_high_quantile_needs_hundreds_of_samples_for_an_upper_bound() {
        let least = |quantile| (1..2_000).find(|n| rank_bounds(*n, quantile, 0.05).1.is_some()).unwrap();
        let found = [Quantile::P50, Quantile::P90, Quantile::P95, Quantile::P99].map(least);
        assert_eq!(found, [31, 103, 162, 499]);
    }

    #[test]
    fn more_samples_narrow_the_bounds() {
        let width = |n: u64| {
            let (lower, upper) = rank_bounds(n, Quantile::P95, 0.05);
            (upper.unwrap() - lower.unwrap()) as f64 / n as f64
        };
        assert!(width(500) > width(5_000) && width(5_000) > width(50_000));
    }
}
