//! Rows judged by other objectives than those that they were measured for. Pure.

use slipway_crds::v1alpha1::{
    agent_deployment::WrittenObjective,
    profile::{MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};

use slipway_vocabulary::{GpuFigure, GpuLimit};

use crate::{natural, target::driver_for};

/// What the bounds of a row say of objectives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// They decide exactly as the row's records would.
    Decided {
        /// Met or missed.
        verdict: MeasurementVerdict,
        /// Which is missed, in words.
        reason: String,
    },
    /// They leave an objective open: only a measurement can tell.
    Open {
        /// Name of the first such objective.
        objective: String,
    },
    /// There are no figures to judge.
    Failed,
}

/// The objectives that the rows of a purpose are judged by.
pub fn judged(inputs: &ProfileInputs, purpose: MeasurementPurpose) -> Vec<WrittenObjective> {
    let metrics = driver_for(inputs, purpose).measures();
    inputs.objectives.iter().filter(|objective| metrics.contains(&objective.metric)).cloned().collect()
}

/// The limits on GPUs that the rows of a purpose are judged by. A confirm run has the load of the target, not that of
/// the level: GPUs may do less, so minimums do not count. Maximums are judged by its own figures.
pub fn gpu_limits(inputs: &ProfileInputs, purpose: MeasurementPurpose) -> Vec<GpuLimit> {
    let limits = inputs.gpu.iter().map(GpuLimit::from);
    match purpose {
        MeasurementPurpose::Explore | MeasurementPurpose::Repeat => limits.collect(),
        MeasurementPurpose::Confirm => limits.filter_map(GpuLimit::from_above).collect(),
    }
}

/// Judges a row by the objectives of these inputs.
pub fn judge(inputs: &ProfileInputs, row: &Measurement) -> Judged {
    match row.verdict {
        MeasurementVerdict::Feasible | MeasurementVerdict::Infeasible | MeasurementVerdict::Unbounded => {}
        MeasurementVerdict::Failed => return Judged::Failed,
    }
    let missed = |reason: String| Judged::Decided { verdict: MeasurementVerdict::Infeasible, reason };
    let total = natural(i64::from(row.count)) + natural(i64::from(row.errors));
    let failed = natural(i64::from(row.errors)) * 1_000_000 / total.max(1);
    let most = inputs.error_rate.as_ref().map(|rate| u64::from(rate.max.parts_per_million()));
    if row.count == 0 || most.is_some_and(|most| failed > most) {
        return missed(format!("{} of {total} failed", row.errors));
    }
    let objectives = judged(inputs, row.purpose);
    let assessed: Vec<Assessment> = objectives.iter().map(|objective| assessment(objective, row)).collect();
    let first = |wanted| objectives.iter().zip(&assessed).find(|(_, of)| **of == wanted).map(|(named, _)| &named.name);
    let of_gpus = gpu_limits(inputs, row.purpose);
    match (first(Assessment::Missed), missed_of_gpus(&of_gpus, row), first(Assessment::Open)) {
        (Some(name), ..) => missed(format!("{name} is missed")),
        (None, Some(words), _) => missed(words),
        (None, None, Some(name)) => Judged::Open { objective: name.clone() },
        (None, None, None) => match of_gpus.iter().find(|limit| figure(row, limit.figure).is_none()) {
            Some(limit) => Judged::Open { objective: limit.figure.limit_name().to_owned() },
            None => Judged::Decided { verdict: MeasurementVerdict::Feasible, reason: String::new() },
        },
    }
}

/// The first limit on a GPU's figure that a row misses, in words.
fn missed_of_gpus(limits: &[GpuLimit], row: &Measurement) -> Option<String> {
    limits.iter().find_map(|limit| limit.miss(figure(row, limit.figure)?.unsigned_abs()))
}

/// A figure of a row's GPUs, if it is known.
pub fn figure(row: &Measurement, figure: GpuFigure) -> Option<i32> {
    row.gpu.and_then(|gpu| gpu.figure(figure))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Assessment {
    Met,
    Missed,
    Open,
}

fn assessment(objective: &WrittenObjective, row: &Measurement) -> Assessment {
    let is_it =
        |latency: &&MeasuredLatency| (latency.metric, latency.percentile) == (objective.metric, objective.percentile);
    let Some(latency) = row.latencies.iter().find(is_it) else { return Assessment::Open };
    let limit = objective.max.microseconds();
    if natural(latency.lower) > limit {
        Assessment::Missed
    } else if latency.upper.is_some_and(|upper| natural(upper) <= limit) {
        Assessment::Met
    } else {
        Assessment::Open
    }
}
