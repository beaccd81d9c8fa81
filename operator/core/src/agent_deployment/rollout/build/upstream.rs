//! What a pod that asks a server elsewhere mounts for it: the key, and the authorities of its certificate. Pure.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, SecretVolumeSource, Volume, VolumeMount};

use crate::{
    agent_deployment::rollout::revision::RevisionPlan,
    jobs::{
        template::{mount, read_only},
        view::USERS_CONFIG_MAP_VOLUME,
    },
    runtime_config::{UPSTREAM_AUTHORITIES_FOLDER, UPSTREAM_HEADERS_FOLDER},
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
    let headers = upstream.headers_from.as_ref().map(|secret| Volume {
        name: HEADERS_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource { secret_name: Some(secret.name.clone()), ..Default::default() }),
        ..Default::default()
    });
    let authorities = upstream.authorities_from.as_ref().map(|config_map| Volume {
        name: authorities_volume(),
        config_map: Some(ConfigMapVolumeSource { name: config_map.name.clone(), ..Default::default() }),
        ..Default::default()
    });
    headers.into_iter().chain(authorities).collect()
}

fn authorities_volume() -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}upstream")
}
