//! Names, labels and owner of the objects of an AgentDeployment. Pure.

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

/// Labels by which the pods of a revision are found.
pub(super) fn selector(world: &World, hash: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::AGENT_DEPLOYMENT.to_owned(), world.name.clone()),
        (labels::REVISION.to_owned(), hash.to_owned()),
    ])
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
