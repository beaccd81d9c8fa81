//! The ConfigMap with a Job's task. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, Volume};
use slipway_crds::labels::Component;
use slipway_worker_contract::Task;

use super::{World, owned};
use crate::jobs::template::{TASK_VOLUME, common_labels};

/// Folder of the task file in a container.
pub const TASK_FOLDER: &str = "/slipway/task";

/// The ConfigMap of a task, with the name of its Job.
pub fn task_config_map(world: &World, job: &str, component: Component, task: &Task) -> ConfigMap {
    ConfigMap {
        metadata: owned(world, job.to_owned(), common_labels(component)),
        data: Some(BTreeMap::from([("task.json".to_owned(), task.to_json())])),
        immutable: Some(true),
        ..Default::default()
    }
}

/// The volume of that ConfigMap.
pub fn task_volume(job: &str) -> Volume {
    Volume {
        name: TASK_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource { name: job.to_owned(), ..Default::default() }),
        ..Default::default()
    }
}
