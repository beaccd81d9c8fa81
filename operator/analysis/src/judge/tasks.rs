//! Whether tasks of the canary fail more often than stable's by more than is tolerated, as clients say. Pure.
//!
//! The odds of a failure are compared, block by block, given how many failures both arms had together. What is looked
//! for is odds that lie further beyond the tolerated ones (harm), or within them (what a promotion rests on). A
//! promotion may also rest on failures that are rare.

use super::{guard::ln_mean, hypergeometric::Table};

/// What the evidence within the tolerated odds is a mixture over: parts of the way from them, in logarithms, to equal
/// odds, and as far beyond.
const WITHIN: [f64; 3] = [0.5, 1.0, 2.0];
/// Their weights. An equal canary is what promotions are for.
const WEIGHTS: [f64; 3] = [0.25, 0.5, 0.25];

/// A share of failures below which tasks fail rarely: where nearly none does in either arm, odds say nothing.
const RARE: f64 = 0.01;
/// The share that is looked for below it.
const RARER: f64 = RARE / 4.0;

/// The evidence that failures are not more than tolerated, or rare. It is never restarted: a promotion rests on all of
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct NotMoreFailures {
    /// Per part of the way, the log of its product.
    pub odds: [f32; WITHIN.len()],
    /// The log of the likelihood ratio of the canary's failures, rarer against rare.
    pub rare: f32,
}

impl NotMoreFailures {
    pub fn update(&mut self, table: Table, tolerated: f64) {
        for (mass, part) in self.odds.iter_mut().zip(WITHIN) {
            let alternative = tolerated.powf(1.0 - part);
            *mass = (f64::from(*mass) + table.ln_e_value_against(alternative, tolerated)) as f32;
        }
        let failed = table.canary_events as f64;
        let succeeded = table.canary.saturating_sub(table.canary_events) as f64;
        let rarer = failed * (RARER / RARE).ln() + succeeded * ((1.0 - RARER) / (1.0 - RARE)).ln();
        self.rare = (f64::from(self.rare) + rarer) as f32;
    }

    /// The log e-value: a canary that fails too often does so in both respects.
    pub fn ln_e(&self) -> f64 {
        let weighted: Vec<_> = WEIGHTS.into_iter().zip(self.odds.map(f64::from)).collect();
        ln_mean(&[(0.5, ln_mean(&weighted)), (0.5, f64::from(self.rare))])
    }
}

/// The log e-value of odds of a failure that are `psi` times those that are tolerated: without a margin, equal ones.
pub(super) fn ln_more(table: Table, psi: f64, tolerated: Option<f64>) -> f64 {
    match tolerated {
        Some(tolerated) => table.ln_e_value_against(psi * tolerated, tolerated),
        None => table.ln_e_value(psi),
    }
}
