//! At which rate a point is confirmed, and for how long. Pure.

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

/// Runs that arrive in 1,000 seconds. It is the target where runs have one, or what the traffic says. Else it follows
/// from what a replica did with a fixed number in flight. Where a cost of runs is limited, there are at least
/// as many as the limit needs.
pub fn arrivals_per_kilosecond(inputs: &ProfileInputs, explored_per_kilosecond: i64) -> u64 {
    let of_driver = || driver::confirmed_runs(inputs.driver, natural(explored_per_kilosecond)).max(1);
    // Where few users came, enough do for the objectives' bounds in the time that there is, if a replica takes these.
    let enough = || (planned_runs(inputs) * 1_000_000 / MAX_RUN_MILLIS).min(of_driver());
    let replicas = inputs.recorded_replicas.unwrap_or(1);
    let recorded = inputs.recorded_runs_per_second.as_ref();
    let recorded = || recorded.map(|runs| per_replica(runs.value(), replicas).max(enough()));
    let said = || inputs.runs_per_second().map(|runs| per_replica(runs.value(), inputs.replicas));
    let asked = throughput_per_kilosecond(inputs, ProfilingDriver::AgentRun);
    let wanted = asked.or_else(said).or_else(recorded).unwrap_or_else(of_driver);
    affordable_per_kilosecond(inputs, ProfilingDriver::AgentRun).map_or(wanted, |least| wanted.max(least))
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
