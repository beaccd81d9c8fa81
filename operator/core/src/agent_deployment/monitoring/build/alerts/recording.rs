//! Recording rules: how many runs each objective judged in a window, and how many of them were bad. Pure.

use std::fmt::Display;

use slipway_runtime_config::metrics::{Blame, RUNS_TOTAL, RunOutcome, SLO_EVENTS_TOTAL};

use super::{BudgetedObjective, Scope, objective::ERROR_RATE, window::Window};
use crate::prometheus::RecordingRule;

/// Runs that an objective judged in a window.
pub fn events(window: Window) -> String {
    format!("slipway:slo_events:increase{window}")
}

/// Those of them that were bad.
pub fn bad_events(window: Window) -> String {
    format!("slipway:slo_bad_events:increase{window}")
}

/// The share of the bad ones; there is none where no run was judged.
pub fn bad_ratio(window: Window) -> String {
    format!("slipway:slo_bad_events:ratio{window}")
}

/// The rules of one window, for all objectives together.
///
/// Counters are added up pod by pod, so that runs of deleted pods count too. Runs of a canary count, because they are
/// users' runs.
pub fn recording_rules(scope: &Scope<'_>, objectives: &[BudgetedObjective], window: Window) -> Vec<RecordingRule> {
    let mut rules = Vec::new();
    let has_latencies = objectives.iter().any(|objective| objective.name != ERROR_RATE);
    let has_failures = objectives.iter().any(|objective| objective.name == ERROR_RATE);
    if has_latencies {
        let sum =
            |matcher: &str| format!("sum by (objective) ({})", increase(scope, SLO_EVENTS_TOTAL, matcher, window));
        rules.push(rule(scope, events(window), sum("")));
        rules.push(rule(scope, bad_events(window), sum(r#",good="false""#)));
    }
    if has_failures {
        let sum = |not: &[Blame]| {
            let matcher = format!(r#",outcome!~"{}""#, outcomes(not));
            format!("sum({})", increase(scope, RUNS_TOTAL, &matcher, window))
        };
        rules.push(of_failures(rule(scope, events(window), sum(&[Blame::Caller]))));
        rules.push(of_failures(rule(scope, bad_events(window), sum(&[Blame::Caller, Blame::Success]))));
    }
    let selector = scope.selector();
    let ratio = format!("{}{selector} / ({}{selector} > 0)", bad_events(window), events(window));
    rules.push(rule(scope, bad_ratio(window), ratio));
    rules
}

/// How far a counter went up within a window.
pub fn increase(scope: &Scope<'_>, counter: &str, matcher: &str, window: impl Display) -> String {
    format!("increase({counter}{{{}{matcher}}}[{window}])", scope.pods())
}

/// The outcomes with one of these meanings, as a regular expression.
pub fn outcomes(of: &[Blame]) -> String {
    let named = RunOutcome::ALL.into_iter().filter(|outcome| of.contains(&outcome.blame()));
    named.map(RunOutcome::as_str).collect::<Vec<_>>().join("|")
}

fn rule(scope: &Scope<'_>, record: String, expr: String) -> RecordingRule {
    RecordingRule { record, expr, labels: scope.labels() }
}

fn of_failures(mut rule: RecordingRule) -> RecordingRule {
    rule.labels.insert("objective".to_owned(), ERROR_RATE.to_owned());
    rule
}
