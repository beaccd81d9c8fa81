//! The conditional law of a split of events between two arms: the hypergeometric distribution and its tilt. Pure.

/// Above this variance the exact sum gives way to a bound of constant cost: such a block has evidence to spare.
const LARGE_VARIANCE: f64 = 40.0;

/// Four counts of one block: how many units each arm had, how many events there were, and how many hit the canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Units of the canary.
    pub canary: u64,
    /// Units of stable.
    pub stable: u64,
    /// Events in both arms.
    pub events: u64,
    /// Events in the canary.
    pub canary_events: u64,
}

impl Table {
    /// Whether the split can say anything: both arms have units, and some but not all units had the event.
    #[must_use]
    pub fn is_informative(&self) -> bool {
        self.canary > 0 && self.stable > 0 && self.events > 0 && self.events < self.canary.saturating_add(self.stable)
    }

    /// The canary's events minus their expectation `m n_c / N` when labels are exchangeable.
    #[must_use]
    pub fn excess(&self) -> f64 {
        if !self.is_informative() {
            return 0.0;
        }
        let total = self.canary as f64 + self.stable as f64;
        self.canary_events as f64 - self.events as f64 * self.canary as f64 / total
    }

    /// The variance of the canary's events when labels are exchangeable: `n_c n_s m (N - m) / (N^2 (N - 1))`.
    #[must_use]
    pub fn variance(&self) -> f64 {
        if !self.is_informative() {
            return 0.0;
        }
        let (canary, stable, events) = (self.canary as f64, self.stable as f64, self.events as f64);
        let total = canary + stable;
        canary * stable * events * (total - events) / (total * total * (total - 1.0))
    }

    /// The log e-value of the table for an odds ratio `psi`: `x ln psi - ln E[psi^J]`, `J ~ Hypergeometric(N, n_c, m)`.
    ///
    /// Its exponential has mean one when the labels are exchangeable. For `psi > 1` it has mean at most one when the
    /// canary's rate is lower (Koning, arXiv 2310.01153; Lindon and Malek, arXiv 2011.03567). Blocks of large variance
    /// use an upper bound of the expectation, which makes the value smaller, so that any traffic costs the same time.
    #[must_use]
    pub fn ln_e_value(&self, psi: f64) -> f64 {
        if !self.is_informative() {
            return 0.0;
        }
        let ln_tilt = if self.variance() > LARGE_VARIANCE { ln_tilt_bound } else { ln_tilt };
        self.canary_events as f64 * psi.ln() - ln_tilt(self.canary, self.stable, self.events, psi)
    }
}

impl Table {
    /// The log e-value of the table for an odds ratio `psi` against another one, `null`: `x ln (psi / null)` minus the
    /// logarithm of its expectation under `null`.
    ///
    /// Its exponential has mean one where the canary's odds are `null` times stable's. With `psi > null` it has mean at
    /// most one where they are less, and with `psi < null` where they are more, because the likelihood ratio of
    /// Fisher's noncentral law is monotone. In blocks of large variance the expectations give way to bounds that make
    /// the value smaller: that of [`ln_tilt_bound`] above, and Jensen's below.
    #[must_use]
    pub fn ln_e_value_against(&self, psi: f64, null: f64) -> f64 {
        if !self.is_informative() {
            return 0.0;
        }
        let Self { canary, stable, events, canary_events } = *self;
        let (above, below) = if self.variance() > LARGE_VARIANCE {
            let expected = events as f64 * canary as f64 / (canary as f64 + stable as f64);
            (ln_tilt_bound(canary, stable, events, psi), expected * null.ln())
        } else {
            (ln_tilt(canary, stable, events, psi), ln_tilt(canary, stable, events, null))
        };
        canary_events as f64 * (psi / null).ln() - (above - below)
    }
}

/// Terms below this share of the sum do not count: the e-value's mean stays within 1e-12 of one.
const NEGLIGIBLE: f64 = 1e-15;

/// Returns `ln E[psi^J]` for `J ~ Hypergeometric(n_c + n_s, n_c, m)`.
///
/// Sums `C(n_c, j) C(n_s, m - j) psi^j` outwards from its largest term, relative to the known total `C(n_c + n_s, m)`,
/// until the terms no longer count. No term is exponentiated alone, so nothing overflows.
#[must_use]
pub fn ln_tilt(canary: u64, stable: u64, events: u64, psi: f64) -> f64 {
    let lowest = events.saturating_sub(stable);
    let highest = events.min(canary);
    // u(j + 1) / u(j), decreasing in j.
    let ratio = |j: u64| {
        (canary - j) as f64 * (events - j) as f64 * psi
            / ((j + 1) as f64 * (stable as f64 + (j + 1) as f64 - events as f64))
    };
    let (mut low, mut high) = (lowest, highest);
    while low < high {
        let middle = low + (high - low) / 2;
        if ratio(middle) >= 1.0 { low = middle + 1 } else { high = middle }
    }
    let mode = low;
    let mut sum = 1.0;
    let mut term = 1.0;
    for j in mode..highest {
        term *= ratio(j);
        sum += term;
        if term < sum * NEGLIGIBLE {
            break;
        }
    }
    term = 1.0;
    for j in (lowest..mode).rev() {
        term /= ratio(j);
        sum += term;
        if term < sum * NEGLIGIBLE {
            break;
        }
    }
    ln_choose(canary, mode) + ln_choose(stable, events - mode) - ln_choose(canary.saturating_add(stable), events)
        + mode as f64 * psi.ln()
        + f64::ln(sum)
}

/// Returns an upper bound of [`ln_tilt`]: drawing without replacement is smaller in convex order than drawing with it
/// (Hoeffding, J. Amer. Statist. Assoc. 58, 1963, theorem 4), and the draw may be seen as of units or of events.
#[must_use]
pub fn ln_tilt_bound(canary: u64, stable: u64, events: u64, psi: f64) -> f64 {
    let (canary, events, total) = (canary as f64, events as f64, canary as f64 + stable as f64);
    let of_units = canary * (events / total * (psi - 1.0)).ln_1p();
    let of_events = events * (canary / total * (psi - 1.0)).ln_1p();
    of_units.min(of_events)
}

/// Returns `ln C(n, k)`, natural logarithm.
#[must_use]
pub fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// Returns `ln n!`: summed for small `n`, Stirling's series (error below 1e-17 relative) beyond.
fn ln_factorial(n: u64) -> f64 {
    const SMALL: usize = 2_048;
    static TABLE: std::sync::OnceLock<Box<[f64]>> = std::sync::OnceLock::new();
    if (n as usize) < SMALL {
        let table = TABLE.get_or_init(|| {
            let mut sum = 0.0;
            (0..SMALL)
                .map(|i| {
                    sum += (i.max(1) as f64).ln();
                    sum
                })
                .collect()
        });
        return table[n as usize];
    }
    let x = n as f64;
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x + 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Table, ln_choose, ln_tilt, ln_tilt_bound};

    fn probability(canary: u64, stable: u64, events: u64, j: u64) -> f64 {
        (ln_choose(canary, j) + ln_choose(stable, events - j) - ln_choose(canary + stable, events)).exp()
    }

    #[test]
    fn the_e_value_has_mean_one_under_exchangeable_labels_by_enumeration() {
        for canary in 1_u64..8 {
            for stable in 1_u64..10 {
                for events in 0..=canary + stable {
                    for psi in [0.2, 1.2, 3.0, 100.0] {
                        let mean: f64 = (events.saturating_sub(stable)..=events.min(canary))
                            .map(|canary_events| {
                                let table = Table { canary, stable, events, canary_events };
                                probability(canary, stable, events, canary_events) * table.ln_e_value(psi).exp()
                            })
                            .sum();
                        assert!((mean - 1.0).abs() < 1e-10, "{canary} {stable} {events} {psi}: {mean}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_better_canary_keeps_the_mean_at_or_below_one_by_enumeration() {
        let binomial =
            |n: u64, p: f64, k: u64| (ln_choose(n, k)).exp() * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32);
        for (canary_rate, stable_rate) in [(0.1, 0.1), (0.05, 0.2), (0.3, 0.6), (0.0, 0.5)] {
            for psi in [1.2, 3.0, 30.0] {
                let (canary, stable) = (6, 9);
                let mut mean = 0.0;
                for x in 0..=canary {
                    for y in 0..=stable {
                        let table = Table { canary, stable, events: x + y, canary_events: x };
                        let p = binomial(canary, canary_rate, x) * binomial(stable, stable_rate, y);
                        mean += p * table.ln_e_value(psi).exp();
                    }
                }
                assert!(mean <= 1.0 + 1e-10, "rates {canary_rate} {stable_rate}, psi {psi}: {mean}");
            }
        }
    }

    #[test]
    fn against_an_odds_ratio_the_mean_is_one_there_and_less_beyond_it_by_enumeration() {
        // Fisher's noncentral law of the canary's events.
        let law = |(canary, stable, events): (u64, u64, u64), odds: f64| -> Vec<(u64, f64)> {
            let support = events.saturating_sub(stable)..=events.min(canary);
            let weights: Vec<_> =
                support.map(|j| (j, probability(canary, stable, events, j) * odds.powi(j as i32))).collect();
            let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
            weights.into_iter().map(|(j, weight)| (j, weight / total)).collect()
        };
        let mean = |(canary, stable, events): (u64, u64, u64), odds: f64, psi: f64, null: f64| -> f64 {
            let of = |(canary_events, share): &(u64, f64)| {
                share
                    * Table { canary, stable, events, canary_events: *canary_events }
                        .ln_e_value_against(psi, null)
                        .exp()
            };
            law((canary, stable, events), odds).iter().map(of).sum()
        };
        for table in [(5, 9, 4), (7, 7, 7), (3, 20, 6)] {
            for (psi, null) in [(3.0, 1.5), (1.0, 1.5), (0.5, 2.0), (6.0, 2.0)] {
                let at = mean(table, null, psi, null);
                assert!((at - 1.0).abs() < 1e-10, "{table:?} {psi} {null}: {at}");
                let beyond = if psi > null { [0.5 * null, 0.9 * null] } else { [1.1 * null, 3.0 * null] };
                for odds in beyond {
                    let mean = mean(table, odds, psi, null);
                    assert!(mean <= 1.0, "{table:?} {psi} {null} at {odds}: {mean}");
                }
            }
        }
    }

    #[test]
    fn in_large_blocks_the_value_against_an_odds_ratio_is_smaller_than_the_exact_one() {
        for canary_events in [200, 300, 400] {
            let table = Table { canary: 1_000, stable: 1_000, events: 600, canary_events };
            for (psi, null) in [(3.0_f64, 1.5_f64), (1.0, 1.5)] {
                let exact = f64::from(canary_events as u32) * (psi / null).ln()
                    - (ln_tilt(1_000, 1_000, 600, psi) - ln_tilt(1_000, 1_000, 600, null));
                assert!(table.ln_e_value_against(psi, null) <= exact, "{canary_events} {psi} {null}");
            }
        }
    }

    #[test]
    fn the_bound_is_above_the_exact_tilt_and_near_it_at_a_small_weight() {
        for (canary, stable, events) in [(50, 950, 500), (500, 500, 100), (500, 500, 500), (2_000, 100, 1_000)] {
            for psi in [1.2, 1.5, 4.0] {
                let (exact, bound) = (ln_tilt(canary, stable, events, psi), ln_tilt_bound(canary, stable, events, psi));
                assert!(exact <= bound, "{canary} {stable} {events} {psi}: {exact} > {bound}");
            }
        }
        let (exact, bound) = (ln_tilt(50, 950, 500, 1.2), ln_tilt_bound(50, 950, 500, 1.2));
        assert!(bound - exact < 0.02, "{exact} {bound}");
    }

    #[test]
    fn large_blocks_neither_overflow_nor_lose_precision() {
        let symmetric = ln_tilt(400_000, 400_000, 400_000, 1.0);
        assert!(symmetric.abs() < 1e-7, "{symmetric}");
        assert!(ln_tilt(10_000, 10_000, 9_000, 100.0).is_finite());
    }

    proptest! {
        #[test]
        fn more_canary_events_are_more_evidence(
            canary in 1_u64..200, stable in 1_u64..200, part in 0.0..1.0_f64, psi in 1.01..50.0_f64,
        ) {
            let events = 1 + (part * (canary + stable - 1) as f64) as u64;
            let lowest = events.saturating_sub(stable);
            let values: Vec<f64> = (lowest..=events.min(canary))
                .map(|canary_events| Table { canary, stable, events, canary_events }.ln_e_value(psi))
                .collect();
            prop_assert!(values.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}
