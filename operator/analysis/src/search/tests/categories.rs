//! No category is left before it was measured or excluded, and the ledger alone leads to every decision.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// Speed and latency of each policy, as factors.
type Factors = [(f64, f64); 3];

/// [`truth`] with policies of their own.
fn values(factors: Factors) -> impl Fn(Cell) -> Vec<f64> {
    move |cell| {
        let [rate, ms] = truth(&two_axes(), cell)[..] else { panic!("two metrics") };
        let (speed, tail) = factors[cell.arm % 3];
        vec![rate * speed, ms * tail / speed]
    }
}

fn factors() -> impl Strategy<Value = Factors> {
    let of = || (0.4f64..2.5, 0.3f64..3.0);
    (of(), of(), of()).prop_map(|(a, b, c)| [a, b, c])
}

fn limited(metric: usize, bound: Bound) -> Space {
    Space { constraints: vec![Constraint { metric, bound }], ..two_axes() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_policy_is_left_only_when_it_meets_the_limit_or_has_nothing_better_at_lower_levels(
        factors in factors(),
        limit in 40.0f64..400.0,
    ) {
        let space = limited(1, Bound::AtMost(limit));
        let values = values(factors);
        let (measurements, conclusion, _) = run_on(&Slipway::new(space.clone(), Settings::default()), &values);
        let feasible: Vec<Cell> = space.cells().filter(|cell| space.meets(&values(*cell))).collect();
        let Conclusion::Chosen { cell, .. } = conclusion else {
            prop_assert!(feasible.is_empty(), "{conclusion:?}");
            return Ok(());
        };
        let chosen = values(cell)[0];
        for policy in 0..3 {
            let own: Vec<&Measurement> = measurements.iter().filter(|m| m.cell.arm % 3 == policy).collect();
            prop_assert!(!own.is_empty(), "policy {policy} was never run");
            let meets = own.iter().any(|m| space.meets(&values(m.cell)));
            let lowest = own.iter().map(|m| m.cell.level).min().unwrap_or(0);
            let is_better =
                |cell: &Cell| cell.arm % 3 == policy && cell.level < lowest && values(*cell)[0] > 1.02 * chosen;
            prop_assert!(meets || lowest == 0 || !feasible.iter().any(is_better), "policy {policy}");
        }
    }

    #[test]
    fn the_ledger_replays_to_the_same_decisions(factors in factors(), limit in 40.0f64..400.0, seed in 0u64..4) {
        let space = limited(1, Bound::AtMost(limit));
        let settings = Settings { seed, ..Settings::default() };
        let (measurements, ..) = run_on(&Slipway::new(space.clone(), settings), values(factors));
        let text = serde_json::to_string(&measurements).expect("a ledger is data");
        let read: Vec<Measurement> = serde_json::from_str(&text).expect("a ledger");
        for (known, made) in read.iter().enumerate() {
            let again = Slipway::new(space.clone(), settings);
            let step = again.next(Progress { measurements: &read[..known], pending: &[] });
            let Step::Measure { proposals } = step else { return Err(TestCaseError::fail(format!("{step:?}"))) };
            prop_assert_eq!((proposals[0].cell, proposals[0].purpose), (made.cell, made.purpose));
        }
    }
}

/// Utilization as a device samples it: with the load, and up to a fifth off by the cell.
fn utilization(space: &Space, cell: Cell) -> f64 {
    let load = space.levels[cell.level];
    let noise = ((cell.arm * 7 + cell.level * 13) % 11) as f64 / 11.0 - 0.5;
    100.0 * load / (load + 6.0) * (1.0 + 0.4 * noise)
}

#[rstest]
#[case::from_below(Bound::AtLeast(55.0))]
#[case::from_above(Bound::AtMost(55.0))]
fn a_limit_on_a_sampled_figure_is_met_from_either_side_by_nearly_the_best(#[case] bound: Bound) {
    let mut space = limited(2, bound);
    space.metrics.push(Metric { name: "util".into(), kind: MetricKind::Utilization, prior: Vec::new() });
    let values = |cell: Cell| [truth(&two_axes(), cell), vec![utilization(&two_axes(), cell)]].concat();
    let (measurements, conclusion, _) = run_on(&Slipway::new(space.clone(), Settings::default()), values);
    let Conclusion::Chosen { cell, .. } = conclusion else { panic!("{conclusion:?}") };
    let best = space.cells().filter(|cell| space.meets(&values(*cell))).map(|cell| values(cell)[0]).fold(0.0, f64::max);
    assert!(space.meets(&values(cell)), "{cell:?}");
    assert!(values(cell)[0] >= 0.97 * best, "{} of {best} after {}", values(cell)[0], measurements.len());
    assert!(measurements.len() < 72, "the search measures less than brute force");
}

/// Utilization that one policy alone brings to the limit, which the level with the most throughput does not show.
#[test]
fn nothing_is_called_infeasible_while_a_value_has_no_run_at_a_level() {
    let mut space = limited(2, Bound::AtLeast(80.0));
    space.metrics.push(Metric { name: "util".into(), kind: MetricKind::Utilization, prior: Vec::new() });
    let values = |cell: Cell| {
        let is_busy = cell.arm % 3 == 1 && cell.level == 1;
        [truth(&two_axes(), cell), vec![if is_busy { 85.0 } else { 20.0 + cell.level as f64 }]].concat()
    };
    let (measurements, conclusion, _) = run_on(&Slipway::new(space.clone(), Settings::default()), values);
    let Conclusion::Chosen { cell, .. } = conclusion else { panic!("{conclusion:?}") };
    assert!(space.meets(&values(cell)), "{cell:?}");
    assert!(measurements.len() < 48, "{} runs", measurements.len());
}

/// Runs of a search before limits on sampled figures were known to it, and the level next to the choice.
#[rstest]
#[case::of_nine(9.0, &[(11, 3), (11, 5), (11, 2), (11, 1), (9, 2), (9, 3), (10, 3), (7, 3), (10, 4), (10, 3)])]
#[case::of_fourteen(14.0, &[
    (11, 3), (11, 1), (11, 0), (9, 0), (3, 0), (10, 0), (10, 1), (10, 5), (10, 2), (9, 2), (4, 2), (4, 1), (10, 1),
])]
fn a_minimum_of_interactivity_is_no_limit_on_a_sampled_figure_and_costs_no_further_run(
    #[case] least: f64,
    #[case] trace: &[(usize, usize)],
) {
    let mut space = limited(2, Bound::AtLeast(least));
    space.metrics.push(Metric { name: "tok_per_user".into(), kind: MetricKind::Other, prior: Vec::new() });
    let of_policies = values([(1.0, 1.0), (1.6, 1.3), (0.7, 0.8)]);
    let values = |cell: Cell| {
        let [rate, ms] = of_policies(cell)[..] else { panic!("two metrics") };
        vec![rate, ms, 1000.0 / ms]
    };
    let (measurements, ..) = run_on(&Slipway::new(space, Settings::default()), values);
    let cells: Vec<(usize, usize)> = measurements.iter().map(|m| (m.cell.arm, m.cell.level)).collect();
    assert_eq!(cells, trace);
}

/// Engines of two precisions, batch sizes and delays, at 2 to 16 in flight, as a campaign on real pods had them.
fn pods() -> Space {
    let text = |value: &str| Value::Text(value.into());
    let arm = |k: usize| Arm {
        values: vec![text(["FP32", "INT8"][k / 4]), text(["4", "32"][k / 2 % 2]), text(["0", "5"][k % 2])],
        start_seconds: Some(18.0),
        engine: k / 4,
        levels: vec![true; 4],
        ..space().arms[0].clone()
    };
    let axis = |(name, role): (&str, Option<Role>)| Axis { name: name.into(), role };
    Space {
        axes: [("precision", Some(Role::Precision)), ("max_batch", None), ("delay", None)].map(axis).to_vec(),
        arms: (0..8).map(arm).collect(),
        levels: vec![2.0, 4.0, 8.0, 16.0],
        run_seconds: Some(10.0),
        constraints: vec![Constraint { metric: 1, bound: Bound::AtMost(134.0) }],
        ..space()
    }
}

/// Requests a second and p90 in milliseconds that the campaign measured: of each engine, at each level.
const PODS: [[(f64, f64); 4]; 8] = [
    [(65.7, 53.6), (93.5, 80.2), (135.8, 107.9), (136.2, 200.4)],
    [(56.6, 55.8), (98.0, 61.5), (128.4, 110.4), (136.5, 198.7)],
    [(63.4, 53.4), (103.3, 66.5), (123.3, 125.6), (154.4, 198.5)],
    [(53.2, 56.0), (82.7, 84.2), (124.2, 111.2), (169.8, 170.7)],
    [(83.6, 42.7), (116.5, 54.2), (142.1, 101.4), (158.3, 183.7)],
    [(61.1, 53.0), (101.0, 62.6), (152.1, 92.2), (149.6, 177.9)],
    [(65.4, 53.5), (109.9, 71.2), (171.5, 87.5), (160.4, 183.7)],
    [(60.5, 52.3), (106.8, 64.0), (158.3, 88.5), (181.3, 165.3)],
];

#[test]
fn an_arm_that_missed_a_limit_is_not_left_before_a_load_that_it_may_bear() {
    // The best cell's arm is slower than its neighbour past the limit, and faster below.
    let best = Cell { arm: 6, level: 2 };
    let values = |cell: Cell| {
        let (rate, p90) = PODS[cell.arm][cell.level];
        vec![rate, p90]
    };
    let finds_it = |seed: &u64| {
        let (measurements, conclusion, _) =
            run_on(&Slipway::new(pods(), Settings { seed: *seed, ..Settings::default() }), values);
        assert!(measurements.len() <= 16, "{} of 32 cells", measurements.len());
        matches!(conclusion, Conclusion::Chosen { cell, .. } if cell == best)
    };
    // Without such a run it is found by 11 of the 20.
    let found = (0..20).filter(finds_it).count();
    assert!(found >= 16, "{found} of 20");
}
