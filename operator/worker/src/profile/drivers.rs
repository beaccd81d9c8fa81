//! Which latencies each driver can measure. Pure.

use slipway_worker_contract::{Campaign, Driver, LatencyMetric, LatencyObjective, ProfileTask};

/// Returns a driver's name and what it measures.
pub fn measures(driver: &Driver) -> (&'static str, &'static [LatencyMetric]) {
    match driver {
        Driver::ModelAnalyzer => ("ModelAnalyzer", &[LatencyMetric::RequestLatency]),
        Driver::AgentRun(_) => (
            "AgentRun",
            &[
                LatencyMetric::AgentRunLatency,
                LatencyMetric::RequestLatency,
                LatencyMetric::TimeToFirstToken,
                LatencyMetric::InterTokenLatency,
            ],
        ),
    }
}

/// Returns a campaign's driver.
pub fn driver(task: &ProfileTask) -> &Driver {
    match &task.campaign {
        Campaign::Explore { driver, .. } | Campaign::Confirm { driver, .. } => driver,
    }
}

/// Returns the objectives that the campaign's driver can measure, in their order.
pub fn measurable(task: &ProfileTask) -> Vec<LatencyObjective> {
    let (_, metrics) = measures(driver(task));
    task.objectives.iter().filter(|o| metrics.contains(&o.metric)).cloned().collect()
}
