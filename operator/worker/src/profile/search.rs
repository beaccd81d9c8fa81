//! Which cell is measured next. Pure: a function of the campaign and the rows, so that a campaign resumes from any of them.

use slipway_worker_contract::{Arm, ProfileEnd, Row, Verdict};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Measure this arm at this level.
    Measure {
        /// Position of the arm.
        arm: usize,
        /// Requests in flight.
        level: u32,
    },
    /// Nothing more is measured.
    Done(Ended),
}

/// How a campaign ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What ended it.
    pub end: ProfileEnd,
    /// The same in words.
    pub reason: String,
}

impl Ended {
    /// Nothing more is to be measured.
    pub fn complete(reason: impl Into<String>) -> Self {
        Self { end: ProfileEnd::Complete, reason: reason.into() }
    }

    /// The budget is used.
    pub fn budget_used(reason: impl Into<String>) -> Self {
        Self { end: ProfileEnd::BudgetUsed, reason: reason.into() }
    }

    /// The pod was asked to end.
    pub fn interrupted() -> Self {
        Self { end: ProfileEnd::Interrupted, reason: "the Job was asked to end".to_owned() }
    }
}

/// A way to walk through a campaign.
pub trait Search: Send + Sync {
    /// Says what to do next, given all rows so far.
    fn next(&self, rows: &[Row]) -> Next;
}

/// Walks every arm up its levels, and leaves an arm at the first level that misses an objective: more requests in flight
/// only make latencies longer. It finds the whole front of a small campaign.
#[derive(Clone, Debug)]
pub struct Ladder {
    arms: Vec<Arm>,
    levels: Vec<u32>,
    max_measurements: u32,
    /// Rows that an earlier Job measured and that do not count against this Job's budget.
    earlier: usize,
}

impl Ladder {
    /// Prepares a walk; levels in any order.
    pub fn new(arms: &[Arm], levels: &[u32], max_measurements: u32, earlier: usize) -> Self {
        let mut levels = levels.to_vec();
        levels.sort_unstable();
        levels.dedup();
        Self { arms: arms.to_vec(), levels, max_measurements, earlier }
    }

    fn next_level(&self, arm: &Arm, rows: &[Row]) -> Option<u32> {
        let of_arm = || rows.iter().filter(|row| row.arm == arm.id);
        let left = of_arm().any(|row| match row.verdict {
            Verdict::Infeasible | Verdict::Failed => true,
            Verdict::Feasible | Verdict::Unbounded | Verdict::Invalid => false,
        });
        let open = |level: &u32| !of_arm().any(|row| row.level == *level);
        if left { None } else { self.levels.iter().copied().find(open) }
    }
}

impl Search for Ladder {
    fn next(&self, rows: &[Row]) -> Next {
        if rows.len().saturating_sub(self.earlier) >= self.max_measurements as usize {
            let reason = format!("the budget of {} measurements is used", self.max_measurements);
            return Next::Done(Ended::budget_used(reason));
        }
        // The lowest levels of all arms first: they tell most about each arm, should the budget end.
        let candidate = |(position, arm)| Some((self.next_level(arm, rows)?, position));
        match self.arms.iter().enumerate().filter_map(candidate).min() {
            Some((level, arm)) => Next::Measure { arm, level },
            None => Next::Done(Ended::complete("every arm was walked up to its limit")),
        }
    }
}

#[cfg(test)]
mod tests {
    use slipway_worker_contract::ServeConfig;

    use super::*;

    fn arms(ids: &[&str]) -> Vec<Arm> {
        ids.iter().map(|id| Arm { id: (*id).into(), config: ServeConfig::default() }).collect()
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
    fn walk(search: &Ladder, mut rows: Vec<Row>) -> (Vec<(String, u32)>, Ended) {
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
        let (cells, ended) = walk(&Ladder::new(&arms(&["a", "b"]), &[8, 1, 4, 2], 20, 0), Vec::new());
        let expected = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 4), ("b", 4), ("b", 8)];
        assert_eq!(cells, expected.map(|(arm, level)| (arm.to_owned(), level)));
        assert_eq!(ended, Ended::complete("every arm was walked up to its limit"));
    }

    #[test]
    fn a_walk_resumes_from_any_prefix_of_its_rows() {
        let search = Ladder::new(&arms(&["a", "b"]), &[1, 2, 4, 8], 20, 0);
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
        let (cells, ended) = walk(&Ladder::new(&arms(&["a", "b"]), &[1, 2, 4], 2, 1), earlier);
        assert_eq!((cells.len(), ended), (3, Ended::budget_used("the budget of 2 measurements is used")));
    }
}
