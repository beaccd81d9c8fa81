//! Objectives as a flag says them: `p95=2s`, `TimeToFirstToken:p95=500ms`, `errorRate=1%`, `throughput=1.5`. Pure.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_crds::{
    v1alpha1::agent_deployment::LatencyMetric,
    values::{DurationText, Percent, Percentile, PositiveDecimal, ValueError},
};
use thiserror::Error;

/// An objective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objective {
    /// A percentile of a latency, at most.
    Latency {
        /// What is bounded.
        metric: LatencyMetric,
        /// At which percentile.
        percentile: Percentile,
        /// The bound.
        max: DurationText,
    },
    /// The share of runs that fail, at most.
    ErrorRate(Percent),
    /// Runs per second over all replicas, at least.
    Throughput(PositiveDecimal),
}

/// Why a flag says no objective.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ObjectiveError {
    /// There is no `=`.
    #[error("write PERCENTILE=DURATION such as p95=2s, METRIC:PERCENTILE=DURATION, errorRate=1% or throughput=1.5")]
    Form,
    /// No such metric.
    #[error("there is no metric {metric:?}: write one of {known}", known = metrics())]
    Metric {
        /// As it was written.
        metric: String,
    },
    /// No such percentile.
    #[error("{asked:?} is not a percentile: write one of {known}", known = percentiles())]
    Percentile {
        /// As it was written.
        asked: String,
    },
    /// The bound is not a value of its kind.
    #[error("{0}")]
    Bound(ValueError),
}

fn metrics() -> String {
    LatencyMetric::ALL.map(LatencyMetric::as_str).join(", ")
}

fn percentiles() -> String {
    Percentile::ALL.map(Percentile::as_str).join(", ")
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let (what, bound) = text.split_once('=').ok_or(ObjectiveError::Form)?;
        match what {
            "errorRate" => bound.parse().map(Self::ErrorRate).map_err(ObjectiveError::Bound),
            "throughput" => bound.parse().map(Self::Throughput).map_err(ObjectiveError::Bound),
            _ => {
                let (metric, percentile) =
                    what.split_once(':').unwrap_or((LatencyMetric::AgentRunLatency.as_str(), what));
                let metric = named(metric).ok_or_else(|| ObjectiveError::Metric { metric: metric.to_owned() })?;
                let percentile =
                    named(percentile).ok_or_else(|| ObjectiveError::Percentile { asked: percentile.to_owned() })?;
                Ok(Self::Latency { metric, percentile, max: bound.parse().map_err(ObjectiveError::Bound)? })
            }
        }
    }
}

/// A value of the API by its name there.
pub fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(Value::from(name)).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[test]
    fn an_objective_is_about_runs_unless_it_names_another_latency() {
        let latency =
            |metric, max: &str| Objective::Latency { metric, percentile: Percentile::P95, max: max.parse().unwrap() };
        let expected =
            [latency(LatencyMetric::AgentRunLatency, "2s"), latency(LatencyMetric::TimeToFirstToken, "500ms")];
        assert_eq!(["p95=2s", "TimeToFirstToken:p95=500ms"].map(|text| text.parse()), expected.map(Ok));
        assert_eq!("errorRate=1%".parse(), Ok(Objective::ErrorRate("1%".parse().unwrap())));
        assert_eq!("throughput=1.5".parse(), Ok(Objective::Throughput("1.5".parse().unwrap())));
    }

    #[rstest]
    #[case::no_bound("p95", "write PERCENTILE=DURATION such as p95=2s")]
    #[case::metric("Latency:p95=2s", "there is no metric \"Latency\": write one of RequestLatency")]
    #[case::percentile("p93=2s", "\"p93\" is not a percentile: write one of p50, p90")]
    #[case::duration("p95=2", "\"2\" is not a duration: write a number with a unit")]
    #[case::percent("errorRate=0.01", "\"0.01\" is not a percentage")]
    #[case::number("throughput=fast", "\"fast\" is not a positive number")]
    fn what_is_no_objective_says_how_one_is_written(#[case] text: &str, #[case] message: &str) {
        let error = text.parse::<Objective>().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
