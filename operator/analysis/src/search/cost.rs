//! What a run is expected to cost, and what the budget still allows. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Cell, Measurement, Outcome, Space};

/// Seconds taken for a start or a run before any was seen and none was declared.
const UNKNOWN_SECONDS: f64 = 60.0;

/// The most a search may spend. Absent limits do not bind.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// GPU-seconds of starts and runs. Kept exactly where the space declares run and start times as upper bounds.
    pub gpu_seconds: Option<f64>,
    /// Runs, confirm runs included.
    pub measurements: Option<usize>,
    /// Engines that may be built.
    pub engines: Option<usize>,
}

/// Prices of runs, from what was declared and seen.
#[derive(Debug, Clone)]
pub(super) struct Costs<'a> {
    space: &'a Space,
    start_seconds: f64,
    run_seconds: f64,
    warm: Option<usize>,
}

impl<'a> Costs<'a> {
    pub(super) fn new(space: &'a Space, measurements: &[Measurement], warm: Option<usize>) -> Self {
        let full = |m: &&Measurement| !matches!(m.outcome, Outcome::Aborted { .. });
        let run = mean(measurements.iter().filter(full).map(|m| m.run_seconds));
        let start = mean(measurements.iter().map(|m| m.start_seconds).filter(|s| *s > 0.0));
        Self {
            space,
            start_seconds: start.unwrap_or(UNKNOWN_SECONDS),
            run_seconds: space.run_seconds.or(run).unwrap_or(UNKNOWN_SECONDS),
            warm,
        }
    }

    /// GPU-seconds of a run that is feasible with this chance and cut short otherwise.
    pub(super) fn expected(&self, cell: Cell, feasible: f64) -> f64 {
        let share = feasible + (1.0 - feasible) * self.space.abort_fraction;
        self.gpus(cell) * (self.start(cell) + self.run_seconds * share)
    }

    /// GPU-seconds at worst.
    pub(super) fn most(&self, cell: Cell) -> f64 {
        self.gpus(cell) * (self.start(cell) + self.run_seconds)
    }

    /// GPU-seconds at worst when another arm ran in between.
    pub(super) fn cold(&self, cell: Cell) -> f64 {
        Self { warm: None, ..self.clone() }.most(cell)
    }

    fn gpus(&self, cell: Cell) -> f64 {
        self.space.arms[cell.arm].gpus
    }

    fn start(&self, cell: Cell) -> f64 {
        match self.warm == Some(cell.arm) {
            true => 0.0,
            false => self.space.arms[cell.arm].start_seconds.unwrap_or(self.start_seconds),
        }
    }
}

/// What is left of a budget.
#[derive(Debug, Clone)]
pub(super) struct Purse {
    budget: Budget,
    spent_seconds: f64,
    runs: usize,
    engines: BTreeSet<usize>,
}

impl Purse {
    pub(super) fn new(budget: Budget, space: &Space, measurements: &[Measurement]) -> Self {
        let seconds = |m: &Measurement| space.arms[m.cell.arm].gpus * (m.start_seconds + m.run_seconds);
        Self {
            budget,
            spent_seconds: measurements.iter().map(seconds).sum(),
            runs: measurements.len(),
            engines: measurements.iter().map(|m| space.arms[m.cell.arm].engine).collect(),
        }
    }

    /// Sets aside what a run under way may cost.
    pub(super) fn commit(&mut self, space: &Space, cell: Cell, most: f64) {
        self.spent_seconds += most;
        self.runs += 1;
        self.engines.insert(space.arms[cell.arm].engine);
    }

    /// Whether a run of at most these GPU-seconds fits and leaves `reserve_seconds` and `reserve_runs`.
    pub(super) fn allows(&self, engine: usize, most: f64, reserve: Reserve) -> bool {
        let seconds = self.budget.gpu_seconds.is_none_or(|b| self.spent_seconds + most + reserve.gpu_seconds <= b);
        let runs = self.budget.measurements.is_none_or(|b| self.runs + 1 + reserve.runs <= b);
        let known = self.engines.contains(&engine);
        let engines = self.budget.engines.is_none_or(|b| known || self.engines.len() < b);
        seconds && runs && engines
    }
}

/// What must stay for the confirm run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Reserve {
    pub gpu_seconds: f64,
    pub runs: usize,
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0u32, 0.0), |(n, sum), value| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}
