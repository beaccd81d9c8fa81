//! Users that do not come in the declared shares.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::RolloutVerdict;

use super::super::trial::{EQUAL, ROLLOUT, Trial, Users, trial, trial_with};

fn verdict(trial: &Trial) -> (Option<RolloutVerdict>, Option<String>) {
    let rollout = trial.rollout();
    (rollout.verdict, rollout.reason)
}

/// An equal canary in its only step, which users go around the gateway past, for as long as it would take to be
/// promoted.
fn held() -> Trial {
    let one_step = ROLLOUT.replace("{weight: 20, minSoak: 1m, maxSoak: 30m}, ", "");
    let mut trial = trial_with(&one_step);
    trial.astray = -20;
    trial.serve(40 * 60, EQUAL);
    assert_eq!(verdict(&trial), (Some(RolloutVerdict::Hold), Some("TrafficSplitMismatch".to_owned())));
    trial
}

#[test]
fn a_canary_with_a_wrong_share_is_held_and_takes_over_once_the_gateway_is_mended() {
    let mut trial = held();
    let canary = trial.cluster.canary();
    trial.astray = 0;
    trial.serve(120 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
}

#[test]
fn harm_of_a_canary_with_a_wrong_share_is_still_seen() {
    let mut trial = held();
    let stable = trial.stable();
    trial.serve(20 * 60, Users { slowdown: 3.0, ..EQUAL });
    assert_eq!((trial.stable(), trial.rollout().rejected.len()), (stable, 1), "{:?}", trial.rollout());
}

/// Its pods take half of what comes to them, and those of the canary all.
#[test]
fn pods_that_refuse_runs_make_no_wrong_share() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.room = EQUAL.runs / 5;
    trial.serve(10 * 60, EQUAL);
    assert_ne!(trial.rollout().reason.as_deref(), Some("TrafficSplitMismatch"), "{:?}", trial.rollout());
    trial.serve(60 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
}

/// A gateway that is wrong shows as soon as no pod is full.
#[test]
fn a_wrong_share_is_seen_in_windows_in_which_no_pod_refuses_runs() {
    let mut trial = trial();
    (trial.astray, trial.room) = (-20, EQUAL.runs / 5);
    trial.serve(10 * 60, EQUAL);
    assert_ne!(trial.rollout().reason.as_deref(), Some("TrafficSplitMismatch"), "{:?}", trial.rollout());
    trial.room = u64::MAX;
    trial.serve(10 * 60, EQUAL);
    assert_eq!(verdict(&trial), (Some(RolloutVerdict::Hold), Some("TrafficSplitMismatch".to_owned())));
}
