//! Pods of a canary that end or stop being ready, and those of stable.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;

use super::super::trial::{EQUAL, ROLLOUT, Trial, edited, trial, trial_with};
use crate::agent_deployment::world::Crash;

fn shares(trial: &Trial) -> Vec<(String, i32)> {
    trial.cluster.weights.iter().map(|(service, weight)| (service.clone(), *weight)).collect()
}

fn reasons(trial: &Trial) -> Vec<String> {
    trial.rollout().rejected.into_iter().map(|rejected| rejected.reason).collect()
}

#[test]
fn a_canary_without_a_ready_pod_gives_its_share_to_stable_until_it_has_one() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.lose_pods(&canary, None);
    trial.settle();
    assert_eq!(shares(&trial), [(format!("support-{stable}"), 100)]);
    let told =
        format!("RevisionFailing plan {canary} has no ready pod: stable {stable} gets its 20 % until it has one");
    assert_eq!(trial.events.last(), Some(&told));
    trial.cluster.pass(300);
    trial.cluster.ready_pods();
    trial.settle();
    let expected = BTreeMap::from([(format!("support-{stable}"), 80), (format!("support-{canary}"), 20)]);
    assert_eq!(trial.cluster.weights, expected);
    trial.serve(60 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "nothing of it is held against the canary: {:?}", trial.rollout());
}

#[test]
fn a_canary_gets_its_first_share_only_after_its_pods_have_been_ready_for_a_while() {
    let mut trial = Trial::on(edited(ROLLOUT));
    trial.settle();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.cluster.ready_pods();
    let view = trial.cluster.world.serving.get_mut(&canary).expect("it has a Deployment");
    view.settling = view.wanted;
    trial.settle();
    assert_eq!(shares(&trial), [(format!("support-{stable}"), 100)]);
    trial.cluster.ready_pods();
    trial.settle();
    let expected = BTreeMap::from([(format!("support-{stable}"), 80), (format!("support-{canary}"), 20)]);
    assert_eq!(trial.cluster.weights, expected);
}

#[test]
fn a_canary_that_does_not_get_ready_again_goes_back() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.lose_pods(&canary, None);
    trial.settle();
    trial.cluster.pass(599);
    trial.settle();
    assert_eq!(trial.canary(), Some(canary));
    trial.cluster.pass(1);
    trial.settle();
    assert_eq!(reasons(&trial), ["at 0 % of the traffic: none of its pods was ready again within 10 min"]);
}

#[test]
fn a_canary_keeps_its_share_where_stable_could_not_answer_for_it() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.lose_pods(&stable, None);
    trial.lose_pods(&canary, None);
    trial.settle();
    assert_eq!(trial.share(), 20);
}

#[test]
fn a_container_that_needed_two_attempts_to_start_is_no_failure_under_traffic() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    let since = trial.rollout().weight_since.expect("it has a share").0;
    let view = trial.cluster.world.serving.get_mut(&canary).expect("it has a Deployment");
    let crash = Crash { at: since - jiff::SignedDuration::from_secs(30), text: "triton exited with code 1".to_owned() };
    // As when a step adds pods that are not ready yet.
    (view.ready, view.wanted, view.crash) = (1, 2, Some(crash));
    trial.settle();
    assert_eq!(reasons(&trial), [""; 0]);
}

#[test]
fn a_person_can_let_a_canary_take_over_from_a_stable_that_is_down() {
    let mut trial = trial_with(ROLLOUT);
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.promote = Some(canary.clone()));
    for _ in 0..4 {
        trial.cluster.ready_pods();
        trial.lose_pods(&stable, None);
        trial.settle();
        if trial.stable() == canary {
            break;
        }
    }
    assert_eq!((trial.stable(), trial.cluster.routed_to.clone()), (canary.clone(), Some(canary)));
}
