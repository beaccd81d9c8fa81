//! The worker's task. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::{OptimizeFor as ApiOptimizeFor, ProfilingDriver},
    profile::{FrozenPrompts, MeasurementPurpose, NamedConfiguration, ProfileInputs, ProfiledEngine},
};
use slipway_worker_contract::{
    AgentRunSettings, Arm, Campaign, DataFile, Driver, EngineRef, InvalidDigest, LatencyObjective, MeasureSettings,
    OptimizeFor, OtherEngine, ProfileTask, Workload,
};

use super::{
    budget::{Budget, gpus},
    layout::{AGENT_API_ADDRESS, PROMPTS_FILE, TRACE_FILE, TRACE_FOLDER, prompts_folder},
    rate,
    scope::{JobScope, Subject},
};
use crate::{
    profile::decide::{
        rows::{recorded, unsigned},
        select,
    },
    serving::{serve_config, tokenizer_folder},
};

/// The task of a scope.
///
/// # Errors
/// When a digest of the inputs is malformed.
pub fn task(
    input_hash: &str,
    inputs: &ProfileInputs,
    status: &ProfileStatus,
    scope: &JobScope<'_>,
) -> Result<ProfileTask, InvalidDigest> {
    let engine = scope.engine();
    let served_by = engine.served_by();
    let counted_by = driver_of(inputs, scope);
    let driver = driver(inputs, scope)?;
    let (explored, is_explore) = match scope {
        JobScope::Explore { .. } => (recorded(status, scope.subject()), true),
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
        campaign: campaign(inputs, status, scope, driver.clone()),
        workloads: if counted_by == ProfilingDriver::ModelAnalyzer { workloads(inputs)? } else { Vec::new() },
        objectives: objectives(inputs, &driver),
        error_rate_max_ppm: inputs.error_rate.as_ref().map(|rate| rate.max.parts_per_million()),
        optimize_for: match inputs.optimize_for {
            ApiOptimizeFor::Throughput => OptimizeFor::Throughput,
            ApiOptimizeFor::Latency => OptimizeFor::Latency,
        },
        measure: MeasureSettings::default(),
        measured: explored,
        other_engines: if is_explore { other_engines(inputs, status, engine) } else { Vec::new() },
        target_per_kilosecond: select::target_per_kilosecond(inputs, counted_by),
    })
}

/// What generates the load of a scope: a confirm run always replays runs.
pub fn driver_of(inputs: &ProfileInputs, scope: &JobScope<'_>) -> ProfilingDriver {
    select::driver_for(inputs, scope.purpose())
}

fn driver(inputs: &ProfileInputs, scope: &JobScope<'_>) -> Result<Driver, InvalidDigest> {
    Ok(match driver_of(inputs, scope) {
        ProfilingDriver::ModelAnalyzer => Driver::ModelAnalyzer,
        ProfilingDriver::AgentRun => Driver::AgentRun(AgentRunSettings {
            endpoint: format!("http://{AGENT_API_ADDRESS}"),
            trace: DataFile {
                path: format!("{TRACE_FOLDER}/{TRACE_FILE}"),
                digest: inputs.agent_trace.as_ref().map_or("", |trace| &trace.digest).parse()?,
            },
            timeout_millis: inputs.agent.run_timeout.microseconds().div_ceil(1_000),
        }),
    })
}

fn campaign(inputs: &ProfileInputs, status: &ProfileStatus, scope: &JobScope<'_>, driver: Driver) -> Campaign {
    match scope {
        JobScope::Explore { .. } => {
            let budget = Budget::left(inputs, status);
            Campaign::Explore {
                arms: inputs.configurations.iter().map(arm).collect(),
                levels: inputs.levels.iter().copied().map(unsigned).collect(),
                max_measurements: budget.measurements,
                max_gpu_millis: budget.gpu_millis,
                driver,
            }
        }
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

fn workloads(inputs: &ProfileInputs) -> Result<Vec<Workload>, InvalidDigest> {
    let workload = |(index, prompts): (usize, &FrozenPrompts)| {
        let path = format!("{}/{PROMPTS_FILE}", prompts_folder(index));
        Ok(Workload {
            name: prompts.name.clone(),
            weight: unsigned(prompts.weight),
            prompts: DataFile { path, digest: prompts.data.digest.parse()? },
        })
    };
    inputs.prompts.iter().enumerate().map(workload).collect()
}

/// A driver refuses an objective on what it does not measure.
fn objectives(inputs: &ProfileInputs, driver: &Driver) -> Vec<LatencyObjective> {
    let measured = driver.kind().measures();
    let objectives = inputs.objectives.iter().filter(|objective| measured.contains(&objective.metric));
    objectives.map(LatencyObjective::from).collect()
}

fn other_engines(inputs: &ProfileInputs, status: &ProfileStatus, engine: &ProfiledEngine) -> Vec<OtherEngine> {
    let others = inputs.engines.iter().filter(|other| other.name != engine.name);
    others
        .map(|other| OtherEngine {
            name: other.display_name.clone(),
            gpus: gpus(inputs),
            rows: recorded(status, Subject { engine: &other.name, purpose: MeasurementPurpose::Explore }),
        })
        .filter(|other| !other.rows.is_empty())
        .collect()
}
