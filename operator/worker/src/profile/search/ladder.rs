//! The walk through a small space. Pure.

use slipway_worker_contract::{Arm, MeasurementVerdict, NotMeasured, ProfileEnd, Row, unknown_figure};

use super::{Ended, Next, Plan, Search, ToBeat, reasons};
use crate::profile::judge::{self, Rules};

/// Walks every arm up its levels, and leaves an arm at the first level that misses an objective, because more
/// requests in flight only make latencies longer. A row that misses only a least value of a GPU's figure, or a
/// utilization, does not end its arm: more in flight may meet it. It finds the whole front of a small campaign.
#[derive(Clone, Debug)]
pub struct Ladder {
    plan: Plan,
    rules: Rules,
}

impl Ladder {
    /// Prepares a walk.
    pub fn new(plan: Plan, rules: Rules) -> Self {
        Self { plan, rules }
    }

    fn next_level(&self, arm: &Arm, rows: &[Row]) -> Option<u32> {
        let of_arm = || rows.iter().filter(|row| row.arm == arm.id);
        let left = of_arm().any(|row| match row.verdict {
            MeasurementVerdict::Infeasible => !judge::leaves_higher_levels_open(row, &self.rules),
            MeasurementVerdict::Failed => true,
            MeasurementVerdict::Feasible | MeasurementVerdict::Unbounded => false,
        });
        let open = |level: &u32| !of_arm().any(|row| row.level == *level);
        if left { None } else { self.plan.levels.iter().copied().find(open) }
    }
}

impl Search for Ladder {
    fn next(&self, rows: &[Row]) -> Next {
        if let Some(ended) = self.plan.ended(rows, &self.rules) {
            return Next::Done(ended);
        }
        // The lowest levels of all arms first: they tell most about each arm, should the budget end.
        let candidate = |(position, arm)| Some((self.next_level(arm, rows)?, position));
        match self.plan.arms.iter().enumerate().filter_map(candidate).min() {
            Some((level, arm)) => Next::Measure { arm, level },
            None => Next::Done(Ended::complete("every arm was measured up to its limit")),
        }
    }
    fn not_measured(&self, rows: &[Row], end: ProfileEnd) -> Vec<NotMeasured> {
        let unknown = unknown_figure(rows.iter(), &self.rules.gpu_limits);
        let complete = unknown.as_deref().unwrap_or("the search ended before it");
        reasons::all((&self.plan, &self.rules), rows, |_| reasons::of_end(end, complete))
    }

    fn to_beat(&self, _rows: &[Row]) -> Option<ToBeat> {
        None
    }
}
