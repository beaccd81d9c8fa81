//! What holds among the rules; what Prometheus makes of them is in `operator/core/tests/alerts`.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::agent_deployment::Baseline;

use super::*;
use crate::prometheus::{AlertingRule, RecordingRule};

const SLO: &str = "
objectives:
- {name: median, metric: AgentRunLatency, percentile: p50, max: 2s}
- {name: tail, metric: RequestLatency, percentile: p99, max: 500ms}
errorRate: {max: 1%}
";

fn scope() -> Scope<'static> {
    let runbooks = Some("https://runbooks.example/");
    Scope { namespace: "team", name: "support", replicas: 2, runbooks, baseline: Baseline::Stable }
}

fn rules_of(slo: &str) -> Option<RuleFile> {
    rules(&scope(), &serde_norway::from_str(slo).expect("valid objectives"))
}

fn recording(rules: &RuleFile) -> Vec<&RecordingRule> {
    let all = rules.groups.iter().flat_map(|group| &group.rules);
    all.filter_map(|rule| if let Rule::Recording(rule) = rule { Some(rule) } else { None }).collect()
}

fn alerting(rules: &RuleFile) -> Vec<&AlertingRule> {
    let all = rules.groups.iter().flat_map(|group| &group.rules);
    all.filter_map(|rule| if let Rule::Alerting(rule) = rule { Some(rule) } else { None }).collect()
}

#[test]
fn capacity_and_quality_alone_make_no_rules() {
    assert_eq!(rules_of("throughput: {min: '1', unit: Runs}"), None);
}

#[test]
fn every_series_that_an_alert_reads_is_recorded() {
    let file = rules_of(SLO).expect("there are rules");
    let recorded: BTreeSet<&str> = recording(&file).into_iter().map(|rule| rule.record.as_str()).collect();
    let read: BTreeSet<String> = alerting(&file)
        .into_iter()
        .flat_map(|rule| rule.expr.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')))
        .filter(|word| word.starts_with("slipway:"))
        .map(str::to_owned)
        .collect();
    assert!(!read.is_empty());
    let missing: Vec<_> = read.iter().filter(|series| !recorded.contains(series.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

/// Everyone else's rules stay as they are.
#[test]
fn the_pods_of_a_baseline_count_where_there_can_be_one() {
    let pods = |baseline| Scope { baseline, ..scope() }.pods();
    assert_eq!(
        [pods(Baseline::Stable), pods(Baseline::MirrorBaseline)],
        [
            r#"namespace="team",pod=~"support-[0-9a-f]{10}-[a-z0-9]+(-[a-z0-9]{5})?""#,
            r#"namespace="team",pod=~"support-[0-9a-f]{10}(-base)?-[a-z0-9]+(-[a-z0-9]{5})?""#,
        ]
    );
}

/// Objectives of which a tenth or more may be bad have no budget that burns; a budget of no errors at all is burnt by
/// any.
#[rstest]
#[case("errorRate: {max: 9.9999%}", ["SlipwayErrorBudgetBurn"; 4].as_slice())]
#[case("errorRate: {max: 10%}", ["SlipwayObjectiveMissed"; 2].as_slice())]
#[case("errorRate: {max: 0%}", ["SlipwayErrorBudgetBurn"; 4].as_slice())]
#[case("objectives: [{name: a, metric: RequestLatency, percentile: p90, max: 1s}]", ["SlipwayObjectiveMissed"; 2].as_slice())]
#[case("objectives: [{name: a, metric: RequestLatency, percentile: p95, max: 1s}]", ["SlipwayErrorBudgetBurn"; 4].as_slice())]
fn an_objective_alerts_on_its_budget_or_on_its_percentile(#[case] slo: &str, #[case] expected: &[&str]) {
    let file = rules_of(slo).expect("there are rules");
    let names: Vec<_> = alerting(&file).into_iter().map(|rule| rule.alert.as_str()).collect();
    let (of_objective, absent): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| *name != "SlipwayMetricsAbsent");
    assert_eq!((of_objective.as_slice(), absent.as_slice()), (expected, ["SlipwayMetricsAbsent"].as_slice()));
}

#[test]
fn without_a_folder_of_runbooks_no_alert_links_to_one() {
    let scope = Scope { runbooks: None, ..scope() };
    let file = rules(&scope, &serde_norway::from_str(SLO).expect("valid objectives")).expect("there are rules");
    let keys: BTreeSet<_> = alerting(&file).into_iter().flat_map(|rule| rule.annotations.keys()).collect();
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["description", "summary"]);
}

#[test]
fn every_alert_says_how_urgent_it_is_what_happens_and_where_to_read_on() {
    let file = rules_of(SLO).expect("there are rules");
    for rule in alerting(&file) {
        assert!(["critical", "warning"].contains(&rule.labels["severity"].as_str()), "{rule:?}");
        assert!(ALERTS.contains(&rule.alert.as_str()), "{rule:?}");
        assert_eq!(rule.annotations["runbook_url"], format!("https://runbooks.example/{}.md", rule.alert));
        assert!(rule.annotations["summary"].contains("support"), "{rule:?}");
        assert!(!rule.annotations["description"].is_empty(), "{rule:?}");
    }
}
