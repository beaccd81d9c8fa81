//! Latencies and what bounds them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Percentile, evidence::Metric};

/// Latencies that an objective can bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum LatencyMetric {
    /// One model request, from sending to the last token.
    RequestLatency,
    /// One model request, from sending to its first token.
    RequestTimeToFirstToken,
    /// Mean time between two tokens of one model request.
    InterTokenLatency,
    /// One run of the agent, from the question to the answer, tools included.
    AgentRunLatency,
    /// One run of the agent, from the question to the first token of the answer: what a user waits for. Model requests
    /// and tools before the answer count.
    TimeToFirstToken,
}

impl LatencyMetric {
    /// Every latency.
    pub const ALL: [Self; 5] = [
        Self::RequestLatency,
        Self::RequestTimeToFirstToken,
        Self::InterTokenLatency,
        Self::AgentRunLatency,
        Self::TimeToFirstToken,
    ];

    /// Whether it says when tokens come, which only a streamed answer tells.
    #[must_use]
    pub const fn is_of_tokens(self) -> bool {
        match self {
            Self::RequestTimeToFirstToken | Self::InterTokenLatency | Self::TimeToFirstToken => true,
            Self::RequestLatency | Self::AgentRunLatency => false,
        }
    }

    /// The name in the API, on the wire and in the evidence.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Metric::of(self).as_str()
    }
}

impl fmt::Display for LatencyMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A bound on one percentile of one latency, in numbers. People write it with a unit, in the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LatencyObjective {
    /// Its name in the spec, in the status and in metrics.
    pub name: String,
    /// Latency that is bounded.
    pub metric: LatencyMetric,
    /// Percentile that is bounded.
    pub percentile: Percentile,
    /// The bound, in microseconds.
    pub max_microseconds: u64,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{LatencyMetric, LatencyObjective};
    use crate::{Percentile, evidence::Metric};

    #[test]
    fn an_objective_is_written_with_its_unit() {
        let objective = LatencyObjective {
            name: "tail".into(),
            metric: LatencyMetric::AgentRunLatency,
            percentile: Percentile::P99_9,
            max_microseconds: 4_000_000,
        };
        let written = r#"{"name":"tail","metric":"AgentRunLatency","percentile":"p99.9","maxMicroseconds":4000000}"#;
        assert_eq!(serde_json::to_string(&objective).unwrap(), written);
        assert_eq!(serde_json::from_str::<LatencyObjective>(written).unwrap(), objective);
    }

    #[test]
    fn a_latency_is_called_as_its_metric_in_the_evidence() {
        for latency in LatencyMetric::ALL {
            let written = [serde_json::to_value(latency), serde_json::to_value(Metric::of(latency))];
            assert_eq!(written.map(Result::unwrap), [latency.as_str(), latency.as_str()]);
            assert_eq!(Metric::of(latency).latency(), Some(latency));
        }
        assert_eq!(Metric::ALL.into_iter().filter_map(Metric::latency).count(), LatencyMetric::ALL.len());
    }
}
