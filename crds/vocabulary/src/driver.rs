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
    /// Whether a driver can measure it. Model Analyzer supports only Triton, and of an ensemble it chooses levels and
    /// configurations itself.
    pub const fn is_measured_by(self, driver: ProfilingDriver) -> bool {
        match driver {
            ProfilingDriver::ModelAnalyzer => {
                matches!(self.server(), Server::Triton) && !matches!(self.entry(), EngineEntry::Ensemble)
            }
            ProfilingDriver::AgentRun => true,
        }
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
        for driver in [ProfilingDriver::ModelAnalyzer, ProfilingDriver::AgentRun] {
            assert_eq!(serde_json::to_value(driver).unwrap(), driver.as_str());
        }
    }

    #[rstest]
    #[case(ServedBy::Custom, true)]
    #[case(ServedBy::TensorRtLlm { ranks: 2, entry: EngineEntry::BLS }, true)]
    #[case(ServedBy::TensorRtLlm { ranks: 1, entry: EngineEntry::Ensemble }, false)]
    #[case(ServedBy::NoBuild(NoBuildBackend::VLLM), true)]
    #[case(ServedBy::NoBuild(NoBuildBackend::VLLMOpenAI), false)]
    #[case(ServedBy::NoBuild(NoBuildBackend::SGLang), false)]
    fn model_analyzer_measures_what_triton_serves_but_for_ensembles(
        #[case] served_by: ServedBy,
        #[case] is_measured: bool,
    ) {
        assert_eq!(served_by.is_measured_by(ProfilingDriver::ModelAnalyzer), is_measured);
        assert!(served_by.is_measured_by(ProfilingDriver::AgentRun));
    }
}
