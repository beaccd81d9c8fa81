//! The judge as a whole: stories of rollouts, and the properties every rollout has.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use slipway_vocabulary::{
    Percentile,
    evidence::{Histogram, Metric, Unit, WINDOW_SECONDS},
};

use super::{
    Arm, Blame, Change, Config, CountedObjective, Judge, Judgement, Observation, OnInconclusive, Prediction, Step,
    Verdict, Window,
    expected::{Expectation, Reference},
    rollout::BLOCK_SECONDS,
};

mod any_input;
mod costs;
mod fullest_state;
mod outages;
mod tails;
mod tasks;
mod without_values;

const WINDOWS_PER_BLOCK: u64 = BLOCK_SECONDS / WINDOW_SECONDS;

/// A rollout whose two arms are described by a few numbers.
#[derive(Clone)]
struct Rollout {
    metrics: Vec<Metric>,
    per_window: u64,
    weights: Vec<f64>,
    windows_per_step: u64,
    /// Canary over stable, per metric.
    ratios: Vec<f64>,
    /// Errors in a thousand: stable, canary.
    errors: [u64; 2],
    canary_answers: bool,
    strata: Vec<&'static str>,
}

fn rollout() -> Rollout {
    Rollout {
        metrics: vec![Metric::RequestLatency],
        per_window: 200,
        weights: vec![5.0, 20.0, 50.0],
        windows_per_step: 60,
        ratios: vec![1.0],
        errors: [5, 5],
        canary_answers: true,
        strata: vec![""],
    }
}

impl Rollout {
    fn slower(self, ratio: f64) -> Self {
        let ratios = vec![ratio; self.metrics.len()];
        Self { ratios, ..self }
    }

    fn with_metrics(self, metrics: &[(Metric, f64)]) -> Self {
        let (metrics, ratios) = metrics.iter().copied().unzip();
        Self { metrics, ratios, ..self }
    }

    fn windows(&self, seed: u64) -> Vec<Window> {
        let mut rng = Pcg64Mcg::new(u128::from(seed));
        let steps = self.weights.iter().flat_map(|weight| std::iter::repeat_n(*weight, self.windows_per_step as usize));
        let mut windows = Vec::new();
        let mut cohorts = Vec::new();
        for (index, weight) in steps.enumerate() {
            let canary = (self.per_window as f64 * weight / 100.0).round() as u64;
            cohorts.push(canary);
            let mut observations = Vec::new();
            for (arm, units, pods) in [(Arm::Stable, self.per_window - canary, 4), (Arm::Canary, canary, 1)] {
                for pod in 0..pods {
                    let n = units / pods + u64::from(pod < units % pods);
                    for (metric, ratio) in self.metrics.iter().zip(&self.ratios) {
                        let ratio = if arm == Arm::Canary { *ratio } else { 1.0 };
                        let stratum = self.strata[index % self.strata.len()];
                        let mut observation = observation(&mut rng, arm, *metric, (n, ratio));
                        observation.pod = format!("{arm:?}-{pod}");
                        observation.stratum = stratum.to_owned();
                        observation.errors = (0..n)
                            .filter(|_| rng.random_range(0..1_000) < self.errors[usize::from(arm == Arm::Canary)])
                            .count() as u64;
                        observation.buckets = take(&observation.buckets, n - observation.errors);
                        if arm == Arm::Canary && !self.canary_answers {
                            let ages = (0..).zip(cohorts.iter().rev().copied()).skip(1);
                            observation.in_flight_ages = Some(ages.collect());
                            (observation.count, observation.errors, observation.buckets) = (0, 0, Histogram::new());
                        }
                        observations.push(observation);
                    }
                }
            }
            let end_seconds = 1_789_000_000 + (index as u64 + 1) * 10;
            windows.push(Window { end_seconds, weight_percent: Some(weight), observations, ..Window::default() });
        }
        windows
    }
}

fn observation(rng: &mut Pcg64Mcg, arm: Arm, metric: Metric, (n, ratio): (u64, f64)) -> Observation {
    // The sum of uniforms is near enough to a normal; its exponential has a long tail, as latencies have.
    let mut draw = || (0..4).map(|_| rng.random::<f64>()).sum::<f64>() - 2.0;
    let buckets = (0..n).map(|_| (200_000.0 * ratio * (1.2 * draw()).exp()) as u64).collect();
    Observation {
        arm,
        pod: String::new(),
        metric,
        unit: if metric == Metric::RequestLatency { Unit::Request } else { Unit::Run },
        stratum: String::new(),
        started: Some(n),
        new_sessions: 0,
        in_flight_ages: Some(Vec::new()),
        count: n,
        errors: 0,
        buckets,
    }
}

fn take(histogram: &Histogram, n: u64) -> Histogram {
    let mut left = n;
    let pairs = histogram.pairs().map(|(index, count)| {
        let taken = count.min(left);
        left -= taken;
        (index, taken)
    });
    Histogram::from_pairs(pairs).unwrap()
}

fn judge_all(config: Config, windows: &[Window]) -> (Judge, Vec<Judgement>) {
    let mut judge = Judge::new(config);
    let judgements = windows.iter().filter_map(|window| judge.consume(window)).collect();
    (judge, judgements)
}

fn codes(judgements: &[Judgement]) -> Vec<(Verdict, &'static str)> {
    let mut codes: Vec<_> = judgements.iter().map(|judgement| (judgement.verdict, judgement.reason.code())).collect();
    codes.dedup();
    codes
}

#[test]
fn an_equal_canary_soaks_advances_and_is_promoted_at_the_end() {
    let (judge, judgements) = judge_all(Config::default(), &rollout().windows(1));
    let expected = [
        (Verdict::Hold, "Soaking"),
        (Verdict::Advance, "StepPassed"),
        (Verdict::Hold, "Soaking"),
        (Verdict::Advance, "StepPassed"),
        (Verdict::Hold, "Soaking"),
        (Verdict::Promote, "NonInferior"),
    ];
    assert_eq!(codes(&judgements), expected);
    assert_eq!(judge.decided(), Some((Verdict::Promote, 1_789_001_800)));
    assert_eq!(judgements.len(), 180);
}

#[test]
fn a_slow_canary_is_rolled_back_and_nothing_follows() {
    let mut windows = rollout().slower(1.6).windows(2);
    let (mut judge, judgements) = judge_all(Config::default(), &windows);
    let last = judgements.last().unwrap();
    assert_eq!((last.verdict, last.reason.code()), (Verdict::Rollback, "RelativeHarm"));
    assert!(last.end_seconds < 1_789_000_600, "decided at {}", last.end_seconds);
    assert_eq!(judge.consume(&windows.remove(179)), None);
    assert_eq!(judge.blame(), [Blame::Engine]);
}

#[test]
fn failing_units_are_rolled_back() {
    let failing = Rollout { errors: [5, 60], ..rollout() };
    let (_, judgements) = judge_all(Config::default(), &failing.windows(3));
    assert_eq!(judgements.last().unwrap().reason.code(), "ErrorHarm");
}

#[test]
fn a_canary_that_never_answers_is_rolled_back_within_two_minutes() {
    let silent = Rollout { canary_answers: false, ..rollout() };
    let (_, judgements) = judge_all(Config::default(), &silent.windows(4));
    let last = judgements.last().unwrap();
    assert_eq!((last.verdict, last.reason.code()), (Verdict::Rollback, "Hanging"));
    assert!(last.end_seconds <= 1_789_000_120, "decided at {}", last.end_seconds);
}

/// The pod is told to leave, finishes what it has and falls silent; the other one serves on.
#[test]
fn a_drained_pod_is_no_loss_and_a_lost_one_is_one_loss() {
    let errors_without = |told: bool| {
        let mut windows = outages::with_outages(&[]);
        for window in &mut windows[90..] {
            window.observations.retain(|observation| observation.pod != "Canary-1");
        }
        if told {
            windows[89].ended_pods.insert("Canary-1".to_owned());
        }
        let (judge, _) = judge_all(Config::default(), &windows[..110]);
        judge.guards[0].errors.ln_e()
    };
    let (drained, lost) = (errors_without(true), errors_without(false));
    assert!(lost > drained && lost < drained + 3.0_f64.ln(), "{drained} and {lost}");
}

#[test]
fn a_window_counts_once() {
    let windows = rollout().slower(1.6).windows(5);
    let twice: Vec<Window> = windows.iter().flat_map(|window| [window.clone(), window.clone()]).collect();
    assert_eq!(judge_all(Config::default(), &windows).1, judge_all(Config::default(), &twice).1);
}

#[test]
fn no_report_and_no_traffic_are_neither_success_nor_failure() {
    let mut windows = rollout().windows(6);
    for window in &mut windows[10..] {
        window.observations.retain(|observation| observation.arm == Arm::Stable);
    }
    let (judge, judgements) = judge_all(Config::default(), &windows);
    assert_eq!(judge.decided(), None);
    assert_eq!(judgements.last().unwrap().reason.code(), "EvidenceUnreachable");

    let mut windows = rollout().windows(6);
    for observation in windows.iter_mut().flat_map(|window| &mut window.observations) {
        if observation.arm == Arm::Canary {
            (observation.started, observation.count, observation.errors) = (Some(0), 0, 0);
            observation.buckets = Histogram::new();
        }
    }
    let (judge, judgements) = judge_all(Config::default(), &windows);
    assert_eq!(judge.decided(), None);
    assert_eq!(judgements.last().unwrap().reason.code(), "NoTraffic");
}

#[test]
fn too_little_traffic_ends_as_the_policy_says() {
    let rare = Rollout { per_window: 4, ..rollout() };
    let step = Step { weight_percent: 5.0, min_soak_seconds: 60, max_soak_seconds: 300 };
    let final_of = |on_inconclusive| {
        let config = Config { steps: vec![step], on_inconclusive, ..Config::default() };
        let (judge, judgements) = judge_all(config, &rare.windows(7)[..60]);
        (judge.decided().map(|(verdict, _)| verdict), judgements.last().unwrap().reason.code())
    };
    // At this weight not one unit of the canary finishes in most windows; the judge must not take that for success.
    let busy = |on_inconclusive| {
        let config = Config { steps: vec![step], on_inconclusive, ..Config::default() };
        let few = Rollout { per_window: 20, ..rollout() };
        let (judge, judgements) = judge_all(config, &few.windows(7)[..60]);
        (judge.decided().map(|(verdict, _)| verdict), judgements.last().unwrap().reason.code())
    };
    assert_eq!(final_of(OnInconclusive::Promote), (None, "NoTraffic"));
    assert_eq!(busy(OnInconclusive::Pause), (None, "VerdictUnreachable"));
    assert_eq!(busy(OnInconclusive::Rollback), (Some(Verdict::Rollback), "VerdictUnreachable"));
    assert_eq!(busy(OnInconclusive::Promote), (Some(Verdict::Promote), "VerdictUnreachable"));
}

#[test]
fn a_plan_that_is_predicted_slower_is_judged_by_its_prediction_and_its_objective() {
    let slower = Rollout { windows_per_step: 120, ..rollout() }.slower(2.0);
    let objective = |max_microseconds| Config {
        predictions: vec![Prediction { metric: Metric::RequestLatency, ratio_percent: 200 }],
        objectives: vec![CountedObjective {
            metric: Metric::RequestLatency,
            percentile: Percentile::P95,
            max_microseconds,
        }],
        ..Config::default()
    };
    let reason = |config| judge_all(config, &slower.windows(8)).1.last().unwrap().reason.code();
    assert_eq!(reason(objective(1_600_000)), "NonInferior");
    assert_eq!(reason(objective(500_000)), "AbsoluteHarm");
    assert_eq!(reason(Config::default()), "RelativeHarm");
}

#[test]
fn a_first_revision_is_judged_by_its_objectives_alone() {
    let alone = |ratio: f64| {
        let mut windows = rollout().slower(ratio).windows(9);
        for window in &mut windows {
            window.observations.retain(|observation| observation.arm == Arm::Canary);
        }
        let config = Config {
            is_first_revision: true,
            objectives: vec![CountedObjective {
                metric: Metric::RequestLatency,
                percentile: Percentile::P95,
                max_microseconds: 800_000,
            }],
            ..Config::default()
        };
        judge_all(config, &windows).0.decided().map(|(verdict, _)| verdict)
    };
    assert_eq!((alone(1.0), alone(4.0)), (Some(Verdict::Promote), Some(Verdict::Rollback)));
}

#[test]
fn an_error_rate_above_its_limit_blocks_without_shown_harm() {
    let failing = Rollout { errors: [20, 20], ..rollout() };
    let config = Config { error_rate_max: Some(0.01), ..Config::default() };
    let (judge, judgements) = judge_all(config, &failing.windows(10));
    assert_eq!(judge.decided(), None);
    assert_eq!(judgements.last().unwrap().reason.code(), "ErrorRateExceeded");
}

#[test]
fn blame_names_the_part_that_became_slower_and_nobody_for_both_arms() {
    let parts = |model: f64, tools: f64, calls: f64| {
        rollout().with_metrics(&[
            (Metric::AgentRunLatency, (model + tools) / 2.0),
            (Metric::ModelTime, model),
            (Metric::ToolTime, tools),
            (Metric::ModelCallsPerRun, calls),
        ])
    };
    let blame = |parts: Rollout| judge_all(Config::default(), &parts.windows(11)).0.blame();
    assert_eq!(blame(parts(2.0, 1.0, 1.0)), [Blame::Engine]);
    assert_eq!(blame(parts(1.0, 3.0, 1.0)), [Blame::Tools]);
    assert_eq!(blame(parts(2.0, 2.0, 2.2)), [Blame::Steps]);
}

#[test]
fn tools_do_not_decide_about_an_engine() {
    let slow_tools = rollout().with_metrics(&[(Metric::ModelTime, 1.0), (Metric::AgentRunLatency, 1.6)]);
    let decided = |change| {
        let config = Config { change, ..Config::default() };
        judge_all(config, &slow_tools.windows(12)).0.decided().map(|(verdict, _)| verdict)
    };
    assert_eq!(decided(Change::Engine), Some(Verdict::Promote));
    assert_eq!(decided(Change::Agent), Some(Verdict::Rollback));
}

#[test]
fn the_expected_time_is_near_the_time_it_takes() {
    let slow = Rollout { per_window: 20, windows_per_step: 360, ..rollout() };
    let windows = slow.windows(13);
    let (judge, _) = judge_all(Config::default(), &windows[..30]);
    let Expectation::Seconds(expected) = judge.expected_time_to_verdict(Reference::Rest) else { panic!("{judge:?}") };
    let step = |weight_percent| Step { weight_percent, min_soak_seconds: 3_600, max_soak_seconds: 7_200 };
    let config = Config { steps: [5.0, 20.0, 50.0].map(step).to_vec(), ..Config::default() };
    let (judge, _) = judge_all(config, &windows[..30]);
    assert!((1_800..=7_200).contains(&expected), "{expected}");
    assert_eq!(judge.expected_time_to_verdict(Reference::Rest), Expectation::Seconds(10_800));
}

#[test]
fn a_verdict_that_traffic_cannot_reach_is_said_at_the_opening() {
    let rare = Rollout { per_window: 20, ..rollout() };
    let step = Step { weight_percent: 5.0, min_soak_seconds: 60, max_soak_seconds: 600 };
    let config = Config { steps: vec![step], ..Config::default() };
    let (judge, _) = judge_all(config, &rare.windows(14)[..40]);
    assert!(
        matches!(
            judge.expected_time_to_verdict(Reference::Rest),
            Expectation::Unreachable { schedule_seconds: 600, .. }
        ),
        "{:?}",
        judge.expected_time_to_verdict(Reference::Rest)
    );
}

/// Windows at 20 % in which each side finishes so many units, and begins as many sessions.
fn sides(stable: u64, canary: u64, reference_percent: Option<f64>) -> Vec<Window> {
    let mut rng = Pcg64Mcg::new(16);
    let window = |index: u64| {
        let mut side = |arm, units| {
            let mut side = observation(&mut rng, arm, Metric::AgentRunLatency, (units, 1.0));
            (side.pod, side.new_sessions) = (format!("{arm:?}"), units);
            side
        };
        let observations = vec![side(Arm::Stable, stable), side(Arm::Canary, canary)];
        let end_seconds = 1_789_000_000 + index * 10;
        Window { end_seconds, weight_percent: Some(20.0), reference_percent, observations, ..Window::default() }
    };
    (1..=60).map(window).collect()
}

#[test]
fn a_baseline_has_as_many_sessions_as_the_canary_and_the_rest_has_more() {
    let is_mismatch = |windows: Vec<Window>| judge_all(Config::default(), &windows).0.split_mismatch().1;
    let cases = [sides(10, 10, Some(20.0)), sides(10, 10, None), sides(40, 10, None), sides(40, 10, Some(20.0))];
    assert_eq!(cases.map(is_mismatch), [false, true, false, true]);
}

#[test]
fn a_split_that_was_wrong_is_right_again_once_the_latest_windows_say_so() {
    let (judge, _) = judge_all(Config::default(), &sides(10, 10, None));
    assert!(judge.split_mismatch().1, "it was");
    let kept = [sides(10, 10, None), sides(40, 10, None), sides(4, 1, None)[..2].to_vec(), Vec::new()]
        .map(|latest| judge.is_split_kept(&latest[..latest.len().min(30)]));
    assert_eq!(kept, [false, true, false, false], "wrong still, mended, too few to tell, nothing");
}

#[test]
fn how_much_traffic_there_is_follows_from_what_two_equal_sides_have_of_it() {
    let units = |windows: Vec<Window>| judge_all(Config::default(), &windows).0.guards[0].pace.units;
    assert_eq!((units(sides(80, 20, None)), units(sides(20, 20, Some(20.0)))), (6_000.0, 6_000.0));
}

#[test]
fn a_baseline_takes_longer_to_prove_a_canary_by_for_it_sees_less() {
    let step = |weight_percent| Step { weight_percent, min_soak_seconds: 60, max_soak_seconds: 36_000 };
    let config = Config { steps: vec![step(20.0)], ..Config::default() };
    let (judge, _) = judge_all(config, &sides(20, 20, Some(20.0))[..30]);
    let seconds = |reference| match judge.expected_time_to_verdict(reference) {
        Expectation::Seconds(seconds) => seconds,
        otherwise => panic!("{otherwise:?}"),
    };
    let (rest, baseline) = (seconds(Reference::Rest), seconds(Reference::Baseline));
    assert!(rest < baseline && baseline <= 2 * rest, "{rest} s beside all the rest, {baseline} s beside a baseline");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_judge_resumed_from_any_prefix_gives_the_same_bits(
        seed in 0_u64..1_000, prefix in 0_usize..180, ratio in 0.9..1.3_f64, canary_answers in any::<bool>(),
    ) {
        let rollout = Rollout { canary_answers, strata: vec!["miss/p9/f0", "miss/p9/f1"], ..rollout() }.slower(ratio);
        let windows = rollout.windows(seed);
        let config = Config {
            objectives: vec![CountedObjective {
                metric: Metric::RequestLatency,
                percentile: Percentile::P95,
                max_microseconds: 500_000,
            }],
            ..Config::default()
        };
        let (whole, judgements) = judge_all(config.clone(), &windows);
        let (first, mut resumed_judgements) = judge_all(config.clone(), &windows[..prefix]);
        let mut resumed = Judge::resume(config, &first.encode()).unwrap();
        prop_assert_eq!(&resumed, &first);
        resumed_judgements.extend(windows.iter().filter_map(|window| resumed.consume(window)));
        prop_assert_eq!(&resumed_judgements, &judgements);
        prop_assert_eq!(resumed.encode(), whole.encode());
        prop_assert_eq!(resumed.ln_combined().to_bits(), whole.ln_combined().to_bits());
    }

    #[test]
    fn the_order_of_pods_and_their_names_do_not_matter(seed in 0_u64..1_000, turn in 1_usize..7) {
        let windows = rollout().slower(1.15).windows(seed);
        let mut turned = windows.clone();
        for window in &mut turned {
            let length = window.observations.len();
            window.observations.rotate_left(turn % length);
            window.observations.reverse();
            for observation in &mut window.observations {
                observation.pod = format!("x{}", observation.pod);
            }
        }
        prop_assert_eq!(judge_all(Config::default(), &windows).1, judge_all(Config::default(), &turned).1);
    }

    // At the end of a block the sequential t has its say, which is self-normalised: one outlier adds more to its
    // variance than to its mean, and takes weak evidence back.
    #[test]
    fn a_worse_window_within_a_block_never_lowers_the_evidence_of_harm(
        seed in 0_u64..1_000,
        at in (7_usize..60).prop_filter("within a block", |at| !(*at as u64 + 1).is_multiple_of(WINDOWS_PER_BLOCK)),
        moved in 1_u64..5,
    ) {
        let windows = rollout().windows(seed);
        let mut worse = windows.clone();
        for observation in &mut worse[at].observations {
            if observation.arm == Arm::Canary {
                // The fastest units become very slow, and some fail.
                let kept = Histogram::from_pairs(observation.buckets.pairs().rev().scan(
                    observation.buckets.count().saturating_sub(moved),
                    |left, (index, count)| { let n = count.min(*left); *left -= n; Some((index, n)) },
                )).unwrap();
                let gone = observation.buckets.count() - kept.count();
                observation.buckets = kept;
                observation.buckets.record_n(60_000_000, gone);
            }
        }
        let before = judge_all(Config::default(), &windows[..=at]).0.ln_combined();
        let after = judge_all(Config::default(), &worse[..=at]).0.ln_combined();
        prop_assert!(after >= before - 1e-9, "{before} -> {after}");
    }
}
