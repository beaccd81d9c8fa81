//! Which alerting rules there are, and in which kind of object.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{Alerts, ErrorRateObjective, Precision},
};

use super::cluster::{Cluster, world};
use crate::{
    plan::{Child, RemovalKind},
    prometheus::{Rule, RuleFile},
};

fn alerting(spec: &mut AgentDeploymentSpec) {
    let slo = "
objectives: [{name: reply, metric: RequestLatency, percentile: p95, max: 1s}]
errorRate: {max: 1%}
";
    spec.slo = serde_norway::from_str(slo).expect("valid objectives");
    spec.alerts.burn_rate = true;
}

/// An agent that serves and asks for alerts.
fn alerted(knows_prometheus_rules: bool) -> Cluster {
    let mut cluster = world().edited(alerting);
    cluster.world.rules.knows_prometheus_rules = knows_prometheus_rules;
    let mut cluster = cluster.serving();
    cluster.settle();
    cluster
}

/// The rules that the plan has, and the kind that holds them.
fn planned(cluster: &Cluster) -> Option<(RemovalKind, RuleFile)> {
    cluster.plan().children.into_iter().find_map(|child| match child {
        Child::PrometheusRule(object) => Some((RemovalKind::PrometheusRule, object.spec)),
        Child::ConfigMap(object) if object.metadata.name.as_deref() == Some("support-slo-rules") => {
            let data = object.data.expect("a rules file");
            let file = data.get("team.support.yaml").expect("a file named after its agent");
            Some((RemovalKind::ConfigMap, serde_norway::from_str(file).expect("a rules file is YAML")))
        }
        _ => None,
    })
}

fn alert_names(rules: &RuleFile) -> Vec<String> {
    let rules = rules.groups.iter().flat_map(|group| &group.rules);
    rules.filter_map(|rule| if let Rule::Alerting(rule) = rule { Some(rule.alert.clone()) } else { None }).collect()
}

fn held(cluster: &Cluster) -> Vec<(RemovalKind, String)> {
    cluster.world.rules.objects.iter().map(|object| (object.kind, object.name.clone())).collect()
}

#[rstest]
#[case::with_the_prometheus_operator(true, RemovalKind::PrometheusRule)]
#[case::without_it(false, RemovalKind::ConfigMap)]
fn rules_are_held_by_the_kind_that_the_cluster_knows(#[case] knows: bool, #[case] kind: RemovalKind) {
    let cluster = alerted(knows);
    assert_eq!(planned(&cluster).map(|(kind, _)| kind), Some(kind));
    assert_eq!(held(&cluster), [(kind, "support-slo-rules".to_owned())]);
}

#[test]
fn without_the_block_there_are_none() {
    let cluster = world().edited(|spec| {
        alerting(spec);
        spec.alerts = Alerts::default();
    });
    assert_eq!(planned(&cluster.serving()), None);
}

#[test]
fn before_anything_serves_nothing_is_missing() {
    let mut cluster = world().edited(alerting).resolved().fetched().with_engine_built(Precision::FP32);
    cluster.settle();
    assert_eq!((planned(&cluster), cluster.world.stable()), (None, None));
}

#[rstest]
fn switched_off_they_go(#[values(true, false)] knows: bool) {
    let mut cluster = alerted(knows).edited(|spec| spec.alerts.burn_rate = false);
    cluster.settle();
    assert_eq!((planned(&cluster), held(&cluster)), (None, vec![]));
}

#[test]
fn alerts_change_no_pod() {
    let before = world().serving();
    let stable = before.stable();
    let mut after = before.edited(|spec| spec.alerts.burn_rate = false);
    after.settle();
    assert_eq!((after.stable(), after.running_jobs()), (stable, vec![]));
}

#[test]
fn a_prometheus_operator_that_is_installed_later_takes_the_rules_over() {
    let mut cluster = alerted(false);
    cluster.world.rules.knows_prometheus_rules = true;
    cluster.settle();
    assert_eq!(held(&cluster), [(RemovalKind::PrometheusRule, "support-slo-rules".to_owned())]);
}

/// Pods take edited objectives over as they run.
#[test]
fn edited_objectives_are_alerted_on_at_once_and_restart_nothing() {
    let cluster = alerted(true);
    let stable = cluster.stable();
    let mut cluster = cluster.edited(|spec| {
        spec.slo.objectives[0].max = "750ms".parse().expect("a duration");
        spec.slo.error_rate = Some(ErrorRateObjective { max: "0.5%".parse().expect("a percentage") });
    });
    cluster.settle();
    let text = format!("{:?}", planned(&cluster));
    assert!(text.contains("RequestLatency p95 ≤ 750ms") && !text.contains("≤ 1s"), "{text}");
    assert!(text.contains("errors ≤ 0.5%") && !text.contains("errors ≤ 1%"), "{text}");
    assert_eq!((cluster.stable(), cluster.world.serving.len()), (stable, 1));
}

#[test]
fn rules_need_no_record_of_what_serves() {
    let mut cluster = alerted(true);
    let before = planned(&cluster);
    cluster.world.revisions.clear();
    cluster.world.spec.model.uri = Some("http://models.example/other".to_owned());
    assert_eq!(planned(&cluster), before);
}

/// Without pods there is nothing to scrape, and nobody is to be woken for it.
#[test]
fn an_agent_that_is_scaled_to_nothing_is_not_reported_as_absent() {
    let with_pods = planned(&alerted(true)).map(|(_, rules)| alert_names(&rules)).expect("there are rules");
    let without = planned(&alerted(true).edited(|spec| spec.serving.replicas = 0));
    let without = without.map(|(_, rules)| alert_names(&rules)).expect("there still are rules");
    let absence = "SlipwayMetricsAbsent".to_owned();
    assert!(with_pods.contains(&absence) && !without.contains(&absence), "{with_pods:?}, {without:?}");
    assert_eq!(without.len() + 1, with_pods.len());
}
