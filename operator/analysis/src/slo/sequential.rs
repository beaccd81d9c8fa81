//! Tests of a rate that may be looked at after every unit. Pure.
//!
//! The evidence against "the rate is at most q" is the mixture likelihood ratio with rates above q drawn from a Beta
//! law. After h hits in n, E = [B(a + h, b + n - h) S(q; a + h, b + n - h)] / [B(a, b) S(q; a, b) q^h (1 - q)^(n - h)].
//! S is the upper tail of the Beta law. E is a non-negative supermartingale with mean at most 1 for every rate up to q,
//! so P(E ever reaches 1 / alpha) <= alpha (Ville 1939; Robbins, Ann. Math. Stat. 41, 1970; Howard, Ramdas, McAuliffe
//! and Sekhon, Ann. Stat. 49, 2021, the one-sided beta-binomial mixture).

use serde::{Deserialize, Serialize};
use statrs::function::beta::{checked_beta_reg, ln_beta};

/// Weight of the mixing law in units of observations: Beta(WEIGHT q, WEIGHT (1 - q)) truncated to the alternative.
/// Small weights spread it over all rates, so that a rate far off is proved within a few units.
const WEIGHT: f64 = 2.0;
/// The least ln E that is told apart: beyond it the tail of the Beta law leaves the range of f64.
const FLOOR: f64 = -600.0;
/// A tail below this has lost digits to underflow.
const LEAST_TAIL: f64 = 1e-290;

/// Which rates the test speaks against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// Evidence that the rate is above the reference.
    Above,
    /// Evidence that the rate is below the reference.
    Below,
}

/// Evidence about one rate, valid however often it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateTest {
    side: Side,
    reference: f64,
    hits: u64,
    misses: u64,
}

impl RateTest {
    /// Starts a test of a rate against `reference`, a rate strictly between 0 and 1 (others never gain evidence).
    #[must_use]
    pub fn new(side: Side, reference: f64) -> Self {
        Self { side, reference, hits: 0, misses: 0 }
    }

    /// Adds units: those that hit and those that did not.
    pub fn observe(&mut self, hits: u64, misses: u64) {
        self.hits += hits;
        self.misses += misses;
    }

    /// Units seen.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.hits + self.misses
    }

    /// Units that hit.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// ln E of the module's formula. Zero before any unit; never below -600.
    #[must_use]
    pub fn log_evidence(&self) -> f64 {
        self.log_evidence_of(self.hits as f64, self.misses as f64)
    }

    /// ln E as it would be with every unit counted as `weight` units. A weight below 1 discounts dependence between
    /// units: by Hoelder the discounted evidence is conservative for independent ones.
    #[must_use]
    pub fn discounted_log_evidence(&self, weight: f64) -> f64 {
        self.log_evidence_of(self.hits as f64 * weight, self.misses as f64 * weight)
    }

    fn log_evidence_of(&self, hits: f64, misses: f64) -> f64 {
        if !(self.reference > 0.0 && self.reference < 1.0) {
            return 0.0;
        }
        // "Below q" for hits is "above 1 - q" for misses.
        let (hits, misses, reference) = match self.side {
            Side::Above => (hits, misses, self.reference),
            Side::Below => (misses, hits, 1.0 - self.reference),
        };
        let (a, b) = (WEIGHT * reference, WEIGHT * (1.0 - reference));
        let posterior = ln_upper(reference, a + hits, b + misses) + ln_beta(a + hits, b + misses);
        let prior = ln_upper(reference, a, b) + ln_beta(a, b);
        (posterior - prior - hits * reference.ln() - misses * (-reference).ln_1p()).max(FLOOR)
    }
}

/// ln of the upper tail of Beta(a, b) at x, by symmetry from the lower tail so that small tails keep their digits.
fn ln_upper(x: f64, a: f64, b: f64) -> f64 {
    let tail = checked_beta_reg(b, a, 1.0 - x).unwrap_or(0.0);
    if tail > LEAST_TAIL { tail.ln() } else { f64::NEG_INFINITY }
}
