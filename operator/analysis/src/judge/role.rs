//! Which metrics guard a rollout, by what the revision changes. Pure.

use slipway_vocabulary::evidence::Metric;

use super::config::{Change, Config};

/// What a metric's evidence may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A worse canary is rolled back, and promotion needs non-inferiority.
    Guard,
    /// Errors and objectives count, a relative slowdown does not.
    Absolute,
    /// Only errors count.
    Errors,
    /// It only says who is to blame.
    Diagnostic,
}

impl Config {
    /// The role of a metric; `None` for metrics that are not judged. What a run costs guards where it is asked for.
    pub(super) fn role(&self, metric: Metric) -> Option<Role> {
        if self.cost_guard(metric).is_some() { Some(Role::Guard) } else { role(metric, self.change) }
    }
}

/// The role of a metric under a change.
fn role(metric: Metric, change: Change) -> Option<Role> {
    match metric {
        // Runs take as long as their tools, too: an engine is held to their objectives only.
        Metric::AgentRunLatency | Metric::TimeToFirstToken => {
            Some(if change == Change::Engine { Role::Absolute } else { Role::Guard })
        }
        Metric::ModelTime | Metric::RequestLatency | Metric::RequestTimeToFirstToken | Metric::InterTokenLatency => {
            Some(if change == Change::Agent { Role::Diagnostic } else { Role::Guard })
        }
        Metric::RunSuccess | Metric::TaskSuccess => Some(Role::Errors),
        Metric::ToolTime | Metric::ModelCallsPerRun | Metric::OutputTokensPerRun => Some(Role::Diagnostic),
        Metric::ApprovalWait | Metric::Cancelled | Metric::Shed => None,
    }
}
