//! Early verdicts: ends a measurement run as soon as its requests prove that it is infeasible or cannot win. Pure.
//!
//! Every objective "p of X at most L" is two sequential tests of the share of requests above L
//! ([`crate::slo::RateTest`]). They stay valid however often they are evaluated: after every request or after every
//! chunk. A run is *infeasible* when one objective's evidence that its share is above 1 - p reaches k / alpha with k
//! objectives (Bonferroni). It is *feasible* when every objective's evidence that its share is below 1 - p reaches 1 /
//! alpha. That sample is discounted for the correlation of requests that share a batch (an intersection-union test
//! needs no correction). An early "feasible" ranks points; a final answer still takes a full run.

mod incumbent;

use serde::{Deserialize, Serialize};
use slipway_vocabulary::evidence::Quantile;

use crate::slo::{CONFIDENCE, RateTest, Side, least_sample};

pub use self::incumbent::IncumbentTest;

/// How much evidence a verdict takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlyRule {
    /// Chance of a wrong verdict on independent requests, over the whole run.
    pub alpha: f64,
    /// What a request counts in the evidence that aborts. A wrong abort costs optimality only.
    pub abort_weight: f64,
    /// What a request counts in the evidence that accepts. A wrong accept costs a confirm run.
    pub accept_weight: f64,
}

impl Default for EarlyRule {
    /// 5 %. Requests that share a batch slow down together, so an accepting verdict counts each as 0.3 of a request. An
    /// aborting one counts them in full, because its error is cheaper than the run.
    fn default() -> Self {
        Self { alpha: 0.05, abort_weight: 1.0, accept_weight: 0.3 }
    }
}

/// What is known about a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EarlyVerdict {
    /// Every objective is shown to be met.
    Feasible,
    /// This objective, by position, is shown to be missed.
    Infeasible {
        /// Position of the objective.
        objective: usize,
    },
    /// Neither is shown.
    Undecided,
}

/// The running evidence of one measurement run. Serialisable, so that a run continues after its process is replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlyWatch {
    rule: EarlyRule,
    objectives: Vec<ObjectiveWatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectiveWatch {
    quantile: Quantile,
    above: RateTest,
    below: RateTest,
}

impl EarlyWatch {
    /// Starts watching one run against one objective per quantile.
    #[must_use]
    pub fn new(rule: EarlyRule, quantiles: &[Quantile]) -> Self {
        let watch = |quantile: &Quantile| ObjectiveWatch {
            quantile: *quantile,
            above: RateTest::new(Side::Above, quantile.exceedance()),
            below: RateTest::new(Side::Below, quantile.exceedance()),
        };
        Self { rule, objectives: quantiles.iter().map(watch).collect() }
    }

    /// Adds requests of one objective: how many exceeded its limit and how many did not. A request that still waits
    /// past the limit exceeds it now. Unknown positions are ignored.
    pub fn observe(&mut self, objective: usize, exceeding: u64, meeting: u64) {
        if let Some(watch) = self.objectives.get_mut(objective) {
            watch.above.observe(exceeding, meeting);
            watch.below.observe(exceeding, meeting);
        }
    }

    /// The verdict on what was added so far.
    #[must_use]
    pub fn verdict(&self) -> EarlyVerdict {
        let abort_at = (self.objectives.len() as f64 / self.rule.alpha).ln();
        let abort = |w: &ObjectiveWatch| w.above.discounted_log_evidence(self.rule.abort_weight) >= abort_at;
        if let Some(objective) = self.objectives.iter().position(abort) {
            return EarlyVerdict::Infeasible { objective };
        }
        let accept_at = -self.rule.alpha.ln();
        let accept = |w: &ObjectiveWatch| {
            w.below.samples() >= least_sample(w.quantile, CONFIDENCE)
                && w.below.discounted_log_evidence(self.rule.accept_weight) >= accept_at
        };
        match !self.objectives.is_empty() && self.objectives.iter().all(accept) {
            true => EarlyVerdict::Feasible,
            false => EarlyVerdict::Undecided,
        }
    }

    /// Requests seen by the objective that saw the most.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.objectives.iter().map(|w| w.above.samples()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
