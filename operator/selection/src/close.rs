//! Points that one measurement each does not tell apart: which they are, and what more measurements say. Pure.
//!
//! A minute in which something else disturbed a node must not choose. So the best points are measured again in turn
//! where their bounds overlap, and of each the measurement in the middle counts.

use slipway_crds::v1alpha1::{
    agent_deployment::OptimizeFor,
    profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};

use crate::{
    bounds::{self, Interval},
    rank,
};

/// How often close points are measured again: with the first measurement there is one in the middle.
pub const ROUNDS: i32 = 2;
/// Points that are measured again at most.
const MOST: usize = 3;

/// A point that has its turn in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The point, by the position of its first measurement.
    pub point: usize,
    /// The round, from 1.
    pub round: i32,
}

/// The best points whose bounds overlap those of the very best, by their first measurements; none where it stands
/// alone.
pub fn points(inputs: &ProfileInputs, measurements: &[Measurement]) -> Vec<usize> {
    let ranked = rank::ranked_by(inputs, measurements, Some);
    let Some(best) = ranked.first().map(|best| looked_for(inputs, &measurements[*best])) else { return Vec::new() };
    let is_close = |point: &usize| looked_for(inputs, &measurements[*point]).overlaps(best);
    let close: Vec<usize> = ranked.into_iter().filter(is_close).take(MOST).collect();
    if close.len() > 1 { close } else { Vec::new() }
}

/// Every turn of close points, in order. The order of the points is reversed in every other round, so that what comes
/// slowly disturbs them alike.
pub fn turns(inputs: &ProfileInputs, measurements: &[Measurement]) -> Vec<Turn> {
    let points = points(inputs, measurements);
    let in_round = |round: i32| {
        let mut turns: Vec<Turn> = points.iter().map(|point| Turn { point: *point, round }).collect();
        if round % 2 == 0 {
            turns.reverse();
        }
        turns
    };
    (1..=ROUNDS).flat_map(in_round).collect()
}

/// Whether a turn was taken.
pub fn is_taken(measurements: &[Measurement], turn: Turn) -> bool {
    repeats(measurements, &measurements[turn.point]).any(|(_, row)| row.round == Some(turn.round))
}

/// The row whose figures stand for a point, by the position of its first measurement: the middle one of those that
/// meet the objectives, the worse of two. Nothing where the first does not meet them, or most of all miss them.
pub fn figures(inputs: &ProfileInputs, measurements: &[Measurement], point: usize) -> Option<usize> {
    let first = &measurements[point];
    let rows: Vec<(usize, &Measurement)> = [(point, first)].into_iter().chain(repeats(measurements, first)).collect();
    let with = |verdict| rows.iter().filter(move |(_, row)| row.verdict == verdict);
    let misses = with(MeasurementVerdict::Infeasible).count();
    let judged = misses + with(MeasurementVerdict::Feasible).count() + with(MeasurementVerdict::Unbounded).count();
    if first.verdict != MeasurementVerdict::Feasible || 2 * misses > judged {
        return None;
    }
    let mut met: Vec<_> = with(MeasurementVerdict::Feasible).copied().collect();
    met.sort_by(|(_, a), (_, b)| rank::score(inputs, a).total_cmp(&rank::score(inputs, b)));
    met.get((met.len() - 1) / 2).map(|(position, _)| *position)
}

/// In words how close points were told apart, if any were.
pub fn words(inputs: &ProfileInputs, measurements: &[Measurement]) -> Option<String> {
    let points = points(inputs, measurements);
    let again = points.iter().flat_map(|point| repeats(measurements, &measurements[*point]));
    let again = again.filter(|(_, row)| row.verdict != MeasurementVerdict::Failed).count();
    let close = points.len();
    (again > 0).then(|| {
        format!("{close} close points were measured {again} times more in turn, and the middle of each counts")
    })
}

/// The further measurements of a point.
fn repeats<'a>(
    measurements: &'a [Measurement],
    first: &'a Measurement,
) -> impl Iterator<Item = (usize, &'a Measurement)> {
    let is_repeat = move |row: &Measurement| {
        row.purpose == MeasurementPurpose::Repeat
            && (&row.engine, &row.configuration, row.level) == (&first.engine, &first.configuration, first.level)
    };
    measurements.iter().enumerate().filter(move |(_, row)| is_repeat(row))
}

/// What points are compared by, with its bounds.
fn looked_for(inputs: &ProfileInputs, row: &Measurement) -> Interval {
    let of_latency = || {
        let latency = rank::latency(inputs, row)?;
        let upper = latency.upper.unwrap_or(i64::MAX);
        Some(Interval { value: latency.microseconds, lower: latency.lower, upper })
    };
    match inputs.optimize_for {
        OptimizeFor::Throughput | OptimizeFor::Cost => bounds::throughput(row),
        OptimizeFor::Latency => of_latency().unwrap_or(Interval { value: i64::MAX, lower: 0, upper: i64::MAX }),
    }
}

#[cfg(test)]
mod tests;
