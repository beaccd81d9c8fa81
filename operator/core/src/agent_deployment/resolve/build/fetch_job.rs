//! The Job that brings a checkpoint into the artifact store. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::{batch::v1::Job, core::v1::ConfigMap};
use slipway_crds::{
    labels::{AGENT_DEPLOYMENT, Component, FETCH_CONTENT, FETCH_PLACE},
    v1alpha1::agent_deployment::Checkpoint,
};
use slipway_worker_contract::{Digest, FetchTask, Task, paths};

use super::resolve_job;
use crate::{
    agent_deployment::{task::task_config_map, world::World},
    artifact_store,
    jobs::{
        task,
        template::{
            JobParts, STORE_VOLUME, TASK_FOLDER, TASK_VOLUME, claim_volume, job, mount, read_only, worker_container,
        },
    },
};

/// The task and the Job. `place` is the hash of where the content is taken from.
pub fn fetch_job(
    world: &World,
    name: &str,
    (checkpoint, pinned_uri, place): (Checkpoint<'_>, &str, &str),
    source_digest: Digest,
) -> (ConfigMap, Job) {
    let annotations = BTreeMap::from([
        (FETCH_CONTENT.to_owned(), source_digest.to_string()),
        (FETCH_PLACE.to_owned(), place.to_owned()),
    ]);
    let task = Task::Fetch(FetchTask { uri: pinned_uri.to_owned(), source_digest });
    let mut container = worker_container(&world.settings, "fetch", &["fetch"]);
    let (source_volumes, source_mounts) = resolve_job::source(checkpoint);
    let own_mounts = vec![read_only(mount(TASK_VOLUME, TASK_FOLDER)), mount(STORE_VOLUME, paths::STORE_DIR)];
    container.volume_mounts = Some([own_mounts, source_mounts].concat());
    let config_map = task_config_map(world, name, Component::Fetch, (&task, BTreeMap::new()));
    let own_volumes = vec![task::volume(&config_map), claim_volume(STORE_VOLUME, artifact_store::CLAIM, false)];
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Fetch,
        labels: BTreeMap::from([(AGENT_DEPLOYMENT.to_owned(), world.name.clone())]),
        owner: Some(world.owner.clone()),
        init_containers: Vec::new(),
        container,
        volumes: [own_volumes, source_volumes].concat(),
        node_selector: world.spec.hardware.node_selector.clone(),
        tolerations: world.spec.hardware.tolerations.iter().map(|t| t.to_kubernetes()).collect(),
        deadline_seconds: world.settings.jobs.transfer_deadline_seconds,
    };
    let mut job = job(&world.settings, parts);
    job.metadata.annotations = Some(annotations);
    (config_map, job)
}
