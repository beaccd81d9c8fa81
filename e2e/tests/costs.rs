//! What serving costs: by the prices of the chart's values the cheaper of two levels is chosen over the faster one, and
//! every cost follows from its row.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{
    AgentDeployment, ProfileStatus,
    agent_deployment::{LatencyMetric, SelectedCost, Stage, ThroughputUnit},
    profile::{HourlyPrice, MeasuredCost, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict},
};
use slipway_e2e::{
    agents::{facts_agent, namespace_with_servers, workload_source},
    campaigns::CAMPAIGN_LIMIT,
    namespace::Namespace,
    operator::Operator,
    plugin::printed,
};

const AGENT: &str = "facts-agent";
/// US dollars an hour of a pod without a GPU, and the same in millionths.
const PRICE: &str = "0.05";
const MICRODOLLARS_PER_HOUR: i64 = 50_000;
/// Runs in flight: alone a run is answered first, and in a batch more of them are.
const LEVELS: [i32; 2] = [1, 8];

/// Runs are measured, because only they have counted tokens.
fn agent() -> Value {
    let mut agent = facts_agent().unwrap();
    agent["spec"]["search"] = json!({"precision": ["INT8"], "concurrency": LEVELS});
    let answer = json!({"name": "answer", "metric": "AgentRunLatency", "percentile": "p50", "max": "30s"});
    agent["spec"]["slo"] = json!({"objectives": [answer], "optimizeFor": "Cost"});
    let runs = json!({"name": "runs", "agentTrace": workload_source("trace.jsonl")});
    agent["spec"]["profiling"] = json!({"driver": "AgentRun", "workloads": [runs]});
    agent
}

fn set_price(operator: &Operator, price: &str) {
    operator.configure(&format!("prices.podWithoutGPU={price}")).unwrap();
}

async fn without_a_price_the_value_to_add_is_named(namespace: &Namespace) {
    namespace.apply(&agent()).await.unwrap();
    let message = namespace.wait_for_message(AGENT, "Stalled", "price", CAMPAIGN_LIMIT).await.unwrap();
    println!("{message}");
    assert_eq!(
        message,
        "spec.slo.optimizeFor: the operator's configuration has no price of a pod without a GPU: add \
         prices.podWithoutGPU to the chart's values"
    );
    let object: AgentDeployment = namespace.api().get(AGENT).await.unwrap();
    assert_eq!(object.status.and_then(|status| status.stage), Some(Stage::Refused));
}

/// 1,000 runs take 1,000,000 / `perKilosecond` seconds at the price of an hour; that is divided by their tokens.
fn cost(row: &Measurement) -> MeasuredCost {
    let rounded = |of: i128, by: i128| i64::try_from((of + by / 2) / by).unwrap();
    let per_kilosecond = i128::from(row.per_kilosecond);
    let thousand = rounded(i128::from(MICRODOLLARS_PER_HOUR) * 1_000_000, 3_600 * per_kilosecond);
    let of_tokens = |tokens: i64| rounded(i128::from(thousand) * i128::from(row.count) * 1_000, i128::from(tokens));
    MeasuredCost {
        microdollars_per_thousand: thousand,
        microdollars_per_million_tokens: row.output_tokens.map(of_tokens),
    }
}

fn median(row: &Measurement) -> i64 {
    let is_median = |latency: &&MeasuredLatency| {
        latency.metric == LatencyMetric::AgentRunLatency && latency.percentile.to_string() == "p50"
    };
    row.latencies.iter().find(is_median).map(|latency| latency.microseconds).unwrap()
}

fn every_cost_follows_from_its_row(status: &ProfileStatus) {
    assert_eq!(status.price, Some(HourlyPrice { gpu_product: None, spot: false, per_hour: PRICE.parse().unwrap() }));
    for row in &status.measurements {
        println!(
            "{:?} at {}: {} runs in 1,000 s, p50 {} us, {} runs of {:?} tokens, {:?}",
            row.purpose,
            row.level,
            row.per_kilosecond,
            median(row),
            row.count,
            row.output_tokens,
            row.cost
        );
        assert!(row.output_tokens.is_some_and(|tokens| tokens > 0), "{row:?}");
        assert_eq!(row.cost, Some(cost(row)), "{row:?}");
    }
}

/// Both levels meet the objective; the one that answers first is not the one that is chosen.
fn the_cheaper_level_is_chosen(status: &ProfileStatus) {
    let is_explored = |row: &&Measurement| row.purpose == MeasurementPurpose::Explore;
    let explored: Vec<&Measurement> = status.measurements.iter().filter(is_explored).collect();
    let is_feasible = |row: &&Measurement| row.verdict == MeasurementVerdict::Feasible;
    assert!(explored.iter().all(is_feasible), "{explored:?}");
    let first = explored.iter().min_by_key(|row| median(row)).unwrap();
    let cheapest = explored.iter().min_by_key(|row| cost(row).microdollars_per_thousand).unwrap();
    assert_eq!([first.level, cheapest.level], LEVELS);
    let choice = status.choice.as_ref().unwrap();
    println!("{} at {}: {}", choice.configuration, choice.level, choice.why);
    assert_eq!(choice.level, cheapest.level);
    assert!(choice.why.starts_with("lowest cost of 2 measured points that meet the objectives: "), "{}", choice.why);
}

/// What is predicted is the confirm run's, in the status, in the plugin's words and in its report.
fn the_prediction_is_shown(namespace: &Namespace, status: &ProfileStatus, selected: &SelectedCost) {
    let choice = status.choice.as_ref().unwrap();
    let confirmed = &status.measurements[usize::try_from(choice.predicted_by).unwrap()];
    let MeasuredCost { microdollars_per_thousand, microdollars_per_million_tokens } = cost(confirmed);
    let expected = SelectedCost {
        text: selected.text.clone(),
        unit: ThroughputUnit::Runs,
        microdollars_per_thousand,
        microdollars_per_million_tokens,
        microdollars_per_replica_hour: MICRODOLLARS_PER_HOUR,
    };
    assert_eq!((confirmed.purpose, selected), (MeasurementPurpose::Confirm, &expected));
    let is_in_words =
        selected.text.contains(" for 1,000 runs, ") && selected.text.ends_with(" for a million output tokens");
    assert!(selected.text.starts_with('$') && is_in_words, "{}", selected.text);

    let shown = printed(namespace, &["status", AGENT]);
    println!("{shown}");
    let predicted = format!("predicted to cost {}; a replica costs $0.05 an hour", selected.text);
    let columns = ["$/1,000", "$/M TOKENS"];
    assert!(shown.contains(&predicted) && columns.iter().all(|title| shown.contains(title)), "{shown}");
    let report = printed(namespace, &["report", AGENT]);
    assert!(columns.iter().all(|title| report.contains(title)), "{report}");
    let dollars = selected.text.split(' ').next().unwrap();
    assert!(report.contains(dollars), "no {dollars} in {report}");
}

#[tokio::test]
async fn the_cheaper_of_two_levels_is_chosen_over_the_faster_one() {
    let operator = Operator::find().await.unwrap();
    // Another suite may have set one.
    set_price(&operator, "");
    let namespace = namespace_with_servers("costs").await.unwrap();
    namespace.give_workload().await.unwrap();
    without_a_price_the_value_to_add_is_named(&namespace).await;

    set_price(&operator, PRICE);
    let status = namespace.campaign(&agent()).await.unwrap().status.unwrap();
    every_cost_follows_from_its_row(&status);
    the_cheaper_level_is_chosen(&status);
    let object: AgentDeployment = namespace.api().get(AGENT).await.unwrap();
    let served = namespace.wait_until_served(&object, CAMPAIGN_LIMIT).await.unwrap().status.unwrap();
    let selected = served.selected.unwrap();
    assert_eq!(selected.max_in_flight, LEVELS[1]);
    the_prediction_is_shown(&namespace, &status, &selected.cost.unwrap());
    set_price(&operator, "");
    namespace.delete().await.unwrap();
}
