//! The ConfigMap with a Job's task. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use slipway_crds::labels::Component;
use slipway_worker_contract::Task;

use super::{metadata::owned, world::World};
use crate::jobs::template::common_labels;

/// The ConfigMap of a task, with the name of its Job.
pub fn task_config_map(world: &World, job: &str, component: Component, task: &Task) -> ConfigMap {
    ConfigMap {
        metadata: owned(world, job.to_owned(), common_labels(component)),
        data: Some(BTreeMap::from([("task.json".to_owned(), task.to_json())])),
        immutable: Some(true),
        ..Default::default()
    }
}
