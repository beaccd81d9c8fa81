//! From built engines to the configuration that a campaign chose.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    agent_deployment::{Precision, Stage},
    profile::{
        DEFINITIONS, Infeasible, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileChoice, ProfileInputs,
        ProfilePhase,
    },
};
use slipway_runtime_config::RuntimeConfig;

use super::cluster::{Cluster, digest, world};
use crate::{
    agent_deployment::world::{OwnedObject, WorkloadView},
    plan::{Child, RemovalKind},
};

pub(super) const PROFILED: &str = "
model: {uri: 'http://models.example/react'}
engine: {backend: Custom, custom: {builderImage: 'example.com/builder:1', tritonImage: 'example.com/triton:1'}}
search: {precision: [FP32, INT8], concurrency: [8, 1], instances: [1, 2], parameters: [{name: max_batch, values: ['4']}]}
slo: {objectives: [{name: reply, metric: RequestLatency, percentile: p95, max: 500ms}]}
profiling: {workloads: [{name: chat, prompts: {configMap: {name: chat, key: prompts.jsonl}}}]}
agent: {systemPrompt: Answer.}
";

/// Both engines are built, and the prompts are there.
pub(super) fn profiled() -> Cluster {
    let mut cluster = world().edited(|spec| *spec = serde_norway::from_str(PROFILED).expect("a valid spec"));
    let data = WorkloadView::Lines { digest: digest("prompts") };
    cluster.world.workloads.insert(("chat".to_owned(), "prompts.jsonl".to_owned()), data);
    cluster.resolved().fetched().with_engine_built(Precision::FP32).with_engine_built(Precision::INT8)
}

pub(super) fn message(cluster: &Cluster, condition: &str) -> String {
    let conditions = cluster.plan().status.conditions;
    conditions.into_iter().find(|c| c.type_ == condition).map(|c| c.message).unwrap_or_default()
}

/// What the agent's campaign freezes, whether it has begun or is about to.
pub(super) fn inputs(cluster: &Cluster) -> ProfileInputs {
    let mut cluster = cluster.clone();
    cluster.world.profiles.clear();
    let profile = cluster.plan().children.into_iter().find_map(|child| match child {
        Child::Profile(profile) => Some(profile.spec.inputs),
        _ => None,
    });
    profile.expect("a campaign begins")
}

/// The name of its campaign.
pub(super) fn campaign(cluster: &Cluster) -> String {
    cluster.plan().status.profile.expect("it is measured")
}

pub(super) fn row(engine: &str) -> Measurement {
    Measurement {
        engine: engine.to_owned(),
        configuration: "instances-2,max_batch-4".to_owned(),
        level: 8,
        purpose: MeasurementPurpose::Explore,
        round: None,
        verdict: MeasurementVerdict::Infeasible,
        count: 300,
        errors: 0,
        milliseconds: 1,
        per_kilosecond: 1,
        per_kilosecond_error: None,
        latencies: Vec::new(),
        output_tokens: None,
        gpu: None,
        cost: None,
        gpu_milliseconds: 1,
        records: None,
        measured_in: None,
        reason: String::new(),
        definitions: DEFINITIONS,
    }
}

/// The campaign ends so.
pub(super) fn ended(mut cluster: Cluster, phase: ProfilePhase) -> Cluster {
    cluster.settle();
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[1].name.clone();
    end(&mut cluster, &name, (phase, engine));
    cluster.settle();
    cluster
}

/// The campaign of this name ends so.
pub(super) fn end(cluster: &mut Cluster, name: &str, (phase, engine): (ProfilePhase, String)) {
    let profile = cluster.world.profiles.get_mut(name).expect("the Profile exists");
    profile.phase = Some(phase);
    profile.measurements = vec![row(&engine)];
    match phase {
        ProfilePhase::Chosen => {
            profile.choice = Some(ProfileChoice {
                engine,
                configuration: "instances-2,max_batch-4".to_owned(),
                level: 8,
                predicted_by: 0,
                why: "18.5 requests/s".to_owned(),
            });
        }
        ProfilePhase::Infeasible => {
            profile.infeasible = Some(Infeasible {
                binding_objective: "reply".to_owned(),
                nearest: Some(0),
                what_it_would_take: "reply would be met with a max of 620ms or more".to_owned(),
            });
        }
        ProfilePhase::Exploring | ProfilePhase::Confirming | ProfilePhase::Failed => {
            profile.message = "the image has no program model-analyzer".to_owned();
        }
    }
}

#[test]
fn nothing_is_brought_up_while_the_campaign_runs() {
    let cluster = profiled();
    assert_eq!((cluster.world.profiles.len(), cluster.world.serving.len()), (1, 0));
    assert_eq!(cluster.world.status.stage, Some(Stage::Profiling));
}

#[test]
fn what_the_campaign_chose_is_served_as_it_was_measured() {
    let cluster = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let plan = &cluster.world.revision(&cluster.stable()).expect("the plan is kept").plan;
    let settings = &plan.served.artifact().expect("an engine serves").configuration;
    assert_eq!(
        (plan.served.display_name().as_str(), settings.instances, settings.parameters["max_batch"].as_str()),
        ("int8", Some(2), "4")
    );
    assert_eq!((plan.max_in_flight, message(&cluster, "SLOAttainable").as_str()), (8, "18.5 requests/s"));
}

/// The bounds that the ConfigMap of the serving revision tells its pods to count by.
fn counted_by(cluster: &Cluster) -> Vec<u64> {
    let name = format!("support-{}", cluster.stable());
    let config = cluster.plan().children.into_iter().find_map(|child| match child {
        Child::ConfigMap(object) if object.metadata.name.as_ref() == Some(&name) => object.data,
        _ => None,
    });
    let config = config.and_then(|mut data| data.remove("config.json")).expect("a configuration");
    let config = RuntimeConfig::from_json(config.as_bytes()).expect("a valid configuration");
    config.objectives.into_iter().map(|objective| objective.max_microseconds).collect()
}

#[test]
fn an_edited_objective_that_changes_no_choice_restarts_nothing() {
    let cluster = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let stable = cluster.stable();
    let edited = cluster.edited(|spec| spec.slo.objectives[0].max = "600ms".parse().expect("a duration"));
    let cluster = ended(edited, ProfilePhase::Chosen);
    assert_eq!((cluster.world.profiles.len(), cluster.world.status.stage), (2, Some(Stage::Serving)));
    assert_eq!((cluster.stable(), cluster.world.serving.len()), (stable, 1));
    assert_eq!(counted_by(&cluster), [600_000]);
}

#[test]
fn an_impossible_objective_starts_nothing_and_names_what_binds() {
    let cluster = ended(profiled(), ProfilePhase::Infeasible);
    let profile = cluster.world.status.profile.clone().expect("a campaign was made");
    let stalled = message(&cluster, "Stalled");
    let answer = "reply would be met with a max of 620ms or more";
    assert_eq!(stalled, format!("no configuration that Profile {profile} measured meets spec.slo: {answer}"));
    assert_eq!((cluster.world.serving.len(), message(&cluster, "SLOAttainable").as_str()), (0, answer));
}

#[test]
fn the_nearest_configuration_serves_where_the_spec_wants_that() {
    let wants_nearest =
        profiled().edited(|spec| spec.slo.on_infeasible = serde_json::from_str("\"ServeNearest\"").unwrap());
    let cluster = ended(wants_nearest, ProfilePhase::Infeasible).with_pods_ready();
    let selected = cluster.world.status.selected.clone().expect("something is selected");
    assert_eq!((selected.display_name.as_str(), selected.max_in_flight), ("int8", 8));
    assert!(selected.why.contains("nearest"), "{}", selected.why);
}

#[test]
fn a_failed_campaign_says_so_and_how_to_try_again() {
    let cluster = ended(profiled(), ProfilePhase::Failed);
    let profile = cluster.world.status.profile.clone().expect("a campaign was made");
    assert_eq!(
        message(&cluster, "Stalled"),
        format!("Profile {profile} failed: the image has no program model-analyzer. Delete the Profile to try again")
    );
}

#[test]
fn prompts_that_are_missing_are_waited_for_and_named() {
    let mut cluster = profiled();
    cluster.world.workloads.clear();
    assert_eq!(
        message(&cluster, "Reconciling"),
        "spec.profiling.workloads: ConfigMap chat: it does not exist or has no key prompts.jsonl: create it"
    );
}

#[test]
fn other_inputs_are_another_campaign_and_the_same_inputs_are_the_same() {
    let cluster = profiled();
    let first = cluster.plan().status.profile;
    let replicas = cluster.clone().edited(|spec| spec.serving.replicas = 3).plan().status.profile;
    let levels = cluster.edited(|spec| spec.search.concurrency = vec![1, 4]).plan().status.profile;
    assert_eq!((first == replicas, first == levels), (true, false));
}

/// The number of pods changes with the load, what is measured does not.
#[test]
fn a_throughput_is_measured_for_as_many_pods_as_there_may_be() {
    let campaign = |serving: &str| {
        let cluster = profiled().edited(|spec| {
            spec.slo.throughput = serde_norway::from_str("{min: '12', unit: Requests}").expect("a valid objective");
            spec.serving = serde_norway::from_str(serving).expect("a valid number of pods");
        });
        cluster.plan().status.profile.expect("it is measured")
    };
    let scaled = campaign("{replicas: 2, autoscaling: {maxReplicas: 3}}");
    assert_eq!(scaled, campaign("{replicas: 1, autoscaling: {minReplicas: 2, maxReplicas: 3}}"));
    assert_eq!(scaled, campaign("{replicas: 3}"));
    assert_ne!(scaled, campaign("{replicas: 2}"));
}

#[test]
fn several_configurations_without_a_campaign_are_refused() {
    let cluster = profiled().edited(|spec| spec.profiling = None);
    assert_eq!(
        message(&cluster, "Stalled"),
        "spec.search: choosing among several serving configurations requires measurements: add spec.profiling, or keep one value each in search.instances, search.queueDelayMicroseconds and search.parameters"
    );
}

#[test]
fn a_workload_is_read_line_by_line() {
    let good = r#"{"id":"1","prompt":"Question: {{number}}","maxTokens":8,"stopWords":[]}"#;
    assert!(matches!(WorkloadView::read_prompts(good), WorkloadView::Lines { .. }));
    let WorkloadView::Invalid { problem } = WorkloadView::read_trace(&format!("{good}\n")) else {
        panic!("a prompt is no run")
    };
    assert!(problem.starts_with("line 1 is not a recorded run (input, calls with tool"), "{problem}");
    assert_eq!(WorkloadView::read_prompts("\n"), WorkloadView::Invalid { problem: "it has no lines".to_owned() });
}

#[test]
fn campaigns_that_ten_others_have_followed_go() {
    let mut cluster = ended(profiled(), ProfilePhase::Chosen);
    let current = cluster.world.status.profile.clone().expect("a campaign has ended");
    let campaign = |name: String| OwnedObject {
        kind: RemovalKind::Profile,
        uid: format!("uid-{name}"),
        resource_version: "7".to_owned(),
        name,
    };
    // The latest first; the current one may be old, for a manifest may have gone back to it.
    cluster.world.campaigns = (0..12).map(|age| campaign(format!("support-{age}"))).collect();
    cluster.world.campaigns.push(campaign(current));
    let removed: Vec<_> = cluster.plan().removals.into_iter().map(|removal| (removal.kind, removal.name)).collect();
    let expected = ["support-9", "support-10", "support-11"].map(|name| (RemovalKind::Profile, name.to_owned()));
    assert_eq!(removed, expected);
}
