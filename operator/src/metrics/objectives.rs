//! `status.slo` as metrics: of each objective the target, the prediction, the observation and what is left of its error
//! budget, in base units. Also how many pods an agent has.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet},
    registry::Unit,
};
use slipway_crds::v1alpha1::{
    AgentDeployment,
    agent_deployment::{
        ErrorBudget, ErrorRateFigures, LatencyFigures, ObjectiveStatus, ThroughputFigures, ThroughputUnit,
    },
};

use super::gauges::{Family, Object};

/// There are at most 20 objectives of an AgentDeployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    name: String,
    objective: String,
}

/// Metric and percentile follow from the objective.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LatencyLabels {
    namespace: String,
    name: String,
    objective: String,
    metric: &'static str,
    percentile: &'static str,
}

/// The unit follows from the objective.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ThroughputLabels {
    namespace: String,
    name: String,
    objective: String,
    unit: &'static str,
}

/// A figure of an objective: its name, its help, and its value.
type Figure<F> = (&'static str, &'static str, fn(&F) -> Option<i64>);

const LATENCIES: [Figure<LatencyFigures>; 3] = [
    ("slo_latency_target", "Bound of a latency objective", |figures| Some(figures.target_microseconds)),
    ("slo_latency_predicted", "What profiling predicts for a latency objective", |figures| {
        figures.predicted_microseconds
    }),
    ("slo_latency_observed", "What serving pods observed for a latency objective", |figures| {
        figures.observed_microseconds
    }),
];
const ERROR_RATES: [Figure<ErrorRateFigures>; 3] = [
    ("slo_error_rate_target_ratio", "Largest share of runs that may fail", |figures| {
        Some(figures.target_parts_per_million)
    }),
    ("slo_error_rate_predicted_ratio", "Share that failed when profiling measured", |figures| {
        figures.predicted_parts_per_million
    }),
    ("slo_error_rate_observed_ratio", "Share of runs that failed on the serving pods", |figures| {
        figures.observed_parts_per_million
    }),
];
const THROUGHPUTS: [Figure<ThroughputFigures>; 2] = [
    ("slo_throughput_target_per_second", "Least throughput of all replicas", |figures| {
        Some(figures.target_per_kilosecond)
    }),
    ("slo_throughput_predicted_per_second", "Throughput of all replicas that profiling predicts", |figures| {
        figures.predicted_per_kilosecond
    }),
];
const BUDGETS: [Figure<ErrorBudget>; 2] = [
    (
        "slo_error_budget_left_ratio",
        "What is left of the error budget of 30 days; below zero it is overspent",
        |budget| budget.left_percent.map(i64::from),
    ),
    ("slo_error_budget_window_seconds", "Time for which Prometheus has counters for the budget", |budget| {
        budget.window_seconds
    }),
];

/// Writes the objectives and pods of agents.
///
/// # Errors
/// Those of the encoder.
pub fn encode(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Figures)]) -> fmt::Result {
    let objectives = objectives(agents);
    latencies(encoder, &objectives)?;
    error_rates(encoder, &objectives)?;
    throughputs(encoder, &objectives)?;
    met(encoder, &objectives)?;
    budgets(encoder, &objectives)?;
    pods(encoder, agents)
}

/// Objectives and pods of an agent.
pub struct Figures {
    slo: Vec<ObjectiveStatus>,
    ready: Option<i32>,
    wanted: Option<i32>,
}

impl Figures {
    /// As its status has them.
    pub fn of(agent: &AgentDeployment) -> Self {
        let Some(status) = &agent.status else { return Self { slo: Vec::new(), ready: None, wanted: None } };
        Self { slo: status.slo.clone(), ready: status.ready_pods, wanted: status.wanted_pods }
    }
}

fn objectives(agents: &[(Object, Figures)]) -> Vec<(Labels, &ObjectiveStatus)> {
    let labelled = agents.iter().flat_map(|(object, figures)| {
        figures.slo.iter().map(|objective| {
            let Object { namespace, name } = object.clone();
            (Labels { namespace, name, objective: objective.name.clone() }, objective)
        })
    });
    labelled.collect()
}

fn latencies(encoder: &mut DescriptorEncoder<'_>, objectives: &[(Labels, &ObjectiveStatus)]) -> fmt::Result {
    for (name, help, figure) in LATENCIES {
        let series = objectives.iter().filter_map(|(labels, objective)| {
            let figures = objective.latency.as_ref()?;
            let Labels { namespace, name, objective } = labels.clone();
            let (metric, percentile) = (figures.metric.as_str(), figures.percentile.as_str());
            let labels = LatencyLabels { namespace, name, objective, metric, percentile };
            Some((labels, figure(figures)? as f64 / 1e6))
        });
        Family { name, help, unit: Some(&Unit::Seconds) }.encode(encoder, series)?;
    }
    Ok(())
}

fn error_rates(encoder: &mut DescriptorEncoder<'_>, objectives: &[(Labels, &ObjectiveStatus)]) -> fmt::Result {
    for (name, help, figure) in ERROR_RATES {
        let series = objectives.iter().filter_map(|(labels, objective)| {
            Some((labels.clone(), figure(objective.error_rate.as_ref()?)? as f64 / 1e6))
        });
        Family { name, help, unit: None }.encode(encoder, series)?;
    }
    Ok(())
}

fn throughputs(encoder: &mut DescriptorEncoder<'_>, objectives: &[(Labels, &ObjectiveStatus)]) -> fmt::Result {
    for (name, help, figure) in THROUGHPUTS {
        let series = objectives.iter().filter_map(|(labels, objective)| {
            let figures = objective.throughput.as_ref()?;
            let Labels { namespace, name, objective } = labels.clone();
            let unit = match figures.unit {
                ThroughputUnit::Runs => "Runs",
                ThroughputUnit::Requests => "Requests",
            };
            Some((ThroughputLabels { namespace, name, objective, unit }, figure(figures)? as f64 / 1e3))
        });
        Family { name, help, unit: None }.encode(encoder, series)?;
    }
    Ok(())
}

fn met(encoder: &mut DescriptorEncoder<'_>, objectives: &[(Labels, &ObjectiveStatus)]) -> fmt::Result {
    let series = objectives.iter().filter_map(|(labels, objective)| Some((labels.clone(), truth(objective.met?))));
    let help = "1 for an objective that traffic meets, 0 for one that it misses";
    Family { name: "slo_met", help, unit: None }.encode(encoder, series)
}

fn budgets(encoder: &mut DescriptorEncoder<'_>, objectives: &[(Labels, &ObjectiveStatus)]) -> fmt::Result {
    for ((name, help, figure), per_unit) in BUDGETS.into_iter().zip([100.0, 1.0]) {
        let series = objectives.iter().filter_map(|(labels, objective)| {
            Some((labels.clone(), figure(objective.budget.as_ref()?)? as f64 / per_unit))
        });
        Family { name, help, unit: None }.encode(encoder, series)?;
    }
    Ok(())
}

fn pods(encoder: &mut DescriptorEncoder<'_>, agents: &[(Object, Figures)]) -> fmt::Result {
    let of = |count: fn(&Figures) -> Option<i32>| {
        agents.iter().filter_map(move |(object, figures)| Some((object.clone(), f64::from(count(figures)?))))
    };
    let ready = Family { name: "agentdeployment_pods_ready", help: "Ready pods of an AgentDeployment", unit: None };
    ready.encode(encoder, of(|figures| figures.ready))?;
    let wanted = Family { name: "agentdeployment_pods_wanted", help: "Wanted pods of an AgentDeployment", unit: None };
    wanted.encode(encoder, of(|figures| figures.wanted))
}

const fn truth(is_true: bool) -> f64 {
    if is_true { 1.0 } else { 0.0 }
}
