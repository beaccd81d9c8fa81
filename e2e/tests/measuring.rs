//! Whether measurements measure: a known delay and a known loss of speed are seen, and a row is what its records say.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Api, ResourceExt, api::ListParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels,
    v1alpha1::{
        Profile,
        agent_deployment::LatencyMetric,
        profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfileStatus},
    },
};
use slipway_e2e::{
    agents::{facts_agent, namespace_with_servers, workload_source},
    campaigns::campaigns,
    namespace::Namespace,
};

/// An agent whose parameter of the model is to be chosen by measuring, most requests a second first. Rows hold for one
/// weight of the workload, so that another weight is measured again.
fn agent(weight: u32, parameter: &str, values: [&str; 2], level: i32) -> Value {
    let mut agent = facts_agent().unwrap();
    agent["spec"]["search"] =
        json!({"precision": ["INT8"], "concurrency": [level], "parameters": [{"name": parameter, "values": values}]});
    let reply = json!({"name": "reply", "metric": "RequestLatency", "percentile": "p50", "max": "30s"});
    agent["spec"]["slo"] = json!({"objectives": [reply], "optimizeFor": "Throughput"});
    agent["spec"]["profiling"] =
        json!({"workloads": [{"name": "turns", "weight": weight, "prompts": workload_source("prompts.jsonl")}]});
    agent
}

/// The row by which a configuration is compared.
fn explored<'a>(status: &'a ProfileStatus, configuration: &str) -> &'a Measurement {
    let is = |row: &&Measurement| row.purpose == MeasurementPurpose::Explore && row.configuration == configuration;
    status.measurements.iter().find(is).unwrap_or_else(|| panic!("no row of {configuration}: {status:?}"))
}

fn median_millis(row: &Measurement) -> f64 {
    let is_median = |l: &&slipway_crds::v1alpha1::profile::MeasuredLatency| {
        l.metric == LatencyMetric::RequestLatency && l.percentile.to_string() == "p50"
    };
    row.latencies.iter().find(is_median).map_or(f64::NAN, |latency| latency.microseconds as f64 / 1e3)
}

#[tokio::test]
async fn what_is_known_of_a_model_is_what_its_measurements_say() {
    let namespace = namespace_with_servers("measuring").await.unwrap();
    namespace.give_workload().await.unwrap();
    let mut profile = None;
    for number in 1..=campaigns(1) {
        profile = Some(a_delay_in_the_model_moves_the_median_by_as_much(&namespace, number).await);
    }
    let profile = profile.expect("at least one campaign");
    an_altered_number_in_a_record_changes_the_row_and_the_choice(&namespace, &profile).await;
    a_variant_with_more_compute_never_wins(&namespace).await;
    namespace.delete().await.unwrap();
}

async fn a_delay_in_the_model_moves_the_median_by_as_much(namespace: &Namespace, number: u32) -> Profile {
    let profile = namespace.campaign(&agent(number, "execute_delay_milliseconds", ["0", "20"], 1)).await.unwrap();
    let status = profile.status.clone().unwrap();
    let [without, with] = ["execute_delay_milliseconds-0", "execute_delay_milliseconds-20"]
        .map(|configuration| median_millis(explored(&status, configuration)));
    let more = with - without;
    println!("campaign {number}: p50 without {without:.1} ms, with a delay of 20 ms {with:.1} ms: {more:.1} ms more");
    // Half and twice: the machine may be busier in one of the two than in the other.
    assert!((10.0..40.0).contains(&more), "without {without} ms, with {with} ms");
    assert_eq!(status.choice.unwrap().configuration, "execute_delay_milliseconds-0");
    profile
}

async fn a_variant_with_more_compute_never_wins(namespace: &Namespace) {
    let mut winners = Vec::new();
    for number in 1..=2 * campaigns(1) {
        let agent = agent(number, "extra_compute_percent", ["0", "30"], 4);
        let status = namespace.campaign(&agent).await.unwrap().status.unwrap();
        let per_second = |configuration| explored(&status, configuration).per_kilosecond as f64 / 1e3;
        let (plain, slower) = (per_second("extra_compute_percent-0"), per_second("extra_compute_percent-30"));
        println!("campaign {number}: {plain:.2} requests/s, with 30 % more compute {slower:.2} requests/s");
        winners.push(status.choice.unwrap().configuration);
    }
    assert_eq!(winners, vec!["extra_compute_percent-0"; winners.len()]);
}

/// Someone makes the winner ten times as slow in its raw records: its row follows, and so would the choice.
async fn an_altered_number_in_a_record_changes_the_row_and_the_choice(namespace: &Namespace, profile: &Profile) {
    let status = profile.status.clone().unwrap();
    let choice = status.choice.clone().unwrap();
    let winner = explored(&status, &choice.configuration);
    let log = recomputed(namespace, &exploring_task(namespace, profile).await, winner.records.as_ref().unwrap()).await;
    let rows: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let [as_recorded, altered] = rows.as_slice() else { panic!("two rows: {log}") };
    assert_eq!(as_recorded["perKilosecond"].as_i64(), Some(winner.per_kilosecond), "a row follows from its records");
    assert_eq!(as_recorded["records"].as_str(), winner.records.as_deref());
    assert_ne!(altered["records"], as_recorded["records"], "an altered record has another name");

    let feasible = |row: &&Measurement| row.verdict == MeasurementVerdict::Feasible;
    let explores = |row: &&Measurement| row.purpose == MeasurementPurpose::Explore;
    let best = |throughput_of_winner: i64| {
        let rows = status.measurements.iter().filter(explores).filter(feasible);
        rows.max_by_key(|row| if *row == winner { throughput_of_winner } else { row.per_kilosecond }).unwrap()
    };
    let altered = altered["perKilosecond"].as_i64().unwrap();
    assert_eq!(&best(winner.per_kilosecond).configuration, &choice.configuration);
    assert_ne!(&best(altered).configuration, &choice.configuration, "{altered} instead of {}", winner.per_kilosecond);
}

/// The ConfigMap with the task of the Job by which a campaign compared configurations.
async fn exploring_task(namespace: &Namespace, profile: &Profile) -> String {
    let jobs: Api<Job> = namespace.api();
    let selector = format!("{}={}", labels::PROFILE, profile.name_any());
    let mut jobs = jobs.list(&ListParams::default().labels(&selector)).await.unwrap().items;
    jobs.sort_by_key(|job| job.metadata.creation_timestamp.as_ref().map(|t| t.0));
    let pod = jobs.first().and_then(|job| job.spec.as_ref()?.template.spec.as_ref()).unwrap();
    let task = pod.volumes.iter().flatten().find(|volume| volume.name == "task").unwrap();
    task.config_map.clone().unwrap().name
}

/// Computes a row again from its records in the store, as they are and with the first window ten times as long: two
/// lines.
async fn recomputed(namespace: &Namespace, task: &str, records: &str) -> String {
    let again = |file: &str| {
        format!(
            "/slipway/bin/slipway-worker recompute --task /task/task.json --records {file} --termination-log /tmp/work/message"
        )
    };
    let script = format!(
        "set -e; file=$(find /store/profiles -name {records}.json); {}; \
         sed 's/\"windowNanos\":\\([0-9]*\\)/\"windowNanos\":\\10/' \"$file\" > /tmp/work/altered.json; {}",
        again("\"$file\""),
        again("/tmp/work/altered.json"),
    );
    let restricted = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "recompute"},
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "initContainers": [{
                "name": "install", "image": "slipway.dev/slipway-worker:dev", "imagePullPolicy": "IfNotPresent",
                "args": ["install", "/slipway/bin"], "securityContext": restricted,
                "volumeMounts": [{"name": "bin", "mountPath": "/slipway/bin"}],
            }],
            "containers": [{
                "name": "recompute", "image": "slipway.dev/slipway-busybox:dev", "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script], "securityContext": restricted,
                "volumeMounts": [
                    {"name": "bin", "mountPath": "/slipway/bin"}, {"name": "work", "mountPath": "/tmp/work"},
                    {"name": "task", "mountPath": "/task"}, {"name": "store", "mountPath": "/store", "readOnly": true},
                ],
            }],
            "volumes": [
                {"name": "bin", "emptyDir": {}}, {"name": "work", "emptyDir": {}},
                {"name": "task", "configMap": {"name": task}},
                {"name": "store", "persistentVolumeClaim": {"claimName": "slipway-store"}},
            ],
        },
    });
    namespace.run_to_end(&serde_json::from_value::<Pod>(pod).unwrap()).await.unwrap()
}
