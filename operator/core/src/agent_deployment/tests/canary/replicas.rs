//! Agents that are scaled to nothing while a revision is on trial or after it was rejected.

use pretty_assertions::assert_eq;

use super::super::trial::{EQUAL, Trial, Users, trial};

fn scale(trial: &mut Trial, replicas: i32) {
    trial.cluster = trial.cluster.clone().edited(|spec| spec.serving.replicas = replicas);
    for _ in 0..3 {
        trial.settle();
        trial.cluster.ready_pods();
    }
    trial.settle();
}

fn condition(trial: &Trial, type_: &str) -> (String, String) {
    let conditions = &trial.cluster.world.status.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == type_).expect("it has one");
    (format!("{} {}", found.status, found.reason), found.message.clone())
}

#[test]
fn a_rejected_plan_does_not_take_over_when_there_are_no_pods() {
    let mut trial = trial();
    let stable = trial.stable();
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    assert_eq!(trial.rollout().rejected.len(), 1);
    for replicas in [0, 3] {
        scale(&mut trial, replicas);
        assert_eq!((trial.stable(), trial.canary()), (stable.clone(), None), "with {replicas} replicas");
        assert_eq!(trial.cluster.routed_to.as_ref(), Some(&stable));
        assert_eq!(condition(&trial, "Stalled").0, "True RolledBack");
    }
}

#[test]
fn a_revision_on_trial_waits_without_pods_and_begins_anew_with_them() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    scale(&mut trial, 0);
    assert_eq!((trial.stable(), trial.canary(), trial.share()), (stable.clone(), Some(canary.clone()), 0));
    let why = format!(
        "revision {canary} is being rolled out, but replicas are 0: its rollout restarts once replicas are above 0"
    );
    assert_eq!(condition(&trial, "Suspended"), ("True RolloutPaused".to_owned(), why));
    scale(&mut trial, 4);
    assert_eq!((trial.stable(), trial.share()), (stable, 20));
    trial.serve(60 * 60, EQUAL);
    assert_eq!(trial.stable(), canary);
}

#[test]
fn a_plan_that_is_new_when_there_are_no_pods_is_what_the_next_pods_run() {
    let mut trial = trial();
    trial.serve(60 * 60, EQUAL);
    scale(&mut trial, 0);
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    scale(&mut trial, 0);
    let stable = trial.stable();
    let revision = trial.cluster.world.revision(&stable).expect("it is recorded");
    assert_eq!(revision.plan.agent.system_prompt, "Be brief.");
    assert_eq!(trial.canary(), None);
}
