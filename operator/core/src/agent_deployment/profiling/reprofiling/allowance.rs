//! What a repetition may cost. Pure.

use slipway_crds::{v1alpha1::agent_deployment::MonthlyUse, values::PositiveDecimal};

use super::Planner;
use crate::why::Why;

const MILLISECONDS_PER_HOUR: f64 = 3_600_000.0;
/// Milliseconds of GPU time in the smallest part of an hour that budgets know.
const MILLISECONDS_PER_PART: i64 = 360;

impl Planner<'_> {
    /// The GPU hours of the next repetition: the budget of any campaign, or what the month leaves. Where that is less
    /// than the last campaign took, none begins, for it would end without an answer.
    pub(super) fn allowance(&self) -> Result<PositiveDecimal, Why> {
        let budget = self.world.spec.profiling.as_ref().map(|profiling| profiling.budget.clone()).unwrap_or_default();
        let Some(per_month) = &budget.per_month else { return Ok(budget.gpu_hours) };
        let (limit, one) = (milliseconds(per_month), milliseconds(&budget.gpu_hours));
        let used = self.used();
        let left = limit.saturating_sub(used).max(0);
        let expected = self.last_cost().unwrap_or(one).min(one).min(limit);
        let hours =
            PositiveDecimal::from_ten_thousandths(u64::try_from(left.min(one) / MILLISECONDS_PER_PART).unwrap_or(0));
        hours.filter(|_| left >= expected).ok_or_else(|| Why::ReprofilingBudgetUsed {
            month: self.month(),
            used: hours_text(used),
            limit: per_month.to_string(),
            expected: hours_text(expected),
        })
    }

    /// Takes what the run that has just ended took into the month's account.
    pub(super) fn account(&mut self) {
        let spent = self.state.run.as_ref().map_or(0, |run| run.gpu_milliseconds);
        let gpu_milliseconds = self.used().saturating_add(spent);
        self.state.month = Some(MonthlyUse { month: self.month(), gpu_milliseconds });
    }

    fn used(&self) -> i64 {
        let month = self.month();
        self.state.month.as_ref().filter(|account| account.month == month).map_or(0, |account| account.gpu_milliseconds)
    }

    /// The calendar month, in UTC.
    fn month(&self) -> String {
        self.world.now.strftime("%Y-%m").to_string()
    }

    /// What the last repetition took, or the campaign before the first.
    fn last_cost(&self) -> Option<i64> {
        let repeated = self.state.run.as_ref().map(|run| run.gpu_milliseconds);
        let first = || {
            let name = self.world.status.profile.as_ref()?;
            self.world.profiles.get(name).map(|profile| profile.gpu_milliseconds)
        };
        repeated.filter(|cost| *cost > 0).or_else(|| first().filter(|cost| *cost > 0))
    }
}

fn milliseconds(hours: &PositiveDecimal) -> i64 {
    (hours.value() * MILLISECONDS_PER_HOUR).round() as i64
}

fn hours_text(milliseconds: i64) -> String {
    format!("{:.2}", milliseconds as f64 / MILLISECONDS_PER_HOUR)
}
