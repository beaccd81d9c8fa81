//! Triton as a native sidecar of a Job, under our supervisor: it waits for a model, and says how it ended. An engine's
//! own server takes its place where that serves. Pure.

use k8s_openapi::{
    api::core::v1::{Container, EnvVar, HTTPGetAction, Probe, Volume},
    apimachinery::pkg::util::intstr::IntOrString,
};
use slipway_backends::{no_build, triton};
use slipway_crds::v1alpha1::{agent_deployment::ServedBy, shared::ContainerResources};
use slipway_vocabulary::serving::Server;
use slipway_worker_contract::paths;

use super::template::{SHARED_MEMORY, SHARED_MEMORY_VOLUME, bounded_shared_memory_volume, empty_dir, mount, worker_in};

/// Name of the volume with the engine, which the worker fills and configures.
pub const ENGINE_VOLUME: &str = "engine";

/// Seconds that Triton may take to live: no model is loaded by then, but for an engine that is split over GPUs.
const LIVE_SECONDS: i32 = 600;

/// What serves in a Job.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// Triton's image.
    pub image: &'a str,
    /// What it gets.
    pub resources: &'a ContainerResources,
    /// What serves the engine.
    pub served_by: ServedBy,
}

/// Variables of a Triton that serves an engine without a build, or one behind models of text. Their libraries write
/// caches below a home and under a user's name, and the image knows neither for ours. Nothing is looked up on a hub,
/// and no usage is reported.
pub fn environment(served_by: ServedBy) -> Option<Vec<EnvVar>> {
    let own = match served_by {
        ServedBy::NoBuild(backend) => no_build::of(backend).environment,
        ServedBy::TensorRtLlm { entry, .. } if !entry.is_engine() => &[],
        ServedBy::Custom | ServedBy::TensorRtLlm { .. } => return None,
    };
    let common = [("HOME", "/tmp"), ("USER", "slipway"), ("HF_HUB_OFFLINE", "1")];
    let variable = |(name, value): &(&str, &str)| EnvVar {
        name: (*name).to_owned(),
        value: Some((*value).to_owned()),
        ..Default::default()
    };
    Some(common.iter().chain(own).map(variable).collect())
}

/// Triton without a model, which only its pod reaches: its metrics say that it lives. A probe that waited for one would
/// keep the worker from starting, which loads it. An engine's own server loads at its start, and again and again where
/// it cannot: it has no probe, and the worker reads how it ended.
pub fn sidecar(served: Served<'_>) -> Container {
    let how = supervised(served.served_by);
    let arguments: Vec<&str> = std::iter::once("supervise").chain(how.iter().map(String::as_str)).collect();
    let mut container = worker_in(served.image, "triton", &arguments);
    container.env = environment(served.served_by);
    container.restart_policy = Some("Always".to_owned());
    container.resources = Some(served.resources.to_requirements());
    container.startup_probe = (served.served_by.server() == Server::Triton).then(|| Probe {
        http_get: Some(HTTPGetAction {
            path: Some(triton::METRICS_PATH.to_owned()),
            port: IntOrString::Int(i32::from(triton::METRICS_PORT)),
            ..Default::default()
        }),
        period_seconds: Some(1),
        timeout_seconds: Some(2),
        failure_threshold: Some(LIVE_SECONDS),
        ..Default::default()
    });
    container
        .volume_mounts
        .get_or_insert_default()
        .extend([mount(ENGINE_VOLUME, paths::ENGINE_DIR), mount(SHARED_MEMORY_VOLUME, SHARED_MEMORY)]);
    container
}

/// How the supervisor is told what to run.
fn supervised(served_by: ServedBy) -> Vec<String> {
    match served_by {
        ServedBy::Custom => Vec::new(),
        ServedBy::TensorRtLlm { ranks, .. } => vec![format!("--tensorrt-llm-ranks={ranks}")],
        ServedBy::NoBuild(backend) => {
            let own_server = no_build::of(backend).own_server();
            own_server.map(|server| (server.ordered)(paths::ENGINE_DIR)).unwrap_or_default()
        }
    }
}

/// The volumes that it mounts beside the worker's binary.
pub fn volumes() -> [Volume; 2] {
    [empty_dir(ENGINE_VOLUME), bounded_shared_memory_volume()]
}
