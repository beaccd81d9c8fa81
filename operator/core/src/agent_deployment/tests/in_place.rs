//! Canaries in the place of serving pods: how places are taken, and how they are given back.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{Capacity, CapacityPhase, RolloutStatus, Stage},
};

use super::{
    capacity::{Full, GATEWAY, full},
    cluster::world,
    trial::{EQUAL, Trial, Users},
};
use crate::plan::{Child, RemovalKind};

#[test]
fn in_place_the_one_pod_makes_room_and_the_new_one_takes_over_when_it_is_ready() {
    let mut full = full(1, "{capacity: InPlace}");
    let (stable, canary) = full.revisions();
    full.pass(9);
    assert_eq!(full.pods(&stable), (1, 1), "room is asked for first");
    full.pass(1);
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((0, 0), (1, 0)));
    assert_eq!(full.condition("Ready"), format!("False NotServing: no pod of revision {stable} is ready"));
    let updating = format!(
        "True UpdatingInPlace: 1 pod of {stable} drained for revision {canary}, which has 0 ready; 0 of {stable} remain"
    );
    assert_eq!(full.condition("Reconciling"), updating);
    let told = format!(
        "Warning draining one {stable} pod for plan {canary}; 0 remain: 0/1 nodes are available: 1 Insufficient \
         nvidia.com/gpu. No pod serves until {canary} is ready"
    );
    assert!(full.events.contains(&told), "{:?}", full.events);
    full.ready();
    assert_eq!((full.cluster.stable(), full.cluster.routed_to.clone()), (canary.clone(), Some(canary.clone())));
    assert_eq!(full.pods(&canary), (1, 1));
    assert_eq!(full.cluster.world.serving.keys().collect::<Vec<_>>(), [&canary]);
}

#[test]
fn a_room_that_is_there_is_taken_before_a_serving_pod_makes_any() {
    let mut full = full(1, "{capacity: InPlace}");
    let (stable, canary) = full.revisions();
    full.places = 2;
    full.settle();
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((1, 1), (1, 0)));
    full.ready();
    assert_eq!(full.cluster.stable(), canary);
}

#[test]
fn a_cluster_that_never_grows_needs_no_deadline() {
    let full = full(1, "{capacity: InPlace, capacityDeadline: 0s}");
    assert_eq!(full.phase(), Some(CapacityPhase::InPlace));
}

#[test]
fn a_canary_that_does_not_get_ready_gives_the_place_back_and_is_not_tried_again() {
    let mut full = full(1, "{capacity: InPlace, capacityDeadline: 0s}");
    let (stable, canary) = full.revisions();
    // A minute and the 85 seconds in which a pod of stable may end, then the ten minutes that any pod has.
    full.pass(12);
    assert_eq!(full.pods(&stable), (0, 0));
    full.cluster.pass(60);
    let plan = full.cluster.plan();
    let first = plan.children.iter().find_map(|child| match child {
        Child::Deployment(object) => Some((object.metadata.name.clone(), object.spec.as_ref()?.replicas)),
        _ => None,
    });
    assert_eq!(first, Some((Some(format!("support-{stable}")), Some(1))), "stable comes first");
    assert!(plan.removals.iter().any(|removal| removal.kind == RemovalKind::Deployment));
    full.settle();
    full.ready();
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((1, 1), (0, 0)));
    let stalled = full.condition("Stalled");
    let words = format!(
        "True RolledBack: revision {canary} was rolled back at 0 % of the traffic: 0 of 1 pods were ready 12 min after a {stable} pod was drained"
    );
    assert!(stalled.starts_with(&words), "{stalled}");
    full.pass(600);
    assert_eq!(full.pods(&stable), (1, 1));
}

#[test]
fn a_canary_that_crashes_gives_the_place_back_at_once() {
    let mut full = full(1, "{capacity: InPlace, capacityDeadline: 0s}");
    let (stable, canary) = full.revisions();
    full.crash(&canary);
    full.settle();
    full.ready();
    assert_eq!((full.pods(&stable), full.cluster.world.status.stage), ((1, 1), Some(Stage::RolledBack)));
}

#[test]
fn a_place_that_others_take_is_made_once_for_each_word() {
    let mut full = full(1, "{capacity: InPlace, capacityDeadline: 1m}");
    let (stable, canary) = full.revisions();
    full.pass(1);
    let view = full.cluster.world.serving.get_mut(&canary).expect("it has a Deployment");
    view.scheduled = 0;
    full.places = 0;
    full.settle();
    full.pass(3);
    assert_eq!((full.phase(), full.pods(&stable).0), (Some(CapacityPhase::Waiting), 1), "stable wants its pod again");
    full.places = 1;
    full.settle();
    full.ready();
    for _ in 0..20 {
        full.pass(30);
        assert_eq!(full.pods(&stable), (1, 1), "nothing is drained again");
    }
    let stalled = full.condition("Stalled");
    let retry = format!("run `kubectl slipway retry support -n team`, or set spec.rollout.retry to {canary}");
    assert!(stalled.ends_with(&format!("To drain one again, {retry}")), "{stalled}");
    full.edit(|spec| spec.rollout.retry = Some(canary.clone()));
    full.pass(1);
    assert_eq!(full.phase(), Some(CapacityPhase::InPlace));
}

#[test]
fn nothing_is_drained_while_a_person_holds_the_rollout() {
    let mut full = full(1, "{capacity: InPlace, paused: true}");
    let (stable, canary) = full.revisions();
    full.pass(60);
    assert_eq!((full.pods(&stable), full.phase()), ((1, 1), None));
    full.edit(|spec| spec.rollout.paused = false);
    full.ready();
    assert_eq!(full.cluster.stable(), canary);
}

#[test]
fn who_takes_the_word_back_gets_the_pod_back() {
    let mut full = full(1, "{capacity: InPlace, capacityDeadline: 0s}");
    let (stable, canary) = full.revisions();
    full.edit(|spec| spec.rollout.capacity = Capacity::RequireSurge);
    full.ready();
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((1, 1), (0, 0)));
}

/// Every share that the canary has, with the pods of both that are ready.
fn trades(full: &mut Full, (stable, canary): &(String, String)) -> Vec<(i32, i32, i32)> {
    let mut trades = Vec::new();
    for _ in 0..20 {
        if full.cluster.stable() == *canary {
            break;
        }
        let weight = full.rollout().weight.unwrap_or(0);
        let seen = (weight, full.pods(stable).1, full.pods(canary).1);
        if trades.last() != Some(&seen) {
            trades.push(seen);
        }
        for view in full.cluster.world.serving.values_mut() {
            (view.ready, view.updated) = (view.scheduled, view.wanted);
        }
        full.step();
    }
    trades
}

#[test]
fn in_a_full_cluster_pods_are_replaced_one_by_one_and_traffic_goes_with_them() {
    for (rollout, is_mixed) in
        [("{capacity: InPlace}".to_owned(), true), (format!("{{{GATEWAY}, capacity: InPlace}}"), false)]
    {
        let mut full = full(3, &rollout);
        let revisions = full.revisions();
        let word = revisions.1.clone();
        full.edit(|spec| spec.rollout.promote = Some(word));
        full.pass(10);
        let seen = trades(&mut full, &revisions);
        assert!(seen.iter().all(|(_, stable, canary)| stable + canary >= 2), "{seen:?}");
        assert_eq!(seen.iter().map(|(weight, ..)| *weight).collect::<Vec<_>>(), [0, 50, 100], "{rollout}");
        assert_eq!((full.cluster.stable(), full.pods(&revisions.1)), (revisions.1.clone(), (3, 3)));
        assert_eq!(full.cluster.routed_to, Some(revisions.1.clone()));
        assert_eq!(full.cluster.weights.is_empty(), is_mixed);
    }
}

#[test]
fn a_canary_that_fails_in_several_places_gives_them_back_one_by_one() {
    let mut full = full(4, "{capacity: InPlace, capacityDeadline: 0s}");
    let (stable, canary) = full.revisions();
    while full.room().is_some_and(|room| room.drained < 3) {
        full.step();
        for view in full.cluster.world.serving.values_mut() {
            (view.ready, view.updated) = (view.scheduled, view.wanted);
        }
    }
    full.crash(&canary);
    let mut seen = vec![(full.pods(&stable).1, full.pods(&canary).1)];
    while full.cluster.world.status.stage != Some(Stage::RolledBack) {
        full.step();
        let now = (full.pods(&stable).1, full.pods(&canary).1);
        for view in full.cluster.world.serving.values_mut() {
            view.ready = view.scheduled;
        }
        assert!(now.0 + now.1 >= 2 && seen.len() < 20, "{seen:?}");
        seen.push(now);
    }
    full.ready();
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((4, 4), (0, 0)));
    let stalled = full.condition("Stalled");
    assert!(stalled.contains("one of its pods failed"), "{stalled}");
    let told = format!("Warning {stable} regains 3 pods one by one: ");
    assert!(full.events.iter().any(|event| event.starts_with(&told)), "{:?}", full.events);
}

#[test]
fn an_edit_in_the_middle_gives_stable_its_pods_back_before_the_next_plan_is_begun() {
    let mut full = full(4, "{capacity: InPlace, capacityDeadline: 0s}");
    let (stable, superseded) = full.revisions();
    while full.room().is_some_and(|room| room.drained < 3) {
        full.step();
        for view in full.cluster.world.serving.values_mut() {
            (view.ready, view.updated) = (view.scheduled, view.wanted);
        }
    }
    // As the old manifest would, which is stable's own.
    full.cluster = full.cluster.clone().edited(|spec| spec.agent.system_prompt = "Answer.".to_owned());
    full.step();
    assert_eq!((full.phase(), full.rollout().canary), (Some(CapacityPhase::Restoring), Some(superseded.clone())));
    let restoring = full.condition("Reconciling");
    assert!(restoring.starts_with(&format!("True RestoringStable: restoring the pods of {stable}")), "{restoring}");
    for _ in 0..10 {
        full.ready();
    }
    assert_eq!((full.pods(&stable), full.pods(&superseded)), ((4, 4), (0, 0)));
    assert_eq!(full.rollout(), RolloutStatus { stable: Some(stable), ..RolloutStatus::default() });
}

/// The only pod of an agent, judged in steps: there is nothing beside it to compare it with.
fn alone(users: Users) -> (Trial, String) {
    alone_for(20 * 60, users)
}

fn alone_for(seconds: i64, users: Users) -> (Trial, String) {
    let steps = "steps: [{weight: 20, minSoak: 1m, maxSoak: 30m}, {weight: 50, minSoak: 2m, maxSoak: 60m}], judge: {warmUp: 0s}";
    let mut full = Full::serving(1, &format!("{{{GATEWAY}, {steps}, capacity: InPlace, capacityDeadline: 0s}}"));
    let objectives = "[{name: tail, metric: AgentRunLatency, percentile: p95, max: 1s}]";
    let objectives = serde_norway::from_str(objectives).expect("valid objectives");
    full.cluster = full.cluster.edited(|spec| {
        spec.slo.objectives = objectives;
        spec.agent.system_prompt = "Think twice.".to_owned();
    });
    full.settle();
    let canary = full.cluster.canary();
    assert_eq!((full.pods(&canary).0, full.rollout().weight), (1, Some(0)));
    let mut trial = Trial::on(full.cluster);
    trial.cluster.ready_pods();
    trial.serve(10, users);
    assert_eq!(trial.cluster.weights, BTreeMap::from([(format!("support-{canary}"), 100)]));
    assert_eq!(trial.cluster.routed_to, Some(canary.clone()), "the Service too, for those who come past the gateway");
    trial.serve(seconds, users);
    (trial, canary)
}

/// All pods of stable made room, so there is nobody whom the traffic could return to.
#[test]
fn traffic_stays_with_a_canary_alone_whose_pods_are_not_seen_ready() {
    let (mut trial, canary) = alone_for(20, EQUAL);
    let all = BTreeMap::from([(format!("support-{canary}"), 100)]);
    let route =
        |trial: &Trial| (trial.cluster.weights.clone(), trial.cluster.routed_to.clone(), trial.rollout().weight);
    for ready in [1, 0, 1] {
        trial.cluster.world.serving.get_mut(&canary).expect("it has a Deployment").ready = ready;
        trial.cluster.pass(10);
        trial.cluster.step();
        assert_eq!(route(&trial), (all.clone(), Some(canary.clone()), Some(100)), "{ready} ready");
    }
}

#[test]
fn a_canary_alone_is_judged_by_the_objectives() {
    let (good, canary) = alone(EQUAL);
    assert_eq!(good.cluster.stable(), canary);
    let (bad, canary) = alone(Users { slowdown: 6.0, ..EQUAL });
    assert_ne!(bad.cluster.stable(), canary);
    let reasons: Vec<String> = bad.rollout().rejected.into_iter().map(|rejected| rejected.reason).collect();
    assert!(
        matches!(reasons.as_slice(), [reason] if reason.starts_with("at 100 % of the traffic: AbsoluteHarm")),
        "{reasons:?}"
    );
    assert_eq!(bad.cluster.world.serving[&bad.cluster.stable()].wanted, 1);
}

#[test]
fn a_canary_alone_is_ready_in_the_place_of_stable() {
    let (trial, _) = alone(Users { runs: 0, ..EQUAL });
    let ready = trial.cluster.world.status.conditions.iter().find(|condition| condition.type_ == "Ready").expect("one");
    let stable = trial.cluster.stable();
    let canary = trial.cluster.canary();
    let words = format!("revision {stable} serves with 0 of 1 pods, and {canary} with 1 in place of the others");
    assert_eq!((ready.status.as_str(), ready.message.as_str()), ("True", words.as_str()));
    assert_eq!(trial.cluster.world.status.ready_replicas.as_deref(), Some("1/1"));
}

/// A GPU that a serving pod gives back is not the one that the canary asks for.
#[test]
fn nothing_is_drained_for_a_canary_on_nodes_with_another_gpu_model() {
    let on = |product: &str| {
        let label = ("nvidia.com/gpu.product".to_owned(), product.to_owned());
        move |spec: &mut AgentDeploymentSpec| spec.hardware.node_selector.extend([label.clone()])
    };
    let cluster = world().edited(|spec| {
        spec.serving.replicas = 1;
        spec.rollout = serde_norway::from_str("{capacity: InPlace}").expect("a valid rollout");
    });
    let cluster = cluster.edited(on("NVIDIA-L4")).serving();
    let mut full = Full { cluster, places: 1, events: Vec::new() };
    full.edit(on("NVIDIA-H200"));
    let (stable, canary) = full.revisions();
    let waits = full.condition("Reconciling");
    assert!(waits.ends_with("it pauses and tries again later"), "{waits}");
    for _ in 0..5 {
        full.pass(30);
        assert_eq!((full.phase(), full.pods(&stable)), (Some(CapacityPhase::Waiting), (1, 1)), "{canary}");
    }
    let stalled = full.condition("Stalled");
    let words = "Serving pods are not drained: they are on other nodes than spec.hardware or spec.search.gpuProducts asks \
                 for now";
    assert!(stalled.contains(words), "{stalled}");
}
