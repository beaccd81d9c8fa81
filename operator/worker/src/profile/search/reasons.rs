//! Why something has no row. Pure.

use slipway_worker_contract::{
    Arm, MAX_NOT_MEASURED, MeasurementVerdict, NotMeasured, ProfileEnd, Row, WhyNotMeasured,
};

use super::Plan;
use crate::profile::judge::{self, Rules};

/// A reason and its words.
pub(super) type Why = (WhyNotMeasured, String);

/// The reason that a campaign's end is; `complete` are the words where it ended by itself.
pub(super) fn of_end(end: ProfileEnd, complete: &str) -> Why {
    match end {
        ProfileEnd::Complete => (WhyNotMeasured::Dominated, complete.to_owned()),
        ProfileEnd::BudgetUsed => (WhyNotMeasured::Budget, "the budget ended before it".to_owned()),
        ProfileEnd::Interrupted => (WhyNotMeasured::Interrupted, "the Job was asked to end before it".to_owned()),
    }
}

/// Lists everything without a row: whole arms as one entry, else neighbouring levels of one reason. `otherwise`
/// explains what the arm's own rows do not, by the arm's position.
pub(super) fn all((plan, rules): (&Plan, &Rules), rows: &[Row], otherwise: impl Fn(usize) -> Why) -> Vec<NotMeasured> {
    let (arms, measured) = (plan.arms.iter().enumerate(), rows);
    let mut all: Vec<NotMeasured> =
        arms.flat_map(|(position, arm)| of_arm((plan, rules), arm, measured, || otherwise(position))).collect();
    let more = all.len().saturating_sub(MAX_NOT_MEASURED);
    all.truncate(MAX_NOT_MEASURED);
    if let Some(last) = all.last_mut().filter(|_| more > 0) {
        last.reason = format!("with {more} more like it: {}", last.reason);
    }
    all.into_iter().map(NotMeasured::fitted).collect()
}

fn of_arm((plan, rules): (&Plan, &Rules), arm: &Arm, rows: &[Row], otherwise: impl Fn() -> Why) -> Vec<NotMeasured> {
    let own: Vec<&Row> = rows.iter().filter(|row| row.arm == arm.id).collect();
    let entry = |levels, (why, reason): Why| NotMeasured { arm: arm.id.clone(), levels, why, reason };
    if own.is_empty() {
        return vec![entry(None, otherwise())];
    }
    let mut entries: Vec<NotMeasured> = Vec::new();
    let mut adjacent = false;
    for level in &plan.levels {
        if own.iter().any(|row| row.level == *level) {
            adjacent = false;
            continue;
        }
        let why = of_level(&own, *level, rules).unwrap_or_else(&otherwise);
        match entries.last_mut().filter(|last| adjacent && (last.why, &last.reason) == (why.0, &why.1)) {
            Some(last) => last.levels = last.levels.map(|(lowest, _)| (lowest, *level)),
            None => entries.push(entry(Some((*level, *level)), why)),
        }
        adjacent = true;
    }
    entries
}

/// What the arm's own rows say about another level of it.
fn of_level(own: &[&Row], level: u32, rules: &Rules) -> Option<Why> {
    let lowest =
        |verdict: MeasurementVerdict| own.iter().filter(|row| row.verdict == verdict).min_by_key(|row| row.level);
    if let Some(row) = lowest(MeasurementVerdict::Failed) {
        return Some((WhyNotMeasured::Failed, format!("level {} failed: {}", row.level, row.reason)));
    }
    let ends_its_arm =
        |row: &&&Row| row.verdict == MeasurementVerdict::Infeasible && !judge::leaves_higher_levels_open(row, rules);
    let row = own.iter().filter(ends_its_arm).min_by_key(|row| row.level).filter(|row| row.level < level)?;
    Some((WhyNotMeasured::Infeasible, format!("level {} is infeasible already: {}", row.level, row.reason)))
}
