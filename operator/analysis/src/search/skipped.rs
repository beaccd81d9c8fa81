//! Why cells of an arm were not measured: it makes "N of M configurations were measured" a statement that can be
//! checked. Pure.

use serde::{Deserialize, Serialize};

/// An arm with cells that were not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Skipped {
    /// Position of the arm.
    pub arm: usize,
    /// Why they were not.
    pub why: WhyNot,
}

/// Why the open cells of an arm were not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WhyNot {
    /// None of them is likely to meet the objectives.
    Infeasible {
        /// The greatest chance of them.
        feasible: f64,
    },
    /// What they may gain is not worth a run.
    Dominated {
        /// The greatest expected gain in ln objective of them.
        gain: f64,
        /// The greatest chance of them of being feasible.
        feasible: f64,
    },
    /// They were worth a run that the budget did not allow.
    Budget {
        /// The greatest expected gain in ln objective of them.
        gain: f64,
        /// The greatest chance of them of being feasible.
        feasible: f64,
    },
    /// The strategy's rule never reached them. The rule is a baseline's, or that of the search in a space too large to
    /// score, where better candidates were not worth a run.
    NotVisited,
}
