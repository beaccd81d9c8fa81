//! What strangers cannot do: reach a pod's Triton, or end the operator with counts that nobody counted.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::labels;
use slipway_e2e::{
    agents::{READY_LIMIT, facts_agent, namespace_with_servers},
    cluster::kubectl,
    namespace::{Namespace, condition_of},
    operator::Operator,
    stranger::stranger,
};

/// The pod that serves, and its revision.
async fn serving(namespace: &Namespace) -> (Pod, String) {
    let selector = format!("{}=serve", labels::APP_COMPONENT);
    let pods = namespace.api::<Pod>().list(&ListParams::default().labels(&selector)).await.unwrap();
    let pod = pods.items.into_iter().next().unwrap();
    let revision = pod.labels()[labels::REVISION].clone();
    (pod, revision)
}

#[tokio::test]
async fn a_stranger_ends_neither_an_agent_nor_the_operator() {
    let namespace = namespace_with_servers("shut").await.unwrap();
    let agent = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    a_pod_of_another_namespace_reaches_metrics_and_no_model_control(&namespace).await;
    the_pod_itself_loads_and_unloads_nothing(&namespace).await;
    counts_of_a_forged_pod_end_nothing(&namespace).await;
}

async fn a_pod_of_another_namespace_reaches_metrics_and_no_model_control(namespace: &Namespace) {
    let (pod, _) = serving(namespace).await;
    let address = pod.status.unwrap().pod_ip.unwrap();
    let elsewhere = Namespace::create("strangers").await.unwrap();
    // BusyBox is static, and its wget does not survive glibc's resolver. Its nc takes addresses as they are.
    let script = format!(
        "ask() {{ printf \"$2 HTTP/1.0\\r\\n\\r\\n\" | nc -w 5 {address} $1 | head -n 1 | grep -q ' 200 '; }}; \
         ask 8002 'GET /metrics' && echo metrics; \
         for port in 8000 8001; do nc -w 5 {address} $port </dev/null && echo open $port; done; \
         ask 8000 'POST /v2/repository/models/agent/unload' && echo unloaded; true"
    );
    let log = elsewhere.run_to_end(&stranger("caller", &json!({}), &script)).await.unwrap();
    let said: Vec<&str> = log.lines().filter(|line| !line.contains("onnection refused")).collect();
    assert_eq!(said, ["metrics"], "{log}");
    elsewhere.delete().await.unwrap();
}

async fn the_pod_itself_loads_and_unloads_nothing(namespace: &Namespace) {
    let (pod, _) = serving(namespace).await;
    let ask = "import urllib.request as r, urllib.error as e\n\
               try: print(r.urlopen(r.Request('http://127.0.0.1:8000/v2/repository/models/agent/unload', b'{}')).status)\n\
               except e.HTTPError as refusal: print(refusal.code)\n";
    let name = pod.name_any();
    let command = ["-n", namespace.name(), "exec", &name, "-c", "triton", "--", "python3", "-c", ask];
    let output = kubectl(&command).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "403", "{output:?}");
}

async fn counts_of_a_forged_pod_end_nothing(namespace: &Namespace) {
    let (pod, revision) = serving(namespace).await;
    let operator = Operator::find().await.unwrap();
    let window = json!({"id": 177_000_000, "metrics": [
        {"metric": "AgentRunLatency", "unit": "Run", "stratum": "miss/p9/f1", "count": u64::MAX, "errors": u64::MAX},
        {"metric": "RunSuccess", "unit": "Run", "count": u64::MAX, "errors": 1},
    ]});
    let evidence =
        json!({"revision": revision, "pod": "forged", "startedAt": "2026-01-01T00:00:00Z", "windows": [window]});
    let script = format!(
        "mkdir -p /tmp/slipway/v1 && echo '{evidence}' >/tmp/slipway/v1/evidence && exec httpd -f -p 9464 -h /tmp"
    );
    let keys = [labels::APP_MANAGED_BY, labels::APP_COMPONENT, labels::AGENT_DEPLOYMENT, labels::REVISION];
    let copied = keys.map(|key| (key.to_owned(), Value::from(pod.labels()[key].clone())));
    let forged = stranger("forged", &Value::Object(copied.into_iter().collect()), &script);
    namespace.create_object(&forged).await.unwrap();
    let leader = operator.leader("dev", Duration::from_secs(30)).await.unwrap();
    until_refused(&operator, &leader, "forged").await;
    operator.wait_for_reconciliations(&leader, "AgentDeployment", 4, Duration::from_secs(180)).await.unwrap();
    let again = operator.leader("dev", Duration::from_secs(30)).await.unwrap();
    assert_eq!(again, leader, "the operator lives on");
    let agent = namespace.api().get("facts-agent").await.unwrap();
    assert_eq!(condition_of(&agent, "Ready").map(|(status, ..)| status), Some("True".to_owned()));
}

/// The operator has read what a pod serves, and says that it believes none of it.
async fn until_refused(operator: &Operator, leader: &str, pod: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    let is_refused = |line: &str| line.contains("refused the evidence") && line.contains(pod);
    loop {
        let log = operator.log(leader).await.unwrap();
        if log.lines().any(is_refused) {
            return;
        }
        assert!(Instant::now() < deadline, "the counts of {pod} are not refused: {log}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
