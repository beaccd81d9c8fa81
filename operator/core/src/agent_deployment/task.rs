//! The ConfigMap with the task of one of an AgentDeployment's Jobs. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use slipway_crds::labels::Component;
use slipway_worker_contract::Task;

use super::world::World;
use crate::jobs::task::{self, TaskParts};

/// The ConfigMap of a task, with the files beside it.
pub fn task_config_map(
    world: &World,
    job: &str,
    component: Component,
    (task, files): (&Task, BTreeMap<String, String>),
) -> ConfigMap {
    let parts = TaskParts { job, namespace: &world.namespace, component, owner: &world.owner, files };
    task::config_map(task, parts)
}
