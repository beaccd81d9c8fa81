//! Pods whose units fail together.

use pretty_assertions::assert_eq;

use super::*;

/// Pods of which the canary has two that serve well for a while: who of them fails from a window on, and for how long.
pub(super) fn with_outages(outages: &[(&str, std::ops::Range<usize>)]) -> Vec<Window> {
    let mut windows = rollout().windows(21);
    for (index, window) in windows.iter_mut().enumerate() {
        let canary = window.observations.iter().position(|observation| observation.arm == Arm::Canary).unwrap();
        let mut second = window.observations[canary].clone();
        second.pod = "Canary-1".to_owned();
        window.observations.push(second);
        for observation in &mut window.observations {
            let is_out = outages.iter().any(|(pod, during)| *pod == observation.pod && during.contains(&index));
            if is_out {
                (observation.errors, observation.buckets) = (observation.count, Histogram::new());
            }
        }
    }
    windows
}

#[test]
fn an_outage_of_one_pod_of_each_arm_is_no_harm_of_the_canary() {
    let windows = with_outages(&[("Canary-1", 70..74), ("Stable-2", 100..104)]);
    let (judge, judgements) = judge_all(Config::default(), &windows);
    assert_ne!(judge.decided().map(|(verdict, _)| verdict), Some(Verdict::Rollback), "{:?}", judgements.last());
}

#[test]
fn a_canary_whose_pods_all_begin_to_fail_is_rolled_back_in_a_hundred_seconds() {
    let windows = with_outages(&[("Canary-0", 100..180), ("Canary-1", 100..180)]);
    let (_, judgements) = judge_all(Config::default(), &windows);
    let last = judgements.last().unwrap();
    // Whichever is first: the evidence, or the rule.
    assert_eq!(last.verdict, Verdict::Rollback);
    assert!(["ErrorHarm", "PodsFailing"].contains(&last.reason.code()), "{:?}", last.reason);
    assert!(last.end_seconds <= 1_789_000_000 + 110 * 10, "decided at {}", last.end_seconds);
}
