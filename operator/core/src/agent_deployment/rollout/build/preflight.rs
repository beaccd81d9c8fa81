//! The container that checks the GPUs of a pod before its server starts. Pure.
//!
//! It asks for what the server's container asks for: the kubelet gives both the same GPUs, one after the other, so a
//! pod needs no more than before.

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use slipway_crds::labels::GPU_PRODUCT;
use slipway_vocabulary::preflight::PreflightTask;
use slipway_worker_contract::{message_budget, paths};

use super::stdio;
use crate::{
    agent_deployment::rollout::revision::{PlannedPreflight, RevisionPlan},
    engine::tensorrt_llm::gpus,
    jobs::preflight::CONTAINER,
};

/// Containers of a pod with the checks, without those of MCP servers.
const CONTAINERS: usize = 4;

/// The container of a plan that asks for the checks. It sees the engine in `engine`.
pub(super) fn container(plan: &RevisionPlan, engine: VolumeMount) -> Option<Container> {
    let PlannedPreflight { image, asked } = plan.preflight.as_ref()?;
    let task = PreflightTask {
        gpus: gpus(&plan.triton_resources).unwrap_or(1),
        product: plan.hardware.node_selector.get(GPU_PRODUCT).cloned(),
        min_driver: asked.min_driver.clone(),
        min_free_per_million: asked.min_free_memory.parts_per_million(),
        engine: Some(paths::ENGINE_DIR.to_owned()),
        message_bytes: message_budget(CONTAINERS + stdio::containers(plan).len()),
    };
    Some(Container {
        name: CONTAINER.to_owned(),
        image: Some(image.clone()),
        args: Some(vec![serde_json::to_string(&task).expect("a task holds only texts and numbers")]),
        resources: Some(plan.triton_resources.to_requirements()),
        volume_mounts: Some(vec![engine]),
        ..Default::default()
    })
}
