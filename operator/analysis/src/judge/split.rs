//! The comparison of one stratum within one window: nested splits at stable's quantiles. Pure.
//!
//! The units of both arms are split at stable's lower quartile, those above it at the median, and so on. Of the units
//! that passed a threshold, the number that pass the next in each arm is again hypergeometric when the labels are
//! exchangeable. So the product of the tilts of all stages is an exact e-value of the whole table. It has far more
//! power than a single threshold. (It is the exponential tilt of a weighted log-rank statistic; Gehan, Biometrika 52,
//! 1965.)

use slipway_vocabulary::evidence::Histogram;

use super::{
    hypergeometric::Table,
    process::Mixture,
    strata::{LEVELS, Stratum},
};

/// The tilts of lane F: odds ratios of the alternatives.
pub(super) const TILTS: [f64; 5] = [1.25, 1.5, 2.0, 4.0, 12.0];

/// The level at which each chain of stages begins: the whole distribution, the tail, the far tail.
pub(super) const CHAINS: [usize; 3] = [0, 3, 5];

/// The weight of each stage's score in a chain. A latency that grows by a factor shifts the whole distribution, and the
/// odds of the later stages then move less. These weights keep 98 % of the information about such a shift, equal ones
/// 91 % (lognormal latencies). They fall, so a canary that is stochastically faster never scores above zero.
const STAGE_WEIGHTS: [[f64; LEVELS.len()]; CHAINS.len()] =
    [[1.0, 0.85, 0.7, 0.5, 0.35, 0.2], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]];

/// Components of lane F: one per chain and tilt.
pub(super) const COMPONENTS: usize = TILTS.len() * CHAINS.len();

/// Their weights: most regressions move the whole distribution, and lane F's margin leaves small odds of them.
pub(super) const MIXTURE: Mixture = Mixture {
    weights: &[
        0.20, 0.20, 0.10, 0.06, 0.04, // the whole distribution
        0.06, 0.08, 0.06, 0.03, 0.02, // the tail
        0.02, 0.04, 0.04, 0.03, 0.02, // the far tail
    ],
    unrestarted: 0.0,
};

/// How many units each arm has at all and above each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    canary: [u64; LEVELS.len() + 1],
    stable: [u64; LEVELS.len() + 1],
}

impl Split {
    /// Splits a window at a stratum's thresholds. A canary's unit counts as above a level when it is `margin_bins`
    /// above the threshold, so that at the margin both arms exceed equally often.
    pub fn new(stratum: &Stratum, canary: &Histogram, stable: &Histogram, margin_bins: u16) -> Self {
        let counts = |histogram: &Histogram, margin: u16| {
            let edges: [u16; LEVELS.len()] = std::array::from_fn(|level| stratum.edge(level).saturating_add(margin));
            let mut counts = [0; LEVELS.len() + 1];
            for (index, count) in histogram.pairs() {
                // Edges ascend, so a value is above the first `passed` levels.
                let passed = edges.iter().take_while(|edge| **edge <= index).count();
                counts[passed] += count;
            }
            for level in (0..LEVELS.len()).rev() {
                counts[level] += counts[level + 1];
            }
            counts
        };
        Self { canary: counts(canary, margin_bins), stable: counts(stable, 0) }
    }

    /// The table of the units above level `to`, among those above level `from` (0 is all units).
    fn table(&self, from: usize, to: usize) -> Table {
        Table {
            canary: self.canary[from],
            stable: self.stable[from],
            events: self.canary[to] + self.stable[to],
            canary_events: self.canary[to],
        }
    }

    /// The stages of a chain with their weights.
    fn stages(&self, chain: usize) -> impl Iterator<Item = (f64, Table)> + '_ {
        let first = CHAINS[chain];
        (first..LEVELS.len())
            .map(move |level| {
                (STAGE_WEIGHTS[chain][level], self.table(if level == first { 0 } else { level }, level + 1))
            })
            .filter(|(_, table)| table.is_informative())
    }

    /// The log e-values of lane F, one per component; added over strata by the caller.
    pub fn add_ln_e_values(&self, sums: &mut [f64; COMPONENTS]) {
        for chain in 0..CHAINS.len() {
            for (weight, stage) in self.stages(chain) {
                for (tilt, psi) in TILTS.iter().enumerate() {
                    let psi = if weight < 1.0 { psi.powf(weight) } else { *psi };
                    sums[chain * TILTS.len() + tilt] += stage.ln_e_value(psi);
                }
            }
        }
    }

    /// The weighted excess of the canary and its variance over the stages of a chain: what lane S standardises.
    pub fn excess(&self, chain: usize) -> (f64, f64) {
        self.stages(chain).fold((0.0, 0.0), |(excess, variance), (weight, stage)| {
            (excess + weight * stage.excess(), variance + weight * weight * stage.variance())
        })
    }

    /// The table of the units above one level alone.
    pub fn table_at(&self, level: usize) -> Table {
        self.table(0, level + 1)
    }
}

#[cfg(test)]
mod tests {
    use slipway_vocabulary::evidence::Histogram;

    use super::{COMPONENTS, LEVELS, Split, Stratum};
    use crate::judge::hypergeometric::ln_choose;

    /// Thresholds at buckets 100, 200, ... and one value between each pair of them.
    fn stratum() -> Stratum {
        Stratum { id: 0, units: 100, fine: [100, 200, 300, 400, 500, 600].map(|edge| edge * 16) }
    }

    fn histogram(counts: &[u64; LEVELS.len() + 1]) -> Histogram {
        Histogram::from_pairs(counts.iter().enumerate().map(|(cell, n)| (cell as u16 * 100 + 50, *n))).unwrap()
    }

    /// Every way to give `canary` of the units in `cells` to the canary, with its probability.
    fn enumerate(cells: &[u64; 7], canary: u64, visit: &mut impl FnMut([u64; 7], f64)) {
        fn recurse(
            cells: &[u64; 7],
            cell: usize,
            left: u64,
            taken: &mut [u64; 7],
            ways: f64,
            visit: &mut impl FnMut([u64; 7], f64),
        ) {
            if cell == cells.len() {
                if left == 0 {
                    visit(*taken, ways);
                }
                return;
            }
            for n in 0..=cells[cell].min(left) {
                taken[cell] = n;
                recurse(cells, cell + 1, left - n, taken, ways + ln_choose(cells[cell], n), visit);
            }
        }
        recurse(cells, 0, canary, &mut [0; 7], -ln_choose(cells.iter().sum(), canary), visit);
    }

    #[test]
    fn chained_splits_have_mean_one_under_exchangeable_labels_by_enumeration() {
        for (cells, canary) in [([3, 2, 2, 1, 1, 1, 1], 4), ([5, 0, 3, 1, 0, 2, 1], 3), ([1, 1, 1, 1, 1, 1, 4], 6)] {
            let mut means = [0.0; COMPONENTS];
            enumerate(&cells, canary, &mut |taken, ln_probability| {
                let mut rest = [0; 7];
                for cell in 0..7 {
                    rest[cell] = cells[cell] - taken[cell];
                }
                let split = Split::new(&stratum(), &histogram(&taken), &histogram(&rest), 0);
                let mut sums = [0.0; COMPONENTS];
                split.add_ln_e_values(&mut sums);
                for (mean, ln_e) in means.iter_mut().zip(sums) {
                    *mean += (ln_probability + ln_e).exp();
                }
            });
            for mean in means {
                assert!((mean - 1.0).abs() < 1e-9, "{cells:?}: {means:?}");
            }
        }
    }

    #[test]
    fn a_slower_unit_of_the_canary_is_more_evidence() {
        let ln_e = |canary: &[u64; 7]| {
            let mut sums = [0.0; COMPONENTS];
            let split = Split::new(&stratum(), &histogram(canary), &histogram(&[30, 40, 20, 10, 5, 3, 2]), 0);
            split.add_ln_e_values(&mut sums);
            sums
        };
        let before = ln_e(&[9, 10, 4, 2, 1, 1, 0]);
        for cell in 0..6 {
            let mut slower = [9, 10, 4, 2, 1, 1, 0];
            slower[cell] -= 1;
            slower[cell + 1] += 1;
            let after = ln_e(&slower);
            assert!(after.iter().zip(before).take(5).all(|(after, before)| *after > before), "cell {cell}");
        }
    }

    #[test]
    fn the_margin_moves_the_canary_down_by_whole_buckets() {
        let canary = Histogram::from_pairs([(104, 3), (103, 2)]).unwrap();
        let stable = Histogram::from_pairs([(100, 3), (99, 2)]).unwrap();
        let split = Split::new(&stratum(), &canary, &stable, 4);
        assert_eq!((split.canary[1], split.stable[1]), (3, 3));
    }
}
