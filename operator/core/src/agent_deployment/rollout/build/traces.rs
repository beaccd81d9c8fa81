//! What the pods of a revision need to send traces: part of their sidecar's configuration, and what is mounted. Pure.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, SecretVolumeSource, Volume, VolumeMount};
use slipway_crds::v1alpha1::agent_deployment::Tracing as ApiTracing;
use slipway_runtime_config::Tracing;

use crate::{
    agent_deployment::rollout::revision::RevisionPlan,
    jobs::{
        template::{mount, read_only},
        view::USERS_CONFIG_MAP_VOLUME,
    },
    runtime_config,
};

const HEADERS_VOLUME: &str = "tracing-headers";

/// The sidecar's configuration for the receiver of a plan.
pub(super) fn config(plan: &RevisionPlan, namespace: &str) -> Option<Tracing> {
    let tracing = runtime_config::tracing(plan.tracing.as_ref()?);
    Some(Tracing { namespace: Some(namespace.to_owned()), ..tracing })
}

/// What the sidecar's container mounts.
pub(super) fn mounts(plan: &RevisionPlan) -> Vec<VolumeMount> {
    let places = [
        (HEADERS_VOLUME.to_owned(), runtime_config::TRACING_HEADERS_FOLDER),
        (authorities_volume(), runtime_config::TRACING_AUTHORITIES_FOLDER),
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
    let headers = headers_from.as_ref().map(|secret| Volume {
        name: HEADERS_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource { secret_name: Some(secret.name.clone()), ..Default::default() }),
        ..Default::default()
    });
    let authorities = authorities_from.as_ref().map(|config_map| Volume {
        name: authorities_volume(),
        config_map: Some(ConfigMapVolumeSource { name: config_map.name.clone(), ..Default::default() }),
        ..Default::default()
    });
    headers.into_iter().chain(authorities).collect()
}

fn authorities_volume() -> String {
    format!("{USERS_CONFIG_MAP_VOLUME}tracing")
}
