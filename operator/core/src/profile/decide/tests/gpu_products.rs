//! Campaigns over several GPU models: where each engine is measured, and what is chosen by the prices of both.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::batch::v1::Job;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    agent_deployment::OptimizeFor,
    profile::{HourlyPrice, ProfileInputs, ProfilePhase, ProfiledEngine},
};
use slipway_worker_contract::{Costs, MeasurementVerdict, OptimizeFor as Looked};

use super::{
    super::{
        decide,
        ledger::{self, Next},
    },
    asking::split,
    cluster::{Cluster, cluster},
};
use crate::plan::Child;

const PRODUCT: &str = "nvidia.com/gpu.product";
const H200: &str = "NVIDIA-H200";
const L4: &str = "NVIDIA-L4";

fn price(product: &str, per_hour: &str) -> HourlyPrice {
    HourlyPrice { gpu_product: Some(product.to_owned()), spot: false, per_hour: per_hour.parse().expect("a price") }
}

/// FP32 is for an L4, and INT8, which is twice as fast, for an H200.
fn both() -> Cluster {
    let mut cluster = cluster();
    let inputs = &mut cluster.world.spec.inputs;
    inputs.placement.node_selector.insert("pool".to_owned(), "agents".to_owned());
    for (engine, product) in inputs.engines.iter_mut().zip([L4, H200]) {
        engine.gpu_product = Some(product.to_owned());
    }
    cluster
}

fn priced(of_h200: &str) -> Cluster {
    let mut cluster = both();
    cluster.world.spec.inputs.prices = vec![price(L4, "0.8"), price(H200, of_h200)];
    cluster
}

/// The node selectors of the Jobs that a step creates.
fn selectors(cluster: &Cluster) -> Vec<BTreeMap<String, String>> {
    let selector = |job: &Job| job.spec.as_ref()?.template.spec.as_ref()?.node_selector.clone();
    let of = |child: &Child| match child {
        Child::Job(job) => selector(job),
        _ => None,
    };
    decide(&cluster.world).children.iter().filter_map(of).collect()
}

#[test]
fn each_engine_is_measured_on_a_node_with_its_gpu_model() {
    let mut cluster = both();
    let mut seen = Vec::new();
    while cluster.world.status.phase != Some(ProfilePhase::Chosen) {
        seen.extend(selectors(&cluster));
        if !cluster.step() {
            cluster.end(slipway_worker_contract::ProfileEnd::Complete, 0);
        }
    }
    let on = |product: &str| {
        BTreeMap::from([("pool", "agents"), (PRODUCT, product)].map(|(key, value)| (key.to_owned(), value.to_owned())))
    };
    seen.dedup();
    assert_eq!(seen, [on(L4), on(H200)]);
}

#[test]
fn the_highest_throughput_is_chosen_whatever_its_gpu_model_costs() {
    let choice = priced("40").finish().choice.clone().expect("a choice");
    assert_eq!((choice.engine.as_str(), choice.level), ("engine-b", 4));
}

#[rstest]
#[case::the_faster_is_worth_its_price("2", "engine-b", "$0.0309")]
#[case::the_faster_is_too_dear("4", "engine-a", "$0.037")]
fn the_lowest_cost_is_by_the_price_of_each_gpu_model(
    #[case] of_h200: &str,
    #[case] engine: &str,
    #[case] dollars: &str,
) {
    let mut cluster = priced(of_h200);
    cluster.world.spec.inputs.optimize_for = OptimizeFor::Cost;
    let choice = cluster.finish().choice.clone().expect("a choice");
    assert_eq!(choice.engine, engine);
    assert!(choice.why.contains(&format!("{dollars} for 1,000 requests")), "{}", choice.why);
    let of_tasks: Vec<_> = cluster.tasks.iter().take(2).map(|task| (task.optimize_for, task.costs)).collect();
    let costs = |price: &str| {
        let dollars: f64 = price.parse().expect("a number");
        let microdollars_per_hour = (dollars * 1e6) as u64;
        (
            Looked::Cost,
            Some(Costs { microdollars_per_hour, target_per_kilosecond: None, max_microdollars_per_thousand: None }),
        )
    };
    assert_eq!(of_tasks, [costs("0.8"), costs(of_h200)]);
    assert_eq!(cluster.tasks[1].other_engines[0].microdollars_per_hour, Some(800_000));
}

/// 1,000 requests of the L4 cost $0.037 at most of what meets the objective, and those of the H200 $0.0617 at least.
#[test]
fn a_limit_on_cost_is_another_throughput_on_each_gpu_model() {
    let mut cluster = priced("4");
    cluster.world.spec.inputs.cost = Some(serde_norway::from_str("{max: '0.05', unit: Requests}").expect("a limit"));
    let choice = cluster.finish().choice.clone().expect("a choice");
    assert_eq!((choice.engine.as_str(), choice.level), ("engine-a", 1));
    let targets: Vec<_> = cluster.tasks.iter().take(2).map(|task| task.target_per_kilosecond).collect();
    assert_eq!(targets, [Some(4_445), Some(22_223)]);
    let most = cluster.tasks[0].costs.and_then(|costs| costs.max_microdollars_per_thousand);
    assert_eq!(most, Some(50_000));
}

#[test]
fn the_front_has_points_that_only_their_cost_speaks_for() {
    let mut cluster = priced("4");
    let bare = cluster.finish().front.clone();
    let mut without = both();
    let engines = |status: &slipway_crds::v1alpha1::ProfileStatus, front: &[i32]| {
        let row = |at: &i32| status.measurements[usize::try_from(*at).expect("a position")].engine.clone();
        front.iter().map(row).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(engines(&cluster.world.status, &bare).len(), 2, "the L4 is cheaper");
    let status = without.finish().clone();
    assert_eq!(engines(&status, &status.front).into_iter().collect::<Vec<_>>(), ["engine-b"]);
}

#[test]
fn rows_have_the_cost_of_their_gpu_model_where_the_choice_does_not_depend_on_it() {
    let mut cluster = both();
    let settings = Arc::make_mut(&mut cluster.world.settings);
    settings.prices =
        serde_norway::from_str("{gpus: {NVIDIA-L4: {perHour: 0.8}, NVIDIA-H200: {perHour: 4}}}").expect("prices");
    let status = cluster.finish().clone();
    assert_eq!((&status.price, &status.prices), (&None, &vec![price(L4, "0.8"), price(H200, "4")]));
    for row in &status.measurements {
        let per_hour = if row.engine == "engine-a" { 0.8 } else { 4.0 };
        let expected = per_hour / 3.6 * 1e9 / row.per_kilosecond as f64;
        let cost = row.cost.expect("a cost").microdollars_per_thousand as f64;
        assert!((cost - expected).abs() <= 1.0, "{cost} {expected}");
    }
}

/// A record that lacks the price of a model takes it as soon as the configuration has it, and keeps the others.
#[test]
fn a_gpu_model_without_a_price_gets_one_later_and_the_others_keep_theirs() {
    let with = |cluster: &mut Cluster, prices: &str| {
        Arc::make_mut(&mut cluster.world.settings).prices = serde_norway::from_str(prices).expect("prices");
    };
    let mut cluster = both();
    with(&mut cluster, "{gpus: {NVIDIA-L4: {perHour: 0.8}}}");
    let status = cluster.finish();
    let unpriced: std::collections::BTreeSet<_> =
        status.measurements.iter().filter(|row| row.cost.is_none()).map(|row| row.engine.as_str()).collect();
    assert_eq!((unpriced.into_iter().collect::<Vec<_>>(), status.prices.len()), (vec!["engine-b"], 1));
    with(&mut cluster, "{gpus: {NVIDIA-L4: {perHour: 0.9}, NVIDIA-H200: {perHour: 4}}}");
    let status = cluster.finish();
    assert_eq!(status.prices, [price(L4, "0.8"), price(H200, "4")]);
    assert!(status.measurements.iter().all(|row| row.cost.is_some()));
}

/// Rows of an engine hold for the same GPU model alone.
#[test]
fn rows_of_a_campaign_on_one_gpu_model_are_adopted_for_its_engine() {
    let mut earlier = cluster();
    earlier.world.spec.inputs.placement.node_selector =
        BTreeMap::from([("pool", "agents"), (PRODUCT, H200)].map(|(key, value)| (key.to_owned(), value.to_owned())));
    earlier.finish();
    let mut next = both();
    next.world.earlier = vec![crate::profile::world::Earlier {
        name: "facts-earlier".to_owned(),
        inputs: earlier.world.spec.inputs.clone(),
        status: earlier.world.status,
    }];
    let status = next.finish();
    let adopted = status.measurements.iter().filter(|row| row.measured_in.is_some());
    assert_eq!(adopted.map(|row| row.engine.as_str()).collect::<std::collections::BTreeSet<_>>().len(), 1);
    assert!(status.measurements.iter().all(|row| row.measured_in.is_some() == (row.engine == "engine-b")));
}

/// FP8 engines of TensorRT-LLM that differ in their GPU model alone.
fn alike(optimize_for: OptimizeFor, of_h200: &str) -> ProfileInputs {
    let mut inputs = split();
    inputs.placement.node_selector.remove(PRODUCT);
    inputs.engines.truncate(2);
    let axes = inputs.engines[1].axes.clone();
    for (engine, product) in inputs.engines.iter_mut().zip([L4, H200]) {
        engine.gpu_product = Some(product.to_owned());
        engine.axes.clone_from(&axes);
    }
    inputs.prices = vec![price(L4, "0.8"), price(H200, of_h200)];
    inputs.optimize_for = optimize_for;
    inputs
}

/// The H200's memory is 16 times as fast.
#[rstest]
#[case::the_faster_for_throughput(OptimizeFor::Throughput, "40", H200)]
#[case::the_faster_for_five_times_the_price(OptimizeFor::Cost, "4", H200)]
#[case::the_slower_for_a_fiftieth_of_the_price(OptimizeFor::Cost, "40", L4)]
fn the_search_begins_with_the_gpu_model_of_which_the_most_is_expected(
    #[case] optimize_for: OptimizeFor,
    #[case] of_h200: &str,
    #[case] expected: &str,
) {
    let inputs = alike(optimize_for, of_h200);
    let open: Vec<&ProfiledEngine> = inputs.engines.iter().collect();
    let Next::Ask { engine, .. } = ledger::next(&inputs, &Default::default(), &open) else { panic!("it asks for one") };
    assert_eq!(open[engine].gpu_product.as_deref(), Some(expected));
}

/// With a limit on cost, what is looked for and what is limited are two throughputs: both are in the ledger.
#[test]
fn a_search_for_throughput_leaves_out_a_gpu_model_that_is_too_dear() {
    let mut inputs = alike(OptimizeFor::Throughput, "40");
    inputs.cost = Some(serde_norway::from_str("{max: '0.05', unit: Requests}").expect("a limit"));
    let mut cluster = cluster().asking();
    cluster.world.spec.inputs = inputs;
    let status = super::asking::finish(&mut cluster);
    let choice = status.choice.expect("one is cheap enough");
    let row = &status.measurements[usize::try_from(choice.predicted_by).expect("a position")];
    assert_eq!(row.verdict, MeasurementVerdict::Feasible);
    let is_cheap = row.cost.map(|cost| cost.microdollars_per_thousand <= 50_000);
    assert_eq!(is_cheap, Some(true));
}
