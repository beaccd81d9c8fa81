//! At which rate a point is confirmed, and for how long. Pure.

use slipway_analysis::loss;
use slipway_crds::{
    v1alpha1::{
        agent_deployment::{LatencyMetric, ProfilingDriver},
        profile::ProfileInputs,
    },
    values::Percentile,
};
use slipway_selection::{
    natural,
    target::{affordable_per_kilosecond, per_replica, throughput_per_kilosecond},
};

use super::driver;

/// Shortest confirm run.
const MIN_RUN_MILLIS: u64 = 20_000;
/// Longest confirm run.
const MAX_RUN_MILLIS: u64 = 600_000;
/// Runs without which a p95 has no bound, and one more.
const LEAST_RUNS: u64 = 60;

/// What a point did while a fixed number was in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explored {
    /// The number in flight, which is a replica's limit in the confirm run.
    pub level: i32,
    /// The driver's units in 1,000 seconds.
    pub per_kilosecond: i64,
}

/// Runs that arrive in 1,000 seconds. It is the target where runs have one, or what the traffic says. Else it follows
/// from what a replica did with a fixed number in flight. Where a cost of runs is limited, there are at least
/// as many as the limit needs.
pub fn arrivals_per_kilosecond(inputs: &ProfileInputs, engine: &str, explored: Explored) -> u64 {
    // Where few users came, enough do for the objectives' bounds, if a replica takes these.
    let replicas = inputs.recorded_replicas.unwrap_or(1);
    let recorded = inputs.recorded_runs_per_second.as_ref();
    let enough = || enough(inputs).min(bearable(inputs, explored));
    let recorded = || recorded.map(|runs| per_replica(runs.value(), replicas).max(enough()));
    let said = || inputs.runs_per_second().map(|runs| per_replica(runs.value(), inputs.replicas));
    let asked = throughput_per_kilosecond(inputs, ProfilingDriver::AgentRun);
    let wanted = asked.or_else(said).or_else(recorded).unwrap_or_else(|| bearable(inputs, explored));
    affordable_per_kilosecond(inputs, engine, ProfilingDriver::AgentRun).map_or(wanted, |least| wanted.max(least))
}

/// Arrivals that are enough for the objectives' bounds in the time that there is.
fn enough(inputs: &ProfileInputs) -> u64 {
    planned_runs(inputs) * 1_000_000 / MAX_RUN_MILLIS
}

/// Arrivals that a replica takes of a traffic whose rate nobody knows.
///
/// Runs that arrive at random find all places taken at times, and are refused. Where errors are limited, so few arrive
/// that the refused are hardly more than the limit. They are enough for the objectives' bounds even where the limit
/// would need fewer: with one in flight no rate would do.
fn bearable(inputs: &ProfileInputs, explored: Explored) -> u64 {
    let per_kilosecond = natural(explored.per_kilosecond);
    let most = driver::confirmed_runs(inputs.driver, per_kilosecond).max(1);
    let Some(limit) = &inputs.error_rate else { return most };
    let places = u32::try_from(explored.level).unwrap_or(0).max(1);
    let allowed = f64::from(limit.max.parts_per_million()) / 1e6;
    let share = loss::tolerable_share(allowed, planned_runs(inputs));
    let load = loss::offered_load(places, share) / f64::from(places);
    let unrefused = driver::runs_at_capacity(inputs.driver, per_kilosecond) * load;
    (unrefused as u64).max(enough(inputs)).min(most)
}

/// How long runs arrive: until there are enough of them for the objectives' bounds, within what anyone would wait for.
pub fn run_millis(inputs: &ProfileInputs, arrivals_per_kilosecond: u64) -> u64 {
    let millis = planned_runs(inputs) * 1_000_000 / arrivals_per_kilosecond.max(1);
    millis.clamp(MIN_RUN_MILLIS, MAX_RUN_MILLIS)
}

/// Runs that are enough for the objectives' bounds.
fn planned_runs(inputs: &ProfileInputs) -> u64 {
    let needed = inputs
        .objectives
        .iter()
        .filter(|objective| objective.metric == LatencyMetric::AgentRunLatency)
        .map(|objective| match objective.percentile {
            Percentile::P50 | Percentile::P90 | Percentile::P95 => LEAST_RUNS,
            Percentile::P99 => 299,
            Percentile::P99_9 => 2_995,
        })
        .fold(LEAST_RUNS, u64::max);
    // Arrivals are a Poisson process: three standard deviations more make sure of the number.
    needed + 3 * needed.isqrt()
}
