//! Steps that are passed in quick succession.

use pretty_assertions::assert_eq;

use super::super::trial::{EQUAL, trial_with};

/// Shares for which one canary pod is enough, so that each follows the last at once.
const QUICK: &str = "
traffic: {type: GatewayAPI, gatewayAPI: {parentRefs: [{name: agents}]}}
steps: [{weight: 5, minSoak: 20s}, {weight: 10, minSoak: 20s}, {weight: 15, minSoak: 20s}]
judge: {warmUp: 0s}
";

#[test]
fn what_has_passed_a_step_is_in_the_status_with_it_however_soon_it_comes_after_the_last() {
    let mut trial = trial_with(QUICK);
    let mut passed = Vec::new();
    while passed.len() < 3 {
        let before = trial.rollout().step;
        // An operator that was away meanwhile.
        trial.serve_unseen(40, EQUAL, false);
        trial.settle();
        let rollout = trial.rollout();
        if rollout.step != before {
            passed.push(rollout.step);
            assert_eq!(rollout.judged_at.map(|time| time.0), Some(trial.cluster.world.now), "{passed:?}");
        }
        assert!(trial.shares.len() < 20, "{:?}", trial.rollout());
    }
    assert_eq!(passed, [Some(2), Some(3), Some(4)]);
}
