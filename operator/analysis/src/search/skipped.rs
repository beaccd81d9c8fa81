//! Why an arm was not measured: it makes "N of M configurations were measured" a statement that can be checked. Pure.

use serde::{Deserialize, Serialize};

/// An arm without a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Position of the arm.
    pub arm: usize,
    /// Why.
    pub why: WhyNot,
}

/// Why an arm was not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WhyNot {
    /// No level of it is likely to meet the objectives.
    Infeasible {
        /// The greatest chance over its levels.
        feasible: f64,
    },
    /// What it may gain is not worth a run.
    Dominated {
        /// The greatest expected gain in ln objective over its levels.
        gain: f64,
        /// The greatest chance of being feasible over its levels.
        feasible: f64,
    },
    /// It was worth a run that the budget did not allow.
    Budget {
        /// The greatest expected gain in ln objective over its levels.
        gain: f64,
        /// The greatest chance of being feasible over its levels.
        feasible: f64,
    },
    /// The strategy's rule never reached it. The rule is a baseline's, or that of the search in a space too large to
    /// score, where better candidates were not worth a run.
    NotVisited,
}
