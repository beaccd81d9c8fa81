//! Which cell is measured next. Pure: a function of the campaign and the rows, so that a campaign resumes from any of
//! them.

mod given;
mod guided;
mod ladder;
mod reasons;

use serde::{Deserialize, Serialize};
use slipway_worker_contract::{Arm, MOST_WALKED, NotMeasured, ProfileEnd, ProfileTask, Row, unknown_figure};

pub use self::{given::Given, guided::Guided, ladder::Ladder};
use super::judge::Rules;

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

/// The throughput that a measurement has to reach to be of interest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToBeat {
    /// Requests or runs in 1,000 seconds.
    pub per_kilosecond: u64,
    /// Whose it is, for people.
    pub of: String,
}

/// A way to walk through a campaign.
pub trait Search: Send + Sync {
    /// Says what to do next, given all rows so far.
    fn next(&self, rows: &[Row]) -> Next;

    /// Gives the reason for everything without a row, once the campaign has ended.
    fn not_measured(&self, rows: &[Row], end: ProfileEnd) -> Vec<NotMeasured>;

    /// A measurement that cannot reach this may end early; nothing where every point is of interest.
    fn to_beat(&self, rows: &[Row]) -> Option<ToBeat>;
}

/// What is to be measured, and how much of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configurations.
    pub arms: Vec<Arm>,
    /// Requests in flight, ascending, each once.
    pub levels: Vec<u32>,
    /// Rows that may still be measured.
    pub max_measurements: u32,
    /// Rows that an earlier Job measured and that do not count against this Job's budget.
    pub earlier: usize,
}

impl Plan {
    /// Takes levels in any order.
    pub fn new(arms: &[Arm], levels: &[u32], max_measurements: u32, earlier: usize) -> Self {
        let mut levels = levels.to_vec();
        levels.sort_unstable();
        levels.dedup();
        Self { arms: arms.to_vec(), levels, max_measurements, earlier }
    }

    /// The end, if the measurements are used, or no further one can be judged.
    fn ended(&self, rows: &[Row], rules: &Rules) -> Option<Ended> {
        self.used(rows).or_else(|| unknown_figure(rows.iter(), &rules.gpu_limits).map(Ended::complete))
    }

    fn used(&self, rows: &[Row]) -> Option<Ended> {
        let used = rows.len().saturating_sub(self.earlier) >= self.max_measurements as usize;
        used.then(|| match self.max_measurements {
            0 => Ended::budget_used("no measurement is left of the budget: raise profiling.budget.measurements"),
            most => Ended::budget_used(format!("the budget of {most} measurements is used")),
        })
    }
}

/// Chooses the search. A space that fits the budget is walked and gives the whole front; a larger one is searched for
/// its best point.
pub fn choose(task: &ProfileTask, plan: Plan) -> Box<dyn Search> {
    let cells = plan.arms.len() * plan.levels.len();
    let open = cells.saturating_sub(plan.earlier);
    if cells <= MOST_WALKED && open <= plan.max_measurements as usize {
        Box::new(Ladder::new(plan, Rules::of(task)))
    } else {
        Box::new(Guided::new(task, plan))
    }
}

#[cfg(test)]
mod tests;
