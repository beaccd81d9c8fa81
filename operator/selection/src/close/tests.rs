use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::confirm::{Conclusion, conclude};

fn inputs(optimize_for: &str) -> ProfileInputs {
    serde_json::from_value(json!({
        "engines": [{"name": "a", "manifestDigest": "aa", "displayName": "fp16"}],
        "configurations": [{"name": "default", "settings": {}}],
        "levels": [1, 2, 4, 8, 16], "driver": "ModelAnalyzer", "replicas": 1, "optimizeFor": optimize_for,
        "objectives": [{"name": "fast", "metric": "RequestLatency", "percentile": "p95", "max": "200ms"}],
        "budget": {"gpuHours": "8", "measurements": 100}, "agent": {},
        "placement": {"tritonImage": "t"},
    }))
    .expect("inputs")
}

/// A measurement of the point with so many in flight; its throughput is known to 3 %, its latency to 5 %.
fn row(level: i32, per_kilosecond: i64, milliseconds: i64) -> Measurement {
    let verdict = if milliseconds > 190 { "Infeasible" } else { "Feasible" };
    let latency = |percentile: &str, micros: i64, percent: i64| {
        json!({"metric": "RequestLatency", "percentile": percentile, "microseconds": micros,
               "lower": micros - micros * percent / 100, "upper": micros + micros * percent / 100})
    };
    let micros = milliseconds * 1_000;
    serde_json::from_value(json!({
        "engine": "a", "configuration": "default", "level": level, "purpose": "Explore", "verdict": verdict,
        "count": 400, "errors": 0, "milliseconds": 60_000, "perKilosecond": per_kilosecond,
        "latencies": [latency("p50", micros / 2, 3), latency("p95", micros, 5)], "gpuMilliseconds": 61_000,
        "definitions": 2,
    }))
    .expect("a row")
}

fn again(round: i32, row: Measurement) -> Measurement {
    Measurement { purpose: MeasurementPurpose::Repeat, round: Some(round), ..row }
}

fn turn(point: usize, round: i32) -> Turn {
    Turn { point, round }
}

fn chosen(inputs: &ProfileInputs, rows: &[Measurement]) -> Option<i32> {
    match conclude(inputs, rows) {
        Conclusion::Measured { point } => Some(rows[point].level),
        _ => None,
    }
}

#[rstest]
#[case::throughputs_that_may_be_the_same("Throughput", &[0, 1])]
#[case::costs_that_may_be_the_same("Cost", &[0, 1])]
#[case::latencies_that_may_be_the_same("Latency", &[2, 3])]
fn points_are_close_whose_bounds_overlap(#[case] optimize_for: &str, #[case] expected: &[usize]) {
    let rows = [row(8, 10_000, 180), row(4, 9_700, 100), row(2, 6_000, 40), row(1, 4_000, 42), row(16, 12_000, 300)];
    assert_eq!(points(&inputs(optimize_for), &rows), expected);
}

#[test]
fn a_best_point_that_stands_alone_is_not_measured_again() {
    let rows = [row(8, 10_000, 180), row(4, 8_000, 100)];
    assert_eq!(turns(&inputs("Throughput"), &rows), []);
    assert_eq!(words(&inputs("Throughput"), &rows), None);
}

#[test]
fn of_many_close_points_the_best_three_take_turns_and_every_other_round_goes_back() {
    let rows = [row(1, 10_000, 100), row(2, 10_150, 110), row(4, 10_300, 120), row(8, 10_450, 130)];
    let expected = [turn(3, 1), turn(2, 1), turn(1, 1), turn(1, 2), turn(2, 2), turn(3, 2)];
    assert_eq!(turns(&inputs("Throughput"), &rows), expected);
    let with_one: Vec<_> = rows.into_iter().chain([again(1, row(8, 10_400, 130))]).collect();
    assert_eq!(turns(&inputs("Throughput"), &with_one), expected, "what was measured again changes no turn");
    assert!(is_taken(&with_one, expected[0]) && !is_taken(&with_one, expected[5]));
}

/// Two points after their first measurements and some rounds: what each found, by round.
fn after_rounds(found: &[(i64, i64)]) -> Vec<Measurement> {
    let rows = found.iter().zip(0..).flat_map(|((four, eight), round)| {
        let (four, eight) = (row(4, *four, 100), row(8, *eight, 120));
        if round == 0 { [four, eight] } else { [again(round, four), again(round, eight)] }
    });
    rows.collect()
}

#[rstest]
#[case::steady_pods_need_no_more(&[(10_000, 9_900), (10_010, 9_890), (10_005, 9_905)], 2)]
#[case::a_difference_beyond_the_noise_needs_no_more(&[(10_000, 9_700), (10_200, 9_000), (10_300, 9_100)], 2)]
#[case::noise_asks_for_another_round(&[(10_000, 9_900), (10_600, 10_100), (9_700, 10_500)], 3)]
#[case::and_another(&[(10_000, 9_900), (10_600, 10_100), (9_700, 10_500), (9_000, 11_400)], 4)]
fn points_take_turns_until_their_noise_cannot_hide_three_percent(#[case] found: &[(i64, i64)], #[case] rounds: i32) {
    let rows = after_rounds(found);
    let last = turns(&inputs("Throughput"), &rows).iter().map(|turn| turn.round).max();
    assert_eq!(last, Some(rounds));
}

#[test]
fn a_third_round_waits_for_the_second_and_leaves_out_what_is_decided() {
    let mut rows = after_rounds(&[(10_000, 9_900), (10_600, 10_100)]);
    rows.extend([row(2, 9_750, 90), again(1, row(2, 8_000, 90)), again(2, row(4, 9_700, 100))]);
    let of_round_three = |rows: &[Measurement]| -> Vec<usize> {
        let turns = turns(&inputs("Throughput"), rows);
        turns.iter().filter(|turn| turn.round == 3).map(|turn| turn.point).collect()
    };
    assert_eq!(of_round_three(&rows), Vec::<usize>::new(), "two points lack their second turn");
    rows.extend([again(2, row(8, 10_500, 120)), again(2, row(2, 7_900, 90))]);
    assert_eq!(of_round_three(&rows), [0, 1]);
}

#[test]
fn no_point_is_measured_again_more_than_four_times() {
    let again = [9_000, 11_000, 9_500, 10_500, 9_000, 11_000].map(|four| (four, 20_000 - four));
    let noisy: Vec<(i64, i64)> = [(10_000, 9_900)].into_iter().chain(again).collect();
    let rows = after_rounds(&noisy);
    let turns = turns(&inputs("Throughput"), &rows);
    assert_eq!(turns.iter().map(|turn| turn.round).max(), Some(MOST_ROUNDS));
    assert_eq!(turns.len(), 8);
}

#[test]
fn a_disturbed_minute_does_not_choose() {
    let inputs = inputs("Throughput");
    // The better one lost 3 % to something else on its node.
    let mut rows = vec![row(4, 10_000, 100), row(8, 9_890, 120)];
    assert_eq!(chosen(&inputs, &rows), Some(4));
    rows.extend([again(1, row(4, 9_950, 100)), again(1, row(8, 10_200, 120))]);
    rows.extend([again(2, row(8, 10_210, 120)), again(2, row(4, 10_020, 100))]);
    assert_eq!(chosen(&inputs, &rows), Some(8));
    assert_eq!(figures(&inputs, &rows, 1), Some(3), "the one in the middle");
    let told = words(&inputs, &rows).expect("points were close");
    assert_eq!(told, "2 close points were measured 4 times more in turn, and the middle of each counts");
    // And one that is disturbed in a later round keeps its place as well.
    rows[3].per_kilosecond = 7_000;
    rows[1].per_kilosecond = 10_205;
    assert_eq!(chosen(&inputs, &rows), Some(8));
}

#[test]
fn of_two_measurements_the_worse_counts() {
    let rows = [row(4, 10_000, 100), again(1, row(4, 9_000, 100))];
    assert_eq!(figures(&inputs("Throughput"), &rows, 0), Some(1));
}

#[rstest]
#[case::once(&[250], true)]
#[case::twice(&[250, 250], false)]
#[case::not_at_all(&[150, 160], true)]
fn a_point_that_mostly_misses_an_objective_is_no_candidate(#[case] again_ms: &[i64], #[case] is_candidate: bool) {
    let repeats = again_ms.iter().zip(1..).map(|(milliseconds, round)| again(round, row(4, 10_000, *milliseconds)));
    let rows: Vec<_> = [row(4, 10_000, 150)].into_iter().chain(repeats).collect();
    assert_eq!(figures(&inputs("Throughput"), &rows, 0).is_some(), is_candidate);
    assert_eq!(chosen(&inputs("Throughput"), &rows).is_some(), is_candidate);
}

#[rstest]
#[case::below_its_limit(199)]
#[case::above_its_limit(201)]
fn a_round_that_left_a_limit_open_counts_and_misses_nothing(#[case] again_ms: i64) {
    let rows = [row(4, 10_000, 150), open(1, row(4, 9_000, again_ms)), open(2, row(4, 8_000, again_ms))];
    assert_eq!(figures(&inputs("Throughput"), &rows, 0), Some(1));
}

#[test]
fn a_point_whose_first_measurement_left_a_limit_open_is_no_candidate() {
    let first = Measurement { verdict: MeasurementVerdict::Unbounded, ..row(4, 10_000, 199) };
    assert_eq!(figures(&inputs("Throughput"), &[first, again(1, row(4, 9_000, 150))], 0), None);
}

#[test]
fn rounds_that_miss_are_outvoted_by_those_that_left_a_limit_open() {
    let missing = |round| again(round, row(4, 10_000, 250));
    let mut rows = vec![row(4, 10_000, 150), missing(1), missing(2)];
    assert_eq!(figures(&inputs("Throughput"), &rows, 0), None, "two of three miss it");
    rows.push(open(3, row(4, 9_000, 199)));
    assert_eq!(figures(&inputs("Throughput"), &rows, 0), Some(3), "two of four miss it");
}

/// A round that ended before its limit was decided.
fn open(round: i32, row: Measurement) -> Measurement {
    Measurement { verdict: MeasurementVerdict::Unbounded, ..again(round, row) }
}

#[test]
fn points_are_chosen_among_by_rounds_that_left_a_limit_open() {
    let mut rows = vec![row(4, 10_000, 150), row(8, 9_890, 180)];
    rows.extend([open(1, row(4, 9_950, 195)), open(1, row(8, 10_200, 198))]);
    rows.extend([open(2, row(8, 10_210, 199)), open(2, row(4, 10_020, 196))]);
    assert_eq!(chosen(&inputs("Throughput"), &rows), Some(8));
}

#[test]
fn a_round_without_a_figure_that_is_limited_counts_for_nothing() {
    let mut inputs = inputs("Throughput");
    let without_latency = Measurement { latencies: Vec::new(), ..open(1, row(4, 9_000, 150)) };
    assert_eq!(figures(&inputs, &[row(4, 10_000, 150), without_latency], 0), Some(0));
    let rows = [row(4, 10_000, 150), open(1, row(4, 9_000, 150))];
    assert_eq!(figures(&inputs, &rows, 0), Some(1));
    inputs.gpu = serde_json::from_value(json!([{"figure": "Utilization", "max": 90}])).expect("a limit");
    assert_eq!(figures(&inputs, &rows, 0), Some(0));
}

#[test]
fn a_turn_without_figures_decides_nothing() {
    let nothing = Measurement { verdict: MeasurementVerdict::Failed, count: 0, per_kilosecond: 0, ..row(4, 0, 1) };
    let rows = [row(4, 10_000, 100), row(8, 9_900, 120), again(1, nothing.clone()), again(2, nothing)];
    assert_eq!(figures(&inputs("Throughput"), &rows, 0), Some(0));
    assert_eq!(words(&inputs("Throughput"), &rows), None);
}

proptest! {
    /// The measurement that stands for a point has no more than half of the others on either side.
    #[test]
    fn what_stands_for_a_point_is_in_the_middle(rates in prop::collection::vec(1_000i64..20_000, 1..4)) {
        let rows: Vec<_> = rates.iter().zip(0..).map(|(rate, round)| match round {
            0 => row(4, *rate, 100),
            round => again(round, row(4, *rate, 100)),
        }).collect();
        let inputs = inputs("Throughput");
        let found = rows[figures(&inputs, &rows, 0).expect("all meet the objective")].per_kilosecond;
        let below = rates.iter().filter(|rate| **rate < found).count();
        let above = rates.iter().filter(|rate| **rate > found).count();
        prop_assert!(below <= rates.len() / 2 && above <= rates.len() / 2, "{found} of {rates:?}");
    }
}
