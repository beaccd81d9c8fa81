//! Points that one measurement each does not tell apart: which they are, and what more measurements say. Pure.
//!
//! A minute in which something else disturbed a node must not choose. So the best points are measured again in turn
//! where their bounds overlap, and of each the measurement in the middle counts.
//!
//! Pods differ by more than a measurement's own bounds say, and only repetitions show by how much. Points go on taking
//! turns while their differences are within that noise, until a wrong choice would cost little. That is an indifference
//! zone (Kim and Nelson, "A fully sequential procedure for indifference-zone selection in simulation", ACM TOMACS 11,
//! 2001).

use slipway_analysis::slo::ERRORS_TO_BOUND;
use slipway_crds::v1alpha1::{
    agent_deployment::{OptimizeFor, WrittenObjective},
    profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};

use crate::{
    bounds::{self, Interval},
    cost::ReplicaPrice,
    judged::{figure, gpu_limits, judged},
    rank,
};

/// How often close points are measured again at least: with the first measurement there is one in the middle.
pub const ROUNDS: i32 = 2;
/// How often at most. Two rounds more would make the error of such a median 15 % smaller. In a campaign whose best
/// cells were alike, six took two thirds of all its time (docs/benchmarks.md).
const MOST_ROUNDS: i32 = 4;
/// By how much a choice may be worse than the best, in ln of what is looked for.
const INDIFFERENCE: f64 = 0.03;
/// The standard error of a median of normal values is greater than that of their mean by the root of pi / 2.
const OF_THE_MEDIAN: f64 = 1.2533;
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

/// Every turn of close points, in order, as far as is known by now: who takes part in a round after the first
/// [`ROUNDS`] depends on all before it. The order of the points is reversed in every other round, so that what comes
/// slowly disturbs them alike.
pub fn turns(inputs: &ProfileInputs, measurements: &[Measurement]) -> Vec<Turn> {
    let points = points(inputs, measurements);
    let mut turns: Vec<Turn> = Vec::new();
    for round in 1..=MOST_ROUNDS {
        let mut in_round = points.clone();
        if round > ROUNDS {
            if turns.iter().any(|turn| !is_taken(measurements, *turn)) {
                break;
            }
            in_round = undecided(inputs, measurements, &points, round);
        }
        if round % 2 == 0 {
            in_round.reverse();
        }
        turns.extend(in_round.into_iter().map(|point| Turn { point, round }));
    }
    turns
}

/// What the rounds before one found of a point.
struct Sample {
    point: usize,
    /// The middle of what was looked for, in ln.
    middle: f64,
    /// Measurements.
    count: f64,
    /// Sum of squared deviations from their mean.
    squares: f64,
}

impl Sample {
    /// Nothing of a point that those rounds refuted.
    fn before(round: i32, inputs: &ProfileInputs, measurements: &[Measurement], point: usize) -> Option<Self> {
        let counted = counted(inputs, measurements, point, round);
        let scores: Vec<f64> = counted.iter().map(|at| rank::score(inputs, &measurements[*at]).ln()).collect();
        let middle = *scores.get(scores.len().checked_sub(1)? / 2)?;
        let count = scores.len() as f64;
        let mean = scores.iter().sum::<f64>() / count;
        let squares = scores.iter().map(|score| (score - mean).powi(2)).sum();
        Some(Self { point, middle, count, squares })
    }
}

/// The points that the rounds before one have not told apart from the best, while a wrong choice of them might cost
/// more than [`INDIFFERENCE`]. All points share one noise: it is that of their pods.
fn undecided(inputs: &ProfileInputs, measurements: &[Measurement], points: &[usize], round: i32) -> Vec<usize> {
    let found: Vec<Sample> =
        points.iter().filter_map(|point| Sample::before(round, inputs, measurements, *point)).collect();
    let freedom: f64 = found.iter().map(|of| of.count - 1.0).sum();
    let Some(best) = found.iter().max_by(|a, b| a.middle.total_cmp(&b.middle)).filter(|_| freedom > 0.0) else {
        return Vec::new();
    };
    let noise = (found.iter().map(|of| of.squares).sum::<f64>() / freedom).sqrt();
    // How much better another may be for all that is known.
    let margin = |of: &Sample| {
        let error = OF_THE_MEDIAN * noise * (1.0 / of.count + 1.0 / best.count).sqrt();
        of.middle + ERRORS_TO_BOUND * error - best.middle
    };
    let takes_part = |of: &&Sample| of.point == best.point || margin(of) > INDIFFERENCE;
    let points: Vec<usize> = found.iter().filter(takes_part).map(|of| of.point).collect();
    if points.len() > 1 { points } else { Vec::new() }
}

/// Whether a turn was taken.
pub fn is_taken(measurements: &[Measurement], turn: Turn) -> bool {
    repeats(measurements, &measurements[turn.point]).any(|(_, row)| row.round == Some(turn.round))
}

/// The row whose figures stand for a point, by the position of its first measurement: the middle one of those that
/// count, the worse of two. Nothing where the first does not meet the objectives, or more miss them than
/// count.
pub fn figures(inputs: &ProfileInputs, measurements: &[Measurement], point: usize) -> Option<usize> {
    let counted = counted(inputs, measurements, point, i32::MAX);
    counted.get(counted.len().checked_sub(1)? / 2).copied()
}

/// The measurements of a point whose figures count, the worst first: of the first one and of the rounds before
/// `before`. None where the first does not meet the objectives, or more miss them than count.
fn counted(inputs: &ProfileInputs, measurements: &[Measurement], point: usize, before: i32) -> Vec<usize> {
    let first = &measurements[point];
    let again = repeats(measurements, first).filter(|(_, row)| row.round.is_none_or(|round| round < before));
    let rows: Vec<(usize, &Measurement)> = [(point, first)].into_iter().chain(again).collect();
    let mut counted: Vec<_> = rows.iter().filter(|(_, row)| counts(inputs, row)).copied().collect();
    let missed = rows.iter().filter(|(_, row)| row.verdict == MeasurementVerdict::Infeasible).count();
    if first.verdict != MeasurementVerdict::Feasible || missed > counted.len() {
        return Vec::new();
    }
    counted.sort_by(|(_, a), (_, b)| rank::score(inputs, a).total_cmp(&rank::score(inputs, b)));
    counted.into_iter().map(|(position, _)| position).collect()
}

/// Whether the figures of a row count: it meets the objectives, or it is a round that leaves them open.
///
/// A round ends once its throughput is known. That its point meets the objectives was shown by the first measurement,
/// so only a round whose bounds show a miss speaks against it. A round without a figure that is limited says nothing.
fn counts(inputs: &ProfileInputs, row: &Measurement) -> bool {
    match row.verdict {
        MeasurementVerdict::Feasible => true,
        MeasurementVerdict::Unbounded => is_open_round(row) && has_limited_figures(inputs, row),
        MeasurementVerdict::Infeasible | MeasurementVerdict::Failed => false,
    }
}

/// Whether a row is a round that leaves an objective open, of a point that stands nevertheless.
pub fn is_compared(inputs: &ProfileInputs, measurements: &[Measurement], row: &Measurement) -> bool {
    let is_first = |other: &Measurement| other.purpose == MeasurementPurpose::Explore && is_same_point(other, row);
    let first = measurements.iter().position(is_first);
    is_open_round(row)
        && counts(inputs, row)
        && first.is_some_and(|point| figures(inputs, measurements, point).is_some())
}

/// Whether a row is a round that leaves an objective open.
pub fn is_open_round(row: &Measurement) -> bool {
    (row.purpose, row.verdict) == (MeasurementPurpose::Repeat, MeasurementVerdict::Unbounded)
}

fn has_limited_figures(inputs: &ProfileInputs, row: &Measurement) -> bool {
    let has = |objective: &WrittenObjective| {
        row.latencies.iter().any(|l| (l.metric, l.percentile) == (objective.metric, objective.percentile))
    };
    judged(inputs, row.purpose).iter().all(has)
        && gpu_limits(inputs, row.purpose).iter().all(|limit| figure(row, limit.figure).is_some())
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
    let is_repeat = move |row: &Measurement| row.purpose == MeasurementPurpose::Repeat && is_same_point(row, first);
    measurements.iter().enumerate().filter(move |(_, row)| is_repeat(row))
}

fn is_same_point(one: &Measurement, other: &Measurement) -> bool {
    (&one.engine, &one.configuration, one.level) == (&other.engine, &other.configuration, other.level)
}

/// What points are compared by, with its bounds.
fn looked_for(inputs: &ProfileInputs, row: &Measurement) -> Interval {
    let of_latency = || {
        let latency = rank::latency(inputs, row)?;
        let upper = latency.upper.unwrap_or(i64::MAX);
        Some(Interval { value: latency.microseconds, lower: latency.lower, upper })
    };
    match inputs.optimize_for {
        OptimizeFor::Throughput => bounds::throughput(row),
        OptimizeFor::Cost => cost(inputs, row).unwrap_or_else(|| bounds::throughput(row)),
        OptimizeFor::Latency => of_latency().unwrap_or(Interval { value: i64::MAX, lower: 0, upper: i64::MAX }),
    }
}

/// What 1,000 cost, with its bounds, where GPU models of several prices are compared. At one price it is the throughput
/// that tells points apart.
fn cost(inputs: &ProfileInputs, row: &Measurement) -> Option<Interval> {
    let price = ReplicaPrice::of_engine(inputs, &row.engine).filter(|_| !inputs.prices.is_empty())?;
    let throughput = bounds::throughput(row);
    let of = |per_kilosecond: i64| price.per_thousand(per_kilosecond.max(1));
    Some(Interval { value: of(throughput.value)?, lower: of(throughput.upper)?, upper: of(throughput.lower)? })
}

#[cfg(test)]
mod tests;
