//! The chart's alerts on the operator itself, as Prometheus evaluates them in `operator-scenarios.yaml`.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use slipway_operator_core::prometheus::{AlertingRule, Rule, RuleFile};

use super::{Folder, Scenarios, read};

/// The chart's file of rules.
pub const RULES: &str = "../../charts/slipway/files/alerts.yaml";
/// The scenarios.
pub const SCENARIOS: &str = "tests/alerts/operator-scenarios.yaml";

/// The alerts.
pub fn alerts() -> Vec<AlertingRule> {
    let file: RuleFile = serde_norway::from_str(&read(RULES)).expect("rules are YAML");
    let rules = file.groups.into_iter().flat_map(|group| group.rules);
    rules.filter_map(|rule| if let Rule::Alerting(rule) = rule { Some(rule) } else { None }).collect()
}

fn names() -> BTreeSet<String> {
    alerts().into_iter().map(|rule| rule.alert).collect()
}

fn scenarios() -> Scenarios {
    serde_norway::from_str(&read(SCENARIOS)).expect("scenarios are YAML")
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn prometheus_accepts_the_operators_rules() {
    let folder = Folder::new("operator-check");
    assert_eq!(folder.promtool(&["check", "rules", "--lint=all", "--lint-fatal", "operator-rules.yaml"]), Ok(()));
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn each_alert_of_the_operator_fires_and_is_silent_when_it_should() {
    assert_eq!(Folder::new("operator-test").promtool(&["test", "rules", "operator-scenarios.yaml"]), Ok(()));
}

#[test]
fn every_alert_of_the_operator_fires_in_one_scenario_and_all_are_silent_in_another() {
    let scenarios = scenarios();
    let queries: Vec<_> = scenarios.tests.iter().flat_map(|test| &test.promql_expr_test).collect();
    let firing = r#"count by (alertname) (ALERTS{alertstate="firing"})"#;
    assert!(queries.iter().all(|query| query.expr == firing), "each question asks for all alerts that fire");
    let fired: BTreeSet<_> = queries.iter().flat_map(|query| &query.exp_samples).map(|of| of.labels.clone()).collect();
    assert_eq!(fired, names().iter().map(|name| format!("{{alertname=\"{name}\"}}")).collect());
    // In the first scenario each has its series, and none fires.
    let quiet = scenarios.tests.first().expect("a quiet hour");
    assert!(quiet.promql_expr_test.iter().all(|query| query.exp_samples.is_empty()), "it is quiet");
    let series: BTreeSet<_> = quiet.input_series.iter().filter_map(|of| of.series.split('{').next()).collect();
    let lacking: Vec<_> = alerts().into_iter().filter(|rule| !series.iter().any(|of| rule.expr.contains(of))).collect();
    assert_eq!(lacking, []);
}

#[test]
fn the_words_of_every_alert_of_the_operator_are_read_in_a_scenario() {
    let scenarios = scenarios();
    let read = scenarios.tests.iter().flat_map(|test| &test.alert_rule_test).map(|text| text.alertname.clone());
    assert_eq!(read.collect::<BTreeSet<_>>(), names());
}
