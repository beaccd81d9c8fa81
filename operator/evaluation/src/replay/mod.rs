//! Replays a search on a table of recorded measurements: what it would have cost and what it would have found. Pure.
//!
//! Every row read is a run, the confirm run too, and a row is seen only after it is paid for. A run costs its GPUs
//! times its seconds, plus the start whenever the arm is not the one of the run before.

mod abort;
mod run;

use serde::Serialize;
use slipway_analysis::search::{Cell, Measurement, Space};

pub use self::abort::{Abort, Fractions, Streams};
pub use self::run::replay;

/// A recorded grid and the rules of the game.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What the search is given.
    pub space: Space,
    /// Column names of the arms' identity, in the order of the space's axes.
    pub arm_columns: Vec<String>,
    /// The recorded rows, by arm and level.
    pub rows: Vec<Vec<Option<Row>>>,
    /// How runs that prove infeasible are cut short.
    pub abort: Abort,
    /// Standard deviation of the noise that the search sees, in natural logarithms, per run and metric.
    pub noise_log_sd: f64,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// One value per metric; `None` for a run that failed.
    pub values: Option<Vec<f64>>,
    /// Seconds the engine takes to start.
    pub start_seconds: f64,
    /// Seconds a full run takes.
    pub run_seconds: f64,
}

/// What a replayed search did and found. GPU-seconds include starts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayResult {
    /// The method's name.
    pub method: String,
    /// Runs, the confirm run included.
    pub runs: usize,
    /// Engine starts.
    pub starts: usize,
    /// GPU-seconds of starts and runs.
    pub gpu_seconds: f64,
    /// The answer; `None` when it says that nothing is feasible or that it does not know.
    pub chosen: Option<Place>,
    /// The answer's true objective.
    pub objective: Option<f64>,
    /// True objective over the best feasible one, or its inverse when less is better; 0 when the answer violates a
    /// constraint or is missing, `None` when nothing is feasible.
    pub ratio_to_optimum: Option<f64>,
    /// Whether the answer truly meets every constraint.
    pub feasible: bool,
    /// What the method expected the best further run to gain in ln objective when it stopped, where it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain_left: Option<f64>,
    /// Every run in order, as people read it.
    pub trace: Vec<TraceEntry>,
    /// The same runs as a search sees them.
    #[serde(skip)]
    pub measurements: Vec<Measurement>,
}

/// A cell, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Identity of the arm: value by column.
    pub arm: serde_json::Map<String, serde_json::Value>,
    /// The load level.
    pub level: f64,
}

/// One run of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEntry {
    /// What was run.
    #[serde(flatten)]
    pub place: Place,
    /// What it cost, the start included.
    pub gpu_seconds: f64,
    /// Whether it met every constraint, as seen.
    pub feasible: bool,
    /// Whether the early verdict ended it.
    pub aborted: bool,
    /// Why it was made.
    pub reason: String,
}

impl Problem {
    /// The recorded row of a cell.
    #[must_use]
    pub fn row(&self, cell: Cell) -> Option<&Row> {
        self.rows.get(cell.arm)?.get(cell.level)?.as_ref()
    }

    /// The best true objective among feasible rows.
    #[must_use]
    pub fn optimum(&self) -> Option<f64> {
        let rows = self.rows.iter().flatten().flatten().filter_map(|row| row.values.as_ref());
        let feasible = rows.filter(|values| self.space.meets(values)).map(|values| values[self.space.objective]);
        feasible.max_by(|a, b| self.space.compare(*a, *b))
    }
}

#[cfg(test)]
mod tests;
