//! What the pods that serve counted of the objectives. Pure.

use std::collections::BTreeMap;

use slipway_analysis::slo::rate_bounds;
use slipway_crds::v1alpha1::agent_deployment::{ErrorRateObjective, LatencyMetric, WrittenObjective};
use slipway_vocabulary::evidence::{Evidence, Histogram, Metric, WINDOW_SECONDS, window_end};

use super::counted::CountedHour;

/// Confidence with which an objective must be missed before that has consequences: a chance of once in a thousand
/// hours.
const SURE: f64 = 0.999;

/// What the pods of the serving revision counted, of all strata together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObservedObjectives {
    metrics: BTreeMap<Metric, Counted>,
    /// Seconds from the first window with a finished run to the last.
    pub(super) window_seconds: u64,
}

/// Finished units of a metric.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Counted {
    /// Finished units, errors included.
    pub(super) count: u64,
    pub(super) errors: u64,
    /// The successes.
    pub(super) values: Histogram,
}

impl ObservedObjectives {
    /// Adds up what pods report.
    pub fn of<'a>(pods: impl IntoIterator<Item = &'a Evidence>) -> Self {
        let windows = pods.into_iter().flat_map(|pod| &pod.windows);
        Self::sum(windows.flat_map(|window| {
            let finished = window.metrics.iter().filter(|metric| metric.count > 0);
            finished.map(|metric| {
                let counted = Counted { count: metric.count, errors: metric.errors, values: metric.buckets.clone() };
                ((window.id, window.id), metric.metric, counted)
            })
        }))
    }

    /// Adds up what is remembered of pods.
    pub fn of_hours<'a>(pods: impl IntoIterator<Item = &'a CountedHour>) -> Self {
        let blocks = pods.into_iter().flat_map(CountedHour::blocks);
        Self::sum(blocks.flat_map(|(first, last, parts)| {
            parts.into_iter().map(move |part| {
                let counted = Counted { count: part.count, errors: part.errors, values: part.values };
                ((first, last), part.metric, counted)
            })
        }))
    }

    fn sum(parts: impl Iterator<Item = ((u64, u64), Metric, Counted)>) -> Self {
        let mut observed = Self::default();
        let mut span: Option<(u64, u64)> = None;
        for ((first, last), metric, part) in parts {
            let counted = observed.metrics.entry(metric).or_default();
            counted.count = counted.count.saturating_add(part.count);
            counted.errors = counted.errors.saturating_add(part.errors);
            counted.values.merge(&part.values);
            span = Some(span.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
        }
        observed.window_seconds =
            span.map_or(0, |(first, last)| window_end(last).saturating_sub(first.saturating_mul(WINDOW_SECONDS)));
        observed
    }

    pub(super) fn of_metric(&self, metric: LatencyMetric) -> Option<&Counted> {
        self.metrics.get(&Metric::of(metric))
    }

    /// Reports more units beyond an objective's bound than it allows, if that is not chance: the lower bound of their
    /// share is above the allowed one.
    pub fn surely_missed(&self, objective: &WrittenObjective) -> Option<String> {
        let counted = self.of_metric(objective.metric)?;
        let beyond = counted.beyond(objective.max.microseconds());
        let may = 1.0 - objective.percentile.probability();
        let WrittenObjective { name, metric, percentile, max } = objective;
        (rate_bounds(beyond, counted.count, SURE).0 > may).then(|| {
            format!(
                "{name}: {} {percentile} is above {max}, by {beyond} of {} in the last hour",
                metric.as_str(),
                counted.count
            )
        })
    }

    /// The same of failures.
    pub fn surely_failing(&self, objective: &ErrorRateObjective) -> Option<String> {
        let counted = self.of_metric(LatencyMetric::AgentRunLatency)?;
        (rate_bounds(counted.errors, counted.count, SURE).0 > objective.max.ratio())
            .then(|| format!("slo.errorRate: {} of {} runs of the last hour failed", counted.errors, counted.count))
    }
}

impl Counted {
    /// Units that were slower for sure, and those that failed.
    pub(super) fn beyond(&self, microseconds: u64) -> u64 {
        self.values.count_above(microseconds).at_least.saturating_add(self.errors)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// So many runs of a second, of which some took ten and others failed.
    fn runs(count: u64, slow: u64, errors: u64) -> ObservedObjectives {
        let json = serde_json::json!({"revision": "r", "pod": "p", "startedAt": "t", "windows": [
            {"id": 1, "metrics": [{"metric": "AgentRunLatency", "unit": "Run", "count": count, "errors": errors}]}
        ]});
        let mut evidence: Evidence = serde_json::from_value(json).unwrap();
        let buckets = &mut evidence.windows[0].metrics[0].buckets;
        buckets.record_n(1_000_000, count - slow - errors);
        buckets.record_n(10_000_000, slow);
        ObservedObjectives::of([&evidence])
    }

    #[test]
    fn an_objective_is_missed_for_sure_only_where_chance_does_not_explain_it() {
        let json = serde_json::json!({"name": "reply", "metric": "AgentRunLatency", "percentile": "p95", "max": "5s"});
        let objective: WrittenObjective = serde_json::from_value(json).unwrap();
        let words = "reply: AgentRunLatency p95 is above 5s, by 90 of 1000 in the last hour";
        assert_eq!(runs(1_000, 80, 10).surely_missed(&objective).as_deref(), Some(words));
        assert_eq!(
            [runs(1_000, 60, 0), runs(20, 3, 0), runs(1_000, 0, 0)].map(|runs| runs.surely_missed(&objective)),
            [None, None, None]
        );
        let error_rate: ErrorRateObjective = serde_json::from_value(serde_json::json!({"max": "1%"})).unwrap();
        let words = "slo.errorRate: 30 of 1000 runs of the last hour failed";
        assert_eq!(runs(1_000, 0, 30).surely_failing(&error_rate).as_deref(), Some(words));
        assert_eq!([runs(1_000, 0, 14), runs(20, 0, 1)].map(|runs| runs.surely_failing(&error_rate)), [None, None]);
    }

    #[test]
    fn windows_of_all_pods_add_up() {
        let pod = |id: u64, value: u64| {
            let json = serde_json::json!({"revision": "r", "pod": "p", "startedAt": "t", "windows": [
                {"id": id, "metrics": [{"metric": "AgentRunLatency", "unit": "Run", "stratum": "", "count": 2, "errors": 1}]}
            ]});
            let mut evidence: Evidence = serde_json::from_value(json).unwrap();
            evidence.windows[0].metrics[0].buckets.record(value);
            evidence
        };
        let observed = ObservedObjectives::of(&[pod(100, 1_000), pod(102, 2_000)]);
        let counted = observed.of_metric(LatencyMetric::AgentRunLatency).unwrap();
        assert_eq!((counted.count, counted.errors, counted.values.count(), observed.window_seconds), (4, 2, 2, 30));
    }
}
