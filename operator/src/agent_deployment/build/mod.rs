//! The objects of an AgentDeployment, one kind a file. Pure.

pub mod alerts;
pub mod drift_memory;
pub mod engine;
pub mod fetch_job;
pub mod pod;
pub mod pool;
pub mod profile;
pub mod quality_job;
pub mod resolve_job;
pub mod revision;
pub mod route;
pub mod runtime_config;
pub mod serving;
pub mod store;
pub mod task;
pub mod traffic;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_crds::labels::{self, Component};

use super::world::World;
use crate::jobs::template::common_labels;

/// Labels of a serving object.
pub(super) fn serving_labels(world: &World, revision: Option<&str>) -> BTreeMap<String, String> {
    let mut labels = common_labels(Component::Serve);
    labels.insert(labels::APP_INSTANCE.to_owned(), world.name.clone());
    labels.insert(labels::AGENT_DEPLOYMENT.to_owned(), world.name.clone());
    if let Some(revision) = revision {
        labels.insert(labels::REVISION.to_owned(), revision.to_owned());
    }
    labels
}

/// Metadata of an object that the AgentDeployment owns.
pub(super) fn owned(world: &World, name: String, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(world.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![world.owner.clone()]),
        ..Default::default()
    }
}

/// Name of the objects of a revision.
pub(super) fn revision_name(world: &World, revision: &str) -> String {
    format!("{}-{revision}", world.name)
}
