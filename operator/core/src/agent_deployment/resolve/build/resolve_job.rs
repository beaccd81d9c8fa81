//! The Job that resolves a model's reference and a builder's image. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Volume, VolumeMount},
};
use slipway_crds::{
    labels::{AGENT_DEPLOYMENT, Component},
    v1alpha1::agent_deployment::{Build, Checkpoint},
};
use slipway_worker_contract::{ResolveTask, ShapeNeed, Task, paths};

use crate::{
    agent_deployment::{task::task_config_map, world::World},
    jobs::{
        task,
        template::{
            JobParts, TASK_FOLDER, TASK_VOLUME, bin_volume, claim_volume, install_worker, job, mount, read_only,
            secret_volume, worker_container, worker_in,
        },
    },
};

const SOURCE_VOLUME: &str = "source";
const SECRET_VOLUME: &str = "secret";

/// The task and the Job. A container of each image, the builder's and then the one that serves, runs our binary for a
/// moment, so that the kubelet reports its digest. A reference that holds its digest needs no such container.
pub fn resolve_job(world: &World, name: &str, (checkpoint, images): (Checkpoint<'_>, &[String])) -> (ConfigMap, Job) {
    let shape = match checkpoint.engine.backend.build() {
        Build::Custom => ShapeNeed::Optional,
        Build::Tools | Build::Nothing => ShapeNeed::Required,
    };
    let task = Task::Resolve(ResolveTask { uri: checkpoint.uri.to_owned(), shape });
    let mut container = worker_container(&world.settings, "resolve", &["resolve"]);
    let (source_volumes, source_mounts) = source(checkpoint);
    container.volume_mounts = Some([vec![read_only(mount(TASK_VOLUME, TASK_FOLDER))], source_mounts].concat());
    let config_map = task_config_map(world, name, Component::Resolve, (&task, BTreeMap::new()));
    let mut volumes = [vec![task::volume(&config_map)], source_volumes].concat();
    let named = ["builder-image", "triton-image"].into_iter().zip(images);
    let unknown = named.filter(|(_, image)| digest_in_reference(image).is_none());
    let mut init_containers: Vec<_> = unknown.map(|(name, image)| worker_in(image, name, &["--version"])).collect();
    if !init_containers.is_empty() {
        init_containers.insert(0, install_worker(&world.settings));
        volumes.push(bin_volume());
    }
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Resolve,
        labels: BTreeMap::from([(AGENT_DEPLOYMENT.to_owned(), world.name.clone())]),
        owner: Some(world.owner.clone()),
        init_containers,
        container,
        volumes,
        node_selector: world.spec.hardware.node_selector.clone(),
        tolerations: world.spec.hardware.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: world.settings.jobs.transfer_deadline_seconds,
    };
    (config_map, job(&world.settings, parts))
}

/// Volumes and mounts by which a Job reaches the model's source: the claim behind `pvc://` and the secret.
pub(super) fn source(checkpoint: Checkpoint<'_>) -> (Vec<Volume>, Vec<VolumeMount>) {
    let mut volumes = Vec::new();
    let mut mounts = Vec::new();
    if let Some(rest) = checkpoint.uri.strip_prefix("pvc://") {
        let claim = rest.split('/').next().unwrap_or_default();
        volumes.push(claim_volume(SOURCE_VOLUME, claim, true));
        mounts.push(read_only(mount(SOURCE_VOLUME, paths::SOURCE_DIR)));
    }
    if let Some(secret) = checkpoint.secret_ref {
        volumes.push(secret_volume(SECRET_VOLUME, &secret.name));
        mounts.push(read_only(mount(SECRET_VOLUME, paths::SECRET_DIR)));
    }
    (volumes, mounts)
}

/// The digest in a reference such as `host/name@sha256:...`.
pub fn digest_in_reference(image: &str) -> Option<String> {
    image.split_once('@').map(|(_, digest)| digest.to_owned()).filter(|digest| digest.starts_with("sha256:"))
}
