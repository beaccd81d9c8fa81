//! What differs between drivers in a campaign: their load, and what they add to a Job. Pure.
//!
//! What a driver measures is said in the vocabulary, and nowhere else.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Container, KeyToPath, Volume, VolumeMount};
use slipway_crds::v1alpha1::{
    agent_deployment::{LONGEST, ProfilingDriver, SyntheticRuns},
    profile::{FrozenData, FrozenPrompts, ProfileInputs},
    shared::ConfigMapKeyReference,
};
use slipway_worker_contract::{
    self as contract, AgentRunSettings, DataFile, Driver, InvalidDigest, Runs, Spread, Workload,
};

use super::{
    agent,
    layout::{AGENT_API_ADDRESS, PROMPTS_FILE, TRACE_FILE, TRACE_FOLDER, prompts_folder},
};
use crate::{
    jobs::template::{mount, read_only},
    profile::{rows::unsigned, scope::JobScope, world::ProfileWorld},
};

/// Requests that a run of an agent makes at most, where only requests were measured: two calls of tools and an answer.
/// A longer run makes the confirm run harder, never easier.
const REQUESTS_PER_RUN: u64 = 3;

/// Of runs that are made up.
const SEED: u64 = 1;

const TRACE_VOLUME: &str = "trace";
const AGENT_FILE: &str = "agent.json";

/// Whether two campaigns compare configurations under the same load.
pub fn is_same_load(inputs: &ProfileInputs, other: &ProfileInputs) -> bool {
    inputs.driver == other.driver
        && match inputs.driver {
            ProfilingDriver::ModelAnalyzer => inputs.prompts == other.prompts,
            // Runs hold as many in flight as the greatest level.
            ProfilingDriver::AgentRun => {
                inputs.agent_trace == other.agent_trace
                    && inputs.recorded_lengths == other.recorded_lengths
                    && inputs.synthetic == other.synthetic
                    && inputs.agent == other.agent
                    && inputs.levels.iter().max() == other.levels.iter().max()
            }
        }
}

/// Runs of a replica whose places are always taken, from what it did of the driver's unit in that state.
pub(super) fn runs_at_capacity(driver: ProfilingDriver, explored: u64) -> f64 {
    match driver {
        ProfilingDriver::AgentRun => explored as f64,
        ProfilingDriver::ModelAnalyzer => explored as f64 / REQUESTS_PER_RUN as f64,
    }
}

/// Runs that a replica is confirmed with at most, from what it did of the driver's unit with a fixed number in flight.
/// It is 60 % of the runs, or half of the runs that its requests would make.
pub(super) fn confirmed_runs(driver: ProfilingDriver, explored: u64) -> u64 {
    match driver {
        ProfilingDriver::AgentRun => explored * 6 / 10,
        ProfilingDriver::ModelAnalyzer => explored / (2 * REQUESTS_PER_RUN),
    }
}

/// The load of a task: what generates it, and its prompts.
///
/// # Errors
/// When a digest of the inputs is malformed.
pub(super) fn load(inputs: &ProfileInputs, driver: ProfilingDriver) -> Result<(Driver, Vec<Workload>), InvalidDigest> {
    match driver {
        ProfilingDriver::ModelAnalyzer => {
            let workloads = inputs.prompts.iter().enumerate().map(workload).collect::<Result<_, _>>()?;
            Ok((Driver::ModelAnalyzer, workloads))
        }
        ProfilingDriver::AgentRun => Ok((Driver::AgentRun(agent_run_settings(inputs)?), Vec::new())),
    }
}

fn workload((index, prompts): (usize, &FrozenPrompts)) -> Result<Workload, InvalidDigest> {
    let path = format!("{}/{PROMPTS_FILE}", prompts_folder(index));
    Ok(Workload {
        name: prompts.name.clone(),
        weight: unsigned(prompts.weight),
        prompts: DataFile { path, digest: prompts.data.digest.parse()? },
    })
}

fn agent_run_settings(inputs: &ProfileInputs) -> Result<AgentRunSettings, InvalidDigest> {
    Ok(AgentRunSettings {
        endpoint: format!("http://{AGENT_API_ADDRESS}"),
        trace: match (&inputs.synthetic, &inputs.recorded_lengths) {
            (Some(runs), _) => Runs::Synthetic(synthetic(runs)),
            (None, Some(lengths)) => Runs::Lengths { lengths: file(Some(lengths))?, seed: SEED },
            (None, None) => Runs::Recorded(file(inputs.agent_trace.as_ref())?),
        },
        timeout_millis: inputs.agent.run_timeout.microseconds().div_ceil(1_000),
        recorded_replicas: inputs.recorded_replicas.map(unsigned),
    })
}

/// The file of recorded runs, where it is mounted.
fn file(data: Option<&FrozenData>) -> Result<DataFile, InvalidDigest> {
    let digest = data.map_or("", |data| &data.digest).parse()?;
    Ok(DataFile { path: format!("{TRACE_FOLDER}/{TRACE_FILE}"), digest })
}

/// The lengths of runs that are made up. Every campaign makes the same ones, so that rows of several can be compared.
fn synthetic(runs: &SyntheticRuns) -> contract::SyntheticRuns {
    let spread = |median: i32, p95: Option<i32>| {
        let longest = p95.map_or(i64::from(median), |p95| LONGEST * i64::from(p95));
        Spread {
            median: unsigned(median),
            p95: unsigned(p95.unwrap_or(median)),
            longest: u32::try_from(longest).unwrap_or(u32::MAX),
        }
    };
    contract::SyntheticRuns {
        input_tokens: spread(runs.input_tokens, runs.input_tokens_p95),
        output_tokens: spread(runs.output_tokens, runs.output_tokens_p95),
        tool_calls: unsigned(runs.tool_calls),
        tool_result_tokens: unsigned(runs.tool_result_tokens),
        tool_latency_micros: runs.tool_latency.microseconds(),
        burst: unsigned(runs.arrival.burst),
        seed: SEED,
    }
}

/// Files beside the task.
pub(super) fn files(world: &ProfileWorld, scope: &JobScope<'_>, driver: ProfilingDriver) -> BTreeMap<String, String> {
    match driver {
        ProfilingDriver::ModelAnalyzer => BTreeMap::new(),
        ProfilingDriver::AgentRun => {
            let config = agent::config(&world.spec.agent_deployment, &world.name, &world.spec.inputs, scope);
            let json = serde_json::to_string_pretty(&config).expect("a configuration is plain data with text keys");
            BTreeMap::from([(AGENT_FILE.to_owned(), json)])
        }
    }
}

/// What a driver adds to a Job.
pub(super) struct Additions<'a> {
    /// The image that has what the worker starts.
    pub(super) image: &'a str,
    /// Containers beside the worker's, after Triton.
    pub(super) sidecars: Vec<Container>,
    /// Mounts of the worker.
    pub(super) mounts: Vec<VolumeMount>,
    /// Their volumes, and those of the sidecars.
    pub(super) volumes: Vec<Volume>,
}

/// What a driver adds to a Job, whose task and files are in a ConfigMap.
pub(super) fn additions<'a>(
    world: &'a ProfileWorld,
    scope: &JobScope<'_>,
    driver: ProfilingDriver,
    config_map: &ConfigMap,
) -> Additions<'a> {
    let (inputs, images) = (&world.spec.inputs, &world.settings.images);
    match driver {
        ProfilingDriver::ModelAnalyzer => {
            let prompts = inputs.prompts.iter().enumerate();
            let volume = |(index, prompts): (usize, &FrozenPrompts)| {
                key_volume(&prompts_volume(index), &prompts.data.config_map, PROMPTS_FILE)
            };
            let mount = |(index, _)| read_only(mount(&prompts_volume(index), &prompts_folder(index)));
            Additions {
                image: images.model_analyzer.as_ref().unwrap_or(&inputs.placement.triton_image),
                sidecars: Vec::new(),
                mounts: prompts.clone().map(mount).collect(),
                volumes: prompts.map(volume).collect(),
            }
        }
        ProfilingDriver::AgentRun => {
            let recorded = inputs.agent_trace.iter().chain(&inputs.recorded_lengths);
            let trace = recorded.clone().map(|t| key_volume(TRACE_VOLUME, &t.config_map, TRACE_FILE));
            let name = config_map.metadata.name.clone().unwrap_or_default();
            let own = ConfigMapKeyReference { name, key: AGENT_FILE.to_owned() };
            Additions {
                image: &images.worker,
                sidecars: vec![agent::runtime(world, scope)],
                mounts: recorded.map(|_| read_only(mount(TRACE_VOLUME, TRACE_FOLDER))).collect(),
                volumes: trace.chain([key_volume(agent::VOLUME, &own, "config.json")]).collect(),
            }
        }
    }
}

fn prompts_volume(index: usize) -> String {
    format!("prompts-{index}")
}

/// A key of a ConfigMap as a file.
fn key_volume(name: &str, reference: &ConfigMapKeyReference, file: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: reference.name.clone(),
            items: Some(vec![KeyToPath { key: reference.key.clone(), path: file.to_owned(), ..Default::default() }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}
