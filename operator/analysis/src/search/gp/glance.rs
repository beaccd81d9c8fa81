//! A look at many cells at little cost: a process's likeliest fit alone, and a bound on its variance. Pure.
//!
//! The mean of a fit is linear in the similarities of the cell's arm to those of the runs. So the part that depends on
//! the level is summed beforehand, and a cell costs a product per run. Its variance is at most that given the one run s
//! that tells most, k(x, x) - max_s k(x, s)^2 / (k(s, s) + noise), because every further run can only lower it.

use super::{Fault, JITTER, LANES, Normal, Process, Site, shared};
use crate::search::Cell;
use crate::search::kernel::{Kernel, Likeness, Parts, Regime};

/// One number a run, in groups that are worked on at once. Runs that fill the last group up tell nothing.
type Runs = Vec<[f64; LANES]>;

/// A process arranged for such a look.
#[derive(Debug, Clone)]
pub(in crate::search) struct Glance<'a> {
    kernel: &'a Kernel,
    /// Per axis and value, per run: what the axis multiplies the similarity of the arms by.
    factors: Vec<Vec<Runs>>,
    groups: usize,
    /// The axis each of whose values has a factor of its own, and per value and run: 1 where the run has the value,
    /// else 0.
    fault: Option<(usize, Vec<Runs>)>,
    /// Per regime and level.
    levels: [Vec<Level>; 2],
}

/// What a level adds, in one regime.
#[derive(Debug, Clone)]
struct Level {
    /// The mean far from all arms.
    mean: f64,
    /// The variance before any run.
    variance: f64,
    runs: Vec<Told>,
}

/// What a group of runs tells at a level.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// Mean per unit of similarity of the arms.
    slope: [f64; LANES],
    /// Covariance far from a run's arm, over the run's standard deviation.
    far: [f64; LANES],
    /// The same per unit of similarity.
    near: [f64; LANES],
    /// Mean where the arms share the factor of a value.
    fault_mean: [f64; LANES],
    /// Covariance from it, over the run's standard deviation.
    fault: [f64; LANES],
}

/// Numbers of runs in groups, the last one filled up.
fn grouped(numbers: impl Iterator<Item = f64>) -> Runs {
    let numbers: Vec<f64> = numbers.collect();
    let group = |group: &[f64]| std::array::from_fn(|lane| group.get(lane).copied().unwrap_or(0.0));
    numbers.chunks(LANES).map(group).collect()
}

impl<'a> Glance<'a> {
    pub(in crate::search) fn new(process: &Process, kernel: &'a Kernel) -> Self {
        let axes = kernel.values().iter().zip(&process.relevance).enumerate();
        let factors = axes.map(|(axis, (values, relevance))| {
            let similarity = |arm: usize, site: usize| kernel.on_axis(axis, arm, process.sites[site].cell.arm);
            let factor = |arm: usize, site: usize| 1.0 - relevance + relevance * similarity(arm, site);
            let value = |arm: &usize| grouped((0..process.sites.len()).map(|site| factor(*arm, site)));
            values.examples.iter().map(value).collect()
        });
        let level = |regime: Regime| -> Vec<Level> {
            (0..kernel.levels()).map(|level| Level::new(process, kernel, regime, level)).collect()
        };
        let fault = process.fits.first().and_then(|fit| match fit.scales.fault {
            Fault::Common => None,
            Fault::ByValue(axis) => Some((axis, sharing(process, kernel, axis))),
        });
        let levels = Regime::ALL.map(level);
        let groups = process.sites.len().div_ceil(LANES);
        Self { kernel, factors: factors.collect(), groups, fault, levels }
    }

    /// The likeliest fit's mean at some cells, those of an arm side by side, and at least its variance.
    pub(in crate::search) fn at(&self, cells: &[Cell]) -> Vec<Normal> {
        let mut normals = Vec::with_capacity(cells.len());
        let mut alike: Runs = Vec::with_capacity(self.groups);
        for cells in cells.chunk_by(|a, b| a.arm == b.arm) {
            let Some(Cell { arm, .. }) = cells.first() else { continue };
            self.likeness(*arm, &mut alike);
            let sharing = self.fault.as_ref().map(|(axis, sharing)| &sharing[self.kernel.values()[*axis].of[*arm]]);
            normals.extend(cells.iter().map(|cell| match sharing {
                None => self.level(*cell).at(&alike),
                Some(sharing) => self.level(*cell).at_faulty(&alike, sharing),
            }));
        }
        normals
    }

    /// Similarity of an arm to that of each run.
    fn likeness(&self, arm: usize, alike: &mut Runs) {
        alike.clear();
        alike.resize(self.groups, [1.0; LANES]);
        for (values, factors) in self.kernel.values().iter().zip(&self.factors) {
            for (alike, factor) in alike.iter_mut().zip(&factors[values.of[arm]]) {
                alike.iter_mut().zip(factor).for_each(|(alike, factor)| *alike *= factor);
            }
        }
    }

    fn level(&self, cell: Cell) -> &Level {
        let [busy, idle] = &self.levels;
        match self.kernel.regime(cell) {
            Regime::Busy => &busy[cell.level],
            Regime::Idle => &idle[cell.level],
        }
    }
}

/// Per value of an axis and run: 1 where the run has the value, else 0.
fn sharing(process: &Process, kernel: &Kernel, axis: usize) -> Vec<Runs> {
    let has = |site: &Site, example: usize| if kernel.is_same(axis, site.cell.arm, example) { 1.0 } else { 0.0 };
    let of_value = |example: &usize| grouped(process.sites.iter().map(|site| has(site, *example)));
    kernel.values()[axis].examples.iter().map(of_value).collect()
}

impl Level {
    fn new(process: &Process, kernel: &Kernel, regime: Regime, level: usize) -> Self {
        let amplitudes = &process.amplitudes;
        let Some(fit) = process.fits.first() else {
            return Self { mean: 0.0, variance: 0.0, runs: Vec::new() };
        };
        let scales = fit.scales;
        let itself = kernel.covariance_of_levels(amplitudes, Likeness { arms: 1.0, regime: 1.0 }, level, level);
        let fault = scales.fault(amplitudes);
        let mut mean = 0.0;
        let mut runs = vec![Told::default(); process.sites.len().div_ceil(LANES)];
        for (position, (site, dual)) in process.sites.iter().zip(&fit.dual).enumerate() {
            let likeness = Likeness { arms: 1.0, regime: regime.similarity(kernel.regime(site.cell)) };
            let whole = kernel.covariance_of_levels(amplitudes, likeness, level, site.cell.level);
            let far = shared(amplitudes, scales, Parts { arm: 0.0, ..whole });
            let near = scales.arm * scales.arm * whole.arm;
            mean += far * dual;
            let own = kernel.covariance(amplitudes, 1.0, site.cell, site.cell);
            let sd = (shared(amplitudes, scales, own) + scales.own() + fault + site.noise + JITTER).sqrt();
            let (told, lane) = (&mut runs[position / LANES], position % LANES);
            told.slope[lane] = near * dual;
            (told.far[lane], told.near[lane]) = (far / sd, near / sd);
            (told.fault_mean[lane], told.fault[lane]) = (fault * dual, fault / sd);
        }
        Self { mean, variance: shared(amplitudes, scales, itself) + scales.own() + fault, runs }
    }

    fn at(&self, alike: &Runs) -> Normal {
        let (mut means, mut most) = ([0.0; LANES], [0.0; LANES]);
        for (told, alike) in self.runs.iter().zip(alike) {
            for lane in 0..LANES {
                means[lane] += told.slope[lane] * alike[lane];
                most[lane] = greater(most[lane], told.far[lane] + told.near[lane] * alike[lane]);
            }
        }
        self.normal(means, most)
    }

    /// The same where runs that share a value share its factor too.
    fn at_faulty(&self, alike: &Runs, sharing: &Runs) -> Normal {
        let (mut means, mut most) = ([0.0; LANES], [0.0; LANES]);
        for (told, (alike, shares)) in self.runs.iter().zip(alike.iter().zip(sharing)) {
            for lane in 0..LANES {
                means[lane] += told.slope[lane] * alike[lane] + told.fault_mean[lane] * shares[lane];
                let covariance = told.far[lane] + told.near[lane] * alike[lane] + told.fault[lane] * shares[lane];
                most[lane] = greater(most[lane], covariance);
            }
        }
        self.normal(means, most)
    }

    fn normal(&self, means: [f64; LANES], most: [f64; LANES]) -> Normal {
        let told = most.into_iter().fold(0.0, f64::max);
        Normal { mean: self.mean + means.iter().sum::<f64>(), variance: (self.variance - told).max(0.0) }
    }
}

/// The greater of a square and the square of a number; neither is ever undefined, which spares the look.
fn greater(square: f64, number: f64) -> f64 {
    let other = number * number;
    if other > square { other } else { square }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Fit;
    use super::*;
    use crate::search::kernel::Amplitudes;
    use crate::search::tests::two_axes;

    const AMPLITUDES: Amplitudes =
        Amplitudes { offset: 3.0, arm: 0.35, slope: 0.2, arm_slope: 0.2, level: 0.25, arm_level: 0.25, fault: 0.0 };

    proptest! {
        #[test]
        fn a_glance_has_the_mean_of_its_fit_and_at_least_its_variance(
            runs in prop::collection::btree_map((0usize..12, 0usize..6), -1.0f64..1.0, 1..12),
            arm in 0usize..12,
            fault in prop_oneof![Just(0.0), Just(0.6)],
        ) {
            let kernel = Kernel::new(&two_axes());
            let site = |((arm, level), residual): (&(usize, usize), &f64)| {
                Site { cell: Cell { arm: *arm, level: *level }, residual: *residual, noise: 1e-4 }
            };
            let amplitudes = Amplitudes { fault, ..AMPLITUDES };
            let mut process = Process::fit(&kernel, amplitudes, runs.iter().map(site).collect());
            let untried: Vec<Cell> =
                (0..6).filter(|level| !runs.contains_key(&(arm, *level))).map(|level| Cell { arm, level }).collect();
            for fit in std::mem::take(&mut process.fits) {
                process.fits = vec![Fit { weight: 1.0, ..fit }];
                let whole = process.at(&kernel, &untried);
                for (glance, whole) in Glance::new(&process, &kernel).at(&untried).iter().zip(whole) {
                    prop_assert!((glance.mean - whole.mean).abs() < 1e-9, "{glance:?} {whole:?}");
                    prop_assert!(glance.variance >= whole.variance - 1e-9, "{glance:?} {whole:?}");
                }
            }
        }
    }
}
