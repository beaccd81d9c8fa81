//! Error budgets and burn rates. Pure.
//!
//! After Google's Site Reliability Workbook, chapter 5 (sre.google/workbook/alerting-on-slos).

use serde::{Deserialize, Serialize};

/// What a window's events leave of the share that may be bad.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBudget {
    /// Share of events that may be bad, 0.05 for a p95 objective.
    pub allowed: f64,
    /// Events of the window.
    pub events: u64,
    /// Those that were bad.
    pub bad: u64,
}

impl ErrorBudget {
    /// Speed of consumption: observed bad share / allowed share. 1 spends exactly the budget by the window's end. 0
    /// without events, infinite when nothing is allowed and something was bad.
    #[must_use]
    pub fn burn_rate(&self) -> f64 {
        if self.bad == 0 || self.events == 0 {
            return 0.0;
        }
        let share = self.bad as f64 / self.events as f64;
        if self.allowed > 0.0 { share / self.allowed } else { f64::INFINITY }
    }

    /// Share of the budget that is left over the window so far: 1 - burn rate. Negative when overspent.
    #[must_use]
    pub fn left(&self) -> f64 {
        1.0 - self.burn_rate()
    }
}

/// The burn factor an alert may use: the `standard` one (14.4, 6, 3, 1), but never more than half of what is possible
/// at all, 0.5 / allowed; a p90 objective cannot burn faster than 10 times.
#[must_use]
pub fn burn_factor(standard: f64, allowed: f64) -> f64 {
    if allowed > 0.0 { standard.min(0.5 / allowed) } else { standard }
}
