//! What the driver of a task can measure, and what its campaign is after. Pure.

use slipway_vocabulary::ProfilingDriver;
use slipway_worker_contract::{Campaign, LatencyObjective, ProfileTask};

/// Returns a campaign's driver.
pub fn driver(task: &ProfileTask) -> ProfilingDriver {
    match &task.campaign {
        Campaign::Explore { driver, .. } | Campaign::Repeat { driver, .. } | Campaign::Confirm { driver, .. } => {
            driver.kind()
        }
    }
}

/// Returns the objectives that the campaign's driver can measure, in their order.
pub fn measurable(task: &ProfileTask) -> Vec<LatencyObjective> {
    let metrics = driver(task).measures();
    task.objectives.iter().filter(|o| metrics.contains(&o.metric)).cloned().collect()
}

/// Whether the campaign measures points again, which an earlier one has shown to meet the objectives.
pub const fn is_repeat(task: &ProfileTask) -> bool {
    matches!(task.campaign, Campaign::Repeat { .. })
}
