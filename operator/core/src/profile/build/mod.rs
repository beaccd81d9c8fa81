//! The Job that measures: the engine is put down, Triton is a native sidecar that waits for a model, and the worker
//! loads, measures and reports. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Container, EnvVar, Volume, VolumeMount},
};
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::ProfileStatus,
};
use slipway_selection::{cost, target};
use slipway_worker_contract::{InvalidDigest, Task, paths};

use self::{budget::Budget, driver::Additions};
use super::{scope::JobScope, world::ProfileWorld};
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
pub mod driver;
mod layout;
pub mod rate;
pub mod shares;
mod task;

/// Seconds beyond the measuring: images, the copy of the engine, loads, and the wait to be acknowledged.
const DEADLINE_MARGIN_SECONDS: u64 = 3_600;

const WORK_VOLUME: &str = "work";

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
    let budget = match scope {
        JobScope::Explore { engine } => shares::share(world, status, engine),
        JobScope::Repeat { .. } | JobScope::Confirm { .. } => Budget::left(inputs, status),
    };
    let task = task::task(&world.spec.input_hash, inputs, status, (scope, budget))?;
    let driver = target::driver_for(inputs, scope.purpose());
    let files = driver::files(world, scope, driver);
    let config_map = config_map(world, name, files, &Task::Profile(Box::new(task)));
    let Additions { image, sidecars, mounts, volumes } = driver::additions(world, scope, driver, &config_map);
    let init_containers = [materialize(world, scope), install_worker(&world.settings), triton(world, scope)];
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Profile,
        labels: BTreeMap::from([
            (labels::PROFILE.to_owned(), world.name.clone()),
            (labels::AGENT_DEPLOYMENT.to_owned(), world.spec.agent_deployment.clone()),
        ]),
        owner: Some(world.owner.clone()),
        init_containers: init_containers.into_iter().chain(sidecars).collect(),
        container: profile(image, mounts),
        volumes: shared_volumes(&config_map).into_iter().chain(volumes).collect(),
        node_selector: inputs.node_selector_of(scope.engine()),
        tolerations: inputs.placement.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: deadline_seconds(world, status, scope),
    };
    let mut job = job(&world.settings, parts);
    job.metadata.annotations = match scope {
        JobScope::Explore { engine } if world.agent.most_at_once() > 1 => {
            Some(shares::grant(status, engine, &budget).annotations())
        }
        JobScope::Explore { .. } | JobScope::Repeat { .. } | JobScope::Confirm { .. } => job.metadata.annotations,
    };
    Ok((config_map, job))
}

fn config_map(world: &ProfileWorld, name: &str, files: BTreeMap<String, String>, task: &Task) -> ConfigMap {
    let (namespace, owner) = (world.namespace.as_str(), &world.owner);
    let parts = TaskParts { job: name, namespace, component: Component::Profile, owner, files };
    jobs::task::config_map(task, parts)
}

/// Seconds of the pod: what the budget leaves, or the length of the confirm run, and a margin.
fn deadline_seconds(world: &ProfileWorld, status: &ProfileStatus, scope: &JobScope<'_>) -> i64 {
    let inputs = &world.spec.inputs;
    let measuring_millis = match scope {
        JobScope::Explore { .. } | JobScope::Repeat { .. } => {
            Budget::left(inputs, status).gpu_millis / u64::from(cost::gpus(inputs).max(1))
        }
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

/// The worker, in the image that has what it starts.
fn profile(image: &str, additional: Vec<VolumeMount>) -> Container {
    let mut container = worker_in(image, "profile", &["profile"]);
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.extend([
        mount(ENGINE_VOLUME, paths::ENGINE_DIR),
        mount(STORE_VOLUME, paths::STORE_DIR),
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        mount(WORK_VOLUME, "/tmp"),
    ]);
    mounts.extend(additional);
    // Model Analyzer writes below its home.
    container.env =
        Some(vec![EnvVar { name: "HOME".to_owned(), value: Some("/tmp".to_owned()), ..Default::default() }]);
    container
}

fn shared_volumes(config_map: &ConfigMap) -> Vec<Volume> {
    let [engine, shared_memory] = triton::volumes();
    vec![
        jobs::task::volume(config_map),
        bin_volume(),
        engine,
        empty_dir(WORK_VOLUME),
        shared_memory,
        claim_volume(STORE_VOLUME, artifact_store::CLAIM, false),
    ]
}
