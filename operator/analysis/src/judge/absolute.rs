//! Absolute harm: the canary breaks an objective, and stable breaks it less. Pure.

use slipway_vocabulary::evidence::{Histogram, bucket};

use super::{
    config::CountedObjective,
    hang::Hung,
    hypergeometric::Table,
    process::{Direction, Mixture, RestartProduct, SequentialT, ln_add},
};

/// Tilts of the one-sample process and of the fast two-sample process.
pub(super) const TILTS: [f64; 5] = [1.3, 2.0, 4.0, 12.0, 50.0];

/// Their weights.
pub(super) const MIXTURE: Mixture = Mixture { weights: &[0.2, 0.3, 0.25, 0.15, 0.1], unrestarted: 0.0 };

/// Returns the log e-value of `x` events among `n` units under a rate of at most `rate`: `x ln psi - n ln(1 + rate (psi
/// - 1))`.
///
/// The Bernoulli likelihood ratio against the odds `psi` times higher. Its mean is one at the rate, and below one under
/// a lower rate (Howard et al., arXiv 1810.08240, section 4; Ramdas et al., arXiv 2009.03167).
#[must_use]
pub fn ln_bernoulli(n: u64, x: u64, rate: f64, psi: f64) -> f64 {
    x as f64 * psi.ln() - n as f64 * (rate * (psi - 1.0)).ln_1p()
}

/// The evidence that one objective is harmed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Absolute {
    /// The canary's exceedance is above `1 - p`.
    pub above_limit: RestartProduct,
    /// It is above stable's: lane F at its margin.
    pub fast: RestartProduct,
    /// It is above stable's: lane S without a margin.
    pub slow: SequentialT,
    /// Excess and variance of the current block.
    pub block: [f32; 2],
    /// Hung units that were counted and have not been seen to finish.
    pub hung: u32,
}

/// The canary and stable histograms of one stratum.
pub(super) type Pair<'a> = (&'a Histogram, &'a Histogram);

impl Absolute {
    pub fn new() -> Self {
        Self {
            above_limit: RestartProduct::new(&MIXTURE),
            fast: RestartProduct::new(&MIXTURE),
            slow: SequentialT::new(),
            block: [0.0; 2],
            hung: 0,
        }
    }

    pub fn restart(&mut self, due: u16) {
        self.above_limit.restart(due);
        self.fast.restart(due);
        self.slow.restart(due);
    }

    /// Reads all successes of the canary in a window, and the units that became too old to meet the objective.
    pub fn update_one_sample(&mut self, objective: &CountedObjective, canary: &Histogram, hung: Hung) {
        let (count, above) = (canary.count(), canary.count_from(edge(objective)));
        // A unit that was counted when it hung is not counted again when it finishes at last.
        let again = u64::from(self.hung).min(above);
        let added = hung.hung.min(u64::from(u32::MAX - self.hung));
        self.hung = self.hung - again as u32 + added as u32;
        let (n, x) = (count - again + hung.hung, above - again + hung.hung);
        let rate = 1.0 - objective.percentile.probability();
        self.above_limit.update(TILTS.map(|psi| ln_bernoulli(n, x, rate, psi)));
    }

    /// Reads the strata that are present in both arms.
    pub fn update_two_sample(&mut self, objective: &CountedObjective, pairs: &[Pair<'_>], margins: Margins) {
        let mut sums = [0.0; TILTS.len()];
        for pair in pairs {
            let fast = table(objective, pair, margins.fast);
            for (sum, psi) in sums.iter_mut().zip(TILTS) {
                *sum += fast.ln_e_value(psi);
            }
            if margins.is_load_alike {
                let slow = table(objective, pair, 0);
                self.block[0] = (f64::from(self.block[0]) + slow.excess()) as f32;
                self.block[1] = (f64::from(self.block[1]) + slow.variance()) as f32;
            }
        }
        self.fast.update(sums);
    }

    /// Ends a block of lane S.
    pub fn close_block(&mut self, smallest_variance: f32) {
        if self.block[1] >= smallest_variance {
            let [excess, variance] = self.block.map(f64::from);
            self.slow.update(excess / variance.sqrt());
            self.block = [0.0; 2];
        }
    }

    /// The log e-value of both claims together: harm needs both, so the smaller counts. Without a stable arm the first
    /// claim stands alone.
    pub fn ln_e(&self, is_first_revision: bool) -> f64 {
        let above_limit = self.above_limit.ln_e();
        if is_first_revision {
            return above_limit;
        }
        let above_stable = ln_add(self.fast.ln_e(), self.slow.ln_e(Direction::Above)) - 2.0_f64.ln();
        above_limit.min(above_stable)
    }
}

/// The margins at which a window is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Margins {
    /// Lane F, buckets.
    pub fast: u16,
    /// Lane S, buckets; `None` when the arms' loads are too unlike for its narrow margin.
    pub slow: Option<u16>,
    /// Whether the canary's units were admitted under no more load than those that they are held against.
    pub is_load_alike: bool,
}

/// The bucket from which values are certainly above the objective's limit.
fn edge(objective: &CountedObjective) -> u16 {
    bucket::index(objective.max_microseconds) + 1
}

fn table(objective: &CountedObjective, (canary, stable): &Pair<'_>, margin: u16) -> Table {
    let edge = edge(objective);
    let (above_canary, above_stable) = (canary.count_from(edge.saturating_add(margin)), stable.count_from(edge));
    Table {
        canary: canary.count(),
        stable: stable.count(),
        events: above_canary + above_stable,
        canary_events: above_canary,
    }
}

#[cfg(test)]
mod tests {
    use slipway_vocabulary::{
        Percentile,
        evidence::{Histogram, Metric},
    };

    use super::{Absolute, CountedObjective, Hung, Margins, TILTS, ln_bernoulli};
    use crate::judge::hypergeometric::ln_choose;

    const MARGINS: Margins = Margins { fast: 12, slow: Some(4), is_load_alike: true };

    const OBJECTIVE: CountedObjective =
        CountedObjective { metric: Metric::RequestLatency, percentile: Percentile::P95, max_microseconds: 500_000 };

    fn histogram(fast: u64, slow: u64) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.record_n(100_000, fast);
        histogram.record_n(900_000, slow);
        histogram
    }

    fn judged(canary: (u64, u64), stable: (u64, u64)) -> f64 {
        let mut absolute = Absolute::new();
        absolute.restart(1);
        for _ in 0..60 {
            let (canary, stable) = (histogram(canary.0, canary.1), histogram(stable.0, stable.1));
            absolute.update_one_sample(&OBJECTIVE, &canary, Hung::default());
            absolute.update_two_sample(&OBJECTIVE, &[(&canary, &stable)], MARGINS);
            absolute.close_block(1.0);
        }
        absolute.ln_e(false)
    }

    #[test]
    fn the_one_sample_e_value_has_mean_one_at_the_limit_and_less_below_by_enumeration() {
        for n in 1..30 {
            for psi in TILTS {
                let mean = |rate: f64| -> f64 {
                    (0..=n)
                        .map(|x| {
                            let p = ln_choose(n, x).exp() * rate.powi(x as i32) * (1.0 - rate).powi((n - x) as i32);
                            p * ln_bernoulli(n, x, 0.05, psi).exp()
                        })
                        .sum()
                };
                assert!((mean(0.05) - 1.0).abs() < 1e-10);
                assert!(mean(0.04) < 1.0);
            }
        }
    }

    #[test]
    fn harm_needs_a_broken_objective_and_a_better_stable() {
        assert!(judged((10, 10), (100, 0)) > 10.0, "the canary breaks it, stable does not");
        assert!(judged((10, 10), (50, 50)) < 1.0, "both break it alike");
        assert!(judged((199, 1), (4000, 0)) < 1.0, "the canary is slower and within the objective");
    }

    #[test]
    fn a_unit_that_hangs_counts_once() {
        let mut counted = Absolute::new();
        counted.restart(1);
        counted.update_one_sample(&OBJECTIVE, &histogram(10, 0), Hung { units: 3, hung: 2 });
        let when_hung = counted.above_limit.clone();
        counted.update_one_sample(&OBJECTIVE, &histogram(0, 2), Hung::default());
        assert_eq!(counted.above_limit, when_hung);
        assert_eq!(counted.hung, 0);
    }
}
