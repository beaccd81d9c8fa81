//! A Gaussian process over cells, averaged over a small grid of scales. Pure.
//!
//! Posterior mean k' (K + N)^-1 y and variance k(x, x) - k' (K + N)^-1 k (Rasmussen and Williams, 2.2), for each point
//! of a grid. Its axes are the scale of the arms' own part, the scale of the shared curve over load, and the nugget,
//! which is a cell's own part. Points are weighted by their marginal likelihood (5.4.1), so that nothing is estimated
//! from a handful of runs. Where the prior may be off by a factor of its own for each value of some axis, so is
//! [`Fault`].

mod glance;

use std::collections::BTreeMap;

use super::Cell;
use super::kernel::{Amplitudes, Kernel, Parts};

pub(super) use self::glance::Glance;

/// Factors on what arms have of their own, and their prior odds.
const ARM_SCALES: [(f64, f64); 3] = [(0.5, 0.25), (1.0, 0.5), (2.0, 0.25)];
/// Factors on the curve over load that arms share, and their prior odds.
const LEVEL_SCALES: [(f64, f64); 3] = [(0.5, 0.3), (1.0, 0.4), (2.0, 0.3)];
/// The largest standard deviation of a cell's own deviation, in natural logarithms.
pub(super) const MOST_NUGGET: f64 = 0.12;
/// Standard deviations of a cell's own deviation, in natural logarithms.
const NUGGETS: [f64; 3] = [0.01, 0.04, MOST_NUGGET];
/// Those of a coarse fit.
const COARSE_NUGGETS: [f64; 2] = [0.02, 0.08];
/// Relevances of a named axis, and their prior odds: names that gave alike say little about the next one.
const NAMED_RELEVANCES: [(f64, f64); 3] = [(0.3, 0.3), (0.6, 0.4), (1.0, 0.3)];
/// Relevances of an ordered axis, and their prior odds.
const RELEVANCES: [(f64, f64); 4] = [(0.02, 0.2), (0.15, 0.3), (0.5, 0.3), (1.0, 0.2)];
/// The relevance an axis has until its own is fitted.
const USUAL_RELEVANCE: f64 = 0.5;
/// Points, and faults of a prior, of less posterior weight are dropped.
const LEAST_WEIGHT: f64 = 0.02;
/// Points that are kept at most: the rest changes little and every one is paid for at every cell.
const MOST_FITS: usize = 8;
/// Odds that a given prior's errors have nothing to do with any axis; the axes share the rest.
const COMMON_FAULT: f64 = 0.5;

/// Sums that are added up beside each other: one after the other, each would wait for the one before.
const LANES: usize = 4;
/// Added to every run's variance.
const JITTER: f64 = 1e-8;

/// An observation of a latent quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Site {
    pub cell: Cell,
    /// Observed minus prior mean.
    pub residual: f64,
    /// Variance of the measurement.
    pub noise: f64,
}

/// Mean and variance of a normal law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Normal {
    pub mean: f64,
    pub variance: f64,
}

/// The posterior of one latent quantity.
#[derive(Debug, Clone)]
pub(super) struct Process {
    amplitudes: Amplitudes,
    relevance: Vec<f64>,
    sites: Vec<Site>,
    fits: Vec<Fit>,
}

/// How a prior may be off beside what similar arms have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// By one factor everywhere.
    Common,
    /// By a factor of its own for each value of an axis, which says nothing of the next value.
    ByValue(usize),
}

/// A point of the grid.
#[derive(Debug, Clone, Copy)]
struct Scales {
    arm: f64,
    level: f64,
    nugget: f64,
    fault: Fault,
}

#[derive(Debug, Clone)]
struct Fit {
    weight: f64,
    scales: Scales,
    /// Lower triangle of the Cholesky factor, row by row.
    factor: Vec<Vec<f64>>,
    /// (K + N)^-1 y.
    dual: Vec<f64>,
}

impl Process {
    pub(super) fn fit(kernel: &Kernel, amplitudes: Amplitudes, sites: Vec<Site>) -> Self {
        let runs = Runs { kernel, amplitudes: &amplitudes, sites: &sites, axes: AxisTable::new(kernel, &sites) };
        let relevance = runs.relevances();
        let base = runs.base(&relevance);
        let mut fits: Vec<(f64, Fit)> = Vec::new();
        for (fault, fault_odds) in runs.faults(&base) {
            for (arm, arm_odds) in ARM_SCALES {
                for (level, level_odds) in LEVEL_SCALES {
                    for nugget in NUGGETS {
                        let scales = Scales { arm, level, nugget, fault };
                        let (fit, likelihood) = Fit::new(&runs, &base, scales);
                        fits.push((likelihood + f64::ln(fault_odds * arm_odds * level_odds), fit));
                    }
                }
            }
        }
        let most = fits.iter().map(|(l, _)| *l).fold(f64::NEG_INFINITY, f64::max);
        let fits = fits.into_iter().map(|(l, fit)| Fit { weight: (l - most).exp(), ..fit }).collect();
        let fits = kept(fits);
        Self { amplitudes, relevance, sites, fits }
    }

    /// Per arm that was run, the mean deviation from the prior.
    pub(super) fn deviations(&self) -> Vec<f64> {
        let mut arms: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for site in &self.sites {
            let (sum, n) = arms.entry(site.cell.arm).or_default();
            *sum += site.residual;
            *n += 1.0;
        }
        arms.into_values().map(|(sum, n)| sum / n).collect()
    }

    /// The posterior at some cells, those of an arm side by side, each cell's own deviation included.
    pub(super) fn at(&self, kernel: &Kernel, cells: &[Cell]) -> Vec<Normal> {
        let base: Vec<Vec<Parts>> = self.sites.iter().map(|site| self.base(kernel, site.cell, cells)).collect();
        let mut mixed = vec![Normal { mean: 0.0, variance: 0.0 }; cells.len()];
        for fit in &self.fits {
            for (mix, normal) in mixed.iter_mut().zip(fit.at(self, kernel, &base, cells)) {
                mix.mean += fit.weight * normal.mean;
                mix.variance += fit.weight * (normal.variance + normal.mean * normal.mean);
            }
        }
        mixed.iter_mut().for_each(|mix| mix.variance = (mix.variance - mix.mean * mix.mean).max(0.0));
        mixed
    }

    /// Covariances of a run with cells.
    fn base(&self, kernel: &Kernel, site: Cell, cells: &[Cell]) -> Vec<Parts> {
        let of_arm = |cells: &[Cell]| {
            let arms = cells.first().map_or(0.0, |cell| kernel.arms(&self.relevance, site.arm, cell.arm));
            cells.iter().map(|cell| kernel.covariance(&self.amplitudes, arms, site, *cell)).collect::<Vec<_>>()
        };
        cells.chunk_by(|a, b| a.arm == b.arm).flat_map(of_arm).collect()
    }
}

/// The likeliest fits, most likely first, their weights summing to 1. Each fault keeps its own share of the weight.
fn kept(mut fits: Vec<Fit>) -> Vec<Fit> {
    let total: f64 = fits.iter().map(|fit| fit.weight).sum();
    fits.iter_mut().for_each(|fit| fit.weight /= total);
    fits.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let mut kept: Vec<Fit> = Vec::with_capacity(MOST_FITS);
    while let Some(fault) = fits.first().map(|fit| fit.scales.fault) {
        let (mut own, rest): (Vec<Fit>, Vec<Fit>) = fits.into_iter().partition(|fit| fit.scales.fault == fault);
        fits = rest;
        let share: f64 = own.iter().map(|fit| fit.weight).sum();
        if share < LEAST_WEIGHT {
            continue;
        }
        own.retain(|fit| fit.weight >= LEAST_WEIGHT * share);
        own.truncate(((MOST_FITS as f64 * share).ceil() as usize).min(MOST_FITS));
        let left: f64 = own.iter().map(|fit| fit.weight).sum();
        own.iter_mut().for_each(|fit| fit.weight *= share / left);
        kept.extend(own);
    }
    let left: f64 = kept.iter().map(|fit| fit.weight).sum();
    kept.iter_mut().for_each(|fit| fit.weight /= left);
    kept.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    kept
}

/// Per pair of sites (lower triangle), the similarity of their arms on each axis.
struct AxisTable(Vec<Vec<Vec<f64>>>);

impl AxisTable {
    fn new(kernel: &Kernel, sites: &[Site]) -> Self {
        let pair = |i: usize, j: usize| {
            let on = |axis| kernel.on_axis(axis, sites[i].cell.arm, sites[j].cell.arm);
            (0..kernel.axes()).map(on).collect()
        };
        Self((0..sites.len()).map(|i| (0..=i).map(|j| pair(i, j)).collect()).collect())
    }

    fn similarity(&self, i: usize, j: usize, relevance: &[f64]) -> f64 {
        self.0[i][j].iter().zip(relevance).map(|(s, r)| 1.0 - r + r * s).product()
    }
}

/// What a process is fitted to.
struct Runs<'a> {
    kernel: &'a Kernel,
    amplitudes: &'a Amplitudes,
    sites: &'a [Site],
    axes: AxisTable,
}

impl Runs<'_> {
    /// Covariances of all pairs, lower triangle.
    fn base(&self, relevance: &[f64]) -> Vec<Vec<Parts>> {
        let pair = |i: usize, j: usize| {
            let arms = self.axes.similarity(i, j, relevance);
            self.kernel.covariance(self.amplitudes, arms, self.sites[i].cell, self.sites[j].cell)
        };
        (0..self.sites.len()).map(|i| (0..=i).map(|j| pair(i, j)).collect()).collect()
    }

    /// The most likely relevance of every axis, one axis after the other from the usual one.
    fn relevances(&self) -> Vec<f64> {
        let mut relevance = vec![USUAL_RELEVANCE; self.kernel.axes()];
        for axis in 0..relevance.len() {
            // An axis on which only one value was run has nothing to say about its relevance.
            if self.axes.0.iter().flatten().all(|pair| pair[axis] == 1.0) {
                continue;
            }
            let mut best = (f64::NEG_INFINITY, relevance[axis]);
            let candidates = if self.kernel.is_named(axis) { &NAMED_RELEVANCES[..] } else { &RELEVANCES[..] };
            for (candidate, odds) in candidates.iter().copied() {
                relevance[axis] = candidate;
                let base = self.base(&relevance);
                let most = self.coarse_likelihood(&base, Fault::Common) + f64::ln(odds);
                if most > best.0 {
                    best = (most, candidate);
                }
            }
            relevance[axis] = best.1;
        }
        relevance
    }

    /// The ways in which the prior may be off that a coarse fit does not rule out, and their odds.
    fn faults(&self, base: &[Vec<Parts>]) -> Vec<(Fault, f64)> {
        if self.amplitudes.fault == 0.0 {
            return vec![(Fault::Common, 1.0)];
        }
        let axes = self.kernel.axes();
        let by_value = (0..axes).map(|axis| (Fault::ByValue(axis), (1.0 - COMMON_FAULT) / axes as f64));
        let faults: Vec<(Fault, f64)> = std::iter::once((Fault::Common, COMMON_FAULT)).chain(by_value).collect();
        let logs: Vec<f64> =
            faults.iter().map(|(fault, odds)| self.coarse_likelihood(base, *fault) + f64::ln(*odds)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_likely = |log: &f64| (log - most).exp() >= LEAST_WEIGHT;
        faults.into_iter().zip(&logs).filter(|(_, log)| is_likely(log)).map(|(fault, _)| fault).collect()
    }

    /// The greatest ln marginal likelihood of two fits: without and with much that a cell has of its own.
    fn coarse_likelihood(&self, base: &[Vec<Parts>], fault: Fault) -> f64 {
        let likelihood = |nugget: f64| Fit::new(self, base, Scales { arm: 1.0, level: 1.0, nugget, fault }).1;
        COARSE_NUGGETS.map(likelihood).into_iter().fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Fit {
    fn new(runs: &Runs<'_>, base: &[Vec<Parts>], scales: Scales) -> (Self, f64) {
        let sites = runs.sites;
        let mut factor: Vec<Vec<f64>> = Vec::with_capacity(sites.len());
        // A division takes as long as a dozen multiplications.
        let mut inverse: Vec<f64> = Vec::with_capacity(sites.len());
        for (i, site) in sites.iter().enumerate() {
            let mut row = Vec::with_capacity(i + 1);
            for j in 0..=i {
                let mut value = shared(runs.amplitudes, scales, base[i][j]);
                if let Fault::ByValue(axis) = scales.fault
                    && runs.kernel.is_same(axis, site.cell.arm, sites[j].cell.arm)
                {
                    value += scales.fault(runs.amplitudes);
                }
                if site.cell == sites[j].cell {
                    value += scales.own();
                }
                if i == j {
                    // The jitter keeps repeated exact observations of one cell solvable.
                    value += site.noise + JITTER;
                }
                let above = if i == j { &row } else { &factor[j] };
                value -= dot(&row[..j.min(row.len())], &above[..j]);
                let entry = if i == j { value.max(1e-12).sqrt() } else { value * inverse[j] };
                row.push(entry);
            }
            inverse.push(1.0 / row[i]);
            factor.push(row);
        }
        let residuals: Vec<f64> = sites.iter().map(|site| site.residual).collect();
        let half = forward(&factor, &residuals);
        let fit = dot(&half, &half);
        let log_det: f64 = factor.iter().enumerate().map(|(i, row)| row[i].ln()).sum();
        let dual = backward(&factor, half);
        (Self { weight: 0.0, scales, factor, dual }, -0.5 * fit - log_det)
    }

    /// The posterior at cells: all of them are solved for at once, a row of cells per run.
    fn at(&self, process: &Process, kernel: &Kernel, base: &[Vec<Parts>], cells: &[Cell]) -> Vec<Normal> {
        let amplitudes = &process.amplitudes;
        let prior = |cell: &Cell| {
            let own = kernel.covariance(amplitudes, 1.0, *cell, *cell);
            let variance = shared(amplitudes, self.scales, own) + self.scales.own() + self.scales.fault(amplitudes);
            Normal { mean: 0.0, variance }
        };
        let mut normals: Vec<Normal> = cells.iter().map(prior).collect();
        let mut solved: Vec<f64> = Vec::with_capacity(base.len() * cells.len());
        let fault = self.scales.fault(amplitudes);
        for (i, (site, base)) in process.sites.iter().zip(base).enumerate() {
            let fault = |cell: &Cell| match self.scales.fault {
                Fault::ByValue(axis) if kernel.is_same(axis, site.cell.arm, cell.arm) => fault,
                Fault::ByValue(_) | Fault::Common => 0.0,
            };
            for (normal, (cell, base)) in normals.iter_mut().zip(cells.iter().zip(base)) {
                let own = if site.cell == *cell { self.scales.own() } else { 0.0 };
                let covariance = shared(amplitudes, self.scales, *base) + own + fault(cell);
                normal.mean += covariance * self.dual[i];
                solved.push(covariance);
            }
            let (above, row) = solved.split_at_mut(i * cells.len());
            for (factor, above) in self.factor[i].iter().zip(above.chunks_exact(cells.len().max(1))) {
                row.iter_mut().zip(above).for_each(|(value, above)| *value -= factor * above);
            }
            let diagonal = 1.0 / self.factor[i][i];
            for (value, normal) in row.iter_mut().zip(&mut normals) {
                *value *= diagonal;
                normal.variance -= *value * *value;
            }
        }
        normals.iter_mut().for_each(|normal| normal.variance = normal.variance.max(0.0));
        normals
    }
}

impl Scales {
    /// Variance of what a cell has of its own.
    fn own(self) -> f64 {
        self.nugget * self.nugget
    }

    /// Variance of the factor that a value of the fault's axis has of its own.
    fn fault(self, amplitudes: &Amplitudes) -> f64 {
        match self.fault {
            Fault::Common => 0.0,
            Fault::ByValue(_) => amplitudes.fault * amplitudes.fault,
        }
    }
}

fn shared(amplitudes: &Amplitudes, scales: Scales, base: Parts) -> f64 {
    let offset = amplitudes.offset * amplitudes.offset;
    offset + scales.arm * scales.arm * base.arm + scales.level * scales.level * base.level
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, rest_of_a) = a.as_chunks::<LANES>();
    let (b, rest_of_b) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (x, y))| *sum += x * y);
    }
    let rest: f64 = rest_of_a.iter().zip(rest_of_b).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

fn forward(factor: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut solved: Vec<f64> = Vec::with_capacity(right.len());
    for (row, value) in factor.iter().zip(right) {
        let known = solved.len();
        solved.push((value - dot(&row[..known], &solved)) / row[known]);
    }
    solved
}

fn backward(factor: &[Vec<f64>], mut right: Vec<f64>) -> Vec<f64> {
    for i in (0..right.len()).rev() {
        let below: f64 = (i + 1..right.len()).map(|k| factor[k][i] * right[k]).sum();
        right[i] = (right[i] - below) / factor[i][i];
    }
    right
}

#[cfg(test)]
mod tests;
