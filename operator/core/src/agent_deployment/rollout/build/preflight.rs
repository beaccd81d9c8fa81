//! The container that checks the GPUs of a pod before its server starts. Pure.
//!
//! It asks for the GPUs that the server's container asks for: the kubelet gives both the same, one after the other. So
//! a pod needs no more than before.

use k8s_openapi::api::core::v1::{Container, Volume, VolumeMount};
use slipway_crds::labels::GPU_PRODUCT;
use slipway_vocabulary::{preflight::PreflightTask, telemetry};
use slipway_worker_contract::{message_budget, paths};

use super::stdio;
use crate::{
    agent_deployment::rollout::revision::{PlannedPreflight, RevisionPlan},
    engine::tensorrt_llm::gpus,
    jobs::{
        preflight::CONTAINER,
        template::{empty_dir, mount, read_only},
    },
};

/// The volume with the program that counts in the server's container, and where it is mounted.
const WATCH: (&str, &str) = ("gpu-watch", "/slipway/watch");
/// Containers of a pod with the checks, without those of MCP servers.
const CONTAINERS: usize = 4;

/// The container of a plan that asks for the checks. It sees the engine in `engine`.
pub(super) fn container(plan: &RevisionPlan, engine: VolumeMount) -> Option<Container> {
    let artifact = plan.served.artifact()?;
    let PlannedPreflight { image, asked } = artifact.preflight.as_ref()?;
    let task = PreflightTask {
        gpus: gpus(&artifact.triton_resources).unwrap_or(1),
        product: plan.hardware.node_selector.get(GPU_PRODUCT).cloned(),
        min_driver: asked.min_driver.clone(),
        min_free_per_million: asked.min_free_memory.parts_per_million(),
        engine: Some(paths::ENGINE_DIR.to_owned()),
        message_bytes: message_budget(CONTAINERS + stdio::containers(plan).len()),
        copy_to: asked.watch.then(|| WATCH.1.to_owned()),
    };
    let copied = asked.watch.then(|| mount(WATCH.0, WATCH.1));
    Some(Container {
        name: CONTAINER.to_owned(),
        image: Some(image.clone()),
        args: Some(vec![serde_json::to_string(&task).expect("a task holds only texts and numbers")]),
        resources: Some(plan.layout.preflight_resources(&artifact.triton_resources)),
        volume_mounts: Some(std::iter::once(engine).chain(copied).collect()),
        ..Default::default()
    })
}

/// Whether the GPUs of a plan's pods are looked at while they serve.
fn is_watched(plan: &RevisionPlan) -> bool {
    let planned = plan.served.artifact().and_then(|artifact| artifact.preflight.as_ref());
    planned.is_some_and(|planned| planned.asked.watch)
}

/// The server's command, with a program beside it that counts what the GPUs do: no other container sees them without
/// asking for GPUs of its own. The server takes the shell's place, and serves without the program if that cannot start.
pub(super) fn watched(plan: &RevisionPlan, command: Vec<String>) -> Vec<String> {
    if !is_watched(plan) {
        return command;
    }
    let beside = format!("{}/slipway-preflight watch & exec \"$@\"", WATCH.1);
    ["/bin/sh", "-c", &beside, "sh"].map(str::to_owned).into_iter().chain(command).collect()
}

/// Where the server's container finds that program.
pub(super) fn watch_mount(plan: &RevisionPlan) -> Option<VolumeMount> {
    is_watched(plan).then(|| read_only(mount(WATCH.0, WATCH.1)))
}

/// The volume that the checks copy it to.
pub(super) fn watch_volume(plan: &RevisionPlan) -> Option<Volume> {
    is_watched(plan).then(|| empty_dir(WATCH.0))
}

/// Where the sidecar asks it.
pub(super) fn watch_endpoint(plan: &RevisionPlan) -> Option<String> {
    is_watched(plan).then(|| format!("http://127.0.0.1:{}", telemetry::PORT))
}
