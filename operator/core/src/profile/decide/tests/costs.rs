//! What serving costs: beside every row, as what is looked for, and as an objective.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    agent_deployment::{OptimizeFor, ThroughputUnit},
    profile::{HourlyPrice, Measurement, ProfileInputs, ProfilePhase},
};
use slipway_worker_contract::{Campaign, OptimizeFor as Looked};

use super::cluster::{Cluster, cluster};
use crate::{profile::build::rate, settings::Prices};

/// An operator that knows what the campaign's GPU costs.
fn priced(prices: &str) -> Cluster {
    let mut cluster = cluster();
    let inputs = &mut cluster.world.spec.inputs;
    inputs.placement.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-L4".to_owned());
    let prices: Prices = serde_norway::from_str(prices).expect("prices");
    let settings = Arc::make_mut(&mut cluster.world.settings);
    settings.prices = prices;
    cluster
}

fn l4(per_hour: &str) -> HourlyPrice {
    let per_hour = per_hour.parse().expect("a price");
    HourlyPrice { gpu_product: Some("NVIDIA-L4".to_owned()), spot: false, per_hour }
}

fn cost(row: &Measurement) -> i64 {
    row.cost.expect("a cost").microdollars_per_thousand
}

#[test]
fn every_row_has_what_it_costs_by_the_price_of_the_first_look() {
    let mut cluster = priced("{gpus: {NVIDIA-L4: {perHour: 0.9}}}");
    cluster.finish();
    let status = cluster.world.status.clone();
    assert_eq!(status.price, Some(l4("0.9")));
    let last = status.measurements.last().expect("a row");
    assert_eq!((last.per_kilosecond, cost(last)), (18_000, 13_889), "56 s of $0.00025");
    assert!(status.measurements.iter().all(|row| row.cost.is_some()));
    let dearer = serde_norway::from_str("{gpus: {NVIDIA-L4: {perHour: 1.8}}}").expect("prices");
    Arc::make_mut(&mut cluster.world.settings).prices = dearer;
    assert!(!cluster.step(), "the record stays as it is");
}

#[test]
fn without_a_price_a_record_has_no_costs() {
    let mut cluster = priced("{gpus: {NVIDIA-H200: {perHour: 0.9}}}");
    let status = cluster.finish();
    assert_eq!((&status.price, status.measurements.iter().filter(|row| row.cost.is_some()).count()), (&None, 0));
}

#[test]
fn a_campaign_that_looks_for_low_cost_says_what_its_choice_costs() {
    let mut cluster = priced("{}");
    cluster.world.spec.inputs.optimize_for = OptimizeFor::Cost;
    cluster.world.spec.inputs.price = Some(l4("0.9"));
    let choice = cluster.finish().choice.clone().expect("a choice");
    assert_eq!((choice.engine.as_str(), choice.configuration.as_str(), choice.level), ("engine-b", "instances-2", 4));
    let begins = "lowest cost of 6 measured points that meet the objectives: int8/instances-2 at 4 in flight, 18.00 requests \
                  a second, p95 100ms, $0.0139 for 1,000 requests; next is int8/instances-1";
    assert!(choice.why.starts_with(begins), "{}", choice.why);
    assert!(cluster.tasks.iter().all(|task| task.optimize_for == Looked::Cost), "the workers look for it too");
}

/// A campaign whose requests may cost so much.
fn limited(max: &str) -> Cluster {
    let mut cluster = priced("{}");
    let inputs = &mut cluster.world.spec.inputs;
    inputs.price = Some(l4("0.9"));
    let objective = format!("{{max: '{max}', unit: Requests}}");
    inputs.cost = Some(serde_norway::from_str(&objective).expect("an objective"));
    cluster
}

#[test]
fn a_limit_on_costs_is_a_throughput_that_workers_look_for() {
    let mut cluster = limited("0.016");
    cluster.world.spec.inputs.optimize_for = OptimizeFor::Latency;
    let status = cluster.finish();
    let choice = status.choice.as_ref().expect("a choice");
    assert_eq!((choice.configuration.as_str(), choice.level), ("instances-1", 4), "the fastest are too dear");
    assert_eq!(cluster.tasks[0].target_per_kilosecond, Some(15_625));
}

#[test]
fn where_everything_is_too_dear_the_limit_binds_and_it_says_which_would_do() {
    let mut cluster = limited("0.01");
    let status = cluster.finish();
    let infeasible = status.infeasible.clone().expect("nothing is cheap enough");
    assert_eq!((status.phase, infeasible.binding_objective.as_str()), (Some(ProfilePhase::Infeasible), "cost"));
    let takes = "cost would be met with a max of $0.0139 or more for 1,000 requests (it is $0.01), by int8/instances-2 at 4 in \
                 flight";
    assert_eq!(infeasible.what_it_would_take, takes);
}

fn arrivals(inputs: &ProfileInputs, per_kilosecond: i64) -> u64 {
    rate::arrivals_per_kilosecond(inputs, "engine-a", rate::Explored { level: 4, per_kilosecond })
}

#[test]
fn made_up_runs_are_confirmed_at_the_rate_at_which_they_arrive() {
    let mut cluster = cluster();
    let inputs = &mut cluster.world.spec.inputs;
    let runs = "{inputTokens: 800, outputTokens: 150, arrival: {runsPerSecond: '5', burst: 4}}";
    inputs.synthetic = Some(serde_norway::from_str(runs).expect("lengths"));
    assert_eq!(arrivals(inputs, 6_000), 2_500, "a half of them for each of two pods");
    inputs.throughput = Some(serde_norway::from_str("{min: '3', unit: Runs}").expect("an objective"));
    assert_eq!(arrivals(inputs, 6_000), 1_500, "what is asked for comes first");
}

#[test]
fn recorded_runs_are_confirmed_at_the_rate_at_which_they_came() {
    let mut cluster = cluster();
    let inputs = &mut cluster.world.spec.inputs;
    inputs.recorded_runs_per_second = Some("5".parse().expect("a rate"));
    inputs.recorded_replicas = Some(2);
    assert_eq!(arrivals(inputs, 6_000), 2_500, "a half of them for each of two pods");
    inputs.recorded_runs_per_second = Some("0.004".parse().expect("a rate"));
    let few = arrivals(inputs, 6_000);
    assert_eq!(few * rate::run_millis(inputs, few) / 1_000_000, 81, "enough for a bound of the objectives");
    assert_eq!(arrivals(inputs, 300), 50, "no more than a replica was seen to take");
    inputs.throughput = Some(serde_norway::from_str("{min: '3', unit: Runs}").expect("an objective"));
    assert_eq!(arrivals(inputs, 6_000), 1_500, "what is asked for comes first");
}

#[test]
fn runs_are_confirmed_at_the_load_that_a_limit_on_their_cost_needs() {
    let mut cluster = priced("{}").with_trace();
    let inputs = &mut cluster.world.spec.inputs;
    inputs.price = Some(l4("0.9"));
    inputs.cost = Some(serde_norway::from_str("{max: '0.05', unit: Runs}").expect("an objective"));
    assert_eq!(inputs.cost.as_ref().map(|cost| cost.unit), Some(ThroughputUnit::Runs));
    assert_eq!(arrivals(inputs, 6_000), 5_000, "1,000 in 200 s at $0.00025 a second");
    assert_eq!(arrivals(inputs, 60_000), 10_000, "more were served: a sixth of the requests");
    cluster.finish();
    let confirm = cluster.tasks.iter().find(|task| matches!(task.campaign, Campaign::Confirm { .. }));
    assert_eq!(confirm.and_then(|task| task.target_per_kilosecond), Some(5_000));
}
