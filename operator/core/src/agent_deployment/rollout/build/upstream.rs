//! What a pod that asks a server elsewhere mounts for it: the key, and the authorities of its certificate. Pure.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};

use slipway_agent_config::{UPSTREAM_AUTHORITIES_FOLDER, UPSTREAM_HEADERS_FOLDER};

use crate::{
    agent_deployment::rollout::revision::RevisionPlan,
    jobs::{
        template::{config_map_volume, mount, read_only, secret_volume},
        view::USERS_CONFIG_MAP_VOLUME,
    },
};

const HEADERS_VOLUME: &str = "upstream-headers";

/// What the agent runtime's container mounts.
pub(super) fn mounts(plan: &RevisionPlan) -> Vec<VolumeMount> {
    let Some(upstream) = plan.served.upstream() else { return Vec::new() };
    let headers = upstream.headers_from.as_ref().map(|_| mount(HEADERS_VOLUME, UPSTREAM_HEADERS_FOLDER));
    let authorities =
        upstream.authorities_from.as_ref().map(|_| mount(&authorities_volume(), UPSTREAM_AUTHORITIES_FOLDER));
    headers.into_iter().chain(authorities).map(read_only).collect()
}

/// The volumes of a plan's pods.
pub(super) fn volumes(plan: &RevisionPlan) -> Vec<Volume> {
    let Some(upstream) = plan.served.upstream() else { return Vec::new() };
    let headers = upstream.headers_from.as_ref().map(|secret| secret_volume(HEADERS_VOLUME, &secret.name));
    let authorities =
        upstream.authorities_from.as_ref().map(|config_map| config_map_volume(&authorities_volume(), &config_map.name));
    headers.into_iter().chain(authorities).collect()
}

fn authorities_volume() -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}upstream")
}
