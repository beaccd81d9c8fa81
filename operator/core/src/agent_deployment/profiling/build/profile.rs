//! The Profile of a campaign. Pure.

use slipway_crds::{
    labels::{self, Component},
    v1alpha1::{Profile, ProfileSpec},
};

use crate::{
    agent_deployment::{metadata::owned, world::World},
    jobs::template::common_labels,
};

/// The Profile, owned by the AgentDeployment that asked. Campaigns of the same model find it by the short hash of its
/// source.
pub fn profile(world: &World, name: &str, (spec, model_source): (ProfileSpec, &str)) -> Profile {
    let mut labels = common_labels(Component::Profile);
    labels.insert(labels::AGENT_DEPLOYMENT.to_owned(), world.name.clone());
    labels.insert(labels::MODEL_SOURCE.to_owned(), model_source.to_owned());
    Profile { metadata: owned(world, name.to_owned(), labels), spec, status: None }
}
