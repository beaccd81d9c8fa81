//! Error budgets: how many runs may still be bad. Pure.
//!
//! An objective of p95 lets 5 % of the runs be bad. What is left of that budget is 1 - b / (n a), with n runs judged, b
//! of them bad, and a the share that may be. Below zero, the objective is missed over the window.
//! <https://sre.google/workbook/implementing-slos/>

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeploymentStatus,
        agent_deployment::{ErrorBudget, ObjectiveStatus, ServiceLevelObjectives},
    },
};

use super::{
    build::alerts::{BudgetedObjective, objectives},
    judged_runs::{BudgetsView, JudgedRuns},
};
use crate::{agent_deployment::world::World, conditions::Draft};

/// How long a figure stands: a budget of 30 days moves slowly, and every figure is a write of the status.
const FIGURE_STANDS: SignedDuration = SignedDuration::from_mins(5);
/// How long a figure judges the objective: after it, what the pods remember is the better witness.
const FIGURE_JUDGES: SignedDuration = SignedDuration::from_mins(30);
/// Percentages beyond which budgets are not distinguished.
const MOST: f64 = 999.0;
/// Largest error of binary fractions, in percent.
const ROUNDING: f64 = 1e-9;

/// Whether it is time to ask for figures.
pub fn is_due(slo: &ServiceLevelObjectives, status: &AgentDeploymentStatus, now: Timestamp) -> bool {
    let serves = status.rollout.as_ref().is_some_and(|rollout| rollout.stable.is_some());
    let stands = |budget: &ErrorBudget| now.duration_since(budget.at.0) < FIGURE_STANDS;
    let known = |objective: &BudgetedObjective| status.slo.iter().find(|entry| entry.name == objective.name);
    let has_figure =
        |objective: &BudgetedObjective| known(objective).and_then(|entry| entry.budget.as_ref()).is_some_and(stands);
    serves && !objectives(slo).iter().all(has_figure)
}

/// The objectives with their budgets: counted now, or as they were while they stand.
pub fn with_budgets(world: &World, entries: Vec<ObjectiveStatus>) -> Vec<ObjectiveStatus> {
    let declared = objectives(&world.spec.slo);
    let of = |entry: &ObjectiveStatus| {
        let objective = declared.iter().find(|objective| objective.name == entry.name)?;
        match &world.budgets {
            BudgetsView::Counted { runs, seconds } => {
                let left = left_percent(*runs.get(&entry.name)?, objective.allowed.ratio())?;
                Some(ErrorBudget {
                    left: format!("{left}%"),
                    left_percent: Some(left),
                    window: span(*seconds),
                    window_seconds: i64::try_from(*seconds).ok(),
                    at: Time(world.now),
                })
            }
            BudgetsView::NotAsked | BudgetsView::Failed { .. } => {
                let same = |known: &&ObjectiveStatus| known.name == entry.name && known.target == entry.target;
                world.status.slo.iter().find(same)?.budget.clone()
            }
        }
    };
    entries.into_iter().map(|entry| ObjectiveStatus { budget: of(&entry), ..entry }).collect()
}

/// What is left, in whole percent, rounded down: a budget that is overspent is below zero. Absent without a run.
fn left_percent(JudgedRuns { good, bad }: JudgedRuns, allowed: f64) -> Option<i32> {
    let runs = good + bad;
    // Prometheus extrapolates: less than one run counts as zero.
    if runs < 0.5 {
        return None;
    }
    let share = bad / runs;
    let left = match (share > 0.0, allowed > 0.0) {
        (_, true) => (100.0 * (1.0 - share / allowed) + ROUNDING).floor().clamp(-MOST, 100.0),
        (true, false) => -MOST,
        (false, false) => 100.0,
    };
    Some(left as i32)
}

/// A span for people: `45s`, `40m`, `5h`, `12d`.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Whether the objectives are met: over the window of the budget where a fresh one is known, else over what the pods
/// remember. Absent until traffic has judged one.
pub fn met_condition(slo: &[ObjectiveStatus], view: &BudgetsView, now: Timestamp) -> Option<Draft> {
    let judged = |entry| Some((entry, is_met(entry, now)?));
    let judged: Vec<(&ObjectiveStatus, bool)> = slo.iter().filter_map(judged).collect();
    if judged.is_empty() {
        return None;
    }
    let missed: Vec<String> = judged.iter().filter(|(_, is_met)| !is_met).map(|(entry, _)| words(entry)).collect();
    let (is_true, reason, message) = if missed.is_empty() {
        let names: Vec<String> = judged.iter().map(|(entry, _)| words(entry)).collect();
        (true, Reason::ObjectivesMet, names.join("; "))
    } else {
        (false, Reason::ObjectivesMissed, missed.join("; "))
    };
    let message = match view {
        BudgetsView::Failed { problem } => format!("{message}; error budgets are not up to date: {problem}"),
        BudgetsView::NotAsked | BudgetsView::Counted { .. } => message,
    };
    Some(Draft { condition: ConditionType::SLOMet, is_true, reason, message })
}

fn is_met(entry: &ObjectiveStatus, now: Timestamp) -> Option<bool> {
    let fresh = entry.budget.as_ref().filter(|budget| now.duration_since(budget.at.0) < FIGURE_JUDGES);
    fresh.map(|budget| !is_overspent(budget)).or(entry.met)
}

/// Whether less than nothing is left. An earlier operator wrote no number, but `left` in whole percent.
fn is_overspent(budget: &ErrorBudget) -> bool {
    let written = || budget.left.strip_suffix('%')?.parse::<i32>().ok();
    budget.left_percent.or_else(written).is_some_and(|percent| percent < 0)
}

/// `reply: RequestLatency p95 ≤ 2s, 1.4s over 12m, 83% of its error budget left over 12d`.
fn words(entry: &ObjectiveStatus) -> String {
    let ObjectiveStatus { name, objective, target, observed, window, budget, .. } = entry;
    let observed = observed.as_ref().zip(window.as_ref()).map(|(value, window)| format!(", {value} over {window}"));
    let budget = budget.as_ref().map(|ErrorBudget { left, window, .. }| match left.strip_prefix('-') {
        Some(overspent) => format!(", error budget overspent by {overspent} over {window}"),
        None => format!(", {left} of its error budget left over {window}"),
    });
    format!("{name}: {objective} {target}{}{}", observed.unwrap_or_default(), budget.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_bad(1_000.0, 0.0, 0.05, Some(100))]
    #[case::a_fifth_of_the_budget(990.0, 10.0, 0.05, Some(80))]
    #[case::just_spent(95.0, 5.0, 0.05, Some(0))]
    #[case::hardly_overspent(94.9, 5.1, 0.05, Some(-2))]
    #[case::far_overspent(0.0, 10.0, 0.001, Some(-999))]
    #[case::nothing_may_be_bad_and_is(10.0, 1.0, 0.0, Some(-999))]
    #[case::nothing_may_be_bad_and_is_not(10.0, 0.0, 0.0, Some(100))]
    #[case::no_run(0.2, 0.0, 0.05, None)]
    fn what_is_left_is_one_minus_the_spent_share(
        #[case] good: f64,
        #[case] bad: f64,
        #[case] allowed: f64,
        #[case] expected: Option<i32>,
    ) {
        assert_eq!(left_percent(JudgedRuns { good, bad }, allowed), expected);
    }

    #[test]
    fn a_budget_of_an_earlier_operator_is_read_by_its_text() {
        let budget = |left: &str, left_percent| ErrorBudget {
            left: left.to_owned(),
            left_percent,
            window: "12d".to_owned(),
            window_seconds: None,
            at: Time(Timestamp::UNIX_EPOCH),
        };
        let read = [("-2%", None), ("0%", None), ("in other words", Some(-2)), ("in other words", Some(0))];
        assert_eq!(read.map(|(left, percent)| is_overspent(&budget(left, percent))), [true, false, true, false]);
    }

    #[test]
    fn a_span_is_as_coarse_as_people_say_it() {
        assert_eq!(
            [45, 1_200, 7_199, 7_200, 172_799, 172_800, 2_592_000].map(span),
            ["45s", "20m", "119m", "2h", "47h", "2d", "30d"]
        );
    }
}
