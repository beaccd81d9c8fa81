//! The Job that builds an engine: the user's builder as an init container, then ours, which re-hashes what it wrote. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, ConfigMapVolumeSource, Container, Volume, VolumeMount},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use slipway_crds::labels::{self, Component};
use slipway_worker_contract::{BuildTask, CustomBuild, Digest, InvalidDigest, Task, paths};

use super::decide::EngineWorld;
use crate::{
    agent_deployment::build::{pod::MODEL, store, task::TASK_FOLDER},
    jobs::template::{
        JobParts, STORE_VOLUME, TASK_VOLUME, claim_volume, common_labels, empty_dir, job, mount, read_only,
        worker_container,
    },
};

const OUTPUT_VOLUME: &str = "output";

/// The task and the Job.
///
/// # Errors
/// When the spec's source digest is no digest.
pub fn build_job(world: &EngineWorld, name: &str) -> Result<(ConfigMap, Job), InvalidDigest> {
    let source_digest: Digest = world.spec.build.source_digest.parse()?;
    let mut container = worker_container(&world.settings, "finish-build", &["finish-build"]);
    container.volume_mounts = Some(vec![
        read_only(mount(TASK_VOLUME, TASK_FOLDER)),
        mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        mount(STORE_VOLUME, paths::STORE_DIR),
    ]);
    let task_volume = Volume {
        name: TASK_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: name.to_owned(), ..Default::default() }),
        ..Default::default()
    };
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Build,
        labels: BTreeMap::from([(labels::ENGINE.to_owned(), world.name.clone())]),
        owner: Some(world.owner.clone()),
        init_containers: vec![builder(world, &source_digest)],
        container,
        volumes: vec![task_volume, empty_dir(OUTPUT_VOLUME), claim_volume(STORE_VOLUME, store::CLAIM, false)],
        node_selector: world.spec.placement.node_selector.clone(),
        tolerations: world.spec.placement.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: world.settings.jobs.build_deadline_seconds,
    };
    Ok((task(world, name), job(&world.settings, parts)))
}

/// The user's builder sees the checkpoint, its options and an empty folder, and nothing of the store beside them.
fn builder(world: &EngineWorld, source_digest: &Digest) -> Container {
    let checkpoint = VolumeMount {
        sub_path: Some(paths::checkpoint_files(source_digest)),
        ..read_only(mount(STORE_VOLUME, paths::CHECKPOINT_DIR))
    };
    Container {
        name: "builder".to_owned(),
        image: Some(world.spec.placement.builder_image.clone()),
        args: Some(vec!["build".to_owned()]),
        resources: Some(world.spec.placement.resources.to_requirements()),
        volume_mounts: Some(vec![
            read_only(mount(TASK_VOLUME, TASK_FOLDER)),
            checkpoint,
            mount(OUTPUT_VOLUME, paths::OUTPUT_DIR),
        ]),
        ..Default::default()
    }
}

fn task(world: &EngineWorld, name: &str) -> ConfigMap {
    let task = Task::Build(BuildTask { identity: world.name.clone(), model: MODEL.to_owned(), quality: None });
    let build = CustomBuild {
        precision: world.spec.build.precision.as_str().to_owned(),
        variant: world.spec.build.variant.clone(),
        options: world.spec.build.options.clone(),
    };
    let build_json = serde_json::to_string_pretty(&build).expect("a build holds only texts");
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(world.namespace.clone()),
            labels: Some(common_labels(Component::Build)),
            owner_references: Some(vec![world.owner.clone()]),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("task.json".to_owned(), task.to_json()), ("build.json".to_owned(), build_json)])),
        immutable: Some(true),
        ..Default::default()
    }
}
