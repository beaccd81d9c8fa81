//! Recording and alerting rules of an AgentDeployment, over the counters that its pods export. Pure.
//!
//! A bad run failed or was slower than the objective's bound. Objectives of p95 and above, and on failures, have an
//! error budget of 30 days, and alert when it burns too fast. An objective that allows a tenth or more of bad runs
//! alerts when the percentile of a window is above its bound. Rules find series by namespace and pod, which Prometheus'
//! discovery of pods always sets.

mod alerting;
mod budget;
mod objective;
mod recording;
mod scope;
mod window;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::agent_deployment::ServiceLevelObjectives,
};

pub use alerting::ALERTS;
pub use budget::{BudgetQueries, budget_queries};
pub use objective::{BudgetedObjective, objectives};
pub use scope::Scope;

use self::window::Window;
use crate::{
    agent_deployment::{metadata::owned, world::World},
    jobs::template::common_labels,
    plan::{Child, RemovalKind},
    prometheus::{PrometheusRule, Rule, RuleFile, RuleGroup},
};

/// Time between two evaluations of rules over days of samples: less than the five minutes after which Prometheus
/// considers a series stale.
const LONG_INTERVAL: &str = "2m";

/// A kind that can hold rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulesKind {
    /// The kind of the Prometheus operator.
    PrometheusRule,
    /// A rules file, for a Prometheus without that operator.
    ConfigMap,
}

impl From<RulesKind> for RemovalKind {
    fn from(kind: RulesKind) -> Self {
        match kind {
            RulesKind::PrometheusRule => Self::PrometheusRule,
            RulesKind::ConfigMap => Self::ConfigMap,
        }
    }
}

/// The rules; absent when no objective is judged by every run.
pub fn rules(scope: &Scope<'_>, slo: &ServiceLevelObjectives) -> Option<RuleFile> {
    let objectives = objectives(slo);
    if objectives.is_empty() {
        return None;
    }
    let mut short = group(scope, &objectives, ("short", &Window::SHORT));
    short.rules.extend(alerting::absence(scope, &objectives).map(Rule::Alerting));
    let mut long = group(scope, &objectives, ("long", &Window::LONG));
    long.interval = Some(LONG_INTERVAL.to_owned());
    Some(RuleFile { groups: vec![short, long] })
}

/// The series of the windows, then the alerts with one of them as their long window. The short window of the last pair
/// is recorded by the other group.
fn group(scope: &Scope<'_>, objectives: &[BudgetedObjective], (name, windows): (&str, &[Window])) -> RuleGroup {
    let recorded = windows.iter().flat_map(|window| recording::recording_rules(scope, objectives, *window));
    let alerts = objectives.iter().flat_map(|objective| alerting::alerts(scope, objective));
    let own = alerts.filter(|(pair, _)| windows.contains(&pair.long)).map(|(_, rule)| Rule::Alerting(rule));
    RuleGroup {
        name: format!("slipway.{}.{}.{name}", scope.namespace, scope.name),
        interval: None,
        rules: recorded.map(Rule::Recording).chain(own).collect(),
    }
}

/// The object that holds the rules; absent when there are none.
pub fn child(world: &World) -> Option<Child> {
    let scope = Scope {
        namespace: &world.namespace,
        name: &world.name,
        replicas: world.replicas(),
        runbooks: world.settings.alerts.runbook_url.as_deref(),
        baseline: world.spec.rollout.baseline,
    };
    let rules = rules(&scope, &world.spec.slo)?;
    Some(match kind(world) {
        RulesKind::PrometheusRule => Child::PrometheusRule(Box::new(prometheus_rule(world, rules))),
        RulesKind::ConfigMap => Child::ConfigMap(Box::new(config_map(world, &rules))),
    })
}

/// The kind of the object that holds the rules in this cluster.
pub fn kind(world: &World) -> RulesKind {
    if world.rules.knows_prometheus_rules { RulesKind::PrometheusRule } else { RulesKind::ConfigMap }
}

/// Name of the object that holds the rules of an AgentDeployment.
pub fn object_name(agent_deployment: &str) -> String {
    format!("{agent_deployment}-slo-rules")
}

/// Labels of the platform team come first: Prometheus selects rules by them, but the operator finds its own by ours.
fn object_labels(world: &World) -> BTreeMap<String, String> {
    let mut all = world.settings.alerts.rule_labels.clone();
    all.extend(common_labels(Component::Alerts));
    all.insert(labels::APP_INSTANCE.to_owned(), world.name.clone());
    all.insert(labels::AGENT_DEPLOYMENT.to_owned(), world.name.clone());
    all
}

fn prometheus_rule(world: &World, rules: RuleFile) -> PrometheusRule {
    PrometheusRule { metadata: owned(world, object_name(&world.name), object_labels(world)), spec: rules }
}

/// The file is named after its agent, so that those of many agents can be mounted into one folder.
fn config_map(world: &World, rules: &RuleFile) -> ConfigMap {
    let file = serde_norway::to_string(rules).expect("rules hold only texts");
    ConfigMap {
        metadata: owned(world, object_name(&world.name), object_labels(world)),
        data: Some(BTreeMap::from([(format!("{}.{}.yaml", world.namespace, world.name), file)])),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
