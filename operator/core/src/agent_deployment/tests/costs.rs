//! What serving costs, from the prices of the operator's configuration to the status.

use std::sync::Arc;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    agent_deployment::{AgentDeploymentSpec, CostFigures, OptimizeFor, SelectedCost, Stage, ThroughputUnit},
    profile::{HourlyPrice, MeasuredCost, ProfileInputs, ProfilePhase},
};

use super::{
    cluster::Cluster,
    profiling::{end, message, profiled},
};
use crate::plan::Child;

/// An agent on an L4, with these prices.
fn priced(prices: &str, edit: impl FnOnce(&mut AgentDeploymentSpec)) -> Cluster {
    let mut cluster = profiled();
    Arc::make_mut(&mut cluster.world.settings).prices = serde_norway::from_str(prices).expect("prices");
    cluster.edited(|spec| {
        spec.hardware.node_selector.insert("nvidia.com/gpu.product".to_owned(), "NVIDIA-L4".to_owned());
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "2".to_owned());
        edit(spec);
    })
}

fn for_cost(spec: &mut AgentDeploymentSpec) {
    spec.slo.optimize_for = OptimizeFor::Cost;
}

/// What the campaign that is about to begin is given.
fn frozen(cluster: &Cluster) -> ProfileInputs {
    let profile = cluster.plan().children.into_iter().find_map(|child| match child {
        Child::Profile(profile) => Some(profile.spec.inputs),
        _ => None,
    });
    profile.expect("a Profile")
}

/// The campaign has chosen a point that costs so much.
fn chosen(mut cluster: Cluster) -> Cluster {
    cluster.settle();
    let name = cluster.world.status.profile.clone().expect("a campaign");
    let engine = cluster.world.status.engines[1].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    let profile = cluster.world.profiles.get_mut(&name).expect("the Profile exists");
    profile.price = Some(l4("0.9", false));
    profile.measurements[0].cost =
        Some(MeasuredCost { microdollars_per_thousand: 350_000, microdollars_per_million_tokens: Some(1_400_000) });
    cluster.settle();
    cluster
}

const L4: &str = "{gpus: {NVIDIA-L4: {perHour: 0.9, spotPerHour: 0.4}}}";

fn l4(per_hour: &str, spot: bool) -> HourlyPrice {
    let per_hour = per_hour.parse().expect("a price");
    HourlyPrice { gpu_product: Some("NVIDIA-L4".to_owned()), spot, per_hour }
}

#[test]
fn a_campaign_has_the_price_of_its_nodes_where_the_choice_depends_on_it() {
    assert_eq!(frozen(&priced(L4, for_cost)).price, Some(l4("0.9", false)));
    let spot = priced(L4, |spec| {
        for_cost(spec);
        spec.hardware.node_selector.insert("cloud.google.com/gke-spot".to_owned(), "true".to_owned());
    });
    assert_eq!(frozen(&spot).price, Some(l4("0.4", true)));
    assert_eq!(frozen(&priced(L4, |_| {})).price, None, "the choice is the same at any price");
}

#[test]
fn a_price_changes_no_campaign_whose_choice_does_not_depend_on_it() {
    let campaign = |prices: &str| priced(prices, |_| {}).plan().status.profile;
    assert_eq!(campaign(L4), campaign("{}"));
}

#[test]
fn a_product_without_a_price_is_refused_and_the_value_to_add_is_named() {
    let cluster = priced("{gpus: {NVIDIA-H200: {perHour: 4}}}", for_cost);
    assert_eq!((cluster.plan().status.stage, cluster.world.profiles.len()), (Some(Stage::Refused), 1));
    let expected = "spec.slo.optimizeFor: the operator's configuration has no price of NVIDIA-L4: add \
                    prices.gpus.NVIDIA-L4.perHour to the chart's values (it has NVIDIA-H200)";
    assert_eq!(message(&cluster, "Stalled"), expected);
    let limited = priced("{}", |spec| {
        spec.slo.cost = Some(serde_norway::from_str("{max: '0.4', unit: Requests}").expect("an objective"));
    });
    let expected = "spec.slo.cost: the operator's configuration has no price of NVIDIA-L4: add \
                    prices.gpus.NVIDIA-L4.perHour to the chart's values";
    assert_eq!(message(&limited, "Stalled"), expected);
}

#[test]
fn an_objective_on_costs_has_its_target_and_its_prediction() {
    let cluster = chosen(priced(L4, |spec| {
        spec.slo.cost = Some(serde_norway::from_str("{max: '0.4', unit: Requests}").expect("an objective"));
    }));
    let entry = cluster.world.status.slo.iter().find(|entry| entry.name == "slo.cost").expect("the objective");
    assert_eq!(
        (entry.target.as_str(), entry.predicted.as_deref(), entry.met),
        ("≤ $0.4/1,000 requests", Some("$0.35/1,000 requests"), None)
    );
    let figures = CostFigures {
        unit: ThroughputUnit::Requests,
        target_microdollars_per_thousand: 400_000,
        predicted_microdollars_per_thousand: Some(350_000),
    };
    assert_eq!(entry.cost, Some(figures));
}

#[test]
fn what_is_selected_has_its_cost_in_words_and_as_numbers() {
    let cluster = chosen(priced(L4, |_| {}));
    let cost = SelectedCost {
        text: "$0.35 for 1,000 requests, $1.40 for a million output tokens".to_owned(),
        unit: ThroughputUnit::Requests,
        microdollars_per_thousand: 350_000,
        microdollars_per_million_tokens: Some(1_400_000),
        microdollars_per_replica_hour: 1_800_000,
    };
    assert_eq!(cluster.world.status.selected.and_then(|selected| selected.cost), Some(cost));
}
