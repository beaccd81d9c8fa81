use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use slipway_analysis::{
    pareto::Direction,
    search::{Arm, Axis, Columns, Constraint, Measurement, Metric, MetricKind, Outcome, Progress, Role, Step, Value},
    slo::Bound,
};

use super::*;
use crate::method::MethodName;

const METHODS: [MethodName; 9] = [
    MethodName::Slipway,
    MethodName::SlipwayWhenAsked,
    MethodName::SlipwayAll,
    MethodName::Brute,
    MethodName::BruteEarlyExit,
    MethodName::MaQuickSweep,
    MethodName::Random,
    MethodName::Tpe,
    MethodName::Bisection,
];

/// A table of arms of a batch limit and instances with given throughputs; p95 follows Little's law.
fn problem(throughputs: &[[f64; 4]], limit: f64) -> Problem {
    let levels = vec![1.0, 4.0, 16.0, 64.0];
    let arm = |(k, _): (usize, &[f64; 4])| Arm {
        values: vec![Value::Number(f64::from(1u32 << (k % 3))), Value::Number((1 + k / 3) as f64)],
        gpus: 1.0 + (k % 2) as f64,
        price: None,
        start_seconds: Some(20.0),
        engine: k,
        levels: vec![true; 4],
    };
    let row = |rate: f64, level: f64| {
        let values = (rate > 5.0).then(|| vec![rate, 1200.0 * level / rate]);
        Some(Row { values, start_seconds: 20.0, run_seconds: 10.0 })
    };
    let axis = |name: &str, role| Axis { name: name.into(), role: Some(role) };
    let metric = |name: &str, kind| Metric { name: name.into(), kind, prior: Vec::new() };
    let space = Space {
        axes: vec![axis("batch", Role::MaxBatchSize), axis("instances", Role::Instances)],
        arms: throughputs.iter().enumerate().map(arm).collect(),
        levels: levels.clone(),
        run_seconds: Some(10.0),
        metrics: vec![metric("rate", MetricKind::Throughput), metric("p95_ms", MetricKind::Latency)],
        objective: 0,
        direction: Direction::Maximize,
        constraints: vec![Constraint { metric: 1, bound: Bound::AtMost(limit) }],
        abort_fraction: 1.0,
        prices_known: false,
        columns: Columns::default(),
        model: None,
    };
    let rows = throughputs.iter().map(|arm| arm.iter().zip(&levels).map(|(rate, level)| row(*rate, *level)).collect());
    let arm_columns = vec!["batch".into(), "instances".into()];
    Problem { space, arm_columns, rows: rows.collect(), abort: Abort::Never, noise_log_sd: 0.0 }
}

fn play(problem: &Problem, method: MethodName, seed: u64) -> ReplayResult {
    replay(problem, &method.name(), method.strategy(problem.space.clone(), seed).as_ref(), seed)
}

fn tables() -> impl Strategy<Value = Vec<[f64; 4]>> {
    prop::collection::vec(prop::array::uniform4(1.0f64..400.0), 2..9)
}

/// Runs that were made to learn.
fn explored(result: &ReplayResult) -> impl Iterator<Item = &TraceEntry> {
    result.trace.iter().filter(|entry| !entry.reason.starts_with("confirm"))
}

/// The table with a product of GPUs in the place of the batch limit: an engine for each of three.
fn of_products(throughputs: &[[f64; 4]], limit: f64) -> Problem {
    let mut problem = problem(throughputs, limit);
    problem.space.axes[0].role = Some(Role::GpuType);
    problem
}

fn aborting(mut problem: Problem) -> Problem {
    problem.abort = Abort::Fractions(Fractions { far: 0.11, near: 0.3, floor_seconds: 2.0 });
    problem.space.abort_fraction = problem.abort.expected_fraction();
    problem
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_replay_is_bit_equal_from_its_seed(table in tables(), limit in 20.0f64..2000.0, seed in 0u64..5, noise in 0.0f64..0.1) {
        let mut problem = aborting(problem(&table, limit));
        problem.noise_log_sd = noise;
        for method in METHODS {
            let text = |r: ReplayResult| serde_json::to_string(&r).unwrap();
            prop_assert_eq!(text(play(&problem, method, seed)), text(play(&problem, method, seed)));
        }
    }

    #[test]
    fn a_row_is_seen_only_after_it_is_paid_for(table in tables(), limit in 20.0f64..2000.0, seed in 0u64..5) {
        let problem = problem(&table, limit);
        for method in METHODS {
            let first = play(&problem, method, seed);
            let mut other = problem.clone();
            for (arm, levels) in other.rows.iter_mut().enumerate() {
                for (level, row) in levels.iter_mut().enumerate() {
                    let visited = first.trace.iter().any(|t| {
                        t.place.level == problem.space.levels[level]
                            && t.place.arm["batch"] == serde_json::json!(f64::from(1u32 << (arm % 3)))
                            && t.place.arm["instances"] == serde_json::json!((1 + arm / 3) as f64)
                    });
                    if !visited {
                        *row = Some(Row { values: Some(vec![1e9, 1e-9]), start_seconds: 20.0, run_seconds: 10.0 });
                    }
                }
            }
            prop_assert_eq!(play(&other, method, seed).trace, first.trace, "{}", method.name());
        }
    }

    #[test]
    fn a_search_resumes_from_any_prefix(table in tables(), limit in 20.0f64..2000.0, seed in 0u64..5) {
        let problem = problem(&table, limit);
        for method in METHODS {
            let mut measurements = Vec::new();
            let whole = method.strategy(problem.space.clone(), seed);
            loop {
                let progress = Progress { measurements: &measurements, pending: &[] };
                let step = whole.next(progress);
                // A strategy built anew knows nothing but the prefix.
                prop_assert_eq!(&method.strategy(problem.space.clone(), seed).next(progress), &step);
                let Step::Measure { proposals } = step else { break };
                let cell = proposals[0].cell;
                let outcome = match &problem.row(cell).unwrap().values {
                    Some(values) => Outcome::Measured { values: values.clone(), log_sds: vec![0.0; values.len()] },
                    None => Outcome::Failed,
                };
                let purpose = proposals[0].purpose;
                measurements.push(Measurement { cell, purpose, start_seconds: 20.0, run_seconds: 10.0, outcome });
            }
        }
    }

    #[test]
    fn without_noise_no_answer_violates_a_constraint(table in tables(), limit in 20.0f64..2000.0, seed in 0u64..5) {
        let problem = aborting(problem(&table, limit));
        for method in METHODS {
            let result = play(&problem, method, seed);
            prop_assert!(result.chosen.is_none() || result.feasible, "{}", method.name());
            prop_assert!(result.ratio_to_optimum.is_none_or(|r| (0.0..=1.0 + 1e-12).contains(&r)));
        }
    }

    #[test]
    fn a_campaign_comes_back_to_no_engine(
        table in prop::collection::vec(prop::array::uniform4(1.0f64..400.0), 14..17),
        limit in 20.0f64..2000.0,
        seed in 0u64..5,
    ) {
        // Two engines of seven arms or more, whose cells are too many to be walked.
        let mut problem = problem(&table, limit);
        problem.space.axes[0].role = Some(Role::GpuType);
        for (k, arm) in problem.space.arms.iter_mut().enumerate() {
            arm.values = vec![Value::Number((k % 2) as f64), Value::Number((1 + k / 2) as f64)];
        }
        for method in [MethodName::SlipwayWhenAsked, MethodName::SlipwayAll] {
            let result = play(&problem, method, seed);
            let mut engines: Vec<_> = explored(&result).map(|t| t.place.arm["batch"].to_string()).collect();
            engines.dedup();
            prop_assert!(engines.len() <= 2, "{}: {:?}", method.name(), engines);
            let most = result.measurements.iter().filter(|run| run.cell.arm % 2 == 0).count();
            prop_assert!(most < 28, "a searched engine is not walked whole: {most}");
        }
    }

    #[test]
    fn brute_force_finds_the_optimum(table in tables(), limit in 20.0f64..2000.0) {
        let problem = problem(&table, limit);
        let result = play(&problem, MethodName::Brute, 0);
        prop_assert_eq!(result.ratio_to_optimum, problem.optimum().map(|_| 1.0));
        prop_assert_eq!(result.runs, table.len() * 4);
        prop_assert_eq!(result.starts, table.len());
    }
}

#[test]
fn a_run_costs_its_gpus_times_start_and_run_and_a_warm_engine_starts_for_nothing() {
    let problem = problem(&[[10.0, 20.0, 30.0, 40.0], [11.0, 22.0, 33.0, 44.0]], 1e9);
    // One GPU: 20 + 4 x 10; two GPUs: 2 x (20 + 4 x 10).
    assert_eq!(play(&problem, MethodName::Brute, 0).gpu_seconds, 180.0);
}

#[test]
fn a_run_that_is_cut_short_costs_its_fraction_and_a_failed_one_its_whole_time() {
    // p95 at the four levels: 12, 120 (near), 1920 (far), and a failed run.
    let problem = aborting(problem(&[[100.0, 40.0, 10.0, 2.0]], 100.0));
    let result = play(&problem, MethodName::Brute, 0);
    let costs: Vec<f64> = result.trace.iter().map(|t| t.gpu_seconds).collect();
    assert_eq!(costs, [30.0, 3.0, 2.0, 10.0]);
    assert_eq!(result.trace.iter().map(|t| t.aborted).collect::<Vec<_>>(), [false, true, true, false]);
}

#[rstest]
#[case::a_level_that_misses([100.0, 200.0, 32.0, 400.0], &[1.0, 4.0, 16.0])]
#[case::a_level_that_fails([100.0, 2.0, 400.0, 400.0], &[1.0, 4.0])]
#[case::no_miss([100.0, 200.0, 400.0, 800.0], &[1.0, 4.0, 16.0, 64.0])]
fn a_small_engine_is_walked_up_its_levels_to_the_first_that_misses_a_limit(
    #[case] first: [f64; 4],
    #[case] walked: &[f64],
    #[values(MethodName::SlipwayWhenAsked, MethodName::SlipwayAll)] method: MethodName,
) {
    // The limit is 100 ms; at 16 in flight a throughput of 32 takes 600. One arm is one engine, so it comes first.
    let problem = of_products(&[first], 100.0);
    let result = play(&problem, method, 0);
    assert_eq!(explored(&result).map(|t| t.place.level).collect::<Vec<_>>(), walked);
}

#[test]
fn a_walk_goes_on_past_a_level_that_misses_only_a_minimum() {
    let mut problem = aborting(of_products(&[[100.0, 200.0, 400.0, 800.0]], 1e9));
    problem.space.constraints.push(Constraint { metric: 0, bound: Bound::AtLeast(300.0) });
    let result = play(&problem, MethodName::SlipwayWhenAsked, 0);
    assert_eq!(explored(&result).map(|t| t.place.level).collect::<Vec<_>>(), [1.0, 4.0, 16.0, 64.0]);
}

/// p95 is 12, 24, 48 and 96 ms.
#[rstest]
#[case::alone(1e9, &[1.0, 4.0, 16.0, 64.0])]
#[case::until_a_time_misses_too(30.0, &[1.0, 4.0, 16.0])]
fn a_walk_goes_on_past_a_level_with_too_much_utilization(#[case] limit: f64, #[case] walked: &[f64]) {
    let mut problem = aborting(of_products(&[[100.0, 200.0, 400.0, 800.0]], limit));
    problem.space.metrics.push(Metric { name: "utilization".into(), kind: MetricKind::Utilization, prior: Vec::new() });
    problem.space.constraints.push(Constraint { metric: 2, bound: Bound::AtMost(22.0) });
    for (row, utilization) in problem.rows[0].iter_mut().flatten().zip([47.0, 34.0, 20.0, 25.0]) {
        row.values.as_mut().unwrap().push(utilization);
    }
    let result = play(&problem, MethodName::SlipwayWhenAsked, 0);
    assert_eq!(explored(&result).map(|t| t.place.level).collect::<Vec<_>>(), walked);
}

#[test]
fn by_default_every_engine_is_measured() {
    let fast = [100.0, 200.0, 400.0, 800.0];
    let slow = fast.map(|rate| rate / 20.0);
    let result = play(&of_products(&[fast, slow, slow], 1e9), MethodName::SlipwayAll, 0);
    let engines: std::collections::BTreeSet<_> =
        explored(&result).map(|entry| entry.place.arm["batch"].to_string()).collect();
    assert_eq!((engines.len(), result.ratio_to_optimum), (3, Some(1.0)));
}
