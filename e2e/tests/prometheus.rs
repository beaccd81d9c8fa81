//! A real Prometheus scrapes the agents' pods and accepts the generated rules. The status says what is left of error
//! budgets, and guardrails hold a canary.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::{env, process::Command, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{AgentDeployment, agent_deployment::ObjectiveStatus},
};
use slipway_e2e::{
    agents::path,
    cluster,
    namespace::condition_of,
    operator::Operator,
    rollouts::{AGENT, Bench, ROLLOUT_LIMIT},
};

const NAMESPACE: &str = "prometheus";
/// Figures stand for five minutes before Prometheus is asked again.
const FIGURES_LIMIT: Duration = Duration::from_secs(480);

#[tokio::test]
async fn what_prometheus_counts_stands_in_the_status_and_guards_rollouts() {
    let mut bench = Bench::start(NAMESPACE).await.unwrap();
    bench.manifest["spec"]["alerts"] = json!({"burnRate": true});
    bench.manifest["spec"]["slo"]["errorRate"] = json!({"max": "1%"});
    let agent = bench.apply(&bench.manifest).await.unwrap();
    bench.namespace.wait_until_served(&agent, ROLLOUT_LIMIT).await.unwrap();
    let pods = bench.pod_uids(&bench.stable).await.unwrap();
    tell_of_pods(&bench).await;
    bench.namespace.kubectl_apply("manifests/prometheus/prometheus.yaml").unwrap();
    bench.namespace.wait_until_available("prometheus", Duration::from_secs(120)).await.unwrap();
    Operator::find().await.unwrap().configure(&format!("prometheus.url=http://prometheus.{NAMESPACE}")).unwrap();

    let load = bench.start_load().await.unwrap();
    budgets_stand_beside_their_objectives(&bench).await;
    rules_are_evaluated(&bench).await;
    an_edited_objective_is_counted_by_pods_that_run(&bench).await;
    assert_eq!(bench.pod_uids(&bench.stable).await.unwrap(), pods, "no pod was restarted");
    a_guardrail_holds_and_then_rolls_back(&bench).await;
    a_prometheus_that_is_down_is_said(&bench).await;
    rules_move_into_the_kind_of_the_prometheus_operator(&bench).await;
    let (_, summary) = load.stop().await.unwrap();
    assert_eq!((summary.failed(), summary.errors.as_slice()), (0, [].as_slice()));
}

/// Writes the pods into the file that Prometheus finds its targets in.
async fn tell_of_pods(bench: &Bench) {
    let pods = bench.namespace.pods(&format!("{}=serve", labels::APP_COMPONENT)).await.unwrap();
    let targets: Vec<Value> = pods
        .iter()
        .filter_map(|pod| {
            let address = pod.status.as_ref()?.pod_ip.clone()?;
            let labels = json!({"namespace": bench.namespace.name(), "pod": pod.name_any()});
            Some(json!({"targets": [format!("{address}:9464")], "labels": labels}))
        })
        .collect();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus-targets"},
        "data": {"targets.json": Value::from(targets).to_string()},
    });
    let api = bench.namespace.api::<ConfigMap>();
    api.patch("prometheus-targets", &PatchParams::apply("e2e"), &Patch::Apply(&object)).await.unwrap();
}

async fn budgets_stand_beside_their_objectives(bench: &Bench) {
    let known = |agent: &AgentDeployment| -> Result<Vec<ObjectiveStatus>, String> {
        let slo = agent.status.as_ref().map(|status| status.slo.clone()).unwrap_or_default();
        let is_known = |name: &str| slo.iter().any(|entry| entry.name == name && entry.budget.is_some());
        if is_known("reply") && is_known("slo.errorRate") { Ok(slo) } else { Err(format!("{slo:?}")) }
    };
    let slo = bench.namespace.wait(AGENT, "error budgets", FIGURES_LIMIT, known).await.unwrap();
    let left: Vec<_> = slo.iter().flat_map(|entry| &entry.budget).map(|budget| budget.left.as_str()).collect();
    // Nothing fails, and next to nothing takes five seconds where the median is 200 ms.
    assert_eq!(left, ["100%", "100%"]);
    let (status, reason, message) = bench
        .namespace
        .wait(AGENT, "the condition", FIGURES_LIMIT, |agent: &AgentDeployment| {
            condition_of(agent, "SLOMet").ok_or_else(|| "no SLOMet".to_owned())
        })
        .await
        .unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "ObjectivesMet"), "{message}");
    assert!(message.contains("100% of its error budget left over"), "{message}");
}

async fn rules_are_evaluated(bench: &Bench) {
    let rules = loop {
        let answer = bench.namespace.request("GET", "prometheus", "/api/v1/rules", None).await.unwrap();
        let groups = answer["data"]["groups"].as_array().unwrap().clone();
        let rules: Vec<Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect();
        if rules.iter().all(|rule| rule["health"] != "unknown") {
            break rules;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    let unhealthy: Vec<_> = rules.iter().filter(|rule| rule["health"] != "ok").collect();
    assert!(rules.len() > 20 && unhealthy.is_empty(), "{} rules, {unhealthy:?}", rules.len());
    let firing: Vec<_> = rules.iter().filter(|rule| rule["state"] == "firing").collect();
    assert!(firing.is_empty(), "{firing:?}");
}

/// The kubelet brings the edited ConfigMap, and the pods count by it.
async fn an_edited_objective_is_counted_by_pods_that_run(bench: &Bench) {
    let mut edited = bench.manifest.clone();
    edited["spec"]["slo"]["objectives"][0]["max"] = json!("4s");
    bench.apply(&edited).await.unwrap();
    let query = "/api/v1/query?query=max(slipway_slo_threshold_seconds%7Bobjective=%22reply%22%7D)";
    let deadline = tokio::time::Instant::now() + FIGURES_LIMIT;
    loop {
        let answer = bench.namespace.request("GET", "prometheus", query, None).await.unwrap();
        if answer["data"]["result"][0]["value"][1] == "4" {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{answer}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn a_guardrail_holds_and_then_rolls_back(bench: &Bench) {
    let mut guarded = bench.with(&[("medianMilliseconds", "195")]);
    guarded["spec"]["rollout"]["guardrails"] =
        json!([{"name": "busy", "query": "sum(nothing_of_that_name{pod=~\"$pods\"})", "max": "0.001"}]);
    bench.apply(&guarded).await.unwrap();
    let canary = bench.wait_for_canary().await.unwrap();
    let held = "guardrail busy: its query has no value for the canary's pods";
    bench.namespace.wait_for_message(AGENT, "Reconciling", held, ROLLOUT_LIMIT).await.unwrap();
    tell_of_pods(bench).await;
    // A mended query changes no plan: the same canary goes on, and is found to be busy.
    guarded["spec"]["rollout"]["guardrails"][0]["query"] = json!("sum(rate(slipway_runs_total{pod=~\"$pods\"}[30s]))");
    bench.apply(&guarded).await.unwrap();
    let end = bench.wait_for_rejection(&canary).await.unwrap();
    let reason = &end.rejected[0].reason;
    assert!(reason.contains("guardrail busy is") && reason.ends_with("3 times in a row"), "{reason}");
    assert_eq!(end.rejected[0].plan, canary);
}

async fn a_prometheus_that_is_down_is_said(bench: &Bench) {
    bench.namespace.scale("prometheus", 0).await.unwrap();
    bench
        .namespace
        .wait_for_message(AGENT, "SLOMet", "error budgets are not up to date: ", FIGURES_LIMIT)
        .await
        .unwrap();
}

/// Once the cluster serves PrometheusRule, which checks what it is given, the rules are one, and the file goes.
async fn rules_move_into_the_kind_of_the_prometheus_operator(bench: &Bench) {
    let name = format!("{AGENT}-slo-rules");
    let file = bench.namespace.api::<ConfigMap>().get(&name).await.unwrap().data.unwrap();
    let of_file: Value = serde_norway::from_str(file.values().next().unwrap()).unwrap();
    let cluster = env::var(cluster::NAME).unwrap();
    let installed =
        Command::new(path("tools/prometheus-operator/install.sh")).args(["--name", &cluster]).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let deadline = tokio::time::Instant::now() + FIGURES_LIMIT;
    let get = ["--namespace", bench.namespace.name(), "get", "prometheusrule", &name, "--output=json"];
    let rule: Value = loop {
        let output = cluster::kubectl(&get).unwrap();
        if output.status.success() {
            break serde_json::from_slice(&output.stdout).unwrap();
        }
        assert!(tokio::time::Instant::now() < deadline, "{}", String::from_utf8_lossy(&output.stderr));
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    assert_eq!(rule["spec"]["groups"], of_file["groups"]);
    assert_eq!(rule["metadata"]["ownerReferences"][0]["name"], AGENT);
    while bench.namespace.api::<ConfigMap>().get_opt(&name).await.unwrap().is_some() {
        assert!(tokio::time::Instant::now() < deadline, "the file stays beside the object");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
