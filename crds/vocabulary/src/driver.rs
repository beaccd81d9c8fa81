//! What sends the load of a measurement, and what it measures.

use serde::{Deserialize, Serialize};

use crate::{
    LatencyMetric,
    serving::{EngineEntry, ServedBy, Server},
};

/// What sends the load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ProfilingDriver {
    /// NVIDIA Model Analyzer in remote mode, with perf_analyzer's record of every request.
    #[default]
    ModelAnalyzer,
    /// Runs of the agent through the agent runtime, with replayed tool results.
    AgentRun,
}

/// Units of throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ThroughputUnit {
    /// Runs of the agent, from question to answer.
    Runs,
    /// Requests to the model.
    Requests,
}

impl ProfilingDriver {
    /// All drivers.
    pub const ALL: [Self; 2] = [Self::ModelAnalyzer, Self::AgentRun];

    /// The name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelAnalyzer => "ModelAnalyzer",
            Self::AgentRun => "AgentRun",
        }
    }

    /// The latencies that it measures, and by which its rows are judged; its own first.
    pub const fn measures(self) -> &'static [LatencyMetric] {
        match self {
            Self::ModelAnalyzer => &[LatencyMetric::RequestLatency, LatencyMetric::RequestTimeToFirstToken],
            Self::AgentRun => &[
                LatencyMetric::AgentRunLatency,
                LatencyMetric::TimeToFirstToken,
                LatencyMetric::RequestLatency,
                LatencyMetric::RequestTimeToFirstToken,
                LatencyMetric::InterTokenLatency,
            ],
        }
    }

    /// Whether candidates are compared by a latency, where it measures another that is bounded. A run is made of its
    /// requests, so the candidate with the faster ones has the faster runs. But no request shows how long a run takes
    /// until its answer begins, or how evenly its tokens come.
    pub fn compares_by(self, metric: LatencyMetric) -> bool {
        metric == LatencyMetric::AgentRunLatency || self.measures().contains(&metric)
    }

    /// Whether it measures only what Triton serves.
    pub const fn requires_triton(self) -> bool {
        match self {
            Self::ModelAnalyzer => true,
            Self::AgentRun => false,
        }
    }

    /// Whether it measures an ensemble, of which Model Analyzer chooses levels and configurations itself.
    pub const fn measures_ensembles(self) -> bool {
        match self {
            Self::ModelAnalyzer => false,
            Self::AgentRun => true,
        }
    }

    /// The unit in which it counts throughput.
    pub const fn unit(self) -> ThroughputUnit {
        match self {
            Self::ModelAnalyzer => ThroughputUnit::Requests,
            Self::AgentRun => ThroughputUnit::Runs,
        }
    }
}

impl ThroughputUnit {
    /// What is counted, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Requests => "requests",
        }
    }
}

impl ServedBy {
    /// Whether a driver can measure it.
    pub const fn is_measured_by(self, driver: ProfilingDriver) -> bool {
        (matches!(self.server(), Server::Triton) || !driver.requires_triton())
            && (!matches!(self.entry(), EngineEntry::Ensemble) || driver.measures_ensembles())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;
    use crate::serving::NoBuildBackend;

    #[test]
    fn a_driver_is_called_as_it_is_written() {
        for driver in ProfilingDriver::ALL {
            assert_eq!(serde_json::to_value(driver).unwrap(), driver.as_str());
        }
    }

    #[test]
    fn requests_stand_for_runs_and_not_for_the_first_token_that_a_user_waits_for() {
        let compares =
            |driver: ProfilingDriver| LatencyMetric::ALL.into_iter().filter(move |it| driver.compares_by(*it));
        let of_requests: Vec<_> = compares(ProfilingDriver::ModelAnalyzer).collect();
        let (request, first) = (LatencyMetric::RequestLatency, LatencyMetric::RequestTimeToFirstToken);
        assert_eq!(of_requests, [request, first, LatencyMetric::AgentRunLatency]);
        assert_eq!(compares(ProfilingDriver::AgentRun).count(), LatencyMetric::ALL.len());
    }

    #[rstest]
    #[case(ServedBy::Custom, true)]
    #[case(ServedBy::TensorRtLlm { ranks: 2, entry: EngineEntry::BLS }, true)]
    #[case(ServedBy::TensorRtLlm { ranks: 1, entry: EngineEntry::Ensemble }, false)]
    #[case(ServedBy::NoBuild(NoBuildBackend::VLLM), true)]
    #[case(ServedBy::NoBuild(NoBuildBackend::VLLMOpenAI), false)]
    #[case(ServedBy::NoBuild(NoBuildBackend::SGLang), false)]
    #[case(ServedBy::NoBuild(NoBuildBackend::TensorRTLLMPyTorch), true)]
    #[case(ServedBy::NoBuild(NoBuildBackend::TensorRTLLMPyTorchOpenAI), false)]
    fn model_analyzer_measures_what_triton_serves_but_for_ensembles(
        #[case] served_by: ServedBy,
        #[case] is_measured: bool,
    ) {
        assert_eq!(served_by.is_measured_by(ProfilingDriver::ModelAnalyzer), is_measured);
        assert!(served_by.is_measured_by(ProfilingDriver::AgentRun));
    }
}
