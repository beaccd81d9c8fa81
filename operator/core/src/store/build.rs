//! The objects of a store: its record, and the Job that sweeps it with its task. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use slipway_crds::{
    labels::Component,
    store::{KEY, NAME, StoreRecord},
};
use slipway_worker_contract::{SweepTask, Task, paths};

use super::{references::References, world::StoreWorld};
use crate::{
    artifact_store,
    jobs::{
        task,
        template::{
            JobParts, STORE_VOLUME, TASK_FOLDER, TASK_VOLUME, claim_volume, common_labels, job, mount, read_only,
            worker_container,
        },
    },
    settings::Retention,
};

/// Name of the Job of a sweep, and of its task.
pub(super) fn sweep_name(number: i32) -> String {
    format!("{}-sweep-{number}", artifact_store::CLAIM)
}

/// The ConfigMap with the record.
pub(super) fn record(world: &StoreWorld, record: &StoreRecord) -> ConfigMap {
    let text = serde_json::to_string(record).expect("a record holds only texts, numbers and times");
    ConfigMap {
        metadata: owned(world, NAME.to_owned(), Component::Store),
        data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
        ..Default::default()
    }
}

/// What the sweep is told: what is needed stays, what has not expired stays, and of what nobody has ever named stays
/// what is young. What was written since the sweep was decided on stays too: two looks in a row have not seen who asked
/// for it.
pub(super) fn task(
    world: &StoreWorld,
    (references, retention): (&References, &Retention),
    record: &StoreRecord,
    decided_at: Timestamp,
) -> SweepTask {
    let before = decided_at.checked_sub(retention.time()).unwrap_or(Timestamp::UNIX_EPOCH);
    let (gone, kept): (Vec<_>, Vec<_>) = record.items.iter().partition(|(_, item)| item.is_swept);
    let named = references.held.keys().chain(references.loose.keys()).chain(references.written.keys());
    let mut keep: Vec<String> = named.chain(kept.into_iter().map(|(folder, _)| folder)).cloned().collect();
    keep.sort();
    keep.dedup();
    SweepTask {
        claim: world.owner.uid.clone(),
        as_of: seconds(decided_at),
        keep,
        remove: gone.into_iter().map(|(folder, _)| folder.clone()).collect(),
        others_before: seconds(before),
    }
}

fn seconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_second()).unwrap_or(0)
}

/// The task and the Job. The task is applied until the Job is there, so that the Job begins with the latest lists.
pub(super) fn sweep(world: &StoreWorld, name: &str, task: SweepTask) -> (ConfigMap, Job) {
    let config_map = ConfigMap {
        metadata: owned(world, name.to_owned(), Component::Sweep),
        data: Some(BTreeMap::from([(task::TASK_FILE.to_owned(), Task::Sweep(task).to_json())])),
        ..Default::default()
    };
    let mut container = worker_container(&world.settings, "sweep", &["sweep"]);
    container.volume_mounts =
        Some(vec![read_only(mount(TASK_VOLUME, TASK_FOLDER)), mount(STORE_VOLUME, paths::STORE_DIR)]);
    let parts = JobParts {
        name: name.to_owned(),
        namespace: world.namespace.clone(),
        component: Component::Sweep,
        labels: BTreeMap::new(),
        owner: Some(world.owner.clone()),
        init_containers: Vec::new(),
        container,
        volumes: vec![task::volume(&config_map), claim_volume(STORE_VOLUME, artifact_store::CLAIM, false)],
        node_selector: BTreeMap::new(),
        tolerations: Vec::new(),
        deadline_seconds: world.settings.jobs.transfer_deadline_seconds,
    };
    let job = job(&world.settings, parts);
    (config_map, job)
}

fn owned(world: &StoreWorld, name: String, component: Component) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(world.namespace.clone()),
        labels: Some(common_labels(component)),
        owner_references: Some(vec![world.owner.clone()]),
        ..Default::default()
    }
}
