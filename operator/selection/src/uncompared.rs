//! Objectives by which no candidate of a campaign is compared. Pure.

use std::fmt;

use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{LatencyMetric, ProfilingDriver},
};

/// The field that names another driver.
pub const FIELD: &str = "spec.profiling.driver";

/// Objectives by which the driver of a campaign compares no candidate. Only the confirm run judges them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncompared {
    /// Their names, and the latencies that they bound.
    objectives: Vec<(String, LatencyMetric)>,
    driver: ProfilingDriver,
    /// Whether throughput or cost is bounded in what only this driver counts.
    counts_requests: bool,
}

/// The objectives of a spec by which no candidate is compared, if there are any. Requests stand for a run only where an
/// objective bounds them.
pub fn uncompared(spec: &AgentDeploymentSpec, driver: ProfilingDriver) -> Option<Uncompared> {
    let asked = &spec.slo.objectives;
    let bounds_requests = asked.iter().any(|objective| driver.measures().contains(&objective.metric));
    let missing = asked.iter().filter(|objective| !bounds_requests || !driver.compares_by(objective.metric));
    let objectives: Vec<_> = missing.map(|objective| (objective.name.clone(), objective.metric)).collect();
    let counts_requests = spec.slo.counts_requests();
    (!objectives.is_empty()).then_some(Uncompared { objectives, driver, counts_requests })
}

impl fmt::Display for Uncompared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objectives, driver, counts_requests } = self;
        let named: Vec<String> =
            objectives.iter().map(|(name, metric)| format!("{name} ({})", metric.as_str())).collect();
        let (named, it) = (named.join(", "), if objectives.len() == 1 { "it" } else { "them" });
        let (driver, other) = (driver.as_str(), ProfilingDriver::AgentRun.as_str());
        write!(
            f,
            "no candidate is compared by {named}: driver {driver} does not measure {it}, and only the confirm run \
             judges {it}. To compare candidates by {it}, set {FIELD} to {other}"
        )?;
        if *counts_requests {
            f.write_str(", and unit of spec.slo.throughput or spec.slo.cost to Runs")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::{Value, json};
    use slipway_crds::v1alpha1::AgentDeploymentSpec;

    use super::*;

    fn told(driver: ProfilingDriver, metrics: &[&str], slo: Value) -> Option<String> {
        let objective =
            |metric: &&str| json!({"name": metric.to_lowercase(), "metric": metric, "percentile": "p95", "max": "2s"});
        let spec = json!({"model": {"uri": "http://models/react/"}, "agent": {}, "slo": slo});
        let mut spec: AgentDeploymentSpec = serde_json::from_value(spec).expect("a constant spec");
        spec.slo.objectives =
            serde_json::from_value(metrics.iter().map(objective).collect()).expect("constant objectives");
        uncompared(&spec, driver).map(|found| found.to_string())
    }

    #[rstest]
    #[case::one(
        &["RequestLatency", "TimeToFirstToken"],
        json!({}),
        "no candidate is compared by timetofirsttoken (TimeToFirstToken): driver ModelAnalyzer does not measure it, and \
         only the confirm run judges it. To compare candidates by it, set spec.profiling.driver to AgentRun"
    )]
    #[case::two_where_requests_are_counted(
        &["RequestLatency", "TimeToFirstToken", "InterTokenLatency"],
        json!({"throughput": {"min": "2", "unit": "Requests"}}),
        "no candidate is compared by timetofirsttoken (TimeToFirstToken), intertokenlatency (InterTokenLatency): driver \
         ModelAnalyzer does not measure them, and only the confirm run judges them. To compare candidates by them, set \
         spec.profiling.driver to AgentRun, and unit of spec.slo.throughput or spec.slo.cost to Runs"
    )]
    #[case::no_request_is_bounded(
        &["AgentRunLatency"],
        json!({}),
        "no candidate is compared by agentrunlatency (AgentRunLatency): driver ModelAnalyzer does not measure it, and \
         only the confirm run judges it. To compare candidates by it, set spec.profiling.driver to AgentRun"
    )]
    fn what_no_candidate_is_compared_by_is_named_with_the_remedy(
        #[case] metrics: &[&str],
        #[case] slo: Value,
        #[case] expected: &str,
    ) {
        assert_eq!(told(ProfilingDriver::ModelAnalyzer, metrics, slo.clone()).as_deref(), Some(expected));
        assert_eq!(told(ProfilingDriver::AgentRun, metrics, slo), None);
    }

    #[rstest]
    #[case::nothing_is_bounded(&[])]
    #[case::requests_stand_for_runs(&["RequestLatency", "AgentRunLatency"])]
    fn what_candidates_are_compared_by_is_not_named(#[case] metrics: &[&str]) {
        assert_eq!(told(ProfilingDriver::ModelAnalyzer, metrics, json!({})), None);
    }
}
