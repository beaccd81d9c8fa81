//! A look at many cells at little cost: a process's likeliest fit alone, and a bound on its variance. Pure.
//!
//! The mean of a fit is linear in the similarities of the cell's arm to those of the runs, so that what depends on the
//! level is summed beforehand, and a cell costs a product per run. Its variance is at most that given the one run s that
//! tells most, k(x, x) - max_s k(x, s)^2 / (k(s, s) + noise), for every further run can only lower it.

use super::{Fault, JITTER, Normal, Process, Site, shared};
use crate::search::Cell;
use crate::search::kernel::{Kernel, Likeness, Parts, Regime};

/// A process arranged for such a look.
#[derive(Debug, Clone)]
pub(in crate::search) struct Glance<'a> {
    kernel: &'a Kernel,
    runs: usize,
    /// Per axis and value, per run: what the axis multiplies the similarity of the arms by.
    factors: Vec<Vec<Vec<f64>>>,
    /// The axis each of whose values has a factor of its own, and per value and run: whether the run has the value.
    fault: Option<(usize, Vec<Vec<bool>>)>,
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
    runs: Vec<Run>,
}

/// What a run tells at a level.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Mean per unit of similarity of the arms.
    slope: f64,
    /// Covariance far from its arm, over the run's standard deviation.
    far: f64,
    /// The same per unit of similarity.
    near: f64,
    /// Mean where the arms share the factor of a value.
    fault_mean: f64,
    /// Covariance from it, over the run's standard deviation.
    fault: f64,
}

impl<'a> Glance<'a> {
    pub(in crate::search) fn new(process: &Process, kernel: &'a Kernel) -> Self {
        let axes = kernel.values().iter().zip(&process.relevance).enumerate();
        let factors = axes.map(|(axis, (values, relevance))| {
            let similarity = |arm: usize, site: usize| kernel.on_axis(axis, arm, process.sites[site].cell.arm);
            let factor = |arm: usize, site: usize| 1.0 - relevance + relevance * similarity(arm, site);
            let value = |arm: &usize| (0..process.sites.len()).map(|site| factor(*arm, site)).collect();
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
        Self { kernel, runs: process.sites.len(), factors: factors.collect(), fault, levels }
    }

    /// The likeliest fit's mean at some levels of an arm, and at least its variance.
    pub(in crate::search) fn at(&self, arm: usize, levels: &[usize]) -> Vec<Normal> {
        let mut alike = vec![1.0; self.runs];
        for (values, factors) in self.kernel.values().iter().zip(&self.factors) {
            alike.iter_mut().zip(&factors[values.of[arm]]).for_each(|(alike, factor)| *alike *= factor);
        }
        let at = |level: &usize| {
            let [busy, idle] = &self.levels;
            let level = match self.kernel.regime(Cell { arm, level: *level }) {
                Regime::Busy => &busy[*level],
                Regime::Idle => &idle[*level],
            };
            match &self.fault {
                None => level.at(&alike),
                Some((axis, sharing)) => level.at_faulty(&alike, &sharing[self.kernel.values()[*axis].of[arm]]),
            }
        };
        levels.iter().map(at).collect()
    }
}

/// Per value of an axis and run: whether the run has the value.
fn sharing(process: &Process, kernel: &Kernel, axis: usize) -> Vec<Vec<bool>> {
    let has =
        |example: &usize| process.sites.iter().map(|site| kernel.is_same(axis, site.cell.arm, *example)).collect();
    kernel.values()[axis].examples.iter().map(has).collect()
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
        let run = |(site, dual): (&Site, &f64)| {
            let likeness = Likeness { arms: 1.0, regime: regime.similarity(kernel.regime(site.cell)) };
            let whole = kernel.covariance_of_levels(amplitudes, likeness, level, site.cell.level);
            let far = shared(amplitudes, scales, Parts { arm: 0.0, ..whole });
            let near = scales.arm * scales.arm * whole.arm;
            mean += far * dual;
            let own = kernel.covariance(amplitudes, 1.0, site.cell, site.cell);
            let sd = (shared(amplitudes, scales, own) + scales.own() + fault + site.noise + JITTER).sqrt();
            Run { slope: near * dual, far: far / sd, near: near / sd, fault_mean: fault * dual, fault: fault / sd }
        };
        let runs = process.sites.iter().zip(&fit.dual).map(run).collect();
        Self { mean, variance: shared(amplitudes, scales, itself) + scales.own() + fault, runs }
    }

    fn at(&self, alike: &[f64]) -> Normal {
        let (mut mean, mut told) = (self.mean, 0.0_f64);
        for (run, alike) in self.runs.iter().zip(alike) {
            mean += run.slope * alike;
            let covariance = run.far + run.near * alike;
            told = told.max(covariance * covariance);
        }
        Normal { mean, variance: (self.variance - told).max(0.0) }
    }

    /// The same where runs that share a value share its factor too.
    fn at_faulty(&self, alike: &[f64], sharing: &[bool]) -> Normal {
        let (mut mean, mut told) = (self.mean, 0.0_f64);
        for (run, (alike, shares)) in self.runs.iter().zip(alike.iter().zip(sharing)) {
            let (fault_mean, fault) = if *shares { (run.fault_mean, run.fault) } else { (0.0, 0.0) };
            mean += run.slope * alike + fault_mean;
            let covariance = run.far + run.near * alike + fault;
            told = told.max(covariance * covariance);
        }
        Normal { mean, variance: (self.variance - told).max(0.0) }
    }
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
            let untried: Vec<usize> = (0..6).filter(|level| !runs.contains_key(&(arm, *level))).collect();
            for fit in std::mem::take(&mut process.fits) {
                process.fits = vec![Fit { weight: 1.0, ..fit }];
                let whole = process.at(&kernel, arm, &untried);
                for (glance, whole) in Glance::new(&process, &kernel).at(arm, &untried).iter().zip(whole) {
                    prop_assert!((glance.mean - whole.mean).abs() < 1e-9, "{glance:?} {whole:?}");
                    prop_assert!(glance.variance >= whole.variance - 1e-9, "{glance:?} {whole:?}");
                }
            }
        }
    }
}
