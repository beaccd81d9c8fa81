mod categories;
mod columns;
mod rungs;

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;
use crate::pareto::Direction;
use crate::slo::Bound;

/// Four engines of one to eight instances on a ladder of six loads; throughput saturates at 40 an instance.
fn space() -> Space {
    let arms = [1.0, 2.0, 4.0, 8.0].map(|instances| Arm {
        values: vec![Value::Number(instances)],
        gpus: 1.0,
        price: None,
        start_seconds: Some(30.0),
        engine: 0,
        levels: vec![true; 6],
    });
    let metric = |name: &str, kind| Metric { name: name.into(), kind, prior: Vec::new() };
    Space {
        axes: vec![Axis { name: "instances".into(), role: Some(Role::Instances) }],
        arms: arms.into_iter().enumerate().map(|(engine, arm)| Arm { engine, ..arm }).collect(),
        levels: (0..6).map(|k| f64::from(1 << k)).collect(),
        run_seconds: Some(60.0),
        metrics: vec![metric("rate", MetricKind::Throughput), metric("p95_ms", MetricKind::Latency)],
        objective: 0,
        direction: Direction::Maximize,
        constraints: vec![Constraint { metric: 1, bound: Bound::AtMost(100.0) }],
        abort_fraction: 0.2,
        prices_known: false,
        columns: Columns::default(),
        model: None,
    }
}

/// One to four instances under three policies, of which no prior speaks.
pub(super) fn two_axes() -> Space {
    let arm = |k: usize| Arm {
        values: vec![Value::Number((1 + k / 3) as f64), Value::Text(["fair", "greedy", "strict"][k % 3].into())],
        gpus: 1.0,
        price: None,
        start_seconds: Some(30.0),
        engine: k,
        levels: vec![true; 6],
    };
    let policy = Axis { name: "policy".into(), role: None };
    let axes = [space().axes, vec![policy]].concat();
    Space { axes, arms: (0..12).map(arm).collect(), ..space() }
}

/// A run whose values have no error.
fn exact(values: Vec<f64>) -> Outcome {
    Outcome::Measured { log_sds: vec![0.0; values.len()], values }
}

fn truth(space: &Space, cell: Cell) -> Vec<f64> {
    let instances = space.number(cell.arm, Role::Instances).unwrap();
    let load = space.levels[cell.level];
    let rate = 1.0 / (1.0 / (20.0 * load) + 1.0 / (40.0 * instances));
    vec![rate, 1300.0 * load / rate]
}

fn measure(space: &Space, proposal: &Proposal, warm: Option<usize>) -> Measurement {
    measured(proposal, warm, truth(space, proposal.cell))
}

fn measured(proposal: &Proposal, warm: Option<usize>, values: Vec<f64>) -> Measurement {
    Measurement {
        cell: proposal.cell,
        purpose: proposal.purpose,
        start_seconds: if warm == Some(proposal.cell.arm) { 0.0 } else { 30.0 },
        run_seconds: 60.0,
        outcome: exact(values),
    }
}

fn run(strategy: &Slipway) -> (Vec<Measurement>, Conclusion, Vec<Skipped>) {
    run_on(strategy, |cell| truth(strategy.space(), cell))
}

fn run_on(strategy: &Slipway, values: impl Fn(Cell) -> Vec<f64>) -> (Vec<Measurement>, Conclusion, Vec<Skipped>) {
    let mut measurements: Vec<Measurement> = Vec::new();
    loop {
        match strategy.next(Progress { measurements: &measurements, pending: &[] }) {
            Step::Measure { proposals } => {
                let warm = measurements.last().map(|m| m.cell.arm);
                measurements.push(measured(&proposals[0], warm, values(proposals[0].cell)));
            }
            Step::Wait => panic!("nothing is pending"),
            Step::Done { conclusion, skipped } => return (measurements, conclusion, skipped),
        }
    }
}

fn spent(measurements: &[Measurement]) -> f64 {
    measurements.iter().map(|m| m.start_seconds + m.run_seconds).sum()
}

#[test]
fn the_best_feasible_cell_is_found_and_confirmed_by_a_run_of_its_own() {
    let strategy = Slipway::new(space(), Settings::default());
    let (measurements, conclusion, _) = run(&strategy);
    let space = space();
    let feasible = space.cells().filter(|c| space.meets(&truth(&space, *c)));
    let best = feasible.max_by(|a, b| truth(&space, *a)[0].total_cmp(&truth(&space, *b)[0])).unwrap();
    let Conclusion::Chosen { cell, .. } = conclusion else { panic!("{conclusion:?}") };
    assert_eq!(cell, best);
    assert_eq!(
        measurements.iter().filter(|m| m.purpose == Purpose::Confirm).map(|m| m.cell).collect::<Vec<_>>(),
        [best]
    );
    assert!(measurements.len() < 12, "{} of 24 cells", measurements.len());
}

#[test]
fn a_run_to_its_end_is_measured_and_one_that_lacks_a_value_is_as_one_that_was_cut_short() {
    let of = |ending, values: &[Option<f64>]| Outcome::of(ending, values.to_vec(), vec![0.0; values.len()]);
    let (whole, part) = ([Some(1.0), Some(2.0)], [Some(1.0), None]);
    let cut_short = |values: &[Option<f64>]| Outcome::Aborted { values: values.to_vec(), log_sds: vec![0.0; 2] };
    assert_eq!(of(Ending::Whole, &whole), exact(vec![1.0, 2.0]));
    assert_eq!(of(Ending::Whole, &part), cut_short(&part));
    assert_eq!(of(Ending::CutShort, &whole), cut_short(&whole));
    assert_eq!(of(Ending::Failed, &whole), Outcome::Failed);
}

#[test]
fn an_unattainable_limit_names_the_nearest_point_and_what_binds() {
    let mut hopeless = space();
    hopeless.constraints = vec![Constraint { metric: 1, bound: Bound::AtMost(20.0) }];
    let (measurements, conclusion, _) = run(&Slipway::new(hopeless.clone(), Settings::default()));
    let Conclusion::Infeasible { nearest: Some(nearest), .. } = conclusion else { panic!("{conclusion:?}") };
    assert_eq!(nearest.binding.limit, "p95_ms");
    let worst = |m: &Measurement| hopeless.worst_excess(&truth(&hopeless, m.cell));
    let least = measurements.iter().map(worst).fold(f64::INFINITY, f64::min);
    assert!((nearest.binding.excess - least).abs() < 1e-12);
}

#[rstest]
#[case(100.0)]
#[case(200.0)]
#[case(430.0)]
#[case(900.0)]
fn the_budget_is_never_exceeded(#[case] gpu_seconds: f64) {
    let budget = Budget { gpu_seconds: Some(gpu_seconds), ..Budget::default() };
    let (measurements, conclusion, skipped) = run(&Slipway::new(space(), Settings { budget, ..Settings::default() }));
    assert!(spent(&measurements) <= gpu_seconds, "{} of {gpu_seconds}", spent(&measurements));
    if gpu_seconds < 200.0 {
        assert!(matches!(conclusion, Conclusion::Unknown { best: None, .. }), "{conclusion:?}");
        assert!(skipped.iter().any(|s| matches!(s.why, WhyNot::Budget { .. })), "{skipped:?}");
    }
}

#[test]
fn runs_and_engines_have_limits_too() {
    let budget = Budget { measurements: Some(5), engines: Some(2), ..Budget::default() };
    let (measurements, _, _) = run(&Slipway::new(space(), Settings { budget, ..Settings::default() }));
    let engines: std::collections::BTreeSet<usize> = measurements.iter().map(|m| m.cell.arm).collect();
    assert!(measurements.len() <= 5 && engines.len() <= 2, "{measurements:?}");
}

#[test]
fn every_arm_with_a_cell_that_was_not_run_has_a_reason() {
    let space = space();
    let (measurements, _, skipped) = run(&Slipway::new(space.clone(), Settings::default()));
    let is_open = |cell: &Cell| !measurements.iter().any(|m| m.cell == *cell);
    let mut open: Vec<usize> = space.cells().filter(is_open).map(|cell| cell.arm).collect();
    open.dedup();
    assert_eq!(skipped.iter().map(|s| s.arm).collect::<Vec<_>>(), open);
    let was_run = |s: &&Skipped| measurements.iter().any(|m| m.cell.arm == s.arm);
    let bounded = |s: &Skipped| matches!(s.why, WhyNot::Dominated { .. } | WhyNot::Infeasible { .. });
    assert!(skipped.iter().any(|s| was_run(&s)) && skipped.iter().all(bounded), "{skipped:?}");
}

#[test]
fn parallel_jobs_get_different_cells_and_a_pending_one_is_not_proposed_again() {
    let strategy = Slipway::new(space(), Settings { parallel: 3, ..Settings::default() });
    let Step::Measure { proposals } = strategy.next(Progress { measurements: &[], pending: &[] }) else { panic!() };
    let mut cells: Vec<Cell> = proposals.iter().map(|p| p.cell).collect();
    assert_eq!(cells.len(), 3);
    cells.sort_unstable();
    cells.dedup();
    assert_eq!(cells.len(), 3);
    assert_eq!(strategy.next(Progress { measurements: &[], pending: &cells }), Step::Wait);
    let Step::Measure { proposals } = strategy.next(Progress { measurements: &[], pending: &cells[..2] }) else {
        panic!()
    };
    assert!(!cells[..2].contains(&proposals[0].cell));
}

#[test]
fn a_failed_confirm_is_a_measurement_and_the_search_goes_on() {
    let strategy = Slipway::new(space(), Settings::default());
    let (mut measurements, _, _) = run(&strategy);
    let confirm = measurements.last_mut().unwrap();
    assert_eq!(confirm.purpose, Purpose::Confirm);
    confirm.outcome = exact(vec![1.0, 500.0]);
    let refuted = confirm.cell;
    match strategy.next(Progress { measurements: &measurements, pending: &[] }) {
        Step::Measure { proposals } => assert!(proposals[0].cell != refuted),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cell_that_crashes_is_never_chosen_and_the_search_ends() {
    let strategy = Slipway::new(space(), Settings::default());
    let mut measurements: Vec<Measurement> = Vec::new();
    let conclusion = loop {
        match strategy.next(Progress { measurements: &measurements, pending: &[] }) {
            Step::Measure { proposals } => {
                let mut measurement = measure(strategy.space(), &proposals[0], None);
                if proposals[0].cell.arm == 3 {
                    measurement.outcome = Outcome::Failed;
                }
                measurements.push(measurement);
            }
            Step::Wait => panic!("nothing is pending"),
            Step::Done { conclusion, .. } => break conclusion,
        }
    };
    let Conclusion::Chosen { cell, .. } = conclusion else { panic!("{conclusion:?}") };
    assert!(cell.arm < 3);
}

fn full(cell: Cell, values: Vec<f64>) -> Measurement {
    let outcome = exact(values);
    Measurement { cell, purpose: Purpose::Explore, start_seconds: 30.0, run_seconds: 60.0, outcome }
}

#[test]
fn a_collapse_at_a_high_load_does_not_hide_the_level_next_to_the_best() {
    let mut one_arm = space();
    one_arm.arms.truncate(1);
    let cell = |level| Cell { arm: 0, level };
    let hasty = Settings { stop_gain: f64::INFINITY, ..Settings::default() };
    let next = |far: Vec<f64>| {
        let measurements = [full(cell(2), vec![40.0, 10.0]), full(cell(5), far)];
        let step = Slipway::new(one_arm.clone(), hasty).next(Progress { measurements: &measurements, pending: &[] });
        let Step::Measure { proposals } = step else { panic!("{step:?}") };
        (proposals[0].cell, proposals[0].purpose)
    };
    assert_eq!(next(vec![20.0, 400.0]), (cell(3), Purpose::Explore));
    // A run there that met the limit and was slower does tell.
    assert_eq!(next(vec![20.0, 90.0]), (cell(2), Purpose::Confirm));
}

#[test]
fn every_value_that_no_prior_speaks_of_is_run_before_the_search_ends() {
    let hasty = Settings { stop_gain: f64::INFINITY, ..Settings::default() };
    let (measurements, _, _) = run(&Slipway::new(two_axes(), hasty));
    assert_eq!(policies(&measurements), [0, 1, 2]);
}

#[rstest]
#[case::right([1.0, 1.0, 1.0], (Purpose::Confirm, false))]
#[case::wrong([1.0, 4.0, 0.3], (Purpose::Explore, true))]
fn prior_columns_that_the_runs_contradict_are_not_relied_on(#[case] off: [f64; 3], #[case] next: (Purpose, bool)) {
    let space = with_columns(off, |cell| truth(&two_axes(), cell));
    let measurements = [0, 1].map(|arm| full(Cell { arm, level: 0 }, truth(&space, Cell { arm, level: 0 })));
    let hasty = Settings { stop_gain: f64::INFINITY, ..Settings::default() };
    let step = Slipway::new(space, hasty).next(Progress { measurements: &measurements, pending: &[] });
    let Step::Measure { proposals } = step else { panic!("{step:?}") };
    assert_eq!((proposals[0].purpose, proposals[0].reason.starts_with("no run has this")), next);
}

/// [`two_axes`] with a column of expected rates that is off by a factor for each policy.
fn with_columns(off: [f64; 3], values: impl Fn(Cell) -> Vec<f64>) -> Space {
    let mut space = two_axes();
    let column =
        |arm: usize| (0..6).map(|level| Some(values(Cell { arm, level })[0] * off[arm % 3])).collect::<Vec<_>>();
    space.metrics[0].prior = (0..12).map(column).collect();
    space
}

fn policies(measurements: &[Measurement]) -> Vec<usize> {
    let policies: std::collections::BTreeSet<usize> = measurements.iter().map(|m| m.cell.arm % 3).collect();
    policies.into_iter().collect()
}

/// The third policy is the best by a fifth, and the column says that it is the worst.
#[test]
fn a_value_that_wrong_columns_hide_is_found_although_the_others_contradict_them_little() {
    let values = |cell: Cell| {
        let [rate, ms] = truth(&two_axes(), cell)[..] else { panic!() };
        let faster = if cell.arm % 3 == 2 { 1.2 } else { 1.0 };
        vec![rate * faster, ms / faster]
    };
    let space = with_columns([1.0, 1.6, 0.5], values);
    let (measurements, conclusion, _) = run_on(&Slipway::new(space, Settings::default()), values);
    let Conclusion::Chosen { cell, .. } = conclusion else { panic!("{conclusion:?}") };
    assert_eq!((cell.arm % 3, policies(&measurements)), (2, vec![0, 1, 2]));
}

#[test]
fn columns_alone_never_say_that_a_value_is_infeasible() {
    let mut space = with_columns([1.0, 1.0, 0.3], |cell| truth(&two_axes(), cell));
    space.constraints = vec![Constraint { metric: 1, bound: Bound::AtMost(20.0) }];
    let (measurements, conclusion, _) = run(&Slipway::new(space, Settings::default()));
    assert!(matches!(conclusion, Conclusion::Infeasible { .. }), "{conclusion:?}");
    assert_eq!(policies(&measurements), [0, 1, 2]);
}

#[test]
fn a_space_too_large_to_score_has_a_reason_for_every_arm_too() {
    let mut large = space();
    let arm = |k: usize| Arm { values: vec![Value::Number((1 + k) as f64)], engine: k, ..large.arms[0].clone() };
    large.arms = (0..400).map(arm).collect();
    let hasty = Settings { stop_gain: f64::INFINITY, ..Settings::default() };
    let (measurements, conclusion, skipped) = run(&Slipway::new(large, hasty));
    assert!(matches!(conclusion, Conclusion::Chosen { .. }), "{conclusion:?}");
    let run: std::collections::BTreeSet<usize> = measurements.iter().map(|m| m.cell.arm).collect();
    assert_eq!(skipped.iter().filter(|s| !run.contains(&s.arm)).count(), 400 - run.len());
    let known = |s: &Skipped| matches!(s.why, WhyNot::Dominated { .. } | WhyNot::Infeasible { .. });
    assert!(skipped.iter().all(known), "{skipped:?}");
}
