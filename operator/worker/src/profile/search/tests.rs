//! Walks and searches end where they should, say why, and go on from any of their rows.

use pretty_assertions::assert_eq;
use slipway_worker_contract::{ServeConfig, Verdict, WhyNotMeasured};

use super::*;

fn arms(ids: &[&str]) -> Vec<Arm> {
    ids.iter().map(|id| Arm { id: (*id).into(), config: ServeConfig::default() }).collect()
}

fn ladder(ids: &[&str], levels: &[u32], max_measurements: u32, earlier: usize) -> Ladder {
    Ladder::new(Plan::new(&arms(ids), levels, max_measurements, earlier))
}

fn row(arm: &str, level: u32, verdict: Verdict) -> Row {
    Row {
        arm: arm.into(),
        level,
        verdict,
        count: 300,
        errors: 0,
        millis: 1,
        per_kilosecond: 1,
        latencies: Vec::new(),
        gpu: None,
        gpu_millis: 1,
        model_analyzer: None,
        records: None,
        arrivals_per_kilosecond: None,
        reason: String::new(),
    }
}

/// Walks to the end; arm `a` misses from level 4 on, arm `b` never.
fn walk(search: &dyn Search, mut rows: Vec<Row>) -> (Vec<(String, u32)>, Ended) {
    loop {
        match search.next(&rows) {
            Next::Done(ended) => return (rows.into_iter().map(|r| (r.arm, r.level)).collect(), ended),
            Next::Measure { arm, level } => {
                let missed = arm == 0 && level >= 4;
                let verdict = if missed { Verdict::Infeasible } else { Verdict::Feasible };
                rows.push(row(["a", "b"][arm], level, verdict));
            }
        }
    }
}

#[test]
fn an_arm_is_left_at_the_level_that_misses() {
    let (cells, ended) = walk(&ladder(&["a", "b"], &[8, 1, 4, 2], 20, 0), Vec::new());
    let expected = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 4), ("b", 4), ("b", 8)];
    assert_eq!(cells, expected.map(|(arm, level)| (arm.to_owned(), level)));
    assert_eq!(ended, Ended::complete("every arm was walked up to its limit"));
}

#[test]
fn a_walk_resumes_from_any_prefix_of_its_rows() {
    let search = ladder(&["a", "b"], &[1, 2, 4, 8], 20, 0);
    let (whole, _) = walk(&search, Vec::new());
    for length in 0..whole.len() {
        let verdict = |arm: &str, level| match (arm, level) {
            ("a", 4..) => Verdict::Infeasible,
            _ => Verdict::Feasible,
        };
        let prefix: Vec<Row> = whole[..length].iter().map(|(a, l)| row(a, *l, verdict(a, *l))).collect();
        assert_eq!(walk(&search, prefix).0, whole);
    }
}

#[test]
fn the_budget_counts_the_rows_of_this_job_only() {
    let earlier = vec![row("a", 1, Verdict::Feasible)];
    let (cells, ended) = walk(&ladder(&["a", "b"], &[1, 2, 4], 2, 1), earlier);
    assert_eq!((cells.len(), ended), (3, Ended::budget_used("the budget of 2 measurements is used")));
}

fn entry(arm: &str, levels: Option<(u32, u32)>, why: WhyNotMeasured, reason: &str) -> NotMeasured {
    NotMeasured { arm: arm.into(), levels, why, reason: reason.into() }
}

#[test]
fn what_a_walk_leaves_out_has_a_reason() {
    let search = ladder(&["a", "b", "c"], &[1, 2, 4, 8], 20, 0);
    let mut rows = vec![row("a", 1, Verdict::Feasible), row("a", 2, Verdict::Infeasible), row("b", 1, Verdict::Failed)];
    rows[1].reason = "fast is missed".into();
    rows[2].reason = "no memory".into();
    let ended = |end| search.not_measured(&rows, end);
    let infeasible = "level 2 is infeasible already: fast is missed";
    let expected = [
        entry("a", Some((4, 8)), WhyNotMeasured::Infeasible, infeasible),
        entry("b", Some((2, 8)), WhyNotMeasured::Failed, "level 1 failed: no memory"),
        entry("c", None, WhyNotMeasured::Budget, "the budget ended before it"),
    ];
    assert_eq!(ended(ProfileEnd::BudgetUsed), expected);
    assert_eq!(ended(ProfileEnd::Interrupted)[2].why, WhyNotMeasured::Interrupted);
}
