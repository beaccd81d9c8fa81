//! The Job that builds an engine: the user's builder, or TensorRT-LLM's tools one after the other, as init containers,
//! then ours, which re-hashes what they wrote. Without a build only the serving repository is written. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, ConfigMapVolumeSource, Container, EnvVar, KeyToPath, Volume, VolumeMount},
};
use slipway_crds::labels::{self, Component};
use slipway_crds::v1alpha1::shared::ConfigMapKeyReference;
use slipway_worker_contract::{
    BuildTask, CustomBuild, Digest, InvalidDigest, NoBuild, Task, TensorRtLlmBuild, ToolStep, paths,
};
use thiserror::Error;

use super::{
    no_build::{self, OrderError},
    tensorrt_llm::{self, StepsError},
    world::EngineWorld,
};
use crate::{
    artifact_store,
    jobs::{
        task::{self, TaskParts},
        template::{
            JobParts, SHARED_MEMORY, SHARED_MEMORY_VOLUME, STORE_VOLUME, TASK_FOLDER, TASK_VOLUME, bin_volume,
            bounded_shared_memory_volume, claim_volume, empty_dir, install_worker, job, mount, read_only,
            worker_container, worker_in,
        },
    },
};

const OUTPUT_VOLUME: &str = "output";
const WORK_VOLUME: &str = "work";
const CALIBRATION_VOLUME: &str = "calibration";

/// Why there is no Job.
#[derive(Debug, Error)]
pub enum BuildJobError {
    /// The spec's source digest.
    #[error("build.sourceDigest: {0}")]
    SourceDigest(InvalidDigest),
    /// The tools.
    #[error("{0}")]
    Steps(StepsError),
    /// What the engine would be told.
    #[error("{0}")]
    NoBuild(OrderError),
}

/// What is done in the vendor's image.
enum BuildRecipe {
    /// The user's builder does it all.
    Custom,
    /// TensorRT-LLM's tools build.
    TensorRtLlm(TensorRtLlmBuild),
    /// The checkpoint is served as it is.
    NoBuild(NoBuild),
}

impl BuildRecipe {
    fn of(world: &EngineWorld) -> Result<Self, BuildJobError> {
        if let Some(recipe) = no_build::order_of(&world.spec).map_err(BuildJobError::NoBuild)? {
            return Ok(Self::NoBuild(recipe));
        }
        let recipe = tensorrt_llm::order_of(&world.spec).map_err(BuildJobError::Steps)?;
        Ok(recipe.map_or(Self::Custom, Self::TensorRtLlm))
    }
}

/// The task and the Job.
///
/// # Errors
/// When the spec's source digest is not a digest, or TensorRT-LLM's tools cannot make the engine.
pub fn build_job(world: &EngineWorld, name: &str) -> Result<(ConfigMap, Job), BuildJobError> {
    let source_digest: Digest = world.spec.build.source_digest.parse().map_err(BuildJobError::SourceDigest)?;
    let recipe = BuildRecipe::of(world)?;
    let mut container = worker_container(&world.settings, "finish-build", &["finish-build"]);
    container.volume_mounts = Some(vec![
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        mount(STORE_VOLUME, paths::STORE_DIR),
    ]);
    let config_map = config_map(world, name, &recipe);
    let mut volumes = vec![
        task::volume(&config_map),
        empty_dir(OUTPUT_VOLUME),
        claim_volume(STORE_VOLUME, artifact_store::CLAIM, false),
    ];
    let in_order = match &recipe {
        BuildRecipe::Custom => vec![builder(world, &source_digest)],
        BuildRecipe::TensorRtLlm(recipe) => {
            volumes.extend(tool_volumes(world));
            tools(world, recipe, &source_digest)
        }
        BuildRecipe::NoBuild(_) => {
            volumes.extend(tool_volumes(world));
            vec![install_worker(&world.settings), assemble(world, &source_digest)]
        }
    };
    let init_containers = std::iter::once(check_checkpoint(world, &source_digest)).chain(in_order).collect();
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Build,
        labels: BTreeMap::from([(labels::ENGINE.to_owned(), world.name.clone())]),
        owner: Some(world.owner.clone()),
        init_containers,
        container,
        volumes,
        node_selector: world.spec.placement.node_selector.clone(),
        tolerations: world.spec.placement.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: world.settings.jobs.build_deadline_seconds,
    };
    Ok((config_map, job(&world.settings, parts)))
}

/// Says when the checkpoint is not in the store: the kubelet would mount an empty folder in its place, and a builder
/// would blame the model.
fn check_checkpoint(world: &EngineWorld, source_digest: &Digest) -> Container {
    let source = format!("--source-digest={source_digest}");
    Container {
        volume_mounts: Some(vec![read_only(mount(STORE_VOLUME, paths::STORE_DIR))]),
        ..worker_container(&world.settings, "check-checkpoint", &["check-checkpoint", &source])
    }
}

/// TensorRT-LLM's tools, each in a container of the vendor's image under our worker, which explains how one failed; at
/// last the worker puts the serving repository beside the engine.
fn tools(world: &EngineWorld, recipe: &TensorRtLlmBuild, source_digest: &Digest) -> Vec<Container> {
    let of_step = |step: &ToolStep| {
        let argument = format!("--step={}", step.name);
        let container = in_vendor_image(world, source_digest, (&step.name, &["tool", &argument]));
        Container { resources: Some(world.spec.placement.resources.to_requirements()), ..container }
    };
    std::iter::once(install_worker(&world.settings))
        .chain(recipe.steps.iter().map(of_step))
        .chain(std::iter::once(assemble(world, source_digest)))
        .collect()
}

/// Puts the serving repository beside the engine, or around a checkpoint: without a GPU.
fn assemble(world: &EngineWorld, source_digest: &Digest) -> Container {
    in_vendor_image(world, source_digest, ("assemble", &["assemble"]))
}

fn in_vendor_image(world: &EngineWorld, source_digest: &Digest, (name, arguments): (&str, &[&str])) -> Container {
    let mut container = worker_in(&world.spec.placement.builder_image, name, arguments);
    let mounts = container.volume_mounts.get_or_insert_default();
    mounts.extend([
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        checkpoint_mount(source_digest),
        mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        mount(WORK_VOLUME, paths::WORK_DIR),
        mount(SHARED_MEMORY_VOLUME, SHARED_MEMORY),
    ]);
    if world.spec.placement.calibration.is_some() {
        mounts.push(read_only(mount(CALIBRATION_VOLUME, paths::CALIBRATION_DIR)));
    }
    // The vendor's image runs as a user without a home of its own; caches and temporary files have room in the scratch
    // volume.
    let variable =
        |name: &str| EnvVar { name: name.to_owned(), value: Some(paths::WORK_DIR.to_owned()), ..Default::default() };
    container.env = Some(vec![variable("HOME"), variable("TMPDIR")]);
    container
}

fn tool_volumes(world: &EngineWorld) -> Vec<Volume> {
    let calibration = world.spec.placement.calibration.as_ref().map(calibration_volume);
    [bin_volume(), empty_dir(WORK_VOLUME), bounded_shared_memory_volume()].into_iter().chain(calibration).collect()
}

fn calibration_volume(reference: &ConfigMapKeyReference) -> Volume {
    Volume {
        name: CALIBRATION_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: reference.name.clone(),
            items: Some(vec![KeyToPath {
                key: reference.key.clone(),
                path: paths::CALIBRATION_FILE.to_owned(),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn checkpoint_mount(source_digest: &Digest) -> VolumeMount {
    VolumeMount {
        sub_path: Some(paths::checkpoint_files(source_digest)),
        ..read_only(mount(STORE_VOLUME, paths::CHECKPOINT_DIR))
    }
}

/// The user's builder sees the checkpoint, its options and an empty folder, and nothing of the store beside them.
fn builder(world: &EngineWorld, source_digest: &Digest) -> Container {
    Container {
        name: "builder".to_owned(),
        image: Some(world.spec.placement.builder_image.clone()),
        args: Some(vec!["build".to_owned()]),
        resources: Some(world.spec.placement.resources.to_requirements()),
        volume_mounts: Some(vec![
            read_only(mount(TASK_VOLUME, TASK_FOLDER)),
            checkpoint_mount(source_digest),
            mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        ]),
        ..Default::default()
    }
}

fn config_map(world: &EngineWorld, name: &str, recipe: &BuildRecipe) -> ConfigMap {
    let (tensorrt_llm, no_build) = match recipe {
        BuildRecipe::Custom => (None, None),
        BuildRecipe::TensorRtLlm(recipe) => (Some(recipe.clone()), None),
        BuildRecipe::NoBuild(recipe) => (None, Some(recipe.clone())),
    };
    let model = world.spec.build.served_by().model().to_owned();
    let task = BuildTask { identity: world.name.clone(), model, quality: None, tensorrt_llm, no_build };
    let files = match recipe {
        BuildRecipe::Custom => BTreeMap::from([("build.json".to_owned(), custom_build(world))]),
        BuildRecipe::TensorRtLlm(_) | BuildRecipe::NoBuild(_) => BTreeMap::new(),
    };
    let (namespace, owner) = (world.namespace.as_str(), &world.owner);
    let parts = TaskParts { job: name, namespace, component: Component::Build, owner, files };
    task::config_map(&Task::Build(Box::new(task)), parts)
}

/// What the user's builder is told.
fn custom_build(world: &EngineWorld) -> String {
    let build = CustomBuild {
        precision: world.spec.build.precision.as_str().to_owned(),
        variant: world.spec.build.variant.clone(),
        options: world.spec.build.options.clone(),
    };
    serde_json::to_string_pretty(&build).expect("a build holds only texts")
}
