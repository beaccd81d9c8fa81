//! Whether traffic is split as declared: the sample-ratio test on new sessions. Pure.

use super::{
    absolute::ln_bernoulli,
    process::{Mixture, RestartProduct, restarts_due},
};

/// Odds ratios between the real and the declared split.
pub(super) const TILTS: [f64; 6] = [0.05, 0.4, 0.7, 1.4, 2.5, 20.0];

/// Their weights.
pub(super) const MIXTURE: Mixture = Mixture { weights: &[0.1, 0.2, 0.2, 0.2, 0.2, 0.1], unrestarted: 0.0 };

/// The log e-value from which the split counts as wrong: one false alarm in a thousand rollouts.
pub const LN_SPLIT_ALARM: f64 = 6.907_755_278_982_137;

/// The log e-value of a few minutes up to which they speak for the declared split. Half of the mixture has not begun by
/// then and stays at one half: the rest of it must have lost four fifths of its weight.
pub(super) const LN_SPLIT_KEPT: f64 = -0.510_825_623_765_990_7;

/// The evidence against the declared split.
///
/// Given the new sessions of a window, those of the canary are binomial with the declared weight. The e-value is the
/// likelihood ratio against other odds, which may change with the weight from window to window (Lindon and Malek, arXiv
/// 2011.03567). Sessions, not requests: a sticky session's requests are not independent draws.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sessions {
    pub process: RestartProduct,
}

impl Sessions {
    pub fn new() -> Self {
        Self { process: RestartProduct::new(&MIXTURE) }
    }

    /// Reads the new sessions of a window, and the canary's share of those that both sides are to have.
    pub fn update(&mut self, canary: u64, stable: u64, weight_percent: f64, elapsed_seconds: u64) {
        self.process.restart(restarts_due(elapsed_seconds));
        let weight = weight_percent / 100.0;
        let all = canary.saturating_add(stable);
        if all > 0 && weight < 1.0 {
            self.process.update(TILTS.map(|psi| ln_bernoulli(all, canary, weight, psi)));
        }
    }

    pub fn ln_e(&self) -> f64 {
        self.process.ln_e()
    }
}

#[cfg(test)]
mod tests {
    use super::{LN_SPLIT_ALARM, Sessions};

    fn judged(canary: u64, stable: u64) -> f64 {
        let mut sessions = Sessions::new();
        for window in 0..60 {
            sessions.update(canary, stable, 20.0, window * 10);
        }
        sessions.ln_e()
    }

    #[test]
    fn a_gateway_that_ignores_the_weights_is_found() {
        assert!(judged(5, 5) > LN_SPLIT_ALARM, "half instead of a fifth");
        assert!(judged(0, 10) > LN_SPLIT_ALARM, "none instead of a fifth");
    }

    #[test]
    fn the_declared_split_is_accepted() {
        assert!(judged(2, 8) < 0.0);
    }
}
