//! What serving pods counted: their evidence of the last hour, put together. Pure.

use std::collections::BTreeMap;

use slipway_crds::{v1alpha1::agent_deployment::LatencyMetric, values::Percentile};
use slipway_vocabulary::evidence::{Evidence, Histogram, Quantile};

/// Latencies that pods counted, by metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measurements {
    metrics: BTreeMap<LatencyMetric, Counted>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Counted {
    /// Units that finished, those that failed included.
    finished: u64,
    /// Latencies of those that succeeded.
    succeeded: Histogram,
}

/// A percentile of what finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredPercentile {
    /// Upper edge, in microseconds, of the bucket that the percentile falls into: 2.2 % above its lower edge.
    pub upper_microseconds: u64,
    /// Units that finished.
    pub count: u64,
}

impl Measurements {
    /// Puts the evidence of several pods together.
    pub fn of(pods: &[Evidence]) -> Self {
        let mut metrics: BTreeMap<LatencyMetric, Counted> = BTreeMap::new();
        for window in pods.iter().flat_map(|pod| &pod.windows).flat_map(|window| &window.metrics) {
            if let Some(metric) = window.metric.latency() {
                let counted = metrics.entry(metric).or_default();
                counted.finished += window.count;
                counted.succeeded.merge(&window.buckets);
            }
        }
        Self { metrics }
    }

    /// Units that finished, those that failed included.
    pub fn count(&self, metric: LatencyMetric) -> u64 {
        self.metrics.get(&metric).map_or(0, |counted| counted.finished)
    }

    /// Gives the percentile over all that finished. A failed unit counts as slower than any successful one, so there is
    /// no percentile if more failed than it leaves out.
    pub fn percentile(&self, metric: LatencyMetric, percentile: Percentile) -> Option<MeasuredPercentile> {
        let counted = self.metrics.get(&metric)?;
        let value = counted.succeeded.value_at_rank(Quantile::from(percentile).rank(counted.finished))?;
        Some(MeasuredPercentile { upper_microseconds: value.upper, count: counted.finished })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn pod(successes: &[u64], failures: u64) -> Evidence {
        let mut buckets = Histogram::new();
        successes.iter().for_each(|value| buckets.record(*value));
        let metric = serde_json::json!({
            "metric": "AgentRunLatency", "unit": "Run", "stratum": "", "started": 0, "newSessions": 0, "inFlight": 0,
            "oldestInFlightMicroseconds": 0, "count": successes.len() as u64 + failures, "errors": failures,
            "sumMicroseconds": 0, "buckets": buckets,
        });
        let evidence = serde_json::json!({
            "revision": "r", "pod": "p", "startedAt": "2026-01-01T00:00:00Z",
            "windows": [{"id": 1, "metrics": [metric]}],
        });
        serde_json::from_value(evidence).unwrap()
    }

    fn median(pods: &[Evidence]) -> Option<MeasuredPercentile> {
        Measurements::of(pods).percentile(LatencyMetric::AgentRunLatency, Percentile::P50)
    }

    #[test]
    fn runs_of_all_pods_make_one_percentile() {
        let measured = median(&[pod(&[1_000, 1_000], 0), pod(&[9_000_000], 0)]).unwrap();
        assert_eq!(measured.count, 3);
        assert!((1_000..1_030).contains(&measured.upper_microseconds), "{measured:?}");
    }

    #[test]
    fn a_failed_run_counts_as_slower_than_any_that_succeeded() {
        assert!(median(&[pod(&[1_000, 2_000, 3_000], 2)]).is_some_and(|m| m.upper_microseconds > 2_900));
        assert_eq!(median(&[pod(&[1_000], 2)]), None);
    }

    #[test]
    fn without_traffic_there_is_no_percentile() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[pod(&[], 0)]), None);
    }
}
