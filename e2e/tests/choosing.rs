//! What an agent is for decides what serves it: the same candidates, chosen from once for latency and once for
//! throughput.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::profile::{Measurement, MeasurementPurpose};
use slipway_e2e::{
    agents::{namespace_with_servers, path},
    campaigns::{CAMPAIGN_LIMIT, campaigns},
    namespace::Namespace,
};

/// A manifest of the demo. Rows hold for one weight of the workload, so that another number is measured again.
fn manifest(file: &str, number: u32) -> Value {
    let text = fs::read_to_string(path("manifests/demo").join(file)).unwrap();
    let mut agent: Value = serde_norway::from_str(&text).unwrap();
    agent["spec"]["profiling"]["workloads"][0]["weight"] = json!(number);
    agent
}

/// Measures for a manifest and gives the name of the configuration that was chosen.
async fn chosen(namespace: &Namespace, file: &str, number: u32) -> String {
    let agent = manifest(file, number);
    let profile = namespace.campaign(&agent).await.unwrap();
    let status = profile.status.unwrap();
    status.measurements.iter().for_each(|row| println!("  {}", line(row)));
    let choice = status.choice.unwrap();
    println!("campaign {number}, {file}: {} at {}: {}", choice.configuration, choice.level, choice.why);
    // Pods that start take a core that the next campaign measures with.
    let applied = namespace.apply(&agent).await.unwrap();
    namespace.wait_until_served(&applied, CAMPAIGN_LIMIT).await.unwrap();
    choice.configuration
}

fn line(row: &Measurement) -> String {
    let purpose = match row.purpose {
        MeasurementPurpose::Explore => "explored",
        MeasurementPurpose::Repeat => "measured again",
        MeasurementPurpose::Confirm => "confirmed",
    };
    let latencies = row.latencies.iter().map(|l| format!("{} {:.0} ms", l.percentile, l.microseconds as f64 / 1e3));
    let latencies = latencies.collect::<Vec<_>>().join(", ");
    let per_second = row.per_kilosecond as f64 / 1e3;
    format!("{purpose} {} at {}: {per_second:.2} a second, {latencies}", row.configuration, row.level)
}

#[tokio::test]
async fn an_agent_for_few_and_one_for_many_are_served_by_different_configurations() {
    let namespace = namespace_with_servers("choosing").await.unwrap();
    namespace.give_workload().await.unwrap();
    let mut choices = Vec::new();
    for number in 1..=campaigns(1) {
        let few = chosen(&namespace, "latency.yaml", 2 * number).await;
        let many = chosen(&namespace, "throughput.yaml", 2 * number + 1).await;
        choices.push((few, many));
    }
    let [few, many] = ["4", "32"].map(|batch| format!("instances-1,max_batch-{batch}"));
    assert_eq!(choices, vec![(few, many); choices.len()]);
    namespace.delete().await.unwrap();
}
