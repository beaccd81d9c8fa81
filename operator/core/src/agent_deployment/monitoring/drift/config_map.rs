//! The ConfigMap with the memory of drift. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use slipway_crds::labels::{self, Component};

use super::Memory;
use crate::{
    agent_deployment::{metadata::owned, world::World},
    jobs::template::common_labels,
};

/// The key of the memory.
pub const KEY: &str = "memory.json";

/// Name of the object of an AgentDeployment.
pub fn object_name(agent_deployment: &str) -> String {
    format!("{agent_deployment}-drift")
}

/// It belongs to no revision: the next plan's memory replaces it.
pub fn config_map(world: &World, memory: &Memory) -> ConfigMap {
    let mut all = common_labels(Component::Drift);
    all.insert(labels::APP_INSTANCE.to_owned(), world.name.clone());
    all.insert(labels::AGENT_DEPLOYMENT.to_owned(), world.name.clone());
    ConfigMap {
        metadata: owned(world, object_name(&world.name), all),
        data: Some(BTreeMap::from([(KEY.to_owned(), memory.write())])),
        ..Default::default()
    }
}
