//! Points in the order of what is looked for. Pure.

use std::cmp::Ordering;

use slipway_crds::v1alpha1::{
    agent_deployment::OptimizeFor,
    profile::{MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};

use crate::{cost::ReplicaPrice, natural, target::target_per_kilosecond};

/// Scores that differ by a smaller share are told apart by other things.
const TIE: f64 = 0.01;

/// A point that meets every objective by its bound.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    /// Position of its first measurement.
    point: usize,
    /// The measurement by which it is ranked.
    row: &'a Measurement,
}

/// Points that meet every objective by its bound, the best first, as positions of their first measurements. `figures`
/// gives the measurement by which a point is ranked, if it is ranked at all.
pub fn ranked_by(
    inputs: &ProfileInputs,
    measurements: &[Measurement],
    figures: impl Fn(usize) -> Option<usize>,
) -> Vec<usize> {
    let explored = measurements.iter().enumerate().filter(|(_, m)| m.purpose == MeasurementPurpose::Explore);
    let mut left: Vec<Candidate<'_>> = explored
        .filter_map(|(point, _)| Some(Candidate { point, row: &measurements[figures(point)?] }))
        .filter(|candidate| is_candidate(inputs, &measurements[candidate.point], candidate.row))
        .collect();
    let mut ranked = Vec::with_capacity(left.len());
    while let Some(best) = best(inputs, &left) {
        left.retain(|candidate| candidate.point != best);
        ranked.push(best);
    }
    ranked
}

/// The first measurement shows that a point meets the objectives. What it is ranked by may leave them open, because a
/// round that is compared by its throughput ends before.
fn is_candidate(inputs: &ProfileInputs, first: &Measurement, ranked_by: &Measurement) -> bool {
    let reaches = |target| natural(ranked_by.per_kilosecond) >= target;
    first.verdict == MeasurementVerdict::Feasible
        && target_per_kilosecond(inputs, &first.engine, inputs.driver).is_none_or(reaches)
}

/// The latency by which points are compared: that of the first objective, or the median where the driver does not
/// measure it.
pub fn latency<'a>(inputs: &ProfileInputs, measurement: &'a Measurement) -> Option<&'a MeasuredLatency> {
    let first = inputs.objectives.first();
    let asked = first.and_then(|objective| {
        measurement.latencies.iter().find(|l| l.metric == objective.metric && l.percentile == objective.percentile)
    });
    asked.or_else(|| measurement.latencies.first())
}

fn microseconds(inputs: &ProfileInputs, measurement: &Measurement) -> i64 {
    latency(inputs, measurement).map_or(i64::MAX, |latency| latency.microseconds)
}

/// What is looked for; more is better.
pub fn score(inputs: &ProfileInputs, measurement: &Measurement) -> f64 {
    match inputs.optimize_for {
        OptimizeFor::Throughput => measurement.per_kilosecond as f64,
        OptimizeFor::Cost => {
            // Without a price the replicas of a campaign, which hold the same, cost one unit each.
            let price =
                ReplicaPrice::of_engine(inputs, &measurement.engine).map_or(1, ReplicaPrice::microdollars_per_hour);
            measurement.per_kilosecond as f64 / price.max(1) as f64
        }
        OptimizeFor::Latency => 1.0 / (microseconds(inputs, measurement).max(1) as f64),
    }
}

fn best(inputs: &ProfileInputs, left: &[Candidate<'_>]) -> Option<usize> {
    let most = left.iter().map(|candidate| score(inputs, candidate.row)).max_by(f64::total_cmp)?;
    let engine = |name: &str| inputs.engines.iter().position(|engine| engine.name == name);
    let order = |a: &&Candidate<'_>, b: &&Candidate<'_>| -> Ordering {
        microseconds(inputs, a.row)
            .cmp(&microseconds(inputs, b.row))
            .then(a.row.level.cmp(&b.row.level))
            .then(engine(&a.row.engine).cmp(&engine(&b.row.engine)))
            .then(a.point.cmp(&b.point))
    };
    let is_tied = |candidate: &&Candidate<'_>| score(inputs, candidate.row) >= most * (1.0 - TIE);
    left.iter().filter(is_tied).min_by(order).map(|candidate| candidate.point)
}
