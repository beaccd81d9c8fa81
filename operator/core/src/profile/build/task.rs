//! The worker's task. Pure.

use slipway_agent_config::tokenizer_folder;
use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::{OptimizeFor as ApiOptimizeFor, ProfilingDriver},
    profile::{NamedConfiguration, ProfileInputs, ProfiledEngine, WarmStart},
};
use slipway_selection::{
    cost::{ReplicaPrice, gpus},
    judged::gpu_limits,
    target::{driver_for, target_per_kilosecond, throughput_per_kilosecond},
};
use slipway_worker_contract::{
    Arm, Campaign, Cell, Costs, Driver, EngineRef, InvalidDigest, LatencyObjective, MeasureSettings, OptimizeFor,
    OtherEngine, ProfileTask,
};

use super::{budget::Budget, driver, rate};
use crate::{
    profile::{
        rows::{expected, natural, recorded, unsigned},
        scope::{JobScope, Subject},
    },
    serving::serve_config,
};

/// The task of a scope, which may spend so much.
///
/// # Errors
/// When a digest of the inputs is malformed.
pub fn task(
    input_hash: &str,
    inputs: &ProfileInputs,
    status: &ProfileStatus,
    (scope, budget): (&JobScope<'_>, Budget),
) -> Result<ProfileTask, InvalidDigest> {
    let engine = scope.engine();
    let served_by = engine.served_by();
    let counted_by = driver_for(inputs, scope.purpose());
    let (driver, workloads) = driver::load(inputs, counted_by)?;
    let (explored, is_explore) = match scope {
        JobScope::Explore { .. } => (recorded(status, scope.subject()), true),
        JobScope::Repeat { .. } => (recorded(status, scope.subject()), false),
        JobScope::Confirm { .. } => (Vec::new(), false),
    };
    Ok(ProfileTask {
        input_hash: input_hash.to_owned(),
        engine: EngineRef { identity: engine.name.clone(), manifest_digest: engine.manifest_digest.parse()? },
        model: served_by.model().to_owned(),
        entry: served_by.entry(),
        tokenizer: served_by.takes_tokens().then(tokenizer_folder),
        no_build: served_by.no_build(),
        loaded_at_start: served_by.is_loaded_at_start(),
        gpus: gpus(inputs),
        campaign: campaign(inputs, (scope, budget), driver.clone()),
        workloads,
        objectives: objectives(inputs, &driver),
        error_rate_max_ppm: inputs.error_rate.as_ref().map(|rate| rate.max.parts_per_million()),
        optimize_for: match inputs.optimize_for {
            ApiOptimizeFor::Throughput => OptimizeFor::Throughput,
            ApiOptimizeFor::Latency => OptimizeFor::Latency,
            ApiOptimizeFor::Cost => OptimizeFor::Cost,
        },
        measure: MeasureSettings::default(),
        measured: explored,
        other_engines: if is_explore { other_engines(inputs, status, engine) } else { Vec::new() },
        target_per_kilosecond: target_per_kilosecond(inputs, &engine.name, counted_by),
        costs: costs(inputs, engine, counted_by),
        gpu_limits: gpu_limits(inputs, scope.purpose()),
        expected: if is_explore { expected(engine) } else { Vec::new() },
        first: if is_explore { first(inputs, status, engine) } else { None },
    })
}

fn campaign(inputs: &ProfileInputs, (scope, budget): (&JobScope<'_>, Budget), driver: Driver) -> Campaign {
    match scope {
        JobScope::Explore { .. } => Campaign::Explore {
            arms: inputs.configurations.iter().map(arm).collect(),
            levels: inputs.levels.iter().copied().map(unsigned).collect(),
            max_measurements: budget.measurements,
            max_gpu_millis: budget.gpu_millis,
            driver,
        },
        JobScope::Repeat { points, .. } => Campaign::Repeat {
            points: points
                .iter()
                .map(|point| Cell { arm: arm(point.configuration), level: unsigned(point.level) })
                .collect(),
            max_gpu_millis: budget.gpu_millis,
            driver,
        },
        JobScope::Confirm { configuration, level, arrivals_per_kilosecond, .. } => Campaign::Confirm {
            arm: arm(configuration),
            level: unsigned(*level),
            arrivals_per_kilosecond: *arrivals_per_kilosecond,
            run_millis: rate::run_millis(inputs, *arrivals_per_kilosecond),
            driver,
        },
    }
}

fn arm(configuration: &NamedConfiguration) -> Arm {
    Arm { id: configuration.name.clone(), config: serve_config(&configuration.settings) }
}

/// A driver refuses an objective on what it does not measure.
fn objectives(inputs: &ProfileInputs, driver: &Driver) -> Vec<LatencyObjective> {
    let measured = driver.kind().measures();
    let objectives = inputs.objectives.iter().filter(|objective| measured.contains(&objective.metric));
    objectives.map(LatencyObjective::from).collect()
}

/// The point with which the search of this engine begins. The worker takes it while the engine has no row.
fn first(inputs: &ProfileInputs, status: &ProfileStatus, engine: &ProfiledEngine) -> Option<Cell> {
    let WarmStart { engine: of, configuration, level, .. } = status.warm_start.as_ref()?;
    let is_its = *of == engine.name;
    let named = inputs.configurations.iter().find(|named| named.name == *configuration).filter(|_| is_its)?;
    Some(Cell { arm: arm(named), level: unsigned(*level) })
}

/// What tells engines of several prices apart.
fn costs(inputs: &ProfileInputs, engine: &ProfiledEngine, counted_by: ProfilingDriver) -> Option<Costs> {
    let most = inputs.cost.as_ref().filter(|cost| cost.unit == counted_by.unit());
    Some(Costs {
        microdollars_per_hour: microdollars_per_hour(inputs, engine)?,
        target_per_kilosecond: throughput_per_kilosecond(inputs, counted_by),
        max_microdollars_per_thousand: most.map(|cost| natural(cost.max.millionths())),
    })
}

/// What a replica costs, where GPU models of several prices are compared.
fn microdollars_per_hour(inputs: &ProfileInputs, engine: &ProfiledEngine) -> Option<u64> {
    let price = ReplicaPrice::of_engine(inputs, &engine.name).filter(|_| !inputs.prices.is_empty())?;
    Some(natural(price.microdollars_per_hour()))
}

fn other_engines(inputs: &ProfileInputs, status: &ProfileStatus, engine: &ProfiledEngine) -> Vec<OtherEngine> {
    let others = inputs.engines.iter().filter(|other| other.name != engine.name);
    others
        .map(|other| OtherEngine {
            name: other.display_name.clone(),
            gpus: gpus(inputs),
            microdollars_per_hour: microdollars_per_hour(inputs, other),
            rows: recorded(status, Subject::explored(&other.name)),
            expected: expected(other),
        })
        .filter(|other| !other.rows.is_empty())
        .collect()
}
