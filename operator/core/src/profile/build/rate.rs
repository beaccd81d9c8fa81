//! At which rate a point is confirmed, and for how long. Pure.

use slipway_crds::{
    v1alpha1::{
        agent_deployment::{LatencyMetric, ProfilingDriver, ThroughputUnit},
        profile::ProfileInputs,
    },
    values::Percentile,
};

use crate::profile::decide::{rows::natural, select};

/// Requests that a run of an agent makes at most, where only requests were measured: two calls of tools and an answer.
/// A longer run makes the confirm run harder, never easier.
const REQUESTS_PER_RUN: u64 = 3;
/// Shortest confirm run.
const MIN_RUN_MILLIS: u64 = 20_000;
/// Longest confirm run.
const MAX_RUN_MILLIS: u64 = 600_000;
/// Runs without which a p95 has no bound, and one more.
const LEAST_RUNS: u64 = 60;

/// Runs that arrive in 1,000 seconds. It is the target where runs have one. Else it is 60 % of the runs that a replica
/// did with a fixed number in flight, or half of the runs that its requests would make.
pub fn arrivals_per_kilosecond(inputs: &ProfileInputs, explored_per_kilosecond: i64) -> u64 {
    let explored = natural(explored_per_kilosecond);
    if let Some(throughput) = inputs.throughput.as_ref().filter(|t| t.unit == ThroughputUnit::Runs) {
        return select::per_replica(throughput.min.value(), inputs.replicas);
    }
    let arrivals = match inputs.driver {
        ProfilingDriver::AgentRun => explored * 6 / 10,
        ProfilingDriver::ModelAnalyzer => explored / (2 * REQUESTS_PER_RUN),
    };
    arrivals.max(1)
}

/// How long runs arrive: until there are enough of them for the objectives' bounds, within what anyone would wait for.
pub fn run_millis(inputs: &ProfileInputs, arrivals_per_kilosecond: u64) -> u64 {
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
    let planned = needed + 3 * needed.isqrt();
    (planned * 1_000_000 / arrivals_per_kilosecond.max(1)).clamp(MIN_RUN_MILLIS, MAX_RUN_MILLIS)
}
