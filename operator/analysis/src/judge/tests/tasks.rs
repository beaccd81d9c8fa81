//! Failed tasks guard a rollout by a margin, where it is asked for. An equal canary is not rolled back, and neither is
//! a tolerated difference. What goes beyond it is neither promoted nor kept.

use pretty_assertions::assert_eq;

use super::*;
use crate::judge::{Reason, config::margin_bins};

/// Tasks may fail half as often again. Latencies do not matter.
fn tolerant() -> Config {
    Config { task_failures_max: Some(1.5), margin_bins: margin_bins(0.5), ..Config::default() }
}

/// What clients say in a rollout of half an hour: failures among 1,000 tasks of stable and of the canary.
fn told(seed: u64, [stable, canary]: [u64; 2], tasks_per_window: f64) -> Vec<Window> {
    let mut windows = Rollout { per_window: 60, errors: [0, 0], ..rollout() }.windows(seed);
    let mut rng = Pcg64Mcg::new(u128::from(seed) + 1_000_000);
    for window in &mut windows {
        let share = window.weight_percent.expect("every window has one") / 100.0;
        for (arm, share, failing) in [(Arm::Stable, 1.0 - share, stable), (Arm::Canary, share, canary)] {
            // A fraction of a task is one at times.
            let n = (tasks_per_window * share + rng.random::<f64>()).floor() as u64;
            let mut said = observation(&mut rng, arm, Metric::TaskSuccess, (0, 1.0));
            said.pod = format!("{arm:?}-0");
            said.errors = (0..n).filter(|_| rng.random_range(0..1_000) < failing).count() as u64;
            said.count = n;
            window.observations.push(said);
        }
    }
    windows
}

/// How many of so many rollouts ended in each way: rolled back, promoted.
fn ended(config: &Config, rollouts: u64, failing: [u64; 2]) -> [usize; 2] {
    let verdicts: Vec<_> = (0..rollouts)
        .filter_map(|seed| judge_all(config.clone(), &told(seed, failing, 40.0)).0.decided())
        .map(|(verdict, _)| verdict)
        .collect();
    [Verdict::Rollback, Verdict::Promote].map(|of| verdicts.iter().filter(|verdict| **verdict == of).count())
}

#[test]
fn an_equal_canary_is_not_rolled_back_by_what_clients_say_and_mostly_promoted() {
    let [rolled_back, promoted] = ended(&tolerant(), 300, [100, 100]);
    println!("equal: {rolled_back} rolled back and {promoted} promoted of 300");
    assert!(rolled_back <= 3 && promoted >= 240, "{rolled_back} and {promoted} of 300");
}

#[test]
fn a_canary_that_fails_no_more_than_is_tolerated_is_not_rolled_back() {
    // 13 % are odds of 1.34 times those of 10 %.
    let [rolled_back, _] = ended(&tolerant(), 300, [100, 130]);
    println!("within the margin: {rolled_back} rolled back of 300");
    assert!(rolled_back <= 3, "{rolled_back} of 300");
}

#[test]
fn a_canary_that_fails_as_much_as_is_tolerated_is_rarely_promoted() {
    // 14.3 % are odds of 1.5 times those of 10 %.
    let [rolled_back, promoted] = ended(&tolerant(), 300, [100, 143]);
    println!("at the margin: {rolled_back} rolled back and {promoted} promoted of 300");
    assert!(rolled_back <= 3 && promoted <= 15, "{rolled_back} and {promoted} of 300");
}

#[test]
fn a_canary_whose_tasks_fail_far_more_often_is_rolled_back() {
    let [rolled_back, promoted] = ended(&tolerant(), 100, [100, 300]);
    println!("three times as many failures: {rolled_back} rolled back and {promoted} promoted of 100");
    assert!(rolled_back >= 95 && promoted == 0, "{rolled_back} and {promoted} of 100");
    let (_, judgements) = judge_all(tolerant(), &told(1, [100, 300], 40.0));
    let reason = judgements.last().expect("windows were judged").reason.to_string();
    assert!(reason.starts_with("ErrorHarm: TaskSuccess/errors"), "{reason}");
}

#[test]
fn tasks_that_hardly_ever_fail_are_promoted_and_silent_clients_are_waited_for() {
    assert_eq!(ended(&tolerant(), 20, [0, 0]), [0, 20]);
    let (judge, judgements) = judge_all(tolerant(), &told(1, [100, 100], 0.0));
    assert_eq!(judge.decided(), None);
    let last = judgements.last().expect("windows were judged").reason.clone();
    assert!(matches!(last, Reason::NotYetNonInferior { metric: Metric::TaskSuccess, .. }), "{last:?}");
    assert_eq!(ended(&Config { task_failures_max: None, ..tolerant() }, 5, [0, 0]), [0, 5], "nobody asked");
}

#[test]
fn a_judge_that_stops_in_between_remembers_what_clients_said() {
    let windows = told(3, [100, 120], 40.0);
    let mut whole = Judge::new(tolerant());
    let mut resumed = Judge::new(tolerant());
    for window in &windows {
        whole.consume(window);
        resumed = Judge::resume(tolerant(), &resumed.encode()).expect("its own memory");
        resumed.consume(window);
    }
    assert_eq!(resumed.encode(), whole.encode());
}
