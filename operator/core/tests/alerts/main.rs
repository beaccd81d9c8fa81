//! Generated alerting rules as Prometheus evaluates them: `scenarios.yaml` says what alerts when, and Prometheus' own
//! promtool plays it against the rules that the operator generates from `objectives.yaml`.

mod operator;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use pretty_assertions::assert_eq;
use serde::Deserialize;
use slipway_crds::v1alpha1::agent_deployment::{Baseline, ServiceLevelObjectives};
use slipway_operator_core::{
    agent_deployment::monitoring::build::alerts::{ALERTS, Scope, rules},
    prometheus::{AlertingRule, Rule, RuleFile},
};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(file(path)).expect("a file of this repository")
}

const RUNBOOKS: &str = "https://runbooks.example/";

fn generated() -> RuleFile {
    let slo: ServiceLevelObjectives =
        serde_norway::from_str(&read("tests/alerts/objectives.yaml")).expect("valid objectives");
    let runbooks = Some(RUNBOOKS);
    let scope = Scope { namespace: "team", name: "support", replicas: 2, runbooks, baseline: Baseline::Stable };
    rules(&scope, &slo).expect("there are objectives")
}

/// A folder with the generated rules and the scenarios, as promtool wants them; removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("alerts-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the rules");
        let rules = serde_norway::to_string(&generated()).expect("rules are YAML");
        fs::write(folder.join("rules.yaml"), rules).expect("the rules are written");
        fs::write(folder.join("scenarios.yaml"), read("tests/alerts/scenarios.yaml")).expect("and the scenarios");
        fs::write(folder.join("operator-rules.yaml"), read(operator::RULES)).expect("the operator's too");
        fs::write(folder.join("operator-scenarios.yaml"), read(operator::SCENARIOS)).expect("with their scenarios");
        Self(folder)
    }

    /// What promtool says, when it is not content.
    fn promtool(&self, arguments: &[&str]) -> Result<(), String> {
        let output = Command::new("promtool").args(arguments).current_dir(&self.0).output();
        let output = output.map_err(|error| format!("promtool: {error}; `make test-alerts` installs it"))?;
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        if output.status.success() { Ok(()) } else { Err(said) }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn prometheus_accepts_the_rules() {
    assert_eq!(Folder::new("check").promtool(&["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]), Ok(()));
}

#[test]
#[ignore = "needs promtool: make test-alerts"]
fn each_alert_fires_and_is_silent_when_it_should() {
    assert_eq!(Folder::new("test").promtool(&["test", "rules", "scenarios.yaml"]), Ok(()));
}

/// What is read of the scenarios.
#[derive(Debug, Deserialize)]
struct Scenarios {
    tests: Vec<Scenario>,
}

#[derive(Debug, Deserialize)]
struct Scenario {
    input_series: Vec<Series>,
    #[serde(default)]
    promql_expr_test: Vec<Query>,
    #[serde(default)]
    alert_rule_test: Vec<Text>,
}

#[derive(Debug, Deserialize)]
struct Series {
    series: String,
}

#[derive(Debug, Deserialize)]
struct Query {
    expr: String,
    exp_samples: Vec<Sample>,
}

#[derive(Debug, Deserialize)]
struct Sample {
    labels: String,
}

#[derive(Debug, Deserialize)]
struct Text {
    alertname: String,
}

/// What every question of the scenarios asks: all alerts that fire.
const FIRING: &str = r#"count by (alertname, objective, window) (ALERTS{alertstate="firing"})"#;

fn alerting() -> Vec<AlertingRule> {
    let all = generated().groups.into_iter().flat_map(|group| group.rules);
    all.filter_map(|rule| if let Rule::Alerting(rule) = rule { Some(rule) } else { None }).collect()
}

/// Alert, objective and window as the scenarios write them, and how to tell that a scenario has traffic of that
/// objective.
fn keys() -> Vec<(String, String)> {
    let key = |rule: &AlertingRule| match (rule.labels.get("objective"), rule.labels.get("window")) {
        (Some(objective), Some(window)) => {
            let labels = format!(r#"{{alertname="{}", objective="{objective}", window="{window}"}}"#, rule.alert);
            let is_errors = objective == "slo.errorRate";
            let traffic = if is_errors { "outcome=\"model_error\"".to_owned() } else { format!("\"{objective}\"") };
            (labels, traffic)
        }
        _ => (format!(r#"{{alertname="{}"}}"#, rule.alert), String::new()),
    };
    alerting().iter().map(key).collect()
}

#[test]
fn every_alert_has_a_scenario_in_which_it_fires_and_one_in_which_it_is_silent() {
    let scenarios: Scenarios =
        serde_norway::from_str(&read("tests/alerts/scenarios.yaml")).expect("scenarios are YAML");
    let queries: Vec<_> = scenarios.tests.iter().flat_map(|t| t.promql_expr_test.iter().map(move |q| (t, q))).collect();
    assert!(queries.iter().all(|(_, query)| query.expr == FIRING), "each question asks for all alerts that fire");
    let expects = |query: &Query, labels: &str| query.exp_samples.iter().any(|sample| sample.labels == labels);
    let has_traffic = |scenario: &Scenario, of: &str| scenario.input_series.iter().any(|s| s.series.contains(of));
    let mut lacking = Vec::new();
    for (labels, traffic) in keys() {
        if !queries.iter().any(|(_, query)| expects(query, &labels)) {
            lacking.push(format!("{labels} never fires"));
        }
        if !queries.iter().any(|(scenario, query)| has_traffic(scenario, &traffic) && !expects(query, &labels)) {
            lacking.push(format!("{labels} is never silent"));
        }
    }
    assert_eq!(lacking, Vec::<String>::new());
    let known: BTreeSet<_> = keys().into_iter().map(|(labels, _)| labels).collect();
    let expected = queries.iter().flat_map(|(_, query)| &query.exp_samples).map(|sample| &sample.labels);
    assert_eq!(expected.filter(|labels| !known.contains(*labels)).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn the_words_of_every_alert_are_read_in_a_scenario() {
    let scenarios: Scenarios =
        serde_norway::from_str(&read("tests/alerts/scenarios.yaml")).expect("scenarios are YAML");
    let read: BTreeSet<_> =
        scenarios.tests.iter().flat_map(|test| &test.alert_rule_test).map(|text| text.alertname.as_str()).collect();
    assert_eq!(read, BTreeSet::from(ALERTS));
}

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let folder = fs::read_dir(file("../../docs/runbooks")).expect("a folder of runbooks");
    let runbooks: BTreeSet<_> =
        folder.map(|entry| entry.expect("a readable entry").file_name().to_string_lossy().into_owned()).collect();
    let named =
        alerting().into_iter().map(|rule| rule.annotations["runbook_url"].trim_start_matches(RUNBOOKS).to_owned());
    // The chart's template names those of the operator in the same way.
    let named: BTreeSet<_> = named.chain(operator::alerts().iter().map(|rule| format!("{}.md", rule.alert))).collect();
    assert_eq!(runbooks, named);
    for name in &runbooks {
        let text = read(&format!("../../docs/runbooks/{name}"));
        let sections: Vec<_> = text.lines().filter(|line| line.starts_with('#')).collect();
        let title = format!("# {}", name.trim_end_matches(".md"));
        assert_eq!(sections, [title.as_str(), "## What it means", "## First commands", "## Likely causes"]);
    }
}
