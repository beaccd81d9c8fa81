//! The containers of MCP servers on standard input and output. Pure.
//!
//! An init container puts the agent runtime's binary where they can run it. Each container runs the binary as a bridge,
//! which runs the server and listens on loopback. The containers are native sidecars: they start before the agent
//! runtime, end after it, and are started again when their server ends.

use k8s_openapi::api::core::v1::{Container, EnvFromSource, SecretEnvSource, Volume};
use slipway_crds::v1alpha1::{agent_deployment::StdioServer, shared::ContainerResources};

use crate::{
    agent_deployment::rollout::revision::RevisionPlan,
    jobs::template::{empty_dir, mount, read_only},
    runtime_config::bridge_address,
};

const BRIDGE_VOLUME: &str = "mcp-bridge";
const BRIDGE_FOLDER: &str = "/slipway/bridge";
const BINARY: &str = "/slipway/bridge/slipway-agent-runtime";

/// All of them, in the order in which they start; none without such servers.
pub(super) fn containers(plan: &RevisionPlan) -> Vec<Container> {
    let servers: Vec<_> = servers(plan).map(|(place, server)| container(place, server)).collect();
    if servers.is_empty() {
        return servers;
    }
    let install = Container {
        name: "install-mcp-bridge".to_owned(),
        image: Some(plan.agent_runtime_image.clone()),
        args: Some(vec!["install".to_owned(), BRIDGE_FOLDER.to_owned()]),
        resources: plan.worker_resources.as_ref().map(ContainerResources::to_requirements),
        volume_mounts: Some(vec![mount(BRIDGE_VOLUME, BRIDGE_FOLDER)]),
        ..Default::default()
    };
    std::iter::once(install).chain(servers).collect()
}

/// The volumes of a plan's pods.
pub(super) fn volumes(plan: &RevisionPlan) -> Vec<Volume> {
    let folders: Vec<_> = servers(plan).map(|(place, _)| empty_dir(&temporary_volume(place))).collect();
    let bridge = (!folders.is_empty()).then(|| empty_dir(BRIDGE_VOLUME));
    bridge.into_iter().chain(folders).collect()
}

/// The servers, each with the place of its entry among the tools.
fn servers(plan: &RevisionPlan) -> impl Iterator<Item = (usize, &StdioServer)> {
    let tools = plan.agent.tools.iter().enumerate();
    tools.filter_map(|(place, tool)| Some((place, tool.mcp.as_ref()?.stdio.as_ref()?)))
}

fn container(place: usize, server: &StdioServer) -> Container {
    let StdioServer { image, command, environment_from, resources } = server;
    let bridge = [BINARY, "mcp-bridge", "--address", &bridge_address(place), "--"].map(str::to_owned);
    Container {
        // The name of the entry would not do: names of containers know no underscore.
        name: format!("mcp-{place}"),
        image: Some(image.clone()),
        command: Some(bridge.into_iter().chain(command.iter().cloned()).collect()),
        env_from: environment_from.as_ref().map(|secret| {
            let secret_ref = SecretEnvSource { name: secret.name.clone(), optional: None };
            vec![EnvFromSource { secret_ref: Some(secret_ref), ..Default::default() }]
        }),
        restart_policy: Some("Always".to_owned()),
        resources: Some(resources.to_requirements()),
        volume_mounts: Some(vec![
            read_only(mount(BRIDGE_VOLUME, BRIDGE_FOLDER)),
            mount(&temporary_volume(place), "/tmp"),
        ]),
        ..Default::default()
    }
}

fn temporary_volume(place: usize) -> String {
    format!("mcp-tmp-{place}")
}
