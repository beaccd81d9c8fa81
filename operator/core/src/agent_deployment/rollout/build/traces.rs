//! What the pods of a revision need to send traces: part of their sidecar's configuration, and what is mounted. Pure.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};
use slipway_crds::v1alpha1::agent_deployment::Tracing as ApiTracing;
use slipway_runtime_config::Tracing;

use crate::{
    agent_deployment::rollout::revision::RevisionPlan,
    jobs::{
        template::{config_map_volume, mount, read_only, secret_volume},
        view::USERS_CONFIG_MAP_VOLUME,
    },
};

const HEADERS_VOLUME: &str = "tracing-headers";

/// The sidecar's configuration for the receiver of a plan.
pub(super) fn config(plan: &RevisionPlan, namespace: &str) -> Option<Tracing> {
    let tracing = slipway_agent_config::tracing(plan.tracing.as_ref()?);
    Some(Tracing { namespace: Some(namespace.to_owned()), ..tracing })
}

/// What the sidecar's container mounts.
pub(super) fn mounts(plan: &RevisionPlan) -> Vec<VolumeMount> {
    let places = [
        (HEADERS_VOLUME.to_owned(), slipway_agent_config::TRACING_HEADERS_FOLDER),
        (authorities_volume(), slipway_agent_config::TRACING_AUTHORITIES_FOLDER),
    ];
    let volumes = volumes(plan);
    let is_there = |name: &str| volumes.iter().any(|volume| volume.name == name);
    let there = places.into_iter().filter(|(volume, _)| is_there(volume));
    there.map(|(volume, folder)| read_only(mount(&volume, folder))).collect()
}

/// The volumes of a plan's pods.
pub(super) fn volumes(plan: &RevisionPlan) -> Vec<Volume> {
    let Some(tracing) = &plan.tracing else { return Vec::new() };
    let ApiTracing { endpoint: _, sampled: _, headers_from, authorities_from, allowed_networks: _ } = tracing;
    let headers = headers_from.as_ref().map(|secret| secret_volume(HEADERS_VOLUME, &secret.name));
    let authorities =
        authorities_from.as_ref().map(|config_map| config_map_volume(&authorities_volume(), &config_map.name));
    headers.into_iter().chain(authorities).collect()
}

fn authorities_volume() -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}tracing")
}
