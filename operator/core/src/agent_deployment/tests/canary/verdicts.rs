//! What follows from a verdict that does not come in time, what clients say, and how long a verdict is expected to
//! take.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::Stage;

use super::{EQUAL, ROLLOUT, Trial, Users, trial, trial_with};

/// Too few runs for fifty finished units of the canary within the longest soak.
const FEW: Users = Users { runs: 10, ..EQUAL };

fn inconclusive(then: &str) -> Trial {
    let impatient = ROLLOUT.replace("maxSoak: 30m", "maxSoak: 2m").replace("maxSoak: 60m", "maxSoak: 2m");
    trial_with(&format!("{impatient}onInconclusive: {then}\n"))
}

fn condition(trial: &Trial, type_: &str) -> (String, String) {
    let conditions = &trial.cluster.world.status.conditions;
    let found = conditions.iter().find(|c| c.type_ == type_).expect("it has one");
    (found.reason.clone(), found.message.clone())
}

#[test]
fn a_canary_without_a_verdict_is_rolled_back_where_the_spec_says_so() {
    let mut trial = inconclusive("Rollback");
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.serve(300, FEW);
    let reason = "at 20 % of the traffic: VerdictUnreachable: 120 s at this step, longest 120 s; TooFewUnits: 24 of 50 finished units \
                  of the canary";
    assert_eq!(trial.rollout().rejected.iter().map(|plan| plan.reason.as_str()).collect::<Vec<_>>(), [reason]);
    assert_eq!((trial.stable(), trial.canary(), trial.shares.clone()), (stable, None, vec![0, 20, 0]));
    let retry = format!("run `kubectl slipway retry support -n team`, or set spec.rollout.retry to {canary}");
    let told = format!("revision {canary} was rolled back {reason}. Change the spec, {retry}");
    assert_eq!(condition(&trial, "Stalled"), ("RolledBack".to_owned(), told));
    assert_eq!(trial.cluster.world.status.stage, Some(Stage::RolledBack));
}

#[test]
fn a_canary_without_a_verdict_goes_on_where_the_spec_says_so() {
    let mut trial = inconclusive("Promote");
    let canary = trial.cluster.canary();
    trial.serve(600, FEW);
    assert_eq!((trial.stable(), trial.shares), (canary, vec![0, 20, 50, 0]));
}

#[test]
fn a_canary_that_clients_are_disappointed_by_is_rolled_back_however_fast_it_is() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.serve(20 * 60, Users { disappointed: Some(30), slowdown: 0.5, ..EQUAL });
    let rejected = trial.rollout().rejected;
    assert_eq!(rejected.iter().map(|rejected| &rejected.plan).collect::<Vec<_>>(), [&canary]);
    let words = "at 20 % of the traffic: ErrorHarm: TaskSuccess/errors; log evidence";
    assert!(rejected[0].reason.starts_with(words), "{}", rejected[0].reason);
}

#[test]
fn where_the_spec_bounds_failing_tasks_a_canary_waits_for_what_clients_say() {
    let bounded = ROLLOUT.replace("{warmUp: 0s}", "{warmUp: 0s, taskFailures: {maxIncrease: 50%}}");
    let mut silent = trial_with(&bounded);
    let canary = silent.cluster.canary();
    silent.serve(20 * 60, EQUAL);
    assert_eq!((silent.canary(), silent.share()), (Some(canary), 50), "nobody says anything");
    assert_eq!(silent.rollout().reason.as_deref(), Some("NotYetNonInferior"));
    let mut heard = trial_with(&bounded);
    let canary = heard.cluster.canary();
    heard.serve(40 * 60, Users { disappointed: Some(0), ..EQUAL });
    assert_eq!(heard.stable(), canary);
}

#[test]
fn clients_who_are_as_content_as_before_let_a_canary_pass() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.serve(40 * 60, Users { disappointed: Some(0), ..EQUAL });
    assert_eq!(trial.stable(), canary);
}

#[test]
fn the_status_says_how_long_a_verdict_takes() {
    let mut trial = trial();
    trial.serve(130, EQUAL);
    assert_eq!(trial.rollout().expected_verdict.as_deref(), Some("about 5 min at today's traffic"));
}
