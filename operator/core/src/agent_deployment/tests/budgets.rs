//! What Prometheus counted becomes error budgets and a condition.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use slipway_crds::{
    v1alpha1::agent_deployment::{
        ErrorRateFigures, LatencyFigures, LatencyMetric, ObjectiveStatus, ThroughputFigures, ThroughputUnit,
    },
    values::Percentile,
};
use slipway_vocabulary::evidence::Evidence;

use super::cluster::{Cluster, world};
use crate::agent_deployment::monitoring::{
    error_budget::is_due,
    judged_runs::{BudgetsView, JudgedRuns},
    observed_objectives::ObservedObjectives,
};

const SLO: &str = "
objectives: [{name: reply, metric: RequestLatency, percentile: p95, max: 1s}]
errorRate: {max: 1%}
throughput: {min: '2', unit: Runs}
";

fn serving() -> Cluster {
    world().edited(|spec| spec.slo = serde_norway::from_str(SLO).expect("valid objectives")).serving()
}

/// A thousand runs in twelve days, of which so many were slow and so many failed.
fn counted(slow: f64, failed: f64) -> BudgetsView {
    let judged = |bad: f64| JudgedRuns { good: 1_000.0 - bad, bad };
    let runs = [("reply", judged(slow)), ("slo.errorRate", judged(failed))];
    let runs: BTreeMap<_, _> = runs.map(|(name, runs)| (name.to_owned(), runs)).into();
    BudgetsView::Counted { runs, seconds: 12 * 86_400 + 3 }
}

impl Cluster {
    fn told_by_prometheus(mut self, view: BudgetsView) -> Self {
        self.world.budgets = view;
        self.step();
        self.world.budgets = BudgetsView::NotAsked;
        self
    }

    fn slo(&self) -> &[ObjectiveStatus] {
        &self.world.status.slo
    }

    fn budgets(&self) -> Vec<String> {
        let words = |entry: &ObjectiveStatus| {
            let budget = entry.budget.as_ref().map(|budget| format!("{} over {}", budget.left, budget.window));
            format!("{}: {}", entry.name, budget.unwrap_or_default())
        };
        self.slo().iter().map(words).collect()
    }

    /// Status, reason and message of the condition.
    fn slo_met(&self) -> Option<(String, String, String)> {
        let conditions = self.world.status.conditions.iter();
        conditions
            .filter(|condition| condition.type_ == "SLOMet")
            .map(|condition| (condition.status.clone(), condition.reason.clone(), condition.message.clone()))
            .next()
    }
}

/// What pods of an agent runtime whose evidence is of this version counted: a hundred of each metric, one of them an
/// error, the others half a second.
fn observed(version: u32, metrics: &[&str]) -> ObservedObjectives {
    let metric =
        |metric: &&str| serde_json::json!({"metric": metric, "unit": "Run", "stratum": "", "count": 100, "errors": 1});
    let windows = serde_json::json!([{"id": 100, "metrics": metrics.iter().map(metric).collect::<Vec<_>>()}]);
    let json =
        serde_json::json!({"version": version, "revision": "r", "pod": "p", "startedAt": "t", "windows": windows});
    let mut evidence: Evidence = serde_json::from_value(json).expect("evidence");
    for metric in &mut evidence.windows[0].metrics {
        (0..99).for_each(|_| metric.buckets.record(500_000));
    }
    ObservedObjectives::of([&evidence])
}

#[test]
fn programs_read_every_figure_as_a_number_beside_its_text() {
    let mut cluster = serving().told_by_prometheus(counted(10.0, 2.0));
    cluster.world.observed = observed(2, &["RequestLatency", "AgentRunLatency"]);
    cluster.settle();
    let [reply, errors, throughput] = cluster.slo() else { panic!("three objectives: {:?}", cluster.slo()) };
    let latency = reply.latency.expect("figures of a latency");
    let seen = latency.observed_microseconds.expect("an observation");
    assert!((490_000..=510_000).contains(&seen), "{seen}: a bucket's middle");
    let expected = LatencyFigures {
        metric: LatencyMetric::RequestLatency,
        percentile: Percentile::P95,
        target_microseconds: 1_000_000,
        predicted_microseconds: None,
        observed_microseconds: Some(seen),
        prediction_error_percent: None,
    };
    assert_eq!((latency, reply.error_rate, reply.throughput), (expected, None, None));
    assert_eq!((reply.window.as_deref(), reply.window_seconds), (Some("10s"), Some(10)));
    let budget = reply.budget.as_ref().expect("a budget");
    assert_eq!((budget.left_percent, budget.window_seconds), (Some(80), Some(12 * 86_400 + 3)));
    let expected = ErrorRateFigures {
        target_parts_per_million: 10_000,
        predicted_parts_per_million: None,
        observed_parts_per_million: Some(10_000),
    };
    assert_eq!((errors.observed.as_deref(), errors.error_rate), (Some("1.0%"), Some(expected)));
    let expected =
        ThroughputFigures { unit: ThroughputUnit::Runs, target_per_kilosecond: 2_000, predicted_per_kilosecond: None };
    assert_eq!(throughput.throughput, Some(expected));
    let status = &cluster.world.status;
    assert_eq!((status.met_objectives, status.observed_objectives), (Some(2), Some(2)));
    assert_eq!(status.objectives_met.as_deref(), Some("2/2"));
    assert_eq!((status.ready_pods, status.wanted_pods), (Some(1), Some(1)));
    assert_eq!(status.ready_replicas.as_deref(), Some("1/1"));
}

/// A figure stands for five minutes, but not one that an earlier operator wrote without numbers.
#[test]
fn a_figure_without_numbers_gets_them_at_once() {
    let mut cluster = serving();
    cluster.world.observed = observed(2, &["RequestLatency", "AgentRunLatency"]);
    cluster.settle();
    for entry in &mut cluster.world.status.slo {
        (entry.latency, entry.error_rate, entry.window_seconds) = (None, None, None);
    }
    cluster.settle();
    assert_eq!(cluster.slo()[0].window_seconds, Some(10));
    assert!(cluster.slo()[0].latency.is_some() && cluster.slo()[1].error_rate.is_some());
}

#[test]
fn what_users_wait_for_is_not_read_from_pods_that_counted_something_else_by_that_name() {
    let metrics = |version| {
        let first_token = "[{name: token, metric: TimeToFirstToken, percentile: p95, max: 1s}]";
        let objectives = serde_norway::from_str(first_token).expect("valid objectives");
        let mut cluster = world().edited(|spec| spec.slo.objectives = objectives).serving();
        cluster.world.observed = observed(version, &["TimeToFirstToken"]);
        cluster.settle();
        cluster.slo()[0].met
    };
    assert_eq!([metrics(1), metrics(2)], [None, Some(true)]);
}

fn condition(status: &str, reason: &str, message: &str) -> Option<(String, String, String)> {
    Some((status.to_owned(), reason.to_owned(), message.to_owned()))
}

#[test]
fn what_is_left_of_each_budget_stands_beside_its_objective() {
    let cluster = serving().told_by_prometheus(counted(10.0, 2.0));
    assert_eq!(cluster.budgets(), ["reply: 80% over 12d", "slo.errorRate: 80% over 12d", "slo.throughput: "]);
    let message = "reply: RequestLatency p95 ≤ 1s, 80% of its error budget left over 12d; slo.errorRate: errors ≤ 1%, 80% of its \
                   error budget left over 12d";
    assert_eq!(cluster.slo_met(), condition("True", "ObjectivesMet", message));
}

#[test]
fn an_overspent_budget_is_a_missed_objective() {
    let cluster = serving().told_by_prometheus(counted(75.0, 0.0));
    let message = "reply: RequestLatency p95 ≤ 1s, error budget overspent by 50% over 12d";
    assert_eq!(cluster.slo_met(), condition("False", "ObjectivesMissed", message));
}

#[test]
fn figures_stand_for_five_minutes_and_are_then_asked_for() {
    let mut cluster = serving();
    let is_asked = |cluster: &Cluster| is_due(&cluster.world.spec.slo, &cluster.world.status, cluster.world.now);
    assert!(is_asked(&cluster), "nothing is known yet");
    cluster = cluster.told_by_prometheus(counted(10.0, 2.0));
    cluster.pass(299);
    cluster.settle();
    assert!(!is_asked(&cluster));
    assert_eq!(cluster.budgets()[0], "reply: 80% over 12d");
    cluster.pass(1);
    assert!(is_asked(&cluster));
}

#[test]
fn nobody_is_asked_before_something_serves() {
    let cluster = world().edited(|spec| spec.slo = serde_norway::from_str(SLO).expect("valid objectives"));
    assert!(!is_due(&cluster.world.spec.slo, &cluster.world.status, cluster.world.now));
}

#[test]
fn a_prometheus_that_is_down_leaves_the_figures_and_says_so() {
    let cluster = serving().told_by_prometheus(counted(10.0, 0.0));
    let problem = "failed to ask Prometheus: connection refused".to_owned();
    let cluster = cluster.told_by_prometheus(BudgetsView::Failed { problem });
    assert_eq!(cluster.budgets()[0], "reply: 80% over 12d");
    let message = cluster.slo_met().map(|(_, _, message)| message).unwrap_or_default();
    let end = "; error budgets are not up to date: failed to ask Prometheus: connection refused";
    assert!(message.ends_with(end), "{message}");
}

#[test]
fn a_figure_of_an_hour_ago_says_nothing_of_what_the_pods_count_now() {
    let mut cluster = serving().told_by_prometheus(counted(10.0, 0.0));
    cluster.pass(3_600);
    cluster.settle();
    assert_eq!(cluster.budgets()[0], "reply: 80% over 12d", "it is still shown");
    assert_eq!(cluster.slo_met(), None, "no pod has counted anything");
}

#[test]
fn an_edited_objective_has_no_figure_until_prometheus_is_asked_again() {
    let mut cluster = serving().told_by_prometheus(counted(10.0, 0.0));
    cluster = cluster.edited(|spec| spec.slo.objectives[0].max = "750ms".parse().expect("a duration"));
    cluster.settle();
    assert_eq!(cluster.budgets()[0], "reply: ");
}

#[test]
fn without_traffic_nothing_is_said() {
    let cluster = serving().told_by_prometheus(BudgetsView::Counted { runs: BTreeMap::new(), seconds: 600 });
    assert_eq!((cluster.slo_met(), cluster.budgets()[0].as_str()), (None, "reply: "));
}
