//! Pods whose units fail together.

use pretty_assertions::assert_eq;

use super::*;
use crate::judge::{Harm, Reason, rollout::PROMOTION_E_VALUE};

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

/// Pods lose half of a minute's units, one pod after the other: two of them are the canary's, with a weight of 5 %.
#[test]
fn bad_minutes_of_pods_in_both_arms_are_no_harm_however_few_units_the_canary_has() {
    let names = ["Stable-0", "Canary-0", "Stable-1", "Canary-1", "Stable-2", "Canary-0", "Stable-3", "Canary-1"];
    let outages: Vec<_> = names.iter().enumerate().map(|(at, pod)| (*pod, 8 + at * 6..12 + at * 6)).collect();
    let (judge, judgements) = judge_all(Config::default(), &with_outages(&outages)[..60]);
    assert_eq!(judge.decided(), None, "{:?}", judgements.last());
    let errors = judge.evidence().into_iter().find(|evidence| evidence.harm == Harm::Errors).unwrap();
    assert!(errors.ln_e < PROMOTION_E_VALUE.ln(), "{errors:?}");
}

#[test]
fn a_canary_that_fails_more_by_unit_and_on_one_pod_only_is_not_promoted_and_says_why() {
    let (_, judgements) = judge_all(Config::default(), &with_outages(&[("Canary-1", 120..160)]));
    let last = judgements.last().unwrap();
    let Reason::ErrorsWithinPods { metric, together, failed } = last.reason else { panic!("{last:?}") };
    assert_eq!((last.verdict, metric), (Verdict::Hold, Metric::RequestLatency));
    assert!(together <= failed && together * 2 >= failed, "{together} of {failed}");
    let text = last.reason.to_string();
    assert!(text.starts_with("ErrorsWithinPods: ") && text.contains("more pods or a longer soak tell"), "{text}");
}
