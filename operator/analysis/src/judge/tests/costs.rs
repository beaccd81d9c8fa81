//! What a run costs guards a rollout where it is asked for, and what clients say is judged beside everything else.

use pretty_assertions::assert_eq;

use super::*;
use crate::judge::{CostGuard, Harm, Reason, config::margin_bins, verdict::Suspect};

/// At most a fifth more.
fn guarded(metrics: &[Metric]) -> Config {
    let guard = |metric: &Metric| CostGuard { metric: *metric, margin_bins: margin_bins(0.2) };
    Config { cost_guards: metrics.iter().map(guard).collect(), ..Config::default() }
}

fn verdict(config: Config, windows: &[Window]) -> Option<Verdict> {
    judge_all(config, windows).0.decided().map(|(verdict, _)| verdict)
}

/// Windows in which every run of an arm makes so many calls: stable, canary.
fn calls([stable, canary]: [u64; 2]) -> Vec<Window> {
    let metrics = [(Metric::ModelTime, 1.0), (Metric::ModelCallsPerRun, 1.0)];
    let mut windows = rollout().with_metrics(&metrics).windows(21);
    let observed = windows.iter_mut().flat_map(|window| &mut window.observations);
    for observation in observed.filter(|of| of.metric == Metric::ModelCallsPerRun) {
        let n = observation.buckets.count();
        observation.buckets = Histogram::new();
        observation.buckets.record_n(if observation.arm == Arm::Canary { canary } else { stable }, n);
    }
    windows
}

#[test]
fn twice_as_many_tokens_end_a_rollout_only_where_they_are_guarded() {
    let longer = rollout().with_metrics(&[(Metric::ModelTime, 1.0), (Metric::OutputTokensPerRun, 2.0)]);
    let windows = longer.windows(20);
    assert_eq!(verdict(Config::default(), &windows), Some(Verdict::Promote));
    let (judge, judgements) = judge_all(guarded(&[Metric::OutputTokensPerRun]), &windows);
    let Some(Reason::HarmShown { suspect, .. }) = judgements.last().map(|last| last.reason.clone()) else {
        panic!("{:?}", judgements.last())
    };
    let Suspect { key, harm } = suspect;
    assert_eq!((key.metric, harm, judge.blame()), (Metric::OutputTokensPerRun, Harm::Relative, vec![Blame::Steps]));
}

#[test]
fn as_many_tokens_and_calls_as_before_are_promoted() {
    let metrics = [Metric::ModelTime, Metric::OutputTokensPerRun, Metric::ModelCallsPerRun];
    let equal = rollout().with_metrics(&metrics.map(|metric| (metric, 1.0)));
    assert_eq!(verdict(guarded(&metrics[1..]), &equal.windows(22)), Some(Verdict::Promote));
}

#[test]
fn where_every_run_makes_the_same_number_of_calls_another_call_is_seen_and_none_is_enough() {
    let of = |numbers| verdict(guarded(&[Metric::ModelCallsPerRun]), &calls(numbers));
    assert_eq!([[1, 1], [3, 3], [3, 2]].map(of), [Some(Verdict::Promote); 3]);
    assert_eq!([[1, 2], [3, 4]].map(of), [Some(Verdict::Rollback); 2]);
}

#[test]
fn the_first_revision_has_nothing_to_cost_more_than() {
    let steps = vec![Step { weight_percent: 100.0, min_soak_seconds: 60, max_soak_seconds: 600 }];
    let config = Config { steps, is_first_revision: true, ..guarded(&[Metric::OutputTokensPerRun]) };
    let alone = Rollout { weights: vec![100.0], ..rollout() };
    let alone = alone.with_metrics(&[(Metric::AgentRunLatency, 1.0), (Metric::OutputTokensPerRun, 3.0)]);
    assert_eq!(verdict(config, &alone.windows(23)), Some(Verdict::Promote));
}

#[test]
fn clients_are_heard_beside_everything_that_a_pod_counts() {
    let counted = Metric::ALL.into_iter().filter(|metric| *metric != Metric::TaskSuccess);
    let counted: Vec<_> = counted.map(|metric| (metric, 1.0)).collect();
    let mut windows = rollout().with_metrics(&counted).windows(24);
    // What clients say comes later, and of fewer runs.
    for window in &mut windows[6..] {
        for arm in [Arm::Stable, Arm::Canary] {
            let mut said = observation(&mut Pcg64Mcg::new(1), arm, Metric::TaskSuccess, (0, 1.0));
            said.pod = format!("{arm:?}-0");
            (said.count, said.errors) = if arm == Arm::Canary { (4, 3) } else { (20, 1) };
            window.observations.push(said);
        }
    }
    let (_, judgements) = judge_all(Config::default(), &windows);
    let reason = judgements.last().expect("windows were judged").reason.to_string();
    assert!(reason.starts_with("ErrorHarm: TaskSuccess/errors"), "{reason}");
}
