//! The record of a revision. Pure.

use k8s_openapi::{api::apps::v1::ControllerRevision, apimachinery::pkg::runtime::RawExtension};

use crate::agent_deployment::{
    metadata::{owned, revision_name, serving_labels},
    rollout::revision::{INPUT_HASH, RevisionPlan},
    world::World,
};

/// The ControllerRevision of a plan, with its place in the history.
pub fn controller_revision(
    world: &World,
    hash: &str,
    input_hash: &str,
    (number, plan): (i64, &RevisionPlan),
) -> ControllerRevision {
    let mut metadata = owned(world, revision_name(world, hash), serving_labels(world, Some(hash)));
    metadata.annotations = Some([(INPUT_HASH.to_owned(), input_hash.to_owned())].into());
    let data = serde_json::to_value(plan).expect("a plan holds only texts, integers and lists");
    ControllerRevision { metadata, data: Some(RawExtension(data)), revision: number }
}
