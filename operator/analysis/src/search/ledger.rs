//! What the runs so far say by themselves, cell by cell, without the surrogate. Pure.

use std::collections::{BTreeMap, BTreeSet};

use statrs::function::erf::erfc;

use super::kernel::Kernel;
use super::{Cell, Measurement, Outcome, Purpose, Space};
use crate::slo::{Bound, Nearest, nearest};

/// What a cell's own runs say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub cell: Cell,
    /// Mean ln objective, larger is better.
    pub objective: f64,
    /// Chance that the true values meet every constraint, given the runs' standard errors.
    pub feasible: f64,
    pub runs: usize,
    pub confirmed: bool,
}

/// The runs so far.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    space: &'a Space,
    measurements: &'a [Measurement],
    candidates: Vec<Candidate>,
    refuted: BTreeSet<Cell>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(space: &'a Space, measurements: &'a [Measurement]) -> Self {
        let mut runs: BTreeMap<Cell, Vec<&Measurement>> = BTreeMap::new();
        for measurement in measurements {
            runs.entry(measurement.cell).or_default().push(measurement);
        }
        let mut candidates = Vec::new();
        let mut refuted = BTreeSet::new();
        for (cell, runs) in runs {
            match candidate(space, cell, &runs) {
                Some(candidate) => candidates.push(candidate),
                None => {
                    refuted.insert(cell);
                }
            }
        }
        Self { space, measurements, candidates, refuted }
    }

    /// Cells all of whose runs finished.
    pub(super) fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    pub(super) fn tried(&self, cell: Cell) -> bool {
        self.refuted.contains(&cell) || self.candidates.iter().any(|c| c.cell == cell)
    }

    pub(super) fn arm_tried(&self, arm: usize) -> bool {
        self.measurements.iter().any(|m| m.cell.arm == arm)
    }

    /// The cell of each run.
    pub(super) fn run_cells(&self) -> impl Iterator<Item = Cell> {
        self.measurements.iter().map(|m| m.cell)
    }

    /// The cell of each run that met every limit.
    pub(super) fn cells_that_met(&self) -> impl Iterator<Item = Cell> {
        self.measurements.iter().filter(|m| !self.misses(m)).map(|m| m.cell)
    }

    /// The arm whose engine is warm: the last one run.
    pub(super) fn warm(&self) -> Option<usize> {
        self.measurements.last().map(|m| m.cell.arm)
    }

    /// Cells whose confirm runs refuted them.
    pub(super) fn failed_confirms(&self) -> usize {
        let confirms = self.measurements.iter().filter(|m| m.purpose == Purpose::Confirm);
        confirms.filter(|m| self.misses(m)).map(|m| m.cell).collect::<BTreeSet<_>>().len()
    }

    /// Whether a run failed or missed a limit.
    fn misses(&self, measurement: &Measurement) -> bool {
        match &measurement.outcome {
            Outcome::Measured { values, .. } => !self.space.meets(values),
            Outcome::Aborted { .. } | Outcome::Failed => true,
        }
    }

    /// What soft monotonicity leaves of a cell's chance. A time that missed its limit by a tenth at a lower level is
    /// rarely met at a higher level of the same arm. Where it left instances idle it says nothing of a load that does
    /// not.
    pub(super) fn monotone(&self, kernel: &Kernel, cell: Cell) -> f64 {
        const SLACK: f64 = 1.1;
        const PER_LEVEL: f64 = 0.3;
        let missed = |m: &&Measurement| {
            let is_below = m.cell.arm == cell.arm && m.cell.level < cell.level;
            is_below && kernel.regime(m.cell) == kernel.regime(cell) && self.time_excess(m) > SLACK
        };
        let nearest = self.measurements.iter().filter(missed).map(|m| cell.level - m.cell.level).max();
        nearest.map_or(1.0, |levels| PER_LEVEL.powi(i32::try_from(levels).unwrap_or(i32::MAX)))
    }

    /// Whether, from a level on and away from a cell of the same arm, the arm was run, and every time missed a limit or
    /// failed. Such runs say little of a level on the near side: past a limit queues and errors grow out of proportion.
    pub(super) fn only_misses_beyond(&self, cell: Cell, level: usize) -> bool {
        let is_beyond = |m: &&Measurement| {
            let away = if level > cell.level { m.cell.level > level } else { m.cell.level < level };
            m.cell.arm == cell.arm && away
        };
        let mut beyond = self.measurements.iter().filter(is_beyond).peekable();
        beyond.peek().is_some() && beyond.all(|m| self.misses(m))
    }

    /// The greatest factor by which a run missed a limit on a time that grows with load. Time to first token is left
    /// out: its sample percentile falls with load in one pair of runs out of ten.
    fn time_excess(&self, measurement: &Measurement) -> f64 {
        use super::MetricKind::{Latency, PerToken};
        let value = |metric: usize| match &measurement.outcome {
            Outcome::Measured { values, .. } => Some(values[metric]),
            Outcome::Aborted { values, .. } => values[metric],
            Outcome::Failed => None,
        };
        let times = self.space.constraints.iter().filter(|c| {
            matches!(self.space.metrics[c.metric].kind, Latency | PerToken) && matches!(c.bound, Bound::AtMost(_))
        });
        times.filter_map(|c| Some(self.space.limit(c).excess(value(c.metric)?))).fold(0.0, f64::max)
    }

    /// The run that came nearest to meeting every constraint.
    pub(super) fn nearest(&self) -> Option<Nearest> {
        let limits: Vec<_> = self.space.constraints.iter().map(|c| self.space.limit(c)).collect();
        let row = |m: &Measurement| -> Vec<Option<f64>> {
            let of = |metric: usize| match &m.outcome {
                Outcome::Measured { values, .. } => Some(values[metric]),
                Outcome::Aborted { .. } | Outcome::Failed => None,
            };
            self.space.constraints.iter().map(|c| of(c.metric)).collect()
        };
        let full: Vec<_> = self.measurements.iter().map(row).collect();
        nearest(&limits, &full)
    }
}

/// `None` when a run was aborted or failed.
fn candidate(space: &Space, cell: Cell, runs: &[&Measurement]) -> Option<Candidate> {
    let mut logs = vec![0.0; space.metrics.len()];
    let mut variances = vec![0.0; space.metrics.len()];
    for run in runs {
        let Outcome::Measured { values, log_sds } = &run.outcome else { return None };
        // A value of zero has no logarithm; the least positive number stands for it on the right side of any limit.
        logs.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.max(f64::MIN_POSITIVE).ln());
        variances.iter_mut().zip(log_sds).for_each(|(sum, log_sd)| *sum += log_sd * log_sd);
    }
    let n = runs.len() as f64;
    logs.iter_mut().for_each(|sum| *sum /= n);
    let chance = |c: &super::Constraint| {
        let (limit, sign) = match c.bound {
            Bound::AtMost(limit) => (limit, 1.0),
            Bound::AtLeast(limit) => (limit, -1.0),
        };
        let sd = variances[c.metric].sqrt() / n;
        if sd > 0.0 && limit > 0.0 {
            return 0.5 * erfc(-sign * (limit.ln() - logs[c.metric]) / sd * std::f64::consts::FRAC_1_SQRT_2);
        }
        let met = runs.iter().all(|run| match &run.outcome {
            Outcome::Measured { values, .. } => space.limit(c).is_met(values[c.metric]),
            Outcome::Aborted { .. } | Outcome::Failed => false,
        });
        if met { 1.0 } else { 0.0 }
    };
    let sign = space.direction.as_cost(-1.0);
    Some(Candidate {
        cell,
        objective: sign * logs[space.objective],
        feasible: space.constraints.iter().map(chance).product(),
        runs: runs.len(),
        confirmed: runs.iter().any(|run| run.purpose == Purpose::Confirm),
    })
}
