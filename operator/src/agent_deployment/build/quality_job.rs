//! The Job that scores an engine: the engine is checked and put down, the builder's `evaluate` writes raw answers, and our last
//! container scores them against answers that the builder never sees. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, ConfigMapVolumeSource, Container, KeyToPath, Volume},
};
use slipway_crds::{
    labels::{AGENT_DEPLOYMENT, Component},
    v1alpha1::{agent_deployment::CustomEngine, shared::ConfigMapKeyReference},
};
use slipway_worker_contract::{EngineRef, QualityTask, Task, paths};

use super::{
    World, store,
    task::{TASK_FOLDER, task_config_map, task_volume},
};
use crate::jobs::template::{
    JobParts, STORE_VOLUME, TASK_VOLUME, claim_volume, empty_dir, job, mount, read_only, worker_container,
};

const OUTPUT_VOLUME: &str = "output";
const DATASET_VOLUME: &str = "dataset";
const DATASET_FOLDER: &str = "/slipway/dataset";

/// What is to be scored, and by what.
#[derive(Debug, Clone)]
pub struct QualityOrder<'a> {
    /// The worker's task.
    pub task: QualityTask,
    /// The samples without their answers.
    pub prompts: &'a str,
    /// The samples with their answers.
    pub dataset: &'a ConfigMapKeyReference,
    /// Whose builder evaluates.
    pub custom: &'a CustomEngine,
}

/// The task and the Job.
pub fn quality_job(world: &World, name: &str, engine: &EngineRef, order: QualityOrder<'_>) -> (ConfigMap, Job) {
    let QualityOrder { task, prompts, dataset, custom } = order;
    let mut container = worker_container(&world.settings, "quality", &["quality"]);
    container.volume_mounts = Some(vec![
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        read_only(mount(OUTPUT_VOLUME, paths::OUTPUT_DIR)),
        read_only(mount(DATASET_VOLUME, DATASET_FOLDER)),
        mount(STORE_VOLUME, paths::STORE_DIR),
    ]);
    let volumes = vec![
        task_volume(name),
        empty_dir(OUTPUT_VOLUME),
        claim_volume(STORE_VOLUME, store::CLAIM, false),
        dataset_volume(dataset),
    ];
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Quality,
        labels: BTreeMap::from([(AGENT_DEPLOYMENT.to_owned(), world.name.clone())]),
        owner: Some(world.owner.clone()),
        init_containers: vec![materialize(world, engine), evaluate(world, custom)],
        container,
        volumes,
        node_selector: world.spec.hardware.node_selector.clone(),
        tolerations: world.spec.hardware.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: world.settings.jobs.build_deadline_seconds,
    };
    let mut config_map = task_config_map(world, name, Component::Quality, &Task::Quality(task));
    config_map.data.get_or_insert_default().insert("quality.jsonl".to_owned(), prompts.to_owned());
    (config_map, job(&world.settings, parts))
}

/// The engine goes where the builder's own output would lie: that is where `evaluate` looks for it.
fn materialize(world: &World, engine: &EngineRef) -> Container {
    let identity = format!("--identity={}", engine.identity);
    let manifest = format!("--manifest-digest={}", engine.manifest_digest);
    let target = format!("--target={}", paths::OUTPUT_DIR);
    Container {
        volume_mounts: Some(vec![
            read_only(mount(STORE_VOLUME, paths::STORE_DIR)),
            mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        ]),
        ..worker_container(&world.settings, "materialize", &["materialize", &identity, &manifest, &target])
    }
}

fn evaluate(world: &World, custom: &CustomEngine) -> Container {
    Container {
        name: "evaluate".to_owned(),
        image: Some(custom.builder_image.clone()),
        args: Some(vec!["evaluate".to_owned()]),
        resources: Some(world.spec.serving.triton_resources.to_requirements()),
        volume_mounts: Some(vec![read_only(mount(TASK_VOLUME, TASK_FOLDER)), mount(OUTPUT_VOLUME, paths::OUTPUT_DIR)]),
        ..Default::default()
    }
}

fn dataset_volume(dataset: &ConfigMapKeyReference) -> Volume {
    Volume {
        name: DATASET_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: dataset.name.clone(),
            items: Some(vec![KeyToPath {
                key: dataset.key.clone(),
                path: "dataset.jsonl".to_owned(),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}
