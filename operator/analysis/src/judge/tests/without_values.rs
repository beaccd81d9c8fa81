//! Metrics of which an arm has no value.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_vocabulary::{
    Percentile,
    evidence::{Histogram, Metric},
};

use super::{Arm, Config, CountedObjective, Observation, Verdict, judge_all, rollout};

/// Answers of one token finish without a time between tokens.
#[test]
fn a_metric_without_values_stands_in_nobodys_way() {
    let mut windows =
        rollout().with_metrics(&[(Metric::RequestLatency, 1.0), (Metric::InterTokenLatency, 1.0)]).windows(3);
    for observation in windows.iter_mut().flat_map(|window| &mut window.observations) {
        if observation.metric == Metric::InterTokenLatency {
            (observation.count, observation.buckets) = (0, Histogram::new());
        }
    }
    let (judge, _) = judge_all(Config::default(), &windows);
    assert_eq!(judge.decided().map(|(verdict, _)| verdict), Some(Verdict::Promote));
}

const BOUND: CountedObjective =
    CountedObjective { metric: Metric::InterTokenLatency, percentile: Percentile::P95, max_microseconds: 10_000_000 };

/// The canary's sidecars ask the engine for whole answers, stable's for streams.
#[rstest]
#[case::that_nobody_bounds(Vec::new(), Some(Verdict::Promote))]
#[case::that_an_objective_bounds(vec![BOUND], None)]
fn a_metric_that_the_canary_alone_has_no_value_of_stands_in_its_way_where_it_is_bounded(
    #[case] objectives: Vec<CountedObjective>,
    #[case] expected: Option<Verdict>,
) {
    let mut windows =
        rollout().with_metrics(&[(Metric::RequestLatency, 1.0), (Metric::InterTokenLatency, 1.0)]).windows(3);
    for window in &mut windows {
        let is_unseen = |observation: &Observation| {
            observation.metric == Metric::InterTokenLatency && observation.arm == Arm::Canary
        };
        window.observations.retain(|observation| !is_unseen(observation));
    }
    let (judge, _) = judge_all(Config { objectives, ..Config::default() }, &windows);
    assert_eq!(judge.decided().map(|(verdict, _)| verdict), expected);
}
