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
    let (name, temporary, address) =
        (format!("mcp-{place}"), format!("mcp-tmp-{place}"), format!("127.0.0.1:{}", 9600 + place));
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
        "command": ["/slipway/bridge/slipway-agent-runtime", "mcp-bridge", "--address", address, "--", "files",
            "--read-only"],
        "envFrom": [{ "secretRef": { "name": "files-keys" } }],
        "resources": { "limits": { "memory": "256Mi" } },
        "restartPolicy": "Always",
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            { "name": "mcp-bridge", "mountPath": "/slipway/bridge", "readOnly": true },
            { "name": temporary, "mountPath": "/tmp" },
        ],
    });
    assert_eq!(named(&pod["initContainers"], &name), Some(&expected));
    let volumes = ["mcp-bridge", &temporary].map(|volume| named(&pod["volumes"], volume).cloned());
    assert_eq!(volumes, ["mcp-bridge", &temporary].map(|volume| Some(json!({ "name": volume, "emptyDir": {} }))));
    let config = objects.kind("ConfigMap").find_map(|object| object["data"].get("config.json")?.as_str());
    let config: Value = serde_json::from_str(config.expect("a revision has a configuration")).expect("it is JSON");
    let expected = json!([{
        "name": "git_files",
        "url": format!("http://{address}/mcp"),
        "prefix": "git_files_",
        "tools": ["read"],
        "allowedNetworks": ["127.0.0.1/32"],
        "timeoutMilliseconds": 3_000,
        "trustAnnotations": false,
        "retries": 0,
    }]);
    assert_eq!(config["mcpServers"], expected);
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
