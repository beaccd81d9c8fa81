//! What a campaign is held to: who generates the load of its measurements, and the throughput of a replica. Pure.

use slipway_crds::v1alpha1::{
    agent_deployment::ProfilingDriver,
    profile::{MeasurementPurpose, ProfileInputs},
};

use crate::cost::ReplicaPrice;

/// The throughput that one replica of an engine must reach, in what a driver counts, per 1,000 seconds; absent where
/// nothing of that kind is asked for. Runs are asked of the confirm run, whatever the configurations were compared
/// with.
pub fn target_per_kilosecond(inputs: &ProfileInputs, engine: &str, driver: ProfilingDriver) -> Option<u64> {
    throughput_per_kilosecond(inputs, driver).max(affordable_per_kilosecond(inputs, engine, driver))
}

/// The same as the spec's throughput has it.
pub fn throughput_per_kilosecond(inputs: &ProfileInputs, driver: ProfilingDriver) -> Option<u64> {
    let throughput = inputs.throughput.as_ref()?;
    (throughput.unit == driver.unit()).then(|| per_replica(throughput.min.value(), inputs.replicas))
}

/// The same as the spec's cost has it: with less, 1,000 would cost more than they may.
pub fn affordable_per_kilosecond(inputs: &ProfileInputs, engine: &str, driver: ProfilingDriver) -> Option<u64> {
    let cost = inputs.cost.as_ref().filter(|cost| cost.unit == driver.unit())?;
    Some(ReplicaPrice::of_engine(inputs, engine)?.least_per_kilosecond(cost.max.millionths()))
}

/// What generates the load of measurements for a purpose: a confirm run always replays runs.
pub fn driver_for(inputs: &ProfileInputs, purpose: MeasurementPurpose) -> ProfilingDriver {
    match purpose {
        MeasurementPurpose::Explore | MeasurementPurpose::Repeat => inputs.driver,
        MeasurementPurpose::Confirm => ProfilingDriver::AgentRun,
    }
}

/// The share of one replica in a throughput a second, per 1,000 seconds.
pub fn per_replica(per_second: f64, replicas: i32) -> u64 {
    // The subtraction keeps a product such as 0.3 * 1000 from being rounded up past what was asked for.
    let share = per_second * 1_000.0 / f64::from(replicas.max(1));
    ((share - 1e-6).ceil() as u64).max(1)
}
