//! The Job that measures: the engine is put down, Triton is a native sidecar that waits for a model, and the worker
//! loads, measures and reports. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, ConfigMapVolumeSource, Container, EnvVar, KeyToPath, Volume},
};
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::{ProfileStatus, agent_deployment::ProfilingDriver, shared::ConfigMapKeyReference},
};
use slipway_worker_contract::{InvalidDigest, Task, paths};

use self::{
    budget::Budget,
    layout::{AGENT_API_ADDRESS, PROMPTS_FILE, TRACE_FILE, TRACE_FOLDER, prompts_folder},
    scope::JobScope,
};
use super::world::ProfileWorld;
use crate::{
    artifact_store,
    jobs::{
        self,
        task::TaskParts,
        template::{
            JobParts, STORE_VOLUME, TASK_FOLDER, TASK_VOLUME, bin_volume, claim_volume, empty_dir, install_worker, job,
            mount, read_only, worker_container, worker_in,
        },
        triton::{self, ENGINE_VOLUME, Served},
    },
};

mod agent;
pub mod budget;
mod layout;
pub mod rate;
pub mod scope;
mod task;

/// Port 9464 is the worker's in this pod, and 9465 the replayed tools'.
const AGENT_ADMIN_ADDRESS: &str = "127.0.0.1:9466";
/// Seconds beyond the measuring: images, the copy of the engine, loads, and the wait to be acknowledged.
const DEADLINE_MARGIN_SECONDS: u64 = 3_600;

const WORK_VOLUME: &str = "work";
const TRACE_VOLUME: &str = "trace";
const AGENT_VOLUME: &str = "agent";
const AGENT_FILE: &str = "agent.json";

/// The task and the Job of a scope.
///
/// # Errors
/// When a digest of the inputs is malformed.
pub fn profile_job(
    world: &ProfileWorld,
    status: &ProfileStatus,
    scope: &JobScope<'_>,
    name: &str,
) -> Result<(ConfigMap, Job), InvalidDigest> {
    let inputs = &world.spec.inputs;
    let task = task::task(&world.spec.input_hash, inputs, status, scope)?;
    let driver = task::driver_of(inputs, scope);
    let config_map = config_map(world, name, scope, &Task::Profile(Box::new(task)));
    let mut init_containers = vec![materialize(world, scope), install_worker(&world.settings), triton(world, scope)];
    match driver {
        ProfilingDriver::ModelAnalyzer => {}
        ProfilingDriver::AgentRun => init_containers.push(agent_runtime(world, scope)),
    }
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Profile,
        labels: BTreeMap::from([
            (labels::PROFILE.to_owned(), world.name.clone()),
            (labels::AGENT_DEPLOYMENT.to_owned(), world.spec.agent_deployment.clone()),
        ]),
        owner: Some(world.owner.clone()),
        init_containers,
        container: profile(world, driver),
        volumes: volumes(world, &config_map, driver),
        node_selector: inputs.placement.node_selector.clone(),
        tolerations: inputs.placement.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: deadline_seconds(world, status, scope),
    };
    Ok((config_map, job(&world.settings, parts)))
}

fn config_map(world: &ProfileWorld, name: &str, scope: &JobScope<'_>, task: &Task) -> ConfigMap {
    let inputs = &world.spec.inputs;
    let mut files = BTreeMap::new();
    if task::driver_of(inputs, scope) == ProfilingDriver::AgentRun {
        let config = agent::config(&world.spec.agent_deployment, &world.name, inputs, scope);
        let json = serde_json::to_string_pretty(&config).expect("a configuration is plain data with text keys");
        files.insert(AGENT_FILE.to_owned(), json);
    }
    let (namespace, owner) = (world.namespace.as_str(), &world.owner);
    let parts = TaskParts { job: name, namespace, component: Component::Profile, owner, files };
    jobs::task::config_map(task, parts)
}

/// Seconds of the pod: what the budget leaves, or the length of the confirm run, and a margin.
fn deadline_seconds(world: &ProfileWorld, status: &ProfileStatus, scope: &JobScope<'_>) -> i64 {
    let inputs = &world.spec.inputs;
    let measuring_millis = match scope {
        JobScope::Explore { .. } => Budget::left(inputs, status).gpu_millis / u64::from(budget::gpus(inputs).max(1)),
        JobScope::Confirm { arrivals_per_kilosecond, .. } => rate::run_millis(inputs, *arrivals_per_kilosecond),
    };
    i64::try_from(measuring_millis / 1_000 + DEADLINE_MARGIN_SECONDS).unwrap_or(i64::MAX)
}

/// Puts the engine where the worker changes its configuration and Triton reads it.
fn materialize(world: &ProfileWorld, scope: &JobScope<'_>) -> Container {
    let engine = scope.engine();
    let identity = format!("--identity={}", engine.name);
    let manifest = format!("--manifest-digest={}", engine.manifest_digest);
    Container {
        volume_mounts: Some(vec![
            read_only(mount(STORE_VOLUME, paths::STORE_DIR)),
            mount(ENGINE_VOLUME, paths::ENGINE_DIR),
        ]),
        ..worker_container(&world.settings, "materialize", &["materialize", &identity, &manifest])
    }
}

fn triton(world: &ProfileWorld, scope: &JobScope<'_>) -> Container {
    let placement = &world.spec.inputs.placement;
    triton::sidecar(Served {
        image: &placement.triton_image,
        resources: &placement.triton_resources,
        served_by: scope.engine().served_by(),
    })
}

/// No probe: it is ready only once the worker has loaded a model.
fn agent_runtime(world: &ProfileWorld, scope: &JobScope<'_>) -> Container {
    let config = read_only(mount(AGENT_VOLUME, "/etc/slipway/agent"));
    let takes_tokens = scope.engine().served_by().takes_tokens();
    let reads_checkpoint = takes_tokens || agent::chat_template(&world.spec.inputs, scope).is_some();
    let tokenizer = reads_checkpoint.then(|| read_only(mount(ENGINE_VOLUME, paths::ENGINE_DIR)));
    let arguments = ["--api-address", AGENT_API_ADDRESS, "--admin-address", AGENT_ADMIN_ADDRESS];
    Container {
        name: "agent-runtime".to_owned(),
        image: Some(world.settings.images.agent_runtime.clone()),
        args: Some(arguments.map(str::to_owned).to_vec()),
        restart_policy: Some("Always".to_owned()),
        resources: Some(world.spec.inputs.placement.agent_resources.to_requirements()),
        volume_mounts: Some(std::iter::once(config).chain(tokenizer).collect()),
        ..Default::default()
    }
}

/// The worker, in the image that has what it starts.
fn profile(world: &ProfileWorld, driver: ProfilingDriver) -> Container {
    let inputs = &world.spec.inputs;
    let image = match driver {
        ProfilingDriver::ModelAnalyzer => {
            world.settings.images.model_analyzer.as_ref().unwrap_or(&inputs.placement.triton_image)
        }
        ProfilingDriver::AgentRun => &world.settings.images.worker,
    };
    let mut container = worker_in(image, "profile", &["profile"]);
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.extend([
        mount(ENGINE_VOLUME, paths::ENGINE_DIR),
        mount(STORE_VOLUME, paths::STORE_DIR),
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        mount(WORK_VOLUME, "/tmp"),
    ]);
    match driver {
        ProfilingDriver::ModelAnalyzer => {
            let prompts = |index| read_only(mount(&prompts_volume(index), &prompts_folder(index)));
            mounts.extend((0..inputs.prompts.len()).map(prompts));
        }
        ProfilingDriver::AgentRun => mounts.push(read_only(mount(TRACE_VOLUME, TRACE_FOLDER))),
    }
    // Model Analyzer writes below its home.
    container.env =
        Some(vec![EnvVar { name: "HOME".to_owned(), value: Some("/tmp".to_owned()), ..Default::default() }]);
    container
}

fn volumes(world: &ProfileWorld, config_map: &ConfigMap, driver: ProfilingDriver) -> Vec<Volume> {
    let inputs = &world.spec.inputs;
    let [engine, shared_memory] = triton::volumes();
    let mut volumes = vec![
        jobs::task::volume(config_map),
        bin_volume(),
        engine,
        empty_dir(WORK_VOLUME),
        shared_memory,
        claim_volume(STORE_VOLUME, artifact_store::CLAIM, false),
    ];
    match driver {
        ProfilingDriver::ModelAnalyzer => {
            volumes.extend(
                inputs
                    .prompts
                    .iter()
                    .enumerate()
                    .map(|(index, prompts)| key_volume(&prompts_volume(index), &prompts.data.config_map, PROMPTS_FILE)),
            );
        }
        ProfilingDriver::AgentRun => {
            volumes.extend(inputs.agent_trace.iter().map(|t| key_volume(TRACE_VOLUME, &t.config_map, TRACE_FILE)));
            let name = config_map.metadata.name.clone().unwrap_or_default();
            let own = ConfigMapKeyReference { name, key: AGENT_FILE.to_owned() };
            volumes.push(key_volume(AGENT_VOLUME, &own, "config.json"));
        }
    }
    volumes
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
