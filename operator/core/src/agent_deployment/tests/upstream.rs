//! A model that another server has: nothing is resolved, built or measured, and the rest is as with any other.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{ModelSource, Precision, Stage, UpstreamApi},
    profile::ProfilePhase,
};
use slipway_runtime_config::TextDialect;

use super::{
    clients::config,
    cluster::{Cluster, lines, world},
    profiling::{ended, profiled},
    trial::{EQUAL, ROLLOUT, Trial, Users},
};
use crate::{
    agent_deployment::world::OwnedObject,
    plan::{Child, RemovalKind},
};

fn at(url: &str, model: &str) -> ModelSource {
    let yaml = format!("{{upstream: {{url: {url:?}, model: {model}, headersFrom: {{name: llm-key}}}}}}");
    serde_norway::from_str(&yaml).expect("a valid model")
}

fn ask_elsewhere(spec: &mut AgentDeploymentSpec) {
    spec.model = at("https://llm.example", "qwen3");
    spec.engine = None;
}

/// An agent whose model another server has.
fn hosted() -> Cluster {
    world().edited(ask_elsewhere)
}

/// Status, reason and message of a condition.
fn condition(cluster: &Cluster, type_: &str) -> String {
    let found = cluster.world.status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(|| "absent".to_owned(), |c| format!("{} {}: {}", c.status, c.reason, c.message))
}

fn served(cluster: &Cluster) -> Option<&str> {
    cluster.world.status.selected.as_ref().map(|selected| selected.display_name.as_str())
}

#[test]
fn it_serves_as_soon_as_its_pods_are_ready() {
    let mut cluster = hosted();
    cluster.settle();
    assert_eq!((cluster.running_jobs(), cluster.engines.len()), (Vec::new(), 0));
    let claims = cluster.plan().children.into_iter().filter(|child| matches!(child, Child::PersistentVolumeClaim(_)));
    assert_eq!(claims.count(), 0, "there is nothing to keep");
    assert_eq!(cluster.world.status.stage, Some(Stage::RollingOut));
    let cluster = cluster.with_pods_ready();
    let revision = cluster.stable();
    assert_eq!(cluster.world.status.stage, Some(Stage::Serving));
    assert_eq!(condition(&cluster, "Ready"), format!("True Serving: revision {revision} serves with 1 of 1 pods"));
    assert_eq!(
        condition(&cluster, "SLOAttainable"),
        "Unknown ServedElsewhere: qwen3 at llm.example is not measured before it serves: status.slo has what its \
         traffic shows"
    );
    let selected = cluster.world.status.selected.clone().expect("it is selected");
    assert_eq!((served(&cluster), selected.artifact, selected.max_in_flight), (Some("qwen3 at llm.example"), None, 64));
}

#[test]
fn its_pods_ask_the_server_with_the_key() {
    let cluster = hosted().with_pods_ready();
    let config = config(&cluster, &cluster.stable());
    let upstream = config.engine.upstream.clone().expect("the server is elsewhere");
    assert_eq!(
        (config.engine.endpoint.as_str(), config.engine.model_name.as_str(), config.engine.dialect),
        ("https://llm.example", "qwen3", TextDialect::Chat)
    );
    assert_eq!(
        (upstream.headers_from.as_deref(), upstream.max_in_flight, upstream.retries, config.max_in_flight),
        (Some("/etc/slipway/upstream-headers"), Some(64), 2, 64)
    );
}

#[test]
fn a_secret_that_is_missing_is_told_and_waited_for() {
    let mut cluster = hosted();
    cluster.settle();
    let starting = cluster.canary();
    let missing = "its volumes cannot be mounted: create Secret llm-key in this namespace";
    cluster.world.serving.get_mut(&starting).expect("its pods").failure = Some(missing.to_owned());
    cluster.settle();
    assert_eq!(
        condition(&cluster, "Reconciling"),
        format!("True RevisionFailing: revision {starting} does not start: {missing}")
    );
    assert_eq!(cluster.with_pods_ready().world.status.stage, Some(Stage::Serving));
}

/// Four pods, and an edit whose first pods are ready.
fn trial(edit: impl FnOnce(&mut AgentDeploymentSpec)) -> Trial {
    let four = |spec: &mut AgentDeploymentSpec| {
        spec.serving.replicas = 4;
        spec.rollout = serde_norway::from_str(ROLLOUT).expect("a valid rollout");
    };
    let mut trial = Trial::on(hosted().edited(four).with_pods_ready().edited(edit));
    trial.settle();
    trial.cluster.ready_pods();
    trial.settle();
    trial
}

fn another_prompt(spec: &mut AgentDeploymentSpec) {
    spec.agent.system_prompt = "Think, then answer.".to_owned();
}

fn another_model(spec: &mut AgentDeploymentSpec) {
    spec.model = at("https://llm.example", "qwen3-large");
}

#[rstest]
#[case::a_prompt(another_prompt)]
#[case::a_model(another_model)]
fn a_change_takes_over_step_by_step(#[case] edit: fn(&mut AgentDeploymentSpec)) {
    let mut trial = trial(edit);
    let canary = trial.cluster.canary();
    trial.serve(60 * 60, EQUAL);
    assert_eq!((trial.stable(), trial.canary()), (canary, None));
    assert_eq!(trial.shares, [0, 20, 50, 0]);
}

#[rstest]
#[case::a_prompt(another_prompt)]
#[case::a_model(another_model)]
fn a_change_that_is_slower_is_rolled_back(#[case] edit: fn(&mut AgentDeploymentSpec)) {
    let mut trial = trial(edit);
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    let rejected: Vec<_> = trial.rollout().rejected.into_iter().map(|rejected| rejected.plan).collect();
    assert_eq!((trial.stable(), rejected), (stable, vec![canary]));
}

#[test]
fn an_agent_moves_to_a_server_elsewhere_and_back_without_a_job() {
    let built = world().serving();
    let with_engine = built.stable();
    let before = built.world.spec.clone();
    let engine = built.world.status.selected.as_ref().and_then(|selected| selected.engine().cloned());
    let mut moving = built.edited(ask_elsewhere);
    moving.settle();
    assert_eq!(moving.stable(), with_engine, "what serves goes on until the other is ready");
    let moved = moving.with_pods_ready();
    assert_eq!((served(&moved), moved.world.status.engines.len()), (Some("qwen3 at llm.example"), 0));
    let mut back = moved.edited(|spec| *spec = before);
    back.settle();
    assert_eq!((back.canary(), back.running_jobs()), (with_engine, Vec::new()));
    let claims = |cluster: &Cluster| {
        let mut cluster = cluster.clone();
        // Somebody has deleted it: one that is there is left alone.
        cluster.world.store_bound = None;
        cluster.plan().children.into_iter().filter(|child| matches!(child, Child::PersistentVolumeClaim(_))).count()
    };
    let back = back.with_pods_ready();
    assert_eq!([claims(&back), claims(&back.clone().edited(ask_elsewhere))], [1, 1], "the engine still serves");
    let selected = back.world.status.selected.as_ref().and_then(|selected| selected.engine().cloned());
    assert_eq!((selected, condition(&back, "SLOAttainable").as_str()), (engine, "absent"));
}

/// An agent goes from another server to an engine that profiling is to choose.
fn to_an_engine_of_a_campaign() -> Cluster {
    let measured = profiled().world;
    let mut moving = hosted().alerting().with_pods_ready().edited(|spec| *spec = measured.spec).alerting();
    moving.world.workloads = measured.workloads;
    moving.resolved().fetched().with_engine_built(Precision::FP32).with_engine_built(Precision::INT8)
}

#[test]
fn going_back_to_a_server_leaves_nothing_of_an_engine_that_failed() {
    let before = hosted().alerting().world.spec;
    let mut failed = ended(to_an_engine_of_a_campaign(), ProfilePhase::Infeasible);
    assert!(failed.world.status.profile.is_some() && !failed.world.status.engines.is_empty());
    assert!(failed.news().iter().any(|news| news.starts_with("ObjectivesInfeasible")));
    let mut back = failed.edited(|spec| *spec = before);
    back.settle();
    let status = &back.world.status;
    assert_eq!((&status.profile, status.engines.len(), status.images.len()), (&None, 0, 0));
    assert!(status.told.iter().all(|fact| fact.about != "SLOAttainable"), "{:?}", status.told);
    assert!(back.news().iter().all(|news| !news.starts_with("ObjectivesInfeasible")));
    assert_eq!(back.world.status.stage, Some(Stage::Serving));
}

#[test]
fn going_back_to_an_engine_brings_back_what_its_campaign_predicts() {
    let chosen = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let (before, profile) = (chosen.world.spec.clone(), chosen.world.status.profile.clone());
    let predicted = condition(&chosen, "SLOAttainable");
    let moved = chosen.edited(|spec| *spec = hosted().world.spec).with_pods_ready();
    assert_eq!((served(&moved), &moved.world.status.profile), (Some("qwen3 at llm.example"), &None));
    let back = moved.edited(|spec| *spec = before).with_pods_ready();
    assert_eq!((&back.world.status.profile, condition(&back, "SLOAttainable")), (&profile, predicted));
}

#[test]
fn a_campaign_under_way_ends_once_nobody_needs_what_it_measures() {
    let mut cluster = profiled();
    cluster.settle();
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let (uid, resource_version) = ("u".to_owned(), "7".to_owned());
    let campaign = OwnedObject { kind: RemovalKind::Profile, name, uid, resource_version };
    cluster.world.campaigns = vec![campaign.clone()];
    let removed = |cluster: &Cluster| cluster.plan().removals;
    assert_eq!(removed(&cluster), []);
    let moving = cluster.edited(|spec| *spec = hosted().world.spec);
    assert_eq!(removed(&moving), [campaign.removal()]);
}

#[test]
fn what_pods_wait_for_is_asked_again_also_after_the_deadline() {
    let mut cluster = hosted();
    cluster.settle();
    let starting = cluster.canary();
    let view = cluster.world.serving.get_mut(&starting).expect("its pods");
    (view.failure, view.is_past_deadline) = (Some("the upstream refuses its credentials".to_owned()), true);
    cluster.settle();
    assert_eq!(cluster.world.status.stage, Some(Stage::Failed), "{}", condition(&cluster, "Stalled"));
    assert!(cluster.plan().requeue.as_secs() <= 30, "{:?}", cluster.plan().requeue);
}

#[rstest]
#[case::a_key_in_the_clear(
    |spec: &mut AgentDeploymentSpec| spec.model = at("http://llm.example", "qwen3"),
    "spec.model.upstream: headersFrom: sends a key that everybody on the way can read; begin url with https://, or name \
     the networks that it may cross in allowedNetworks"
)]
#[case::a_server_in_the_pod(
    |spec: &mut AgentDeploymentSpec| spec.model = at("https://127.0.0.1", "qwen3"),
    "spec.model.upstream: url: 127.0.0.1 is a loopback address; name another host, or add its network to allowedNetworks"
)]
#[case::a_path_that_the_agent_runtime_adds(
    |spec: &mut AgentDeploymentSpec| spec.model = at("https://llm.example/v1/chat/completions", "qwen3"),
    "spec.model.upstream: url: leave out /v1/chat/completions: the agent runtime adds the paths that it asks"
)]
#[case::a_port_that_is_none(
    |spec: &mut AgentDeploymentSpec| spec.model = at("https://llm.example:99999", "qwen3"),
    "spec.model.upstream: url: the port \"99999\" is not one; write a number from 1 to 65535"
)]
#[case::a_prompt_that_the_server_writes(
    |spec: &mut AgentDeploymentSpec| spec.agent.prompt_template = Some("{messages} {tools} {systemPrompt}".to_owned()),
    "spec.agent: promptTemplate: has no effect on a chat"
)]
fn what_no_sidecar_could_use_is_refused(#[case] edit: fn(&mut AgentDeploymentSpec), #[case] expected: &str) {
    let mut cluster = hosted().edited(edit);
    cluster.settle();
    assert_eq!(cluster.world.status.stage, Some(Stage::Refused), "{:?}", lines(&cluster.plan()));
    let told = condition(&cluster, "Stalled");
    assert!(told.starts_with(&format!("True SpecRefused: {expected}")), "{told}");
}

#[test]
fn a_server_without_chats_gets_a_transcript() {
    let cluster = hosted().edited(|spec| {
        spec.model.upstream.as_mut().expect("it is elsewhere").api = UpstreamApi::Completions;
        spec.agent.prompt_template = Some("{systemPrompt} {tools} {messages}".to_owned());
    });
    let cluster = cluster.with_pods_ready();
    let config = config(&cluster, &cluster.stable());
    assert_eq!(config.engine.dialect, TextDialect::Completions);
    assert_eq!(config.prompt_template, "{systemPrompt} {tools} {messages}");
}
