//! What Prometheus counted becomes error budgets and a condition.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::ObjectiveStatus;

use super::cluster::{Cluster, world};
use crate::agent_deployment::monitoring::{
    error_budget::is_due,
    judged_runs::{BudgetsView, JudgedRuns},
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
