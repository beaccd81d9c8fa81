//! When nothing measured meets the objectives: what came nearest, and which objective binds. Pure.

use serde::{Deserialize, Serialize};

use super::Limit;

/// How one objective is missed at a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shortfall {
    /// The objective's name.
    pub limit: String,
    /// The measured value, in the objective's unit. As a limit it would make the point feasible in this objective.
    pub value: f64,
    /// Factor by which it misses, above 1.
    pub excess: f64,
}

/// The point that misses its worst objective by the least factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nearest {
    /// Position of the point in the input.
    pub point: usize,
    /// The objective that binds there: the one missed by the greatest factor.
    pub binding: Shortfall,
    /// Every missed objective, worst first; relaxing all of them to their values makes this point feasible.
    pub missed: Vec<Shortfall>,
}

/// Finds the point whose worst miss, as a factor, is the least; ties go to the earlier point. Rows are values in the
/// order of `limits`; `None` cells (failed runs) rule a point out. `None` when a point meets everything or none counts.
#[must_use]
pub fn nearest(limits: &[Limit], points: &[Vec<Option<f64>>]) -> Option<Nearest> {
    let mut best: Option<Nearest> = None;
    for (point, values) in points.iter().enumerate() {
        let Some(values) = values.iter().copied().collect::<Option<Vec<f64>>>() else { continue };
        let missed = missed(limits, &values);
        // A point that misses nothing means that the problem is not infeasible at all.
        let binding = missed.first()?.clone();
        if best.as_ref().is_none_or(|b| binding.excess < b.binding.excess) {
            best = Some(Nearest { point, binding, missed });
        }
    }
    best
}

fn missed(limits: &[Limit], values: &[f64]) -> Vec<Shortfall> {
    let mut missed: Vec<Shortfall> = limits
        .iter()
        .zip(values)
        .filter(|(limit, value)| !limit.is_met(**value))
        .map(|(limit, value)| Shortfall { limit: limit.name().into(), value: *value, excess: limit.excess(*value) })
        .collect();
    missed.sort_by(|a, b| b.excess.total_cmp(&a.excess));
    missed
}
