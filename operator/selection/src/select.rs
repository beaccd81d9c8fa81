//! Which of the measured points is the best. Pure.

use slipway_analysis::pareto::{Direction, Front};
use slipway_crds::v1alpha1::{
    agent_deployment::OptimizeFor,
    profile::{MeasuredGpu, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};

pub use crate::rank::latency;
use crate::{
    close,
    cost::{ReplicaPrice, dollars},
    natural,
    rank::{ranked_by, score},
    target::driver_for,
};

/// Share by which another point must be better than the one that serves to take its place.
const LEAD: f64 = 0.05;
/// Entries of `status.front`.
const MAX_FRONT: usize = 128;

/// Points that meet every objective by its bound, the best first, as positions of their first measurements. Where a
/// point was measured again, the middle measurement ranks it.
pub fn ranked(inputs: &ProfileInputs, measurements: &[Measurement]) -> Vec<usize> {
    ranked_by(inputs, measurements, |point| close::figures(inputs, measurements, point))
}

/// Whether a point is better than another by more than campaigns differ from each other. Throughput has no known
/// bounds, so its figures are compared, and so is what it costs. For latency it is the bounds of both.
pub fn is_clearly_better(inputs: &ProfileInputs, challenger: &Measurement, incumbent: &Measurement) -> bool {
    match inputs.optimize_for {
        OptimizeFor::Throughput | OptimizeFor::Cost => {
            score(inputs, challenger) >= score(inputs, incumbent) * (1.0 + LEAD)
        }
        OptimizeFor::Latency => {
            let slowest = latency(inputs, challenger).and_then(|latency| latency.upper);
            let fastest = latency(inputs, incumbent).map(|latency| latency.lower);
            slowest.zip(fastest).is_some_and(|(slowest, fastest)| slowest as f64 * (1.0 + LEAD) <= fastest as f64)
        }
    }
}

/// Points that no other beats in latency, throughput and cost, as positions in `measurements`. At one price the cost
/// follows from the throughput.
pub fn front(inputs: &ProfileInputs, measurements: &[Measurement]) -> Vec<i32> {
    let measured = |m: &Measurement| match m.verdict {
        MeasurementVerdict::Feasible | MeasurementVerdict::Infeasible | MeasurementVerdict::Unbounded => {
            m.purpose == MeasurementPurpose::Explore
        }
        MeasurementVerdict::Failed => false,
    };
    let figures = |m: &Measurement| {
        let throughput = m.per_kilosecond as f64;
        let price = ReplicaPrice::of_engine(inputs, &m.engine).map_or(1, ReplicaPrice::microdollars_per_hour);
        Some(vec![latency(inputs, m)?.microseconds as f64, throughput, throughput / price.max(1) as f64])
    };
    let (positions, points): (Vec<usize>, Vec<Vec<f64>>) = measurements
        .iter()
        .enumerate()
        .filter(|(_, m)| measured(m))
        .filter_map(|(index, m)| Some((index, figures(m)?)))
        .unzip();
    let front = Front::of(&points, &[Direction::Minimize, Direction::Maximize, Direction::Maximize])
        .expect("three objectives, and integers are finite");
    front.members().iter().take(MAX_FRONT).filter_map(|member| i32::try_from(positions[*member]).ok()).collect()
}

/// Why the first of the ranked points, in words with its numbers and the runner-up's.
pub fn why(inputs: &ProfileInputs, measurements: &[Measurement], best: usize) -> String {
    let ranked = ranked(inputs, measurements);
    let looked_for = match inputs.optimize_for {
        OptimizeFor::Throughput => "highest throughput",
        OptimizeFor::Latency => "lowest latency",
        OptimizeFor::Cost => "lowest cost",
    };
    let count = ranked.len();
    let by_figures = |at: usize| point(inputs, &measurements[close::figures(inputs, measurements, at).unwrap_or(at)]);
    let own = by_figures(best);
    let next = ranked.iter().find(|index| **index != best && is_after(&ranked, best, **index));
    let rest =
        next.map_or_else(|| "no other point is left".to_owned(), |next| format!("next is {}", by_figures(*next)));
    let again = close::words(inputs, measurements).map_or_else(String::new, |words| format!("; {words}"));
    format!("{looked_for} of {count} measured points that meet the objectives: {own}; {rest}{again}")
}

fn is_after(ranked: &[usize], best: usize, other: usize) -> bool {
    let place = |index| ranked.iter().position(|candidate| *candidate == index);
    place(other) > place(best)
}

/// A point in words: `int8/instances-2 at 4 in flight, 12.3 requests a second, p95 340ms`.
pub fn point(inputs: &ProfileInputs, measurement: &Measurement) -> String {
    let unit = driver_for(inputs, measurement.purpose).unit().words();
    let rate = measurement.per_kilosecond as f64 / 1_000.0;
    let latency = latency(inputs, measurement)
        .map_or_else(String::new, |l| format!(", {} {}", l.percentile, milliseconds(l.microseconds)));
    let price = ReplicaPrice::of_engine(inputs, &measurement.engine);
    let cost = price.and_then(|price| price.per_thousand(measurement.per_kilosecond));
    let cost = cost.map_or_else(String::new, |cost| format!(", {} for 1,000 {unit}", dollars(cost)));
    let gpu = measurement.gpu.and_then(gpu_words).map_or_else(String::new, |figures| format!(", GPU {figures}"));
    format!("{}, {rate:.2} {unit} a second{latency}{cost}{gpu}", place(inputs, measurement))
}

/// What GPUs did, where anything of it is known: `71 %, 412 W, 12034 MiB`.
pub fn gpu_words(gpu: MeasuredGpu) -> Option<String> {
    let MeasuredGpu { utilization_percent, power_watts, memory_mebibytes } = gpu;
    let figures = [(utilization_percent, "%"), (power_watts, "W"), (memory_mebibytes, "MiB")];
    let known: Vec<String> =
        figures.into_iter().filter_map(|(figure, unit)| Some(format!("{} {unit}", figure?))).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// A point by its name: `int8/instances-2 at 4 in flight`.
pub fn place(inputs: &ProfileInputs, measurement: &Measurement) -> String {
    let name = inputs
        .engines
        .iter()
        .find(|engine| engine.name == measurement.engine)
        .map_or(measurement.engine.as_str(), |engine| engine.display_name.as_str());
    format!("{name}/{} at {} in flight", measurement.configuration, measurement.level)
}

/// Microseconds as people write them, rounded up to what they can read: a limit of that much is met.
pub fn milliseconds(microseconds: i64) -> String {
    if microseconds < 10_000 {
        return format!("{:.1}ms", (microseconds as f64 / 100.0).ceil() / 10.0);
    }
    format!("{}ms", natural(microseconds).div_ceil(1_000))
}
