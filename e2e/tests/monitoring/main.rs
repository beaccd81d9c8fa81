//! The chart's monitors, rules, dashboards and routes with the real Prometheus operator, Prometheus and Alertmanager.
//! Run by hand, because they are built for it: `e2e/run.sh monitoring`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod panels;

use std::{
    collections::BTreeSet,
    env, fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::future::join_all;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use reqwest::Url;
use serde_json::{Value, json};
use slipway_crds::labels;
use slipway_e2e::{
    agents::{READY_LIMIT, draw_question, facts_agent, fresh_seed, namespace_with_servers, workload_source},
    cluster,
    load::pod::LoadPlan,
    namespace::{Namespace, Outcome},
    operator::Operator,
    rollouts::{AGENT, Bench},
    store::RETENTION,
};

use self::panels::{Drawn, Span, drawn};

/// Folder with the kinds of the Prometheus operator.
const CRDS: &str = "SLIPWAY_E2E_PROMETHEUS_OPERATOR_CRDS";
const MONITORING: &str = "monitoring";
const NAMESPACE: &str = "watched";
/// An agent that fails one run in five from the beginning.
const FAILING: &str = "failing";
/// Rules are evaluated every five seconds, messages wait a second, and Prometheus repeats alerts every minute.
const LIMIT: Duration = Duration::from_secs(300);
/// What the chart is told, as docs/metrics.md and docs/alerts.md say.
const VALUES: [&str; 17] = [
    "monitoring.enabled=true",
    "monitoring.interval=5s",
    "monitoring.labels.release=kube-prometheus-stack",
    "monitoring.dashboards.enabled=true",
    "alerts.ruleLabels.release=kube-prometheus-stack",
    "alerts.runbookUrl=https://wiki.example.com/runbooks",
    "prometheus.url=http://prometheus.monitoring",
    "prices.podWithoutGPU=0.05",
    "notifications.cluster=e2e",
    "notifications.secretName=slipway-notifications",
    "notifications.receivers[0].name=team-on-call",
    "notifications.receivers[0].pagerDuty.routingKeyFile=routing-key",
    "notifications.receivers[0].pagerDuty.url=http://receivers.monitoring/v2/enqueue",
    "notifications.receivers[1].name=away",
    "notifications.receivers[1].pagerDuty.routingKeyFile=routing-key",
    "notifications.receivers[1].pagerDuty.url=http://away.monitoring/v2/enqueue",
    RETENTION,
];
/// The routing key of the operator's own notifications, in the Secret that the chart names.
const OPERATORS_KEY: &str = "e2e-operators-routing-key";
/// The agent that is measured, has a target for its cost, and calls tools.
const MEASURED: &str = "facts-agent";
/// What Prometheus has had for longer than a panel's step, once the canary is judged and the measured agent has
/// answered.
const AWAITED: [&str; 12] = [
    "slipway_operator_rollout_log_evidence offset 15s",
    "slipway_operator_rollout_expected_verdict_seconds offset 15s",
    "slipway_operator_rollout_guardrail_value offset 15s",
    "rate(gen_ai_execute_tool_duration_seconds_count[1m] offset 15s) > 0",
    "rate(slipway_runs_shed_total[1m] offset 15s) > 0",
    "rate(slipway_tasks_judged_total{success=\"true\"}[1m] offset 15s) > 0",
    "rate(slipway_tasks_judged_total{success=\"false\"}[1m] offset 15s) > 0",
    "rate(gen_ai_client_token_usage_sum{gen_ai_token_type=\"output\"}[1m] offset 15s) > 0",
    "rate(slipway_operator_notifications_total{outcome=\"failed_attempt\"}[10m] offset 15s) > 0",
    "slipway_operator_notifications_waiting offset 15s > 0",
    "rate(slipway_operator_reconciliations_total{outcome!=\"success\"}[1m] offset 15s)",
    "slipway_operator_store_free_bytes offset 15s",
];
/// Queries that answer 0 here: dashboard, panel, legend.
const QUIET: [[&str; 3]; 5] = [
    // A Service sends nothing to a pod that does not serve.
    ["Slipway / Agent", "Refused runs", "{{reason}}"],
    // No run of the campaign failed.
    ["Slipway / Agent", "Share of failed runs", "predicted"],
    ["Slipway / Fleet", "Error rates and throughput", ""],
    // The GPU whose figures were recorded had none.
    ["Slipway / Agent", "XID errors", "{{pod}} {{gpu}}"],
    ["Slipway / Operator", "Failed sweeps", "{{namespace}}"],
];
/// Runs that clients begin at once: more than the pods of the measured agent admit.
const BURST: usize = 40;

#[tokio::test]
async fn monitors_rules_panels_and_routes_work_with_the_prometheus_operator() {
    let monitoring = stack().await;
    let key = format!("--from-literal=routing-key={OPERATORS_KEY}");
    let secret = ["--namespace", "slipway-system", "create", "secret", "generic", "slipway-notifications", &key];
    assert!(cluster::kubectl(&secret).unwrap().status.success());
    Operator::find().await.unwrap().configure(&VALUES.join(",")).unwrap();
    let begun = now();
    let bench = Bench::start_in(servers(NAMESPACE).await, |agent| {
        agent["spec"]["alerts"] = json!({"burnRate": true});
        agent["spec"]["slo"]["errorRate"] = json!({"max": "1%"});
    });
    let bench = bench.await.unwrap();
    let load = bench.start_load().await.unwrap();

    targets_are_found_by_the_monitors_alone(&monitoring, &bench).await;
    rules_of_operator_and_agents_are_evaluated(&monitoring).await;
    alerts_reach_slack_and_pager_duty(&monitoring, &bench).await;
    what_dashboards_show_happens(&monitoring, &bench).await;
    let span = Span { start: begun, end: now() };
    every_panel_has_data(drawn(&monitoring, (NAMESPACE, &[AGENT, MEASURED, FAILING]), span).await);
    load.stop().await.unwrap();
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn servers(namespace: &str) -> Namespace {
    slipway_e2e::agents::namespace_with_servers(namespace).await.unwrap()
}

/// The Prometheus operator, and what it makes of the kinds that a platform declares.
async fn stack() -> Namespace {
    let crds = env::var(CRDS).unwrap_or_else(|_| panic!("{CRDS} is not set: use e2e/run.sh"));
    let output = cluster::kubectl(&["apply", "--server-side", "--filename", &crds]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let monitoring = Namespace::create(MONITORING).await.unwrap();
    monitoring.kubectl_apply("manifests/monitoring/operator.yaml").unwrap();
    monitoring.wait_until_available("prometheus-operator", LIMIT).await.unwrap();
    monitoring.kubectl_apply("manifests/monitoring/stack.yaml").unwrap();
    monitoring.wait_until_available("receivers", LIMIT).await.unwrap();

    // The example of the docs; only PagerDuty's address and the waits are the scenario's.
    let mut routes: Value = serde_norway::from_str(include_str!("../../../docs/examples/alertmanager.yaml")).unwrap();
    let receivers = routes["spec"]["receivers"].as_array_mut().unwrap();
    let on_call = receivers.iter_mut().find(|one| one["name"] == "on-call").unwrap();
    on_call["pagerdutyConfigs"][0]["url"] = json!("http://receivers.monitoring/v2/enqueue");
    routes["spec"]["route"]["groupWait"] = json!("1s");
    routes["spec"]["route"]["groupInterval"] = json!("5s");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes.json");
    fs::write(&file, routes.to_string()).unwrap();
    monitoring.kubectl_apply(&file.to_string_lossy()).unwrap();
    monitoring
}

/// Asks until the answer is as it should be.
async fn ask<T>(
    monitoring: &Namespace,
    (service, path): (&str, &str),
    look: impl Fn(&Value) -> Result<T, String>,
) -> T {
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        let seen = match monitoring.request("GET", service, path, None).await {
            Ok(answer) => match look(&answer) {
                Ok(found) => return found,
                Err(seen) => seen,
            },
            Err(error) => error.to_string(),
        };
        assert!(tokio::time::Instant::now() < deadline, "{service}{path}: {seen}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn targets_are_found_by_the_monitors_alone(monitoring: &Namespace, bench: &Bench) {
    let pods = bench.namespace.pods(&format!("{}=serve", labels::APP_COMPONENT)).await.unwrap();
    let agents = pods.iter().map(|pod| ("monitoring/slipway-agents".to_owned(), pod.name_any()));
    let expected: BTreeSet<String> = agents.map(|(_, pod)| pod).collect();
    ask(monitoring, ("prometheus", "/api/v1/targets?state=active"), |answer| {
        let targets = answer["data"]["activeTargets"].as_array().cloned().unwrap_or_default();
        let is_up = |target: &&Value| target["health"] == "up";
        let pods_of = |pool: &str| -> BTreeSet<String> {
            let of = targets.iter().filter(is_up).filter(|t| t["scrapePool"].as_str().unwrap().contains(pool));
            of.map(|target| target["labels"]["pod"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let (of_agents, of_operator) = (pods_of("slipway-agents"), pods_of("/slipway-operator/"));
        if of_agents == expected && of_operator.len() == 1 { Ok(()) } else { Err(format!("{targets:?}")) }
    })
    .await;
}

async fn rules_of_operator_and_agents_are_evaluated(monitoring: &Namespace) {
    let names = ask(monitoring, ("prometheus", "/api/v1/rules"), |answer| {
        let groups = answer["data"]["groups"].as_array().cloned().unwrap_or_default();
        let rules: Vec<Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect();
        let is_healthy = !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok");
        let names: BTreeSet<String> = rules.iter().map(|rule| rule["name"].as_str().unwrap().to_owned()).collect();
        if is_healthy && names.contains("SlipwayErrorBudgetBurn") { Ok(names) } else { Err(format!("{rules:?}")) }
    })
    .await;
    for alert in ["SlipwayNoLeader", "SlipwayReconcileErrors", "SlipwayAgentStalled", "SlipwayMetricsAbsent"] {
        assert!(names.contains(alert), "{alert} is not in {names:?}");
    }
}

/// Beside a healthy agent one fails a fifth of its runs. Of its error rate that is 20 times the budget, which wakes
/// somebody; of its p95 it is 4 times the budget, which is a ticket.
async fn alerts_reach_slack_and_pager_duty(monitoring: &Namespace, bench: &Bench) {
    let mut failing = bench.with(&[("errorPercent", "20")]);
    failing["metadata"]["name"] = json!(FAILING);
    failing["spec"].as_object_mut().unwrap().remove("rollout");
    let agent = bench.namespace.apply(&failing).await.unwrap();
    bench.namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    let plan = LoadPlan {
        agent: FAILING.to_owned(),
        url: format!("http://{FAILING}.{NAMESPACE}"),
        host: None,
        keeps_connections: true,
        rate: 20,
    };
    let load = bench.namespace.start_load(&plan).await.unwrap();

    let event = ask(monitoring, ("receivers", "/received"), |received| {
        let events = received["pager_duty"].as_array().cloned().unwrap_or_default();
        events.into_iter().find(|event| event["event_action"] == "trigger").ok_or_else(|| received.to_string())
    })
    .await;
    println!("PagerDuty: {event}");
    let payload = &event["payload"];
    assert_eq!((&payload["severity"], &event["routing_key"]), (&json!("critical"), &json!("e2e-routing-key")));
    let summary = payload["summary"].as_str().unwrap();
    assert!(summary.contains(FAILING), "{summary}");
    let description = payload["custom_details"]["description"].as_str().unwrap();
    assert!(description.contains("of the runs of the last 1h were bad"), "{event}");
    let runbook = "https://wiki.example.com/runbooks/SlipwayErrorBudgetBurn.md";
    assert_eq!(payload["custom_details"]["runbook"], runbook, "{event}");

    let message = ask(monitoring, ("receivers", "/received"), |received| {
        let messages = received["slack"].as_array().cloned().unwrap_or_default();
        let of_reply = messages.into_iter().find(|message| message.to_string().contains(FAILING));
        of_reply.ok_or_else(|| received.to_string())
    })
    .await;
    println!("Slack: {message}");
    assert_eq!(message["channel"], "#agents");
    let text = message["attachments"][0]["text"].as_str().unwrap();
    assert!(text.contains("of the runs of the last"), "{message}");

    // An objective that allows what happens ends the incident, under the same key.
    failing["spec"]["slo"]["errorRate"]["max"] = json!("30%");
    bench.apply(&failing).await.unwrap();
    ask(monitoring, ("receivers", "/received"), |received| {
        let events = received["pager_duty"].as_array().cloned().unwrap_or_default();
        let is_end = |other: &&Value| other["event_action"] == "resolve" && other["dedup_key"] == event["dedup_key"];
        events.iter().find(is_end).map(|_| ()).ok_or_else(|| received.to_string())
    })
    .await;
    let of_healthy = ask(monitoring, ("alertmanager", "/api/v2/alerts"), |alerts| {
        let of = |alert: &&Value| alert["labels"]["agent_deployment"] == AGENT;
        Ok(alerts.as_array().cloned().unwrap_or_default().iter().filter(of).cloned().collect::<Vec<_>>())
    })
    .await;
    assert_eq!(of_healthy, Vec::<Value>::new(), "the agent without failures alerts nobody");
    load.stop().await.unwrap();
}

/// A campaign, runs that call tools, an engine that cannot be built, and a canary with a guardrail.
async fn what_dashboards_show_happens(monitoring: &Namespace, bench: &Bench) {
    bench.namespace.give_workload().await.unwrap();
    let mut measured = facts_agent().unwrap();
    measured["metadata"]["name"] = json!(MEASURED);
    measured["spec"]["search"] = json!({"precision": ["INT8"], "concurrency": [1, 4]});
    measured["spec"]["slo"]["throughput"] = json!({"min": "2", "unit": "Runs"});
    measured["spec"]["slo"]["errorRate"] = json!({"max": "5%"});
    measured["spec"]["slo"]["cost"] = json!({"max": "1", "unit": "Runs"});
    measured["spec"]["profiling"] = json!({
        "workloads": [{"name": "runs", "agentTrace": workload_source("trace.jsonl")}],
        "driver": "AgentRun",
        "budget": {"measurements": 8, "gpuHours": "1"},
    });
    bench.namespace.campaign(&measured).await.unwrap();
    bench.namespace.kubectl_apply("manifests/monitoring/recorded-gpus.yaml").unwrap();
    let mut broken = facts_agent().unwrap();
    broken["metadata"]["name"] = json!("broken");
    broken["spec"]["engine"]["custom"]["options"] = json!({"weightNoisePercent": "lots"});
    broken["spec"]["alerts"] = json!({"receivers": ["team-on-call", "away"]});
    bench.apply(&broken).await.unwrap();
    the_operator_notifies_pager_duty(monitoring).await;
    a_quota_refuses_jobs().await;
    a_store_is_swept().await;

    let mut guarded = bench.with(&[("medianMilliseconds", "195")]);
    guarded["spec"]["rollout"]["guardrails"] =
        json!([{"name": "busy", "query": "sum(rate(slipway_runs_total{pod=~\"$pods\"}[30s]))", "max": "1000"}]);
    bench.apply(&guarded).await.unwrap();
    bench.wait_for_canary().await.unwrap();
    bench.wait_for("20 %", |rollout| rollout.weight == Some(20)).await.unwrap();
    for expression in AWAITED {
        let url = Url::parse_with_params("http://prometheus/api/v1/query", [("query", expression)]).unwrap();
        let path = format!("{}?{}", url.path(), url.query().unwrap());
        clients_ask_and_judge(bench).await;
        ask(monitoring, ("prometheus", &path), |answer| {
            let has_data = answer["data"]["result"].as_array().is_some_and(|result| !result.is_empty());
            if has_data { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
    }
}

/// An engine that cannot be built stops its agent, and its team's receiver gets an event.
async fn the_operator_notifies_pager_duty(monitoring: &Namespace) {
    let event = ask(monitoring, ("receivers", "/received"), |received| {
        let events = received["pager_duty"].as_array().cloned().unwrap_or_default();
        let of_operator = events.into_iter().find(|event| event["routing_key"] == OPERATORS_KEY);
        of_operator.ok_or_else(|| received.to_string())
    })
    .await;
    println!("PagerDuty, by the operator: {event}");
    let payload = &event["payload"];
    assert_eq!((&event["event_action"], &payload["class"]), (&json!("trigger"), &json!("Stalled")));
    assert_eq!(payload["source"], json!(format!("e2e/{NAMESPACE}/broken")));
}

/// The API server refuses what the operator creates.
async fn a_quota_refuses_jobs() {
    let namespace = Namespace::create("refused").await.unwrap();
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-jobs"},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    });
    namespace.create_object(&serde_json::from_value::<ResourceQuota>(quota).unwrap()).await.unwrap();
    namespace.apply(&facts_agent().unwrap()).await.unwrap();
}

/// The engine of an agent that was deleted goes.
async fn a_store_is_swept() {
    let namespace = namespace_with_servers("swept").await.unwrap();
    let agent = namespace.apply(&facts_agent().unwrap()).await.unwrap();
    namespace.wait_until_served(&agent, READY_LIMIT).await.unwrap();
    let (_, end) = namespace.sweep_after("facts-agent").await.unwrap();
    assert_eq!(end.failure, None);
}

/// One answer is right, one is not, and some runs are more than the pods admit.
async fn clients_ask_and_judge(bench: &Bench) {
    let question = draw_question(fresh_seed()).unwrap();
    bench.namespace.teach(&question).await.unwrap();
    for success in [true, false] {
        let answer = bench.namespace.ask(MEASURED, &question.question).await.unwrap();
        let judgement = json!({"run": answer["id"], "success": success});
        bench.namespace.request("POST", MEASURED, "/v1/feedback", Some(&judgement)).await.unwrap();
    }
    let runs = join_all((0..BURST).map(|_| bench.namespace.ask(MEASURED, &question.question))).await;
    let has_answer = |run: &Outcome<Value>| run.as_ref().is_ok_and(|run| run["answer"].is_string());
    println!("{} of {BURST} runs at once were refused", runs.iter().filter(|run| !has_answer(run)).count());
}

/// What was answered stands beside the suite's record, from which the images of docs/metrics.md are drawn.
fn every_panel_has_data(all: Vec<Drawn>) {
    let file = env::var("SLIPWAY_CACHE").unwrap() + "/scenarios/dashboards.json";
    fs::write(Path::new(&file), serde_json::to_vec(&all).unwrap()).unwrap();
    let has_none = |query: &&Drawn| query.series.is_empty();
    println!("{} queries of {} have data", all.len() - all.iter().filter(has_none).count(), all.len());
    let missing: Vec<_> = all.iter().filter(has_none).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let of = |drawn: &Drawn| [drawn.dashboard.clone(), drawn.panel.clone(), drawn.legend.clone()];
    let quiet: BTreeSet<[String; 3]> = all.iter().filter(|drawn| drawn.is_quiet()).map(of).collect();
    let expected: BTreeSet<[String; 3]> = QUIET.iter().map(|names| names.map(str::to_owned)).collect();
    assert_eq!(quiet, expected, "what shows nothing but 0");
}
