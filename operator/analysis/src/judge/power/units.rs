//! From how many units of each revision a promotion can rest on an objective's percentile. Pure.
//!
//! Whatever the number of units, the sequence at a percentile shows a canary at the margin in 5 of 100 cases at most
//! (Ville). At the margin means that it exceeds stable's percentile and the margin as often as stable exceeds the
//! percentile. A tail that is longer still is promoted no more often. What depends on the number is whether an equal
//! canary is shown. Below it a canary that is shown has luck, and the judge says so in place of a promotion.

use slipway_vocabulary::{Percentile, evidence::Metric};

use super::{super::rollout::PROMOTION_E_VALUE, Config, Judge, Window, only_stable, seen_from_stable};

/// What a promotion takes at the percentile of an objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitsAtPercentile {
    /// What the objective bounds.
    pub metric: Metric,
    /// Its percentile, the highest of those on the metric.
    pub percentile: Percentile,
    /// Comparable units of each revision from which an equal canary is expected to be shown; `None` where stable has
    /// not shown enough.
    pub units: Option<u64>,
}

/// What stable's windows say of every metric that has an objective and guards a promotion. Pods are taken to be alike;
/// those that differ need more. Observations of a canary are left out.
#[must_use]
pub fn units_at_percentiles(config: &Config, windows: &[Window]) -> Vec<UnitsAtPercentile> {
    let mut judge = Judge::new(seen_from_stable(config));
    for window in windows {
        judge.consume(&only_stable(window));
    }
    let has_objective = |metric: Metric| judge.config.objectives.iter().any(|objective| objective.metric == metric);
    let guards = judge.promotion_guards().filter(|guard| has_objective(guard.key.metric));
    let of = |guard: &super::super::guard::Guard| {
        let units = guard.contrast().and_then(|contrast| {
            let needed = contrast.needed_information(PROMOTION_E_VALUE.ln(), guard.non_inferior.at.clustering())?;
            Some(contrast.units(needed).ceil() as u64)
        });
        UnitsAtPercentile { metric: guard.key.metric, percentile: guard.percentile(&judge.config), units }
    };
    guards.map(of).collect()
}
