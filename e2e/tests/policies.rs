//! NetworkPolicies of the chart and of agents, on a network that enforces them.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::{labels, v1alpha1::AgentDeployment};
use slipway_e2e::{
    agents::{READY_LIMIT, draw_question, facts_agent, fresh_seed, namespace_with_servers},
    cluster::kubectl,
    namespace::Namespace,
    operator::Operator,
    policy_enforcer::PolicyEnforcer,
    stranger::{reached_from, stranger},
};

/// Time from a policy to its rules.
const RULES_LIMIT: Duration = Duration::from_secs(90);
/// Time from a run to what the operator says of it.
const OBSERVED_LIMIT: Duration = Duration::from_secs(180);

/// The addresses that are asked: of the agent's pod, and of the operator's.
struct Addresses {
    agent: String,
    operator: String,
}

impl Addresses {
    /// What a pod serves to others.
    fn all(&self) -> [(&str, u16); 4] {
        [(&self.agent, 8080), (&self.agent, 8002), (&self.agent, 9464), (&self.operator, 8081)]
    }
}

fn address(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap()
}

async fn serving(namespace: &Namespace) -> Pod {
    let pods = namespace.pods(&format!("{}=serve", labels::APP_COMPONENT)).await.unwrap();
    let [pod] = pods.try_into().unwrap();
    pod
}

/// A question is answered, for which the agent reaches the name server and its tool.
async fn is_answered(namespace: &Namespace) {
    let question = draw_question(fresh_seed()).unwrap();
    namespace.teach(&question).await.unwrap();
    let run = namespace.ask("facts-agent", &question.question).await.unwrap();
    assert_eq!((&run["status"], &run["answer"]), (&json!("succeeded"), &json!(question.answer)), "{run}");
}

#[tokio::test]
async fn where_a_network_enforces_policies_each_side_reaches_what_the_docs_say_and_nothing_else() {
    let _enforcer = PolicyEnforcer::start();
    let namespace = namespace_with_servers("policed").await.unwrap();
    let (others, scrapers) = (Namespace::create("others").await.unwrap(), Namespace::create("scrapers").await.unwrap());
    let agent = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    let operator = Operator::find().await.unwrap();
    let pod = serving(&namespace).await;
    let before = Addresses { agent: address(&pod), operator: operators_address(&operator).await };
    let all = before.all();
    assert_eq!(reached_from(&others, "before", &all).await, BTreeSet::from(all), "without policies all is open");

    let values = "networkPolicies.operator=true,networkPolicies.agents=true,networkPolicies.agentPorts={8080},\
                  networkPolicies.metricsNamespaces={scrapers}";
    operator.configure(values).unwrap();
    let after = Addresses { agent: before.agent.clone(), operator: operators_address(&operator).await };
    strangers_reach_the_agent_alone(&others, &after).await;
    let all = after.all();
    assert_eq!(reached_from(&scrapers, "scraper", &all).await, BTreeSet::from(all));
    the_operator_still_reads_what_the_agent_counts(&namespace).await;
    the_agents_pod_reaches_only_the_ports_of_its_tools(&namespace, &others).await;
    assert_eq!(starts(&serving(&namespace).await), starts(&pod), "policies restart nothing");
    operator.configure("networkPolicies.operator=false,networkPolicies.agents=false").unwrap();
}

/// A pod's identity, and how often each of its containers was restarted.
fn starts(pod: &Pod) -> (Option<String>, Vec<(String, i32)>) {
    let status = pod.status.clone().unwrap_or_default();
    let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    (pod.metadata.uid.clone(), all.map(|container| (container.name, container.restart_count)).collect())
}

async fn operators_address(operator: &Operator) -> String {
    let name = operator.leader(":dev", Duration::from_secs(120)).await.unwrap();
    let arguments = ["-n", "slipway-system", "get", "pod", &name, "-o", "jsonpath={.status.podIP}"];
    String::from_utf8(kubectl(&arguments).unwrap().stdout).unwrap()
}

/// Rules are made while the operator writes policies: the last look counts.
async fn strangers_reach_the_agent_alone(others: &Namespace, addresses: &Addresses) {
    let expected = BTreeSet::from([(addresses.agent.as_str(), 8080)]);
    let deadline = Instant::now() + RULES_LIMIT;
    for look in 0.. {
        let reached = reached_from(others, &format!("after-{look}"), &addresses.all()).await;
        if reached == expected || Instant::now() > deadline {
            assert_eq!(reached, expected);
            return;
        }
    }
}

async fn the_operator_still_reads_what_the_agent_counts(namespace: &Namespace) {
    let observed = |agent: &AgentDeployment| {
        let slo = agent.status.iter().flat_map(|status| &status.slo);
        slo.filter_map(|objective| objective.observed.clone()).next().ok_or_else(|| "nothing observed".to_owned())
    };
    let agent = namespace.api::<AgentDeployment>().get("facts-agent").await.unwrap();
    assert_eq!(observed(&agent), Err("nothing observed".to_owned()), "nobody has asked yet");
    for _ in 0..3 {
        is_answered(namespace).await;
    }
    namespace.wait("facts-agent", "observed by the operator", OBSERVED_LIMIT, observed).await.unwrap();
}

/// A pod of somebody else's listens on two ports. One of them is that of the agent's tool.
async fn the_agents_pod_reaches_only_the_ports_of_its_tools(namespace: &Namespace, others: &Namespace) {
    let script = "httpd -f -p 8080 -h /tmp & exec httpd -f -p 9999 -h /tmp";
    others.create_object(&stranger("listener", &json!({}), script)).await.unwrap();
    let has_address = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let is_running = status.phase.as_deref() == Some("Running");
        status.pod_ip.filter(|_| is_running).ok_or_else(|| format!("{:?}", status.phase))
    };
    let listener = others.wait("listener", "running", Duration::from_secs(60), has_address).await.unwrap();
    let ports = [(listener.as_str(), 8080), (listener.as_str(), 9999)];
    assert_eq!(reached_from(others, "neighbour", &ports).await, BTreeSet::from(ports), "both ports listen");
    let ask = format!(
        "import socket\n\
         for port in (8080, 9999):\n\
         \x20 try: socket.create_connection(('{listener}', port), 5).close(); print('open', port)\n\
         \x20 except OSError: print('shut', port)\n"
    );
    let name = serving(namespace).await.name_any();
    let command = ["-n", namespace.name(), "exec", &name, "-c", "triton", "--", "python3", "-c", &ask];
    let output = kubectl(&command).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "open 8080\nshut 9999\n", "{output:?}");
}

/// A quota of processors and memory admits only pods all of whose containers say both.
#[tokio::test]
async fn a_namespace_with_a_quota_of_processors_and_memory_has_an_agent() {
    let namespace = namespace_with_servers("counted").await.unwrap();
    let hard = json!({"requests.cpu": "4", "limits.cpu": "64", "requests.memory": "8Gi", "limits.memory": "32Gi"});
    let quota =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": hard}});
    namespace.create_object(&serde_json::from_value::<ResourceQuota>(quota).unwrap()).await.unwrap();
    let mut manifest = facts_agent().unwrap();
    manifest["spec"]["serving"] = json!({"tritonResources": {
        "requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "2", "memory": "2Gi"},
    }});
    let agent = namespace.apply(&manifest).await.unwrap();
    namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    is_answered(&namespace).await;
}
