//! Tools of MCP servers, one in the cluster and one in the pod, and tools whose service may not be where it is.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{labels, v1alpha1::AgentDeployment};
use slipway_e2e::{
    agents::{READY_LIMIT, draw_question, fresh_seed},
    cluster::on_node,
    gitops::eventually,
    namespace::{Namespace, condition_of},
};

use crate::{START_LIMIT, agent, answers_by_its_tool, call, remove, restarts, serve, shared_namespace, start_server};

/// What the model reads of a server that has gone: the node refuses the connection, or the way to it is lost.
const UNREACHABLE: [&str; 2] = ["error: the service cannot be reached", "error: no answer within 2000 ms"];
/// Place among the tools of the one that looks facts up, by which its container is called.
const PLACE: usize = 1;

/// An agent whose facts come from an MCP server.
fn with_server(name: &str, mcp: &Value) -> Value {
    let tool = json!({"name": "facts", "type": "MCP", "mcp": mcp, "timeout": "2s"});
    agent(name, |spec| spec["agent"]["tools"][PLACE] = tool)
}

/// A run whose look-ups all fail ends in an error that the tool gave; gives what the model read.
async fn a_run_without_its_tool(namespace: &Namespace, agent: &str) -> Vec<String> {
    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.unwrap();
    let run = namespace.ask(agent, &question.question).await.unwrap();
    let calls = run["steps"][0]["toolCalls"].as_array().cloned().unwrap_or_default();
    let is_error = |call: &Value| call["status"] == "error";
    assert!(!calls.is_empty() && calls.iter().all(is_error), "{run}");
    assert!(run["answer"].as_str().unwrap_or_default().starts_with("error: "), "no tool gave this: {run}");
    assert_eq!(namespace.calls().await.unwrap(), [], "nobody looked anything up: {run}");
    calls.iter().map(|call| call["observation"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Applies an agent whose server is not there yet, and starts the server once a condition names it.
async fn serve_once_its_server_is_named(namespace: &Namespace, manifest: &Value) {
    let applied = namespace.apply(manifest).await.unwrap();
    let said =
        namespace.wait_for_message(&applied.name_any(), "Reconciling", "the MCP server \"facts\"", READY_LIMIT).await;
    println!("before its server is there: {}", said.unwrap());
    start_server(namespace, "tools").await;
    namespace.wait_until_served(&applied, READY_LIMIT).await.unwrap();
}

#[tokio::test]
async fn an_mcp_server_in_the_cluster_is_called_with_its_key_and_found_again_once_it_is_back() {
    let (namespace, name) = (shared_namespace().await, "mcp-agent");
    namespace.give_secret("tools-key", &json!({"authorization": "Bearer of-the-tools"})).await.unwrap();
    let mcp = json!({
        "url": "http://tools/mcp", "headersFrom": {"name": "tools-key"}, "prefix": "", "tools": ["lookup"],
    });
    serve_once_its_server_is_named(&namespace, &with_server(name, &mcp)).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let stranger = call(&namespace, "tools", None, ("POST", "/mcp", Some(list))).await;
    assert_eq!(stranger.status, 401, "the server is for those with its key: {stranger:?}");
    let before = restarts(&namespace, name).await;
    answers_by_its_tool(&namespace, name).await.unwrap();

    namespace.scale("tools", 0).await.unwrap();
    namespace.wait_until_no_pods("app=tools", START_LIMIT).await.unwrap();
    let read = a_run_without_its_tool(&namespace, name).await;
    println!("without its server the model reads {read:?}");
    assert!(read.iter().all(|words| UNREACHABLE.contains(&words.as_str())), "{read:?}");

    namespace.scale("tools", 1).await.unwrap();
    namespace.wait_until_available("tools", START_LIMIT).await.unwrap();
    eventually("an answer by the server that is back", START_LIMIT, async || {
        answers_by_its_tool(&namespace, name).await
    })
    .await;
    assert_eq!(restarts(&namespace, name).await, before, "the pod has served throughout");
    remove(&namespace, name).await;
}

/// The pod that serves an agent.
async fn serving(namespace: &Namespace, agent: &str) -> Pod {
    let selector = format!("{}={agent},{}=serve", labels::AGENT_DEPLOYMENT, labels::APP_COMPONENT);
    let pods = namespace.pods(&selector).await.unwrap();
    let [pod] = pods.as_slice() else { unreachable!("one pod serves {agent}: {pods:?}") };
    pod.clone()
}

fn status_of<'a>(pod: &'a Pod, container: &str) -> Option<&'a ContainerStatus> {
    let mut of_sidecars = pod.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
    of_sidecars.find(|status| status.name == container)
}

#[tokio::test]
async fn an_mcp_server_on_standard_input_answers_from_a_bounded_container_also_after_that_was_killed() {
    let (namespace, name, container) = (shared_namespace().await, "stdio-agent", format!("mcp-{PLACE}"));
    namespace.give_secret("place-of-facts", &json!({"FACTS": "http://facts"})).await.unwrap();
    let stdio = json!({
        "image": "slipway.dev/slipway-e2e:dev",
        "command": ["/usr/local/bin/slipway-e2e", "mcp-stdio"],
        "environmentFrom": {"name": "place-of-facts"},
    });
    serve(&namespace, &with_server(name, &json!({"stdio": stdio, "prefix": "", "tools": ["lookup"]}))).await;
    answers_by_its_tool(&namespace, name).await.unwrap();
    let pod = serving(&namespace, name).await;
    its_container_is_bounded_and_alone_has_its_keys(&pod, &container);

    let before = restarts(&namespace, name).await;
    let id = status_of(&pod, &container).and_then(|status| status.container_id.clone()).unwrap();
    let id = id.trim_start_matches("containerd://");
    let killed = on_node(&["ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id]).unwrap();
    assert!(killed.status.success(), "{}", String::from_utf8_lossy(&killed.stderr));
    let is_back = |pod: &Pod| {
        let status = status_of(pod, &container).ok_or("no such container")?;
        let is_running = status.state.as_ref().is_some_and(|state| state.running.is_some());
        if status.restart_count == 1 && is_running { Ok(()) } else { Err(format!("{status:?}")) }
    };
    namespace.wait(&pod.name_any(), "its server runs again", START_LIMIT, is_back).await.unwrap();
    eventually("an answer by the server that was started again", START_LIMIT, async || {
        answers_by_its_tool(&namespace, name).await
    })
    .await;
    let mut expected = before;
    expected.insert(format!("{}/{container}", pod.name_any()), 1);
    assert_eq!(restarts(&namespace, name).await, expected, "nothing else was restarted");
    remove(&namespace, name).await;
}

fn its_container_is_bounded_and_alone_has_its_keys(pod: &Pod, name: &str) {
    let spec = pod.spec.as_ref().unwrap();
    let all: Vec<_> = spec.init_containers.iter().flatten().chain(&spec.containers).collect();
    let container = all.iter().find(|container| container.name == name).unwrap();
    let resources = json!({
        "requests": {"memory": "64Mi", "ephemeral-storage": "64Mi"},
        "limits": {"memory": "512Mi", "ephemeral-storage": "2Gi"},
    });
    assert_eq!(serde_json::to_value(&container.resources).unwrap(), resources);
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(serde_json::to_value(&container.security_context).unwrap(), security);
    let with_keys = all.iter().filter(|container| container.env_from.iter().flatten().next().is_some());
    assert_eq!(with_keys.map(|container| container.name.as_str()).collect::<Vec<_>>(), [name]);
}

#[tokio::test]
async fn a_tool_is_not_called_where_its_service_may_not_be() {
    let (namespace, name) = (shared_namespace().await, "misled");
    let at = |url: &str, networks: &[&str]| {
        agent(name, |spec| {
            let http = &mut spec["agent"]["tools"][PLACE]["http"];
            http["url"] = json!(url);
            http["allowedNetworks"] = json!(networks);
        })
    };
    // The name of a Service leads to an address of the cluster's own.
    serve(&namespace, &at("http://facts/facts/{entity}/{property}", &["Public"])).await;
    let read = a_run_without_its_tool(&namespace, name).await;
    let expected = "error: the service is at an address that must not be called";
    assert!(read.iter().all(|words| words == expected), "{read:?}");
    let pod = serving(&namespace, name).await.name_any();
    let log = namespace.log(&pod, "agent-runtime").await.unwrap();
    let line = log.lines().find(|line| line.contains("a host is refused")).unwrap_or(&log);
    println!("{line}");
    for words in ["facts", "must not be called", "is in none of allowedNetworks; add its network"] {
        assert!(line.contains(words), "{words:?} is not in {line}");
    }

    namespace.apply(&at("http://169.254.169.254/{entity}/{property}", &[])).await.unwrap();
    let refused = "spec.agent: tools[1].http.url: 169.254.169.254 is the address of a cloud's metadata; name another \
                   host, or add its network to allowedNetworks";
    let limit = Duration::from_secs(90);
    println!("{}", namespace.wait_for_message(name, "Stalled", refused, limit).await.unwrap());
    let stays = namespace.api::<AgentDeployment>().get(name).await.unwrap();
    assert_eq!(condition_of(&stays, "Ready").map(|(status, ..)| status), Some("True".to_owned()));
    remove(&namespace, name).await;
}
