//! Proof that a closed-loop run cannot beat the throughput of the best configuration known. Pure.
//!
//! A closed loop of c users serves c E[N] / E[W] units of work a second (Little, Operations Research 9, 1961). W is a
//! request's latency, and N its work. It beats the rate R only if E[W] <= (c / R) E[N]. With N at most M let Z = (W +
//! (c / R) (M - N)) / (c M / R). It is non-negative and has mean at most 1 under that hypothesis. So every product of
//! 1 + l (Z - 1) with 0 <= l < 1 is a supermartingale of mean at most 1. So is their average over a grid of l
//! (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86, 2024).

use serde::{Deserialize, Serialize};

/// The fractions of wealth that are bet; small ones serve small differences.
const BETS: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.4, 0.7];

/// Running evidence that a run is slower than the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IncumbentTest {
    /// Seconds one unit of work may take at the incumbent's rate and this run's concurrency: c / R.
    seconds_per_unit: f64,
    most_work: f64,
    log_wealth: [f64; BETS.len()],
}

impl IncumbentTest {
    /// Tests a run with `concurrency` requests in flight against `rate`, in units of work a second. `most_work` is the
    /// most work one request can be: 1 when requests are counted, the token limit when tokens are. All positive.
    #[must_use]
    pub fn new(concurrency: f64, rate: f64, most_work: f64) -> Self {
        Self { seconds_per_unit: concurrency / rate, most_work, log_wealth: [0.0; BETS.len()] }
    }

    /// Adds a finished request: its latency in seconds and its work. Requests still in flight are longer than those
    /// that finished, so leaving them out only delays the verdict.
    pub fn observe(&mut self, latency_s: f64, work: f64) {
        let spare = self.seconds_per_unit * (self.most_work - work).max(0.0);
        let z = (latency_s.max(0.0) + spare) / (self.seconds_per_unit * self.most_work);
        for (wealth, bet) in self.log_wealth.iter_mut().zip(BETS) {
            *wealth += (bet * (z - 1.0)).ln_1p();
        }
    }

    /// ln of the average wealth: at least ln(1 / alpha) proves with error alpha that the run cannot beat the rate.
    #[must_use]
    pub fn log_evidence(&self) -> f64 {
        let most = self.log_wealth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.log_wealth.iter().map(|wealth| (wealth - most).exp()).sum();
        most + (sum / BETS.len() as f64).ln()
    }
}
