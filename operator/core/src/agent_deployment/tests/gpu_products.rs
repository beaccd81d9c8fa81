//! Several GPU models in one campaign: from the engines of each to the nodes that serve the choice.

use std::{collections::BTreeMap, sync::Arc};

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec, ProfileStatus,
    agent_deployment::{OptimizeFor, Precision},
    profile::{MeasuredCost, ProfileInputs, ProfilePhase},
};

use super::{
    cluster::{Cluster, digest, world},
    no_build::SGLANG,
    profiling::{end, inputs, message},
    tensorrt_llm::stalled,
};
use crate::{
    agent_deployment::{rollout::revision::Served, world::CalibrationView},
    plan::Child,
};

const PRODUCT: &str = "nvidia.com/gpu.product";
const H200: &str = "NVIDIA-H200";
const L40S: &str = "NVIDIA-L40S";

const VLLM: &str = "{backend: VLLM, vllm: {version: 0.11.0, image: 'example.com/vllm:25.11', maxSeqLen: 8192}}";
const TOOLS: &str = "{backend: TensorRTLLM, tensorRTLLM: {version: 0.16.0, image: 'example.com/tritonserver:24.12', \
                     maxSeqLen: 4096, calibration: {configMap: {name: texts, key: train.jsonl}}}}";
const PROFILING: &str =
    "{workloads: [{name: usual, synthetic: {inputTokens: 800, outputTokens: 150, arrival: {runsPerSecond: '2'}}}]}";

/// An agent that is measured on GPU models, in the order of preference.
fn on(engine: &str, products: &[&str], edit: impl FnOnce(&mut AgentDeploymentSpec)) -> Cluster {
    let mut cluster = world().edited(|spec| {
        spec.engine = Some(serde_norway::from_str(engine).expect("a valid block"));
        spec.search.precision = vec![Precision::BF16];
        spec.hardware.node_selector.insert("pool".to_owned(), "agents".to_owned());
        spec.serving.triton_resources.limits.insert("nvidia.com/gpu".to_owned(), "1".to_owned());
        spec.profiling = Some(serde_norway::from_str(PROFILING).expect("profiling"));
        match products {
            [one] => drop(spec.hardware.node_selector.insert(PRODUCT.to_owned(), (*one).to_owned())),
            several => spec.search.gpu_products = several.iter().map(|product| (*product).to_owned()).collect(),
        }
        edit(spec);
    });
    cluster.world.calibration = Some(CalibrationView::Texts { digest: digest("texts") });
    cluster.resolved()
}

fn both(edit: impl FnOnce(&mut AgentDeploymentSpec)) -> Cluster {
    on(VLLM, &[L40S, H200], edit).fetched()
}

fn for_cost(prices: &str) -> Cluster {
    let mut cluster = both(|spec| spec.slo.optimize_for = OptimizeFor::Cost);
    Arc::make_mut(&mut cluster.world.settings).prices = serde_norway::from_str(prices).expect("prices");
    cluster
}

fn built(cluster: Cluster) -> Cluster {
    cluster.with_engine_built(Precision::BF16).with_engine_built(Precision::BF16)
}

/// The campaign ends with the engine of this display name.
fn chosen(cluster: Cluster, display_name: &str) -> Cluster {
    chosen_of(cluster, display_name, |_| {})
}

/// The same of a record that is completed so.
fn chosen_of(mut cluster: Cluster, display_name: &str, complete: impl FnOnce(&mut ProfileStatus)) -> Cluster {
    cluster.settle();
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engines = &cluster.world.status.engines;
    let engine = engines.iter().find(|engine| engine.display_name == display_name).expect("it is one of them");
    let engine = engine.name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    let profile = cluster.world.profiles.get_mut(&name).expect("the Profile exists");
    let point = |configuration: &mut String| "default".clone_into(configuration);
    profile.measurements.iter_mut().for_each(|row| point(&mut row.configuration));
    profile.choice.iter_mut().for_each(|choice| point(&mut choice.configuration));
    complete(profile);
    cluster.settle();
    cluster
}

fn labels(product: &str) -> BTreeMap<String, String> {
    [("pool", "agents"), (PRODUCT, product)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// Node selectors of the pods that serve.
fn serving(cluster: &Cluster) -> Vec<BTreeMap<String, String>> {
    let selector = |child| match child {
        Child::Deployment(object) => object.spec?.template.spec?.node_selector,
        _ => None,
    };
    cluster.plan().children.into_iter().filter_map(selector).collect()
}

#[test]
fn each_gpu_model_has_engines_of_its_own_on_its_own_nodes() {
    let cluster = both(|spec| spec.search.max_batch_size = vec![16, 64]);
    let names: Vec<_> = cluster.world.status.engines.iter().map(|engine| engine.display_name.as_str()).collect();
    assert_eq!(names, ["bf16-b16-l40s", "bf16-b16-h200", "bf16-b64-l40s", "bf16-b64-h200"]);
    for choice in &cluster.world.status.engines {
        let product = if choice.display_name.ends_with("l40s") { L40S } else { H200 };
        let (spec, _) = &cluster.engines[&choice.name];
        assert_eq!(spec.build.gpu_product(), Some(product));
        assert_eq!(spec.placement.node_selector, labels(product));
    }
}

#[test]
fn a_campaign_over_several_gpu_models_says_which_engine_is_for_which() {
    let inputs = inputs(&built(both(|_| {})));
    let engines: Vec<_> = inputs.engines.iter().map(|e| (e.display_name.as_str(), e.gpu_product.as_deref())).collect();
    assert_eq!(engines, [("bf16-l40s", Some(L40S)), ("bf16-h200", Some(H200))]);
    let selectors: Vec<_> = inputs.engines.iter().map(|engine| inputs.node_selector_of(engine)).collect();
    assert_eq!(selectors, [labels(L40S), labels(H200)]);
    assert_eq!((inputs.price.is_none(), inputs.prices.len()), (true, 0), "the choice does not depend on it");
}

/// Nothing of it is in the inputs of one, whose campaigns keep their names.
#[test]
fn a_campaign_on_one_gpu_model_says_nothing_of_it() {
    let cluster = on(VLLM, &[H200], |_| {}).fetched().with_engine_built(Precision::BF16);
    let written = serde_json::to_value(inputs(&cluster)).expect("a value");
    assert_eq!((written.get("prices"), written["engines"][0].get("gpuProduct")), (None, None));
}

#[test]
fn where_costs_are_compared_a_campaign_has_the_price_of_each_gpu_model() {
    let cluster = built(for_cost("{gpus: {NVIDIA-L40S: {perHour: 1.9}, NVIDIA-H200: {perHour: 4}}}"));
    let ProfileInputs { price, prices, .. } = inputs(&cluster);
    let prices: Vec<_> = prices.into_iter().map(|of| (of.gpu_product, of.per_hour.to_string())).collect();
    let expected = [(L40S, "1.9"), (H200, "4")].map(|(product, price)| (Some(product.to_owned()), price.to_owned()));
    assert_eq!((price, prices), (None, expected.to_vec()));
}

#[test]
fn one_gpu_model_without_a_price_is_refused_and_named() {
    let cluster = built(for_cost("{gpus: {NVIDIA-L40S: {perHour: 1.9}}}"));
    assert_eq!(
        message(&cluster, "Stalled"),
        "spec.slo.optimizeFor: the operator's configuration has no price of NVIDIA-H200: add \
         prices.gpus.NVIDIA-H200.perHour to the chart's values (it has NVIDIA-L40S)"
    );
}

#[rstest]
#[case::unknown(
    VLLM, [L40S, "NVIDIA-H100-MIG-1g.10gb"],
    "spec.search.gpuProducts: \"NVIDIA-H100-MIG-1g.10gb\" is the MIG slice 1g.10gb of a GPU, whose figures are not known: \
     name nodes without MIG (NVIDIA-H100), or remove it"
)]
#[case::too_old(
    TOOLS, [H200, "NVIDIA-A100-SXM4-80GB"],
    "spec.search.precision[0]: on NVIDIA-A100-SXM4-80GB, FP8 engines do not run on a100-sxm (SM80); it runs FP16, BF16, \
     INT8WeightOnly, INT8SmoothQuant, INT4WeightOnly, INT4AWQ, or remove NVIDIA-A100-SXM4-80GB from search.gpuProducts"
)]
fn a_gpu_model_that_cannot_have_an_engine_is_named_before_anything_is_fetched(
    #[case] engine: &str,
    #[case] products: [&str; 2],
    #[case] expected: &str,
) {
    let mut cluster = on(engine, &products, |spec| spec.search.precision = vec![Precision::FP8]);
    cluster.settle();
    assert_eq!(stalled(&cluster.plan()), expected);
    assert!(cluster.running_jobs().is_empty(), "{:?}", cluster.running_jobs());
}

/// What every GPU model lacks speaks against none of them.
#[test]
fn a_refusal_that_every_gpu_model_shares_names_none() {
    let mut cluster = on(TOOLS, &[H200, L40S], |spec| {
        spec.search.precision = vec![Precision::FP8];
        let tools = spec.engine.as_mut().and_then(|engine| engine.tensorrt_llm.as_mut());
        tools.expect("it is of the tools").calibration = None;
    });
    cluster.settle();
    assert_eq!(
        stalled(&cluster.plan()),
        "spec.engine.tensorRTLLM.calibration: FP8 needs calibration texts: name a data set (upstream downloads its default, \
         and Jobs have no egress)"
    );
}

#[test]
fn more_engines_than_a_campaign_may_have_are_refused() {
    let cluster = on(VLLM, &[L40S, H200], |spec| {
        spec.search.max_batch_size = vec![8, 16, 32, 64];
        spec.search.max_num_tokens = vec![2048, 4096, 8192];
    });
    assert_eq!(stalled(&cluster.plan()), "spec.search: 24 engines exceed the limit of 16: name fewer values");
}

#[test]
fn the_choice_is_served_on_nodes_with_its_gpu_model() {
    let cluster = chosen(built(both(|_| {})), "bf16-h200").with_pods_ready();
    let plan = &cluster.world.revision(&cluster.stable()).expect("the plan is kept").plan;
    assert_eq!(plan.served.artifact().expect("an engine").engine.display_name, "bf16-h200");
    assert_eq!(plan.hardware.node_selector, labels(H200));
    assert_eq!(serving(&cluster), [labels(H200)]);
}

#[test]
fn the_cost_of_the_choice_is_by_the_price_of_its_gpu_model() {
    let mut cluster = built(for_cost("{gpus: {NVIDIA-L40S: {perHour: 1.9}, NVIDIA-H200: {perHour: 4}}}"));
    cluster.settle();
    let prices = inputs(&cluster).prices;
    let cluster = chosen_of(cluster, "bf16-h200", |profile| {
        profile.prices = prices;
        profile.measurements[0].cost =
            Some(MeasuredCost { microdollars_per_thousand: 350_000, microdollars_per_million_tokens: None });
    });
    let cost = cluster.world.status.selected.as_ref().and_then(|selected| selected.cost.clone()).expect("a cost");
    assert_eq!((cost.microdollars_per_replica_hour, cost.text.as_str()), (4_000_000, "$0.35 for 1,000 runs"));
}

/// A spec that names the one product later has the same plan but for the engine's name.
#[test]
fn a_spec_with_the_chosen_gpu_model_alone_has_the_same_plan() {
    let of_both = chosen(built(both(|_| {})), "bf16-h200").with_pods_ready();
    let one = on(VLLM, &[H200], |_| {}).fetched().with_engine_built(Precision::BF16);
    let of_one = chosen(one, "bf16").with_pods_ready();
    let plan = |cluster: &Cluster| {
        let mut plan = cluster.world.revision(&cluster.stable()).expect("the plan is kept").plan.clone();
        if let Served::Artifact(artifact) = &mut plan.served {
            artifact.engine.display_name.clear();
        }
        plan
    };
    assert_eq!(plan(&of_both), plan(&of_one), "but for what the engine is called");
}

#[test]
fn backends_of_all_kinds_have_engines_for_each_gpu_model() {
    for backend in [SGLANG, TOOLS] {
        let cluster = on(backend, &[L40S, H200], |_| {}).fetched();
        let products: Vec<_> = cluster.engines.values().filter_map(|(spec, _)| spec.build.gpu_product()).collect();
        assert_eq!(products.len(), 2, "{backend}: {products:?}");
    }
}
