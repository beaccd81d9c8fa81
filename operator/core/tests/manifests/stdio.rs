//! Servers of tools that run in the pods of an agent.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::agent_deployment::Tool;
use slipway_operator_core::agent_deployment::rollout::layout::Layout;

use super::{fixture, objects::Objects};

/// The fixture's agent with such a server behind its other tools.
fn with_server(layout: Layout) -> Objects {
    let mut agent_deployment = fixture("full").agent_deployment;
    let files = json!({
        "name": "git_files",
        "type": "MCP",
        "mcp": {
            "tools": ["read"],
            "stdio": {
                "image": "registry.example/files:1",
                "command": ["files", "--read-only"],
                "environmentFrom": { "name": "files-keys" },
                "resources": { "limits": { "memory": "256Mi" } },
            },
        },
        "timeout": "3s",
    });
    let files: Tool = serde_json::from_value(files).expect("it is a tool");
    agent_deployment.spec.agent.tools.push(files);
    Objects::of(&agent_deployment, layout)
}

fn pod(objects: &Objects) -> &Value {
    let deployment = objects.kind("Deployment").next().expect("a revision has a Deployment");
    &deployment["spec"]["template"]["spec"]
}

fn named<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array().into_iter().flatten().find(|each| each["name"] == name)
}

#[test]
fn a_server_on_standard_input_runs_in_a_container_of_its_own_behind_a_bridge() {
    let objects = with_server(Layout::CURRENT);
    let place = objects.agent_deployment.spec.agent.tools.len() - 1;
    let (name, temporary, folder) =
        (format!("mcp-{place}"), format!("mcp-tmp-{place}"), format!("/slipway/mcp/{place}"));
    let socket = format!("{folder}/socket");
    let pod = pod(&objects);
    let containers: Vec<_> = pod["initContainers"].as_array().into_iter().flatten().collect();
    let names: Vec<_> = containers.iter().map(|container| container["name"].clone()).collect();
    assert_eq!(names, [json!("materialize"), json!("install-mcp-bridge"), json!(name), json!("triton")]);
    let install = named(&pod["initContainers"], "install-mcp-bridge").expect("the bridge is copied");
    assert_eq!(install["args"], json!(["install", "/slipway/bridge"]));
    let agent = named(&pod["containers"], "agent-runtime").expect("the agent runtime");
    assert_eq!(install["image"], agent["image"]);
    let expected = json!({
        "name": name,
        "image": "registry.example/files:1",
        "imagePullPolicy": install["imagePullPolicy"],
        "command": ["/slipway/bridge/slipway-agent-runtime", "mcp-bridge", "--socket", socket, "--", "files",
            "--read-only"],
        "envFrom": [{ "secretRef": { "name": "files-keys" } }],
        "resources": {
            "requests": { "cpu": "50m", "ephemeral-storage": "64Mi" },
            "limits": { "cpu": "2", "memory": "256Mi", "ephemeral-storage": "2Gi" },
        },
        "restartPolicy": "Always",
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            { "name": name, "mountPath": folder },
            { "name": "mcp-bridge", "mountPath": "/slipway/bridge", "readOnly": true },
            { "name": temporary, "mountPath": "/tmp" },
        ],
    });
    assert_eq!(named(&pod["initContainers"], &name), Some(&expected));
    let volumes = ["mcp-bridge", &name, &temporary].map(|volume| named(&pod["volumes"], volume).cloned());
    let limited = |limit: &str| json!({ "sizeLimit": limit });
    let expected = [("mcp-bridge", json!({})), (&name, limited("1Mi")), (&temporary, limited("1Gi"))];
    assert_eq!(volumes, expected.map(|(name, folder)| Some(json!({ "name": name, "emptyDir": folder }))));
    let config = objects.kind("ConfigMap").find_map(|object| object["data"].get("config.json")?.as_str());
    let config: Value = serde_json::from_str(config.expect("a revision has a configuration")).expect("it is JSON");
    let expected = json!([{
        "name": "git_files",
        "url": "http://localhost/mcp",
        "socket": socket,
        "prefix": "git_files_",
        "tools": ["read"],
        "timeoutMilliseconds": 3_000,
        "trustAnnotations": false,
        "retries": 0,
    }]);
    assert_eq!(config["mcpServers"], expected);
}

/// Who has its socket may call its tools.
#[test]
fn a_servers_socket_is_in_its_own_container_and_in_the_agent_runtime_alone() {
    let objects = with_server(Layout::CURRENT);
    let volume = format!("mcp-{}", objects.agent_deployment.spec.agent.tools.len() - 1);
    let pod = pod(&objects);
    let all = ["initContainers", "containers"].into_iter().flat_map(|kind| pod[kind].as_array().into_iter().flatten());
    let with_socket =
        all.filter_map(|each| Some((&each["name"], named(&each["volumeMounts"], &volume)?["readOnly"] == true)));
    let expected = [(&json!(volume), false), (&json!("agent-runtime"), true)];
    assert_eq!(with_socket.collect::<Vec<_>>(), expected);
}

/// The agent runtime sees neither the server's keys nor its folder.
#[test]
fn the_keys_of_a_server_are_in_no_other_container() {
    let objects = with_server(Layout::CURRENT);
    let pod = pod(&objects);
    let all = ["initContainers", "containers"].into_iter().flat_map(|kind| pod[kind].as_array().into_iter().flatten());
    let readers: Vec<_> =
        all.filter(|each| each.to_string().contains("files-keys")).map(|each| &each["name"]).collect();
    assert_eq!(readers.len(), 1, "{readers:?}");
}
