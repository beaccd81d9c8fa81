//! Alerting rules over the recorded series. Pure.

use std::collections::BTreeMap;

use slipway_runtime_config::metrics::{RUNS_TOTAL, SLO_EVENTS_TOTAL};

use super::{
    BudgetedObjective, Scope,
    objective::{ERROR_RATE, Share},
    recording::{bad_events, bad_ratio, events},
    window::{BURN_PAIRS, MISS_PAIRS, Pair, Severity, burning_share},
};
use crate::prometheus::AlertingRule;

/// The error budget burns too fast.
pub const ERROR_BUDGET_BURN: &str = "SlipwayErrorBudgetBurn";
/// The percentile of a window is above its bound.
pub const OBJECTIVE_MISSED: &str = "SlipwayObjectiveMissed";
/// Nothing is measured.
pub const METRICS_ABSENT: &str = "SlipwayMetricsAbsent";
/// All alerts; each has a runbook of its name.
pub const ALERTS: [&str; 3] = [ERROR_BUDGET_BURN, OBJECTIVE_MISSED, METRICS_ABSENT];

/// Least number of runs in the long window: with fewer, a share says nothing. The judge of rollouts asks for as many.
const LEAST_EVENTS: u32 = 50;
/// Least number of bad runs in the long window, so that one bad run in 50 does not break an objective of p99.9.
const LEAST_BAD_EVENTS: u32 = 5;
/// Standard deviations by which a window must miss an objective: what is chosen to just meet one often misses it by
/// chance.
const DEVIATIONS: u32 = 3;
/// From this share of allowed bad runs on there is no budget to burn: a burn rate of 5 would be half of all runs.
const MISSED_FROM: Share = Share::from_parts_per_million(100_000);
/// How long nothing is measured before someone is woken: longer than a restart of Prometheus or of all pods.
const ABSENT_FOR: &str = "15m";

/// The alert for missing counters of an agent. There is none while the agent is scaled to zero.
pub fn absence(scope: &Scope<'_>, objectives: &[BudgetedObjective]) -> Option<AlertingRule> {
    if scope.replicas == 0 {
        return None;
    }
    let has_latencies = objectives.iter().any(|objective| objective.name != ERROR_RATE);
    let has_failures = objectives.iter().any(|objective| objective.name == ERROR_RATE);
    let counters = has_latencies.then_some(SLO_EVENTS_TOTAL).into_iter().chain(has_failures.then_some(RUNS_TOTAL));
    let absent = counters.map(|counter| format!("absent({counter}{{{}}})", scope.pods()));
    let Scope { name, .. } = scope;
    let mut labels = scope.labels();
    labels.insert("severity".to_owned(), Severity::Critical.as_str().to_owned());
    Some(AlertingRule {
        alert: METRICS_ABSENT.to_owned(),
        expr: absent.collect::<Vec<_>>().join("\nor "),
        holds_for: Some(ABSENT_FOR.to_owned()),
        labels,
        annotations: annotations(
            scope,
            METRICS_ABSENT,
            format!("No metrics from {name}"),
            format!(
                "Prometheus has had no counters of {name} in namespace {} for {ABSENT_FOR}: no pod of it runs, or none is \
                 scraped. Nothing watches its objectives.",
                scope.namespace
            ),
        ),
    })
}

/// The alerts of an objective, each with the pair of windows that it reads.
pub fn alerts(scope: &Scope<'_>, objective: &BudgetedObjective) -> Vec<(Pair, AlertingRule)> {
    if objective.allowed >= MISSED_FROM {
        MISS_PAIRS.into_iter().map(|pair| (pair, missed(scope, objective, pair))).collect()
    } else {
        BURN_PAIRS.into_iter().map(|(pair, tenths)| (pair, burning(scope, objective, (pair, tenths)))).collect()
    }
}

fn burning(scope: &Scope<'_>, objective: &BudgetedObjective, (pair, tenths): (Pair, u32)) -> AlertingRule {
    let Pair { long, short, .. } = pair;
    let selector = scope.selector_of(objective);
    let threshold = burning_share(objective.allowed, tenths);
    let at = threshold.decimal();
    let expr = [
        format!("{}{selector} > {at}", bad_ratio(long)),
        format!("{}{selector} > {at}", bad_ratio(short)),
        format!("{}{selector} >= {LEAST_EVENTS}", events(long)),
        format!("{}{selector} >= {LEAST_BAD_EVENTS}", bad_events(long)),
    ];
    let description = format!(
        "{{{{ $value | humanizePercentage }}}} of the runs of the last {long} were bad. The objective allows {}; this \
         alerts above {} in both {long} and {short}.",
        objective.allowed.percent(),
        threshold.percent()
    );
    alert(scope, objective, (ERROR_BUDGET_BURN, pair), (expr.join("\nand "), description))
}

/// A share of n runs strays by sqrt(allowed (1 - allowed) / n) when the objective is just met.
fn missed(scope: &Scope<'_>, objective: &BudgetedObjective, pair: Pair) -> AlertingRule {
    let Pair { long, short, .. } = pair;
    let selector = scope.selector_of(objective);
    let at = objective.allowed.decimal();
    let by_chance = format!("{DEVIATIONS} * sqrt({at} * (1 - {at}) / {}{selector})", events(long));
    let expr = [
        format!("{}{selector} > {at} + {by_chance}", bad_ratio(long)),
        format!("{}{selector} > {at}", bad_ratio(short)),
        format!("{}{selector} >= {LEAST_EVENTS}", events(long)),
    ];
    let description = format!(
        "{{{{ $value | humanizePercentage }}}} of the runs of the last {long} were bad, more than chance explains, and \
         more than {} of those of the last {short}. The objective allows {}.",
        objective.allowed.percent(),
        objective.allowed.percent()
    );
    alert(scope, objective, (OBJECTIVE_MISSED, pair), (expr.join("\nand "), description))
}

fn alert(
    scope: &Scope<'_>,
    objective: &BudgetedObjective,
    (alert, pair): (&str, Pair),
    (expr, description): (String, String),
) -> AlertingRule {
    // Its series have the first three already; but without them rules of several objectives would be duplicates.
    let mut labels = scope.labels();
    labels.insert("objective".to_owned(), objective.name.clone());
    labels.insert("severity".to_owned(), pair.severity.as_str().to_owned());
    labels.insert("window".to_owned(), pair.long.to_string());
    let summary = format!("{} misses {} ({})", scope.name, objective.name, objective.bounds);
    AlertingRule {
        alert: alert.to_owned(),
        expr,
        holds_for: None,
        labels,
        annotations: annotations(scope, alert, summary, description),
    }
}

fn annotations(scope: &Scope<'_>, alert: &str, summary: String, description: String) -> BTreeMap<String, String> {
    let runbook = scope.runbooks.map(|folder| format!("{}/{alert}.md", folder.trim_end_matches('/')));
    let all = [("summary", Some(summary)), ("description", Some(description)), ("runbook_url", runbook)];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}
