//! How one revision takes over from another.

use k8s_openapi::{
    api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta,
    apimachinery::pkg::runtime::RawExtension,
};
use pretty_assertions::assert_eq;
use slipway_crds::{
    labels,
    v1alpha1::agent_deployment::{Precision, RolloutStatus, Stage},
};

use super::cluster::{Cluster, lines, world};
use crate::{
    agent_deployment::rollout::revision::{INPUT_HASH, Revision},
    plan::{Child, RemovalKind},
};

fn replicas(cluster: &Cluster) -> Vec<(String, i32)> {
    let children = cluster.plan().children;
    let deployments = children.into_iter().filter_map(|child| match child {
        Child::Deployment(object) => Some(object),
        _ => None,
    });
    deployments.filter_map(|d| Some((d.metadata.name?, d.spec?.replicas?))).collect()
}

fn status_of(cluster: &Cluster, type_: &str) -> String {
    let conditions = &cluster.world.status.conditions;
    conditions.iter().find(|c| c.type_ == type_).map(|c| format!("{} {}", c.status, c.message)).unwrap_or_default()
}

/// An agent of two pods whose prompt has just been changed.
fn changed() -> (Cluster, String) {
    let before = world().edited(|spec| spec.serving.replicas = 2).serving();
    let stable = before.stable();
    let mut changed = before.edited(|spec| spec.agent.system_prompt = "Think, then answer.".to_owned());
    changed.settle();
    (changed, stable)
}

#[test]
fn a_change_of_the_prompt_needs_no_job() {
    let (changed, stable) = changed();
    assert_eq!(changed.running_jobs(), Vec::<String>::new());
    assert_ne!(changed.canary(), stable);
}

#[test]
fn stable_keeps_its_full_capacity_and_its_traffic_until_the_new_revision_is_ready() {
    let (changed, stable) = changed();
    let canary = changed.canary();
    assert_eq!(replicas(&changed), [(format!("support-{stable}"), 2), (format!("support-{canary}"), 2)]);
    assert_eq!(changed.routed_to, Some(stable.clone()));
    assert_eq!(changed.world.status.stage, Some(Stage::RollingOut));
    assert_eq!(status_of(&changed, "Ready"), format!("True revision {stable} serves with 2 of 2 pods"));
    let waiting = format!("True revision {canary} has 0 of 2 pods ready");
    assert_eq!(status_of(&changed, "Reconciling"), waiting);
}

#[test]
fn one_ready_pod_of_two_is_not_enough() {
    let (mut changed, stable) = changed();
    let canary = changed.canary();
    let view = changed.world.serving.get_mut(&canary).expect("the canary has a Deployment");
    (view.ready, view.updated) = (1, 2);
    changed.settle();
    assert_eq!((changed.stable(), changed.routed_to), (stable.clone(), Some(stable)));
}

#[test]
fn pods_of_a_template_that_is_not_observed_yet_do_not_count() {
    let (mut changed, stable) = changed();
    let canary = changed.canary();
    changed.ready_pods();
    changed.world.serving.get_mut(&canary).expect("the canary has a Deployment").is_observed = false;
    assert_eq!(changed.plan().status.rollout.and_then(|rollout| rollout.stable), Some(stable));
}

#[test]
fn the_new_revision_takes_over_when_its_pods_are_ready_and_the_old_objects_go() {
    let (mut changed, stable) = changed();
    let canary = changed.canary();
    let old = changed.world.objects[&stable].clone();
    changed.ready_pods();
    let plan = changed.plan();
    assert_eq!(plan.status.rollout, Some(RolloutStatus { stable: Some(canary.clone()), ..RolloutStatus::default() }));
    let removed: Vec<_> =
        plan.removals.iter().map(|r| (r.kind, r.name.clone(), r.uid.clone(), r.resource_version.clone())).collect();
    let expected: Vec<_> = old.into_iter().map(|o| (o.kind, o.name, o.uid, o.resource_version)).collect();
    assert_eq!(removed, expected);
    assert_eq!(
        removed.iter().map(|removal| removal.0).collect::<Vec<_>>(),
        [RemovalKind::ConfigMap, RemovalKind::Service, RemovalKind::Deployment]
    );
    let told = format!("Normal RevisionPromoted: plan {canary} serves from {stable}: 2 ready");
    assert_eq!(lines(&plan).last(), Some(&told));
    changed.settle();
    assert_eq!(changed.routed_to, Some(canary.clone()));
    assert_eq!(changed.world.objects.keys().collect::<Vec<_>>(), [&canary]);
}

#[test]
fn a_revision_that_fails_past_its_deadline_stalls_while_stable_serves() {
    let (mut changed, stable) = changed();
    let canary = changed.canary();
    changed.fail_pods(&canary, "triton exited with code 1: failed to load 'agent'");
    changed.settle();
    let failing = format!("True revision {canary} does not start: triton exited with code 1: failed to load 'agent'");
    assert_eq!(status_of(&changed, "Stalled"), failing);
    assert_eq!(status_of(&changed, "Reconciling"), "False nothing is in progress");
    assert_eq!(status_of(&changed, "Ready"), format!("True revision {stable} serves with 2 of 2 pods"));
    assert_eq!(changed.routed_to, Some(stable));
}

#[test]
fn a_spec_that_goes_back_to_a_kept_revision_needs_no_job_and_no_engine() {
    let (changed, first) = changed();
    let changed = changed.with_pods_ready();
    let engines = changed.engines.len();
    let jobs = changed.world.jobs.len();
    let mut back = changed.edited(|spec| spec.agent.system_prompt = "Answer.".to_owned());
    // Even the engine may be gone from the cluster's memory: the record of the plan is enough.
    back.world.status.model = None;
    back.settle();
    assert_eq!(back.canary(), first);
    let back = back.with_pods_ready();
    assert_eq!((back.stable(), back.engines.len(), back.world.jobs.len()), (first, engines, jobs));
}

#[test]
fn status_tells_what_a_kept_revision_serves() {
    let first = world().edited(|spec| spec.search.concurrency = vec![8]).serving();
    let second = first.edited(|spec| spec.search.concurrency = vec![2]).with_pods_ready();
    let back = second.edited(|spec| spec.search.concurrency = vec![8]).with_pods_ready();
    let selected = back.world.status.selected.clone().expect("something is selected");
    let why = format!("kept revision {} has the same inputs", back.stable());
    assert_eq!((selected.max_in_flight, selected.why), (8, why));
}

#[test]
fn an_edit_during_a_rollout_supersedes_it_and_leaves_stable_alone() {
    let (changed, stable) = changed();
    let superseded = changed.canary();
    let mut again = changed.edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    again.settle();
    assert_ne!(again.canary(), superseded);
    assert_eq!(again.routed_to, Some(stable.clone()));
    assert_eq!(again.world.objects.keys().filter(|revision| **revision == superseded).count(), 0);
    assert_eq!(replicas(&again)[0], (format!("support-{stable}"), 2));
}

#[test]
fn while_another_model_is_resolved_no_canary_is_named() {
    let (changed, stable) = changed();
    let mut again = changed.edited(|spec| spec.model.uri = Some("http://models.example/other".to_owned()));
    again.settle();
    assert_eq!(
        again.world.status.rollout,
        Some(RolloutStatus { stable: Some(stable.clone()), ..RolloutStatus::default() })
    );
    assert_eq!(again.world.objects.keys().collect::<Vec<_>>(), [&stable]);
}

#[test]
fn more_replicas_make_no_new_revision() {
    let before = world().serving();
    let stable = before.stable();
    let mut scaled = before.edited(|spec| spec.serving.replicas = 3);
    scaled.settle();
    assert_eq!(replicas(&scaled), [(format!("support-{stable}"), 3)]);
    assert_eq!(status_of(&scaled, "Reconciling"), format!("True revision {stable} has 1 of 3 pods ready"));
    assert_eq!(scaled.with_pods_ready().world.status.ready_replicas, Some("3/3".to_owned()));
}

#[test]
fn an_agent_of_no_replicas_is_at_rest_and_says_how_to_start_it() {
    let mut scaled = world().serving().edited(|spec| spec.serving.replicas = 0);
    scaled.settle();
    let stable = scaled.stable();
    let message = format!("False revision {stable} is scaled to 0: set spec.serving.replicas");
    assert_eq!(status_of(&scaled, "Ready"), message);
    assert_eq!(scaled.world.status.stage, Some(Stage::Serving));
}

#[test]
fn records_beyond_the_history_limit_are_forgotten_the_oldest_first() {
    let mut cluster = world().edited(|spec| spec.rollout.revision_history_limit = 1).serving();
    let mut served = vec![cluster.stable()];
    for prompt in ["One.", "Two.", "Three."] {
        cluster = cluster.edited(|spec| spec.agent.system_prompt = prompt.to_owned()).with_pods_ready();
        served.push(cluster.stable());
    }
    let kept: Vec<_> = cluster.world.revisions.iter().map(|revision| revision.hash.clone()).collect();
    assert_eq!(kept, served[2..]);
}

/// A record may be deleted by hand, or be of a shape that only a later version reads. Who serves goes on serving.
#[test]
fn a_lost_record_stops_nobody_from_serving() {
    let cluster = world().serving();
    let stable = cluster.stable();
    let mut lost = cluster.edited(|spec| spec.model.uri = Some("http://models.example/other".to_owned()));
    lost.world.revisions.clear();
    lost.settle();
    assert_eq!((lost.routed_to.clone(), lost.stable()), (Some(stable.clone()), stable.clone()));
    assert!(lost.world.serving.contains_key(&stable));
    let other = lost.resolved().fetched().with_engine_built(Precision::FP32);
    assert_eq!(other.routed_to, Some(stable.clone()));
    assert!(other.world.serving.contains_key(&stable));
    assert_ne!(other.with_pods_ready().stable(), stable);
}

/// Plans once held the objectives: their records stand on users' clusters.
#[test]
fn a_record_with_members_of_before_is_still_read() {
    let cluster = world().serving();
    let revision = cluster.world.revision(&cluster.stable()).expect("the plan is kept").clone();
    let mut data = serde_json::to_value(&revision.plan).expect("a plan is JSON");
    data["slo"] = serde_json::json!({"objectives": []});
    let record = ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision.name.clone()),
            labels: Some([(labels::REVISION.to_owned(), revision.hash.clone())].into()),
            annotations: Some([(INPUT_HASH.to_owned(), revision.input_hash.clone())].into()),
            uid: Some(revision.uid.clone()),
            resource_version: Some(revision.resource_version.clone()),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: revision.number,
    };
    assert_eq!(Revision::read(&record).expect("a record can be read"), revision);
}
