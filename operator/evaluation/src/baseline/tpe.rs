//! A tree-structured Parzen estimator over the enumerated space. Pure.
//!
//! After Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (NeurIPS 2011): the best quarter of the runs
//! and the rest each give a density per dimension. Of a sample of candidates the one with the greatest ratio is run.
//! Feasible runs rank before infeasible ones, as Optuna's constrained sampler does. Ends after a tenth of the space, at
//! least twenty runs, or ten runs without improvement, as Model Analyzer's Optuna mode.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_analysis::search::{Cell, Space};

use super::memo::{Grade, Memo, Need, Seen};

const STARTUP: usize = 8;
const CANDIDATES: usize = 24;
const GOOD_SHARE: f64 = 0.25;
const LEAST_RUNS: usize = 20;
const PATIENCE: usize = 10;

pub(super) fn tpe(memo: &Memo<'_>, seed: u64) -> Result<(), Need> {
    let cells: Vec<Cell> = memo.space.cells().collect();
    let most = (cells.len() / 10).max(LEAST_RUNS).min(cells.len());
    let coordinates = Coordinates::new(memo.space);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut seen: Vec<Seen> = Vec::new();
    let mut best: Option<(usize, Grade)> = None;
    while seen.len() < most {
        let open: Vec<Cell> = cells.iter().copied().filter(|c| !seen.iter().any(|s| s.cell == *c)).collect();
        let sample: Vec<Cell> = open.sample(&mut rng, CANDIDATES).copied().collect();
        let pick = match seen.len() < STARTUP {
            true => sample.get(rng.random_range(0..sample.len().max(1))).copied(),
            false => coordinates.most_promising(&seen, &sample),
        };
        let Some(cell) = pick else { break };
        let run = memo.run(cell, "Parzen estimator")?;
        seen.push(run);
        if best.is_none_or(|(_, grade)| run.grade > grade) {
            best = Some((seen.len(), run.grade));
        }
        if best.is_some_and(|(at, _)| seen.len() >= STARTUP + PATIENCE && seen.len() - at >= PATIENCE) {
            break;
        }
    }
    Ok(())
}

/// Every arm's coordinates as indices of its axes' distinct values.
struct Coordinates {
    arms: Vec<Vec<usize>>,
    sizes: Vec<usize>,
}

impl Coordinates {
    fn new(space: &Space) -> Self {
        let mut sizes = Vec::new();
        let mut arms = vec![Vec::new(); space.arms.len()];
        for axis in 0..space.axes.len() {
            let distinct = super::quick::distinct(space, axis);
            for (coordinates, arm) in arms.iter_mut().zip(&space.arms) {
                coordinates.push(distinct.iter().position(|v| *v == arm.values[axis]).unwrap_or(0));
            }
            sizes.push(distinct.len());
        }
        sizes.push(space.levels.len());
        Self { arms, sizes }
    }

    fn of(&self, cell: Cell) -> impl Iterator<Item = usize> + '_ {
        self.arms[cell.arm].iter().copied().chain([cell.level])
    }

    fn most_promising(&self, seen: &[Seen], sample: &[Cell]) -> Option<Cell> {
        let mut ranked: Vec<&Seen> = seen.iter().collect();
        ranked.sort_by(|a, b| b.grade.partial_cmp(&a.grade).unwrap_or(std::cmp::Ordering::Equal));
        let split = ((seen.len() as f64 * GOOD_SHARE).ceil() as usize).clamp(1, seen.len());
        let (good, bad) = ranked.split_at(split);
        let ratio = |cell: &Cell| self.log_density(good, *cell) - self.log_density(bad, *cell);
        sample.iter().copied().reduce(|best, cell| if ratio(&cell) > ratio(&best) { cell } else { best })
    }

    /// Sum over dimensions of the log of a histogram smoothed over neighbours, with one prior count.
    fn log_density(&self, runs: &[&Seen], cell: Cell) -> f64 {
        let kernel = |a: usize, b: usize| match a.abs_diff(b) {
            0 => 1.0,
            1 => 0.3,
            _ => 0.0,
        };
        let dimension = |(k, (x, size)): (usize, (usize, &usize))| {
            let mass: f64 = runs.iter().filter_map(|s| self.of(s.cell).nth(k)).map(|y| kernel(x, y)).sum();
            ((mass + 1.0 / *size as f64) / (runs.len() as f64 + 1.0)).ln()
        };
        self.of(cell).zip(&self.sizes).enumerate().map(dimension).sum()
    }
}
