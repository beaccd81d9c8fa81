//! The Job that scores an engine. The engine is verified and copied. Then the builder's `evaluate` writes raw answers,
//! or our worker does, which queries the engine on a Triton beside it. Our last container scores them against answers
//! that neither builder nor engine ever sees. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, ConfigMapVolumeSource, Container, KeyToPath, Volume},
};
use slipway_crds::{
    labels::{AGENT_DEPLOYMENT, Component},
    v1alpha1::{
        agent_deployment::{CustomEngine, ServedBy},
        shared::ConfigMapKeyReference,
    },
};
use slipway_worker_contract::{EngineRef, QualityTask, Task, paths};

use crate::{
    agent_deployment::{task::task_config_map, world::World},
    artifact_store,
    jobs::{
        task,
        template::{
            JobParts, STORE_VOLUME, TASK_FOLDER, TASK_VOLUME, bin_volume, claim_volume, empty_dir, install_worker, job,
            mount, read_only, worker_container,
        },
        triton::{self, ENGINE_VOLUME, Served},
    },
};

const OUTPUT_VOLUME: &str = "output";
const DATASET_VOLUME: &str = "dataset";
const DATASET_FOLDER: &str = "/slipway/dataset";

/// What is to be scored, and by what.
#[derive(Debug, Clone)]
pub struct QualityInputs<'a> {
    /// The worker's task.
    pub task: QualityTask,
    /// The samples without their answers.
    pub prompts: &'a str,
    /// The samples with their answers.
    pub dataset: &'a ConfigMapKeyReference,
    /// What built the engine and serves it.
    pub custom: &'a CustomEngine,
    /// What serves the engine; the builder of a Custom engine answers itself.
    pub served_by: ServedBy,
    /// The GPU model that the engine is for, where the spec has several.
    pub gpu_product: Option<&'a str>,
}

/// The task and the Job.
pub fn quality_job(world: &World, name: &str, engine: &EngineRef, inputs: QualityInputs<'_>) -> (ConfigMap, Job) {
    let QualityInputs { task: scoring, prompts, dataset, custom, served_by, gpu_product } = inputs;
    let hardware = world.spec.hardware.on(gpu_product);
    let mut container = worker_container(&world.settings, "quality", &["quality"]);
    container.volume_mounts = Some(vec![
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        read_only(mount(OUTPUT_VOLUME, paths::OUTPUT_DIR)),
        read_only(mount(DATASET_VOLUME, DATASET_FOLDER)),
        mount(STORE_VOLUME, paths::STORE_DIR),
    ]);
    let files = BTreeMap::from([("quality.jsonl".to_owned(), prompts.to_owned())]);
    let config_map = task_config_map(world, name, Component::Quality, (&Task::Quality(scoring), files));
    let mut volumes = vec![
        task::volume(&config_map),
        empty_dir(OUTPUT_VOLUME),
        claim_volume(STORE_VOLUME, artifact_store::CLAIM, false),
        dataset_volume(dataset),
    ];
    let init_containers = if served_by == ServedBy::Custom {
        vec![materialize(world, engine, (OUTPUT_VOLUME, paths::OUTPUT_DIR)), evaluate(world, custom)]
    } else {
        volumes.extend([bin_volume()].into_iter().chain(triton::volumes()));
        let served = Served { image: &custom.triton_image, resources: &world.spec.serving.triton_resources, served_by };
        ask(world, engine, served)
    };
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Quality,
        labels: BTreeMap::from([(AGENT_DEPLOYMENT.to_owned(), world.name.clone())]),
        owner: Some(world.owner.clone()),
        init_containers,
        container,
        volumes,
        node_selector: hardware.node_selector,
        tolerations: hardware.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: world.settings.jobs.build_deadline_seconds,
    };
    (config_map, job(&world.settings, parts))
}

/// A builder's `evaluate` reads the engine from the folder of the builder's own output, and Triton where it serves.
fn materialize(world: &World, engine: &EngineRef, (volume, folder): (&str, &str)) -> Container {
    let identity = format!("--identity={}", engine.identity);
    let manifest = format!("--manifest-digest={}", engine.manifest_digest);
    let target = format!("--target={folder}");
    Container {
        volume_mounts: Some(vec![read_only(mount(STORE_VOLUME, paths::STORE_DIR)), mount(volume, folder)]),
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

/// Tells the worker which server to query and how, unless it is an engine of TensorRT-LLM itself.
fn spoken(served_by: ServedBy) -> Vec<String> {
    let how = match served_by {
        ServedBy::NoBuild(backend) => format!("--no-build={}", backend.as_str()),
        ServedBy::TensorRtLlm { entry, .. } if !entry.is_engine() => format!("--entry={}", entry.as_str()),
        ServedBy::Custom | ServedBy::TensorRtLlm { .. } => return Vec::new(),
    };
    vec![format!("--model={}", served_by.model()), how]
}

/// The engine before Triton, and the worker that queries it.
fn ask(world: &World, engine: &EngineRef, served: Served<'_>) -> Vec<Container> {
    let spoken = spoken(served.served_by);
    let arguments: Vec<&str> = ["evaluate"].into_iter().chain(spoken.iter().map(String::as_str)).collect();
    let asking = Container {
        volume_mounts: Some(vec![
            read_only(mount(TASK_VOLUME, TASK_FOLDER)),
            read_only(mount(ENGINE_VOLUME, paths::ENGINE_DIR)),
            mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        ]),
        ..worker_container(&world.settings, "evaluate", &arguments)
    };
    vec![
        materialize(world, engine, (ENGINE_VOLUME, paths::ENGINE_DIR)),
        install_worker(&world.settings),
        triton::sidecar(served),
        asking,
    ]
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
