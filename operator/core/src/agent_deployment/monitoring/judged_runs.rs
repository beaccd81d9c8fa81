//! What is seen of the runs that objectives have judged in the last weeks. Plain data.

use std::collections::BTreeMap;

/// Runs that an objective judged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct JudgedRuns {
    /// Those within the objective.
    pub good: f64,
    /// The others.
    pub bad: f64,
}

/// What is known of the runs of the last weeks.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum BudgetsView {
    /// There was no query: there is no Prometheus, or the figures are still fresh.
    #[default]
    NotAsked,
    /// Prometheus did not answer.
    Failed {
        /// What went wrong.
        problem: String,
    },
    /// What it counted.
    Counted {
        /// The runs, by the name of the objective.
        runs: BTreeMap<String, JudgedRuns>,
        /// The seconds that they span.
        seconds: u64,
    },
}
