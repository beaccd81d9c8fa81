//! What a search strategy is asked and what it answers. Pure.

use serde::{Deserialize, Serialize};

use super::{Cell, Skipped};
use crate::slo::Nearest;

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Outcome {
    /// A full run.
    Measured {
        /// One value per metric.
        values: Vec<f64>,
        /// Standard error of each ln value, from the run's own spread; 0 when exact.
        log_sds: Vec<f64>,
    },
    /// A run that the early verdict ended as infeasible.
    Aborted {
        /// One estimate per metric from the part that ran, where there is one.
        values: Vec<Option<f64>>,
        /// Standard error of each ln value of those estimates.
        log_sds: Vec<f64>,
    },
    /// A run that crashed, ran out of memory or did not start.
    Failed,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was measured to its end, whatever it showed.
    Whole,
    /// An early verdict may have ended it as infeasible.
    CutShort,
    /// It failed.
    Failed,
}

impl Outcome {
    /// The outcome of a run by its ending and by what is known of each metric. One that lacks a value says no more than
    /// one that was cut short.
    #[must_use]
    pub fn of(ending: Ending, values: Vec<Option<f64>>, log_sds: Vec<f64>) -> Self {
        match (ending, values.iter().copied().collect::<Option<Vec<f64>>>()) {
            (Ending::Failed, _) => Self::Failed,
            (Ending::Whole, Some(values)) => Self::Measured { values, log_sds },
            (Ending::Whole | Ending::CutShort, _) => Self::Aborted { values, log_sds },
        }
    }
}

/// Why a run was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// To learn.
    Explore,
    /// To confirm the choice with a run of its own.
    Confirm,
}

/// One finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// What was run.
    pub cell: Cell,
    /// Why.
    pub purpose: Purpose,
    /// Seconds the engine took to start for it; 0 on a warm engine.
    pub start_seconds: f64,
    /// Seconds the run took.
    pub run_seconds: f64,
    /// What it gave.
    pub outcome: Outcome,
}

/// A search so far.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Finished runs, in the order in which they finished.
    pub measurements: &'a [Measurement],
    /// Runs under way.
    pub pending: &'a [Cell],
}

/// A run to make next and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// What to run.
    pub cell: Cell,
    /// Explore, or confirm.
    pub purpose: Purpose,
    /// Why, with numbers, for people.
    pub reason: String,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Conclusion {
    /// A configuration that meets every objective.
    Chosen {
        /// What to serve.
        cell: Cell,
        /// Why the search ended here.
        reason: String,
        /// What the best further run was expected to gain in ln objective; `None` where nothing says so.
        gain_left: Option<f64>,
    },
    /// Nothing meets every objective.
    Infeasible {
        /// What came nearest and which objective binds there; `None` when no run gave values. Its point is the position
        /// of the measurement.
        nearest: Option<Nearest>,
        /// Why the search is sure, or what ended it.
        reason: String,
    },
    /// A configuration looked feasible and failed its confirm runs, or the budget ended before one.
    Unknown {
        /// The best configuration that was not refuted.
        best: Option<Cell>,
        /// What stood in the way.
        reason: String,
    },
}

/// A strategy's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Step {
    /// Make these runs, best first.
    Measure {
        /// At least one.
        proposals: Vec<Proposal>,
    },
    /// Nothing more can be said until a pending run ends.
    Wait,
    /// The search is over.
    Done {
        /// What it found.
        conclusion: Conclusion,
        /// Every arm with cells that were not run, and why these were not.
        skipped: Vec<Skipped>,
    },
}

/// A search strategy: a pure function of what it was built from (space, seed, settings) and the measurements so far.
///
/// Asked twice with the same progress it answers the same, and it needs nothing but the progress to go on: a search
/// resumes from any prefix of its measurements.
pub trait SearchStrategy {
    /// Says what to do next.
    fn next(&self, progress: Progress<'_>) -> Step;
}
