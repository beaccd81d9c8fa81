//! Engines that are built only when the search of a campaign asks for them.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{EngineBuilds, EngineOffer, Precision, SearchSpace},
    profile::{AskedEngine, ProfilePhase},
};
use slipway_worker_contract::FailureClass;

use super::{
    cluster::{Cluster, Ending, digest, world},
    profiling::{PROFILED, end, inputs},
    quality::{Found, scored},
};
use crate::agent_deployment::world::{DatasetView, WorkloadView};

/// The model is fetched, and a campaign is to ask for FP32 and INT8.
fn asking() -> Cluster {
    let mut cluster = world().edited(|spec| {
        *spec = serde_norway::from_str(PROFILED).expect("a valid spec");
        spec.profiling.as_mut().expect("it is profiled").engines = EngineBuilds::WhenAsked;
    });
    let data = WorkloadView::Lines { digest: digest("prompts") };
    cluster.world.workloads.insert(("chat".to_owned(), "prompts.jsonl".to_owned()), data);
    cluster.resolved().fetched()
}

/// Precisions of the Engines that exist.
fn built(cluster: &Cluster) -> Vec<Precision> {
    cluster.engines.values().map(|(spec, _)| spec.build.precision).collect()
}

/// What the status offers of each engine, by display name.
fn offers(cluster: &Cluster) -> Vec<(String, Option<bool>)> {
    let is_there = |offer: &EngineOffer| offer.manifest_digest.is_some();
    let engines = cluster.world.status.engines.iter();
    engines.map(|choice| (choice.display_name.clone(), choice.offer.as_ref().map(is_there))).collect()
}

fn ask(cluster: &mut Cluster, display_name: &str) {
    let profile = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engines = &cluster.world.status.engines;
    let engine = engines.iter().find(|choice| choice.display_name == display_name).expect("it is one of them");
    let asked = AskedEngine { engine: engine.name.clone(), why: "expected gain 9 %".to_owned(), manifest_digest: None };
    cluster.world.profiles.get_mut(&profile).expect("the Profile exists").asked.push(asked);
    cluster.settle();
}

#[test]
fn a_campaign_begins_with_the_first_engine_while_no_other_is_built() {
    let mut cluster = asking();
    assert_eq!(built(&cluster), [Precision::FP32]);
    assert_eq!(cluster.world.status.engines[1].state, "not built: no measurement asks for it yet");
    cluster = cluster.with_engine_built(Precision::FP32);
    assert_eq!((built(&cluster), cluster.world.profiles.len()), (vec![Precision::FP32], 1));
    assert_eq!(offers(&cluster), [("fp32".to_owned(), Some(true)), ("int8".to_owned(), None)]);
    let engines = inputs(&cluster).engines;
    let named: Vec<_> = engines.iter().map(|e| (e.display_name.as_str(), e.manifest_digest.as_str())).collect();
    assert_eq!(named, [("fp32", ""), ("int8", "")], "the campaign may ask for both");
}

#[test]
fn an_engine_is_built_and_offered_once_the_campaign_asks_for_it() {
    let mut cluster = asking().with_engine_built(Precision::FP32);
    let before = inputs(&cluster);
    ask(&mut cluster, "int8");
    assert_eq!(built(&cluster).len(), 2);
    let cluster = cluster.with_engine_built(Precision::INT8);
    assert_eq!(offers(&cluster), [("fp32".to_owned(), Some(true)), ("int8".to_owned(), Some(true))]);
    assert_eq!(inputs(&cluster), before, "it is the same campaign, whatever was built");
}

#[test]
fn an_engine_that_cannot_be_built_is_no_offer() {
    let mut cluster = asking().with_engine_built(Precision::FP32);
    ask(&mut cluster, "int8");
    let cluster = cluster.with_engine_ended(Precision::INT8, Ending::Failure(FailureClass::BadModel));
    assert_eq!(offers(&cluster), [("fp32".to_owned(), Some(true)), ("int8".to_owned(), Some(false))]);
}

#[test]
fn where_the_first_engine_cannot_be_built_a_campaign_begins_with_the_next() {
    let cluster = asking().with_engine_ended(Precision::FP32, Ending::Failure(FailureClass::BadModel));
    let cluster = cluster.with_engine_built(Precision::INT8);
    assert_eq!(cluster.world.profiles.len(), 1);
    assert_eq!(offers(&cluster), [("fp32".to_owned(), Some(false)), ("int8".to_owned(), Some(true))]);
}

#[test]
fn an_artifact_that_was_built_after_the_measurement_is_not_served() {
    let mut cluster = asking().with_engine_built(Precision::FP32);
    ask(&mut cluster, "int8");
    let mut cluster = cluster.with_engine_built(Precision::INT8);
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[1].name.clone();
    let profile = cluster.world.profiles.get_mut(&name).expect("the Profile exists");
    profile.asked.iter_mut().for_each(|asked| asked.manifest_digest = Some(digest("an earlier build").to_string()));
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    cluster.settle();
    let remedy = format!("delete Profile {name} to measure it again");
    let says = |words: &str| cluster.world.status.conditions.iter().any(|condition| condition.message.contains(words));
    assert!(says(&remedy), "{:?}", cluster.world.status.conditions);
    assert_eq!(cluster.world.status.selected, None);
}

#[test]
fn what_was_asked_for_and_chosen_is_served() {
    let mut cluster = asking().with_engine_built(Precision::FP32);
    ask(&mut cluster, "int8");
    let mut cluster = cluster.with_engine_built(Precision::INT8);
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[1].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    let cluster = cluster.with_pods_ready();
    let plan = &cluster.world.revision(&cluster.stable()).expect("the plan is kept").plan;
    assert_eq!(plan.served.artifact().expect("an engine").engine.display_name, "int8");
}

/// With a quality gate: FP32 is the reference, and INT8 drops by 1 %, of at most 2 %.
fn gated() -> Cluster {
    let mut cluster = asking().edited(|spec| {
        let quality = "{maxDrop: 2%, dataset: {configMap: {name: evaluation, key: samples.jsonl}}}";
        spec.slo.quality = Some(serde_norway::from_str(quality).expect("a valid objective"));
    });
    let prompts = r#"{"id":"1","prompt":"1+1","maxTokens":8,"stopWords":[]}"#.to_owned();
    cluster.world.dataset = Some(DatasetView::Samples { digest: digest("samples"), prompts });
    let mut cluster = scored(cluster.with_engine_built(Precision::FP32), Found { score: 980_000, drop: None });
    cluster.settle();
    ask(&mut cluster, "int8");
    let drop = Some((10_000, 15_000));
    let mut cluster = scored(cluster.with_engine_built(Precision::INT8), Found { score: 970_000, drop });
    cluster.settle();
    cluster
}

#[test]
fn a_quality_gate_that_is_edited_after_the_choice_begins_another_campaign() {
    let mut cluster = gated();
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[1].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine.clone()));
    let mut cluster = cluster.with_pods_ready();
    let stable = cluster.stable();
    let edit = |spec: &mut AgentDeploymentSpec| {
        spec.slo.quality.as_mut().expect("it is gated").max_drop = "1%".parse().expect("a share");
    };
    cluster = cluster.edited(edit);
    cluster.settle();
    let another = cluster.world.status.profile.clone().expect("a campaign is under way");
    assert_ne!(another, name, "INT8 may be refused by then");
    assert_eq!(cluster.world.profiles.len(), 2);
    ask(&mut cluster, "int8");
    assert_eq!(offers(&cluster), [("fp32".to_owned(), Some(true)), ("int8".to_owned(), Some(false))]);
    assert_eq!(cluster.stable(), stable);
    let first = cluster.world.status.engines[0].name.clone();
    end(&mut cluster, &another, (ProfilePhase::Chosen, first));
    let cluster = cluster.with_pods_ready();
    assert_eq!(
        cluster
            .world
            .revision(&cluster.stable())
            .expect("it is kept")
            .plan
            .served
            .artifact()
            .expect("an engine")
            .engine
            .display_name,
        "fp32"
    );
}

#[test]
fn a_chosen_engine_that_is_no_longer_accepted_stops_with_the_remedy() {
    let mut cluster = asking().with_engine_built(Precision::FP32);
    ask(&mut cluster, "int8");
    let mut cluster = cluster.with_engine_ended(Precision::INT8, Ending::Failure(FailureClass::BadModel));
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[1].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    cluster.settle();
    let words = format!(
        "Profile {name} failed: it chose an engine that failed or is refused since: see status.engines. \
         Delete the Profile to try again"
    );
    let stalled = cluster.world.status.conditions.iter().find(|condition| condition.type_ == "Stalled");
    assert!(stalled.is_some_and(|c| c.status == "True" && c.message.contains(&words)), "{stalled:?}");
}

#[test]
fn a_revision_that_is_restored_leaves_the_campaign_that_asks_and_the_edit_takes_it_up_again() {
    let mut cluster = asking().with_engine_built(Precision::FP32);
    let first = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[0].name.clone();
    end(&mut cluster, &first, (ProfilePhase::Chosen, engine));
    let mut cluster = cluster.with_pods_ready();
    let (stable, before) = (cluster.stable(), cluster.world.spec.clone());
    let after =
        AgentDeploymentSpec { search: SearchSpace { concurrency: vec![2], ..before.search.clone() }, ..before.clone() };
    cluster = cluster.edited(|spec| *spec = after.clone());
    cluster.settle();
    let second = cluster.world.status.profile.clone().expect("a campaign is under way");
    ask(&mut cluster, "int8");
    cluster = cluster.edited(|spec| *spec = before);
    cluster.settle();
    assert_eq!((cluster.world.status.profile.clone(), cluster.stable()), (Some(first), stable));
    cluster = cluster.edited(|spec| *spec = after);
    cluster.settle();
    assert_eq!(cluster.world.status.profile, Some(second));
    let cluster = cluster.with_engine_built(Precision::INT8);
    assert_eq!(offers(&cluster), [("fp32".to_owned(), Some(true)), ("int8".to_owned(), Some(true))]);
}
