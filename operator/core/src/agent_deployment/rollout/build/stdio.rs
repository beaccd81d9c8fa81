//! The containers of MCP servers on standard input and output. Pure.
//!
//! An init container puts the agent runtime's binary where they can run it. Each container runs the binary as a bridge,
//! which runs the server and listens on a socket in a folder that only it and the agent runtime have. The containers
//! are native sidecars: they start before the agent runtime, end after it, and are started again when their server
//! ends.

use k8s_openapi::{
    api::core::v1::{Container, EmptyDirVolumeSource, EnvFromSource, SecretEnvSource, Volume, VolumeMount},
    apimachinery::pkg::api::resource::Quantity,
};
use slipway_agent_config::{bridge_folder, bridge_socket};
use slipway_crds::v1alpha1::{agent_deployment::StdioServer, shared::ContainerResources};

use crate::{
    agent_deployment::rollout::{layout::Layout, revision::RevisionPlan},
    jobs::template::{empty_dir, mount, read_only},
};

const BRIDGE_VOLUME: &str = "mcp-bridge";
const BRIDGE_FOLDER: &str = "/slipway/bridge";
const BINARY: &str = "/slipway/bridge/slipway-agent-runtime";
/// Most that a server writes to `/tmp`, and beside its socket.
const TEMPORARY_LIMIT: &str = "1Gi";
const SOCKET_LIMIT: &str = "1Mi";

/// All of them, in the order in which they start; none without such servers.
pub(super) fn containers(plan: &RevisionPlan) -> Vec<Container> {
    let servers: Vec<_> = servers(plan).map(|(place, server)| container(plan.layout, place, server)).collect();
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
    let of_server =
        |(place, _)| [sized(socket_volume(place), SOCKET_LIMIT), sized(temporary_volume(place), TEMPORARY_LIMIT)];
    let folders: Vec<_> = servers(plan).flat_map(of_server).collect();
    let bridge = (!folders.is_empty()).then(|| empty_dir(BRIDGE_VOLUME));
    bridge.into_iter().chain(folders).collect()
}

/// The sockets, as the agent runtime has them.
pub(super) fn mounts(plan: &RevisionPlan) -> impl Iterator<Item = VolumeMount> {
    servers(plan).map(|(place, _)| read_only(mount(&socket_volume(place), &bridge_folder(place))))
}

/// The servers, each with the place of its entry among the tools.
fn servers(plan: &RevisionPlan) -> impl Iterator<Item = (usize, &StdioServer)> {
    let tools = plan.agent.tools.iter().enumerate();
    tools.filter_map(|(place, tool)| Some((place, tool.mcp.as_ref()?.stdio.as_ref()?)))
}

fn container(layout: Layout, place: usize, server: &StdioServer) -> Container {
    let StdioServer { image, command, environment_from, resources } = server;
    let bridge = [BINARY, "mcp-bridge", "--socket", &bridge_socket(place), "--"].map(str::to_owned);
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
        resources: Some(layout.stdio_resources(resources)),
        volume_mounts: Some(vec![
            mount(&socket_volume(place), &bridge_folder(place)),
            read_only(mount(BRIDGE_VOLUME, BRIDGE_FOLDER)),
            mount(&temporary_volume(place), "/tmp"),
        ]),
        ..Default::default()
    }
}

fn sized(name: String, limit: &str) -> Volume {
    let size_limit = Some(Quantity(limit.to_owned()));
    let empty_dir = Some(EmptyDirVolumeSource { size_limit, ..Default::default() });
    Volume { name, empty_dir, ..Default::default() }
}

fn socket_volume(place: usize) -> String {
    format!("mcp-{place}")
}

fn temporary_volume(place: usize) -> String {
    format!("mcp-tmp-{place}")
}
