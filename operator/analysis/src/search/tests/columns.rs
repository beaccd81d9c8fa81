//! Prior columns of a part of the space, and of other requests.

use pretty_assertions::assert_eq;

use super::*;

/// The part of ln value that needs no run, per arm and level.
fn known(space: &Space, metric: usize) -> Vec<Vec<f64>> {
    let link = &super::super::model::Model::new(space).links[metric];
    let of_arm = |arm| (0..space.levels.len()).map(|level| link.known(Cell { arm, level })).collect();
    (0..space.arms.len()).map(of_arm).collect()
}

/// [`space`] with a column of rates in a unit of its own, for two levels of two arms.
fn sparse() -> Space {
    let mut space = space();
    let row = |arm: usize| (0..6).map(|level| ((2..4).contains(&level) && arm < 2).then_some(7e5)).collect();
    space.metrics[0].prior = (0..4).map(row).collect();
    space.columns = Columns { unit: ColumnUnit::OtherWork, silent: Vec::new() };
    space
}

#[test]
fn cells_without_a_column_follow_the_analytic_prior_from_where_the_column_ends() {
    let (bare, given) = (known(&space(), 0), known(&sparse(), 0));
    let shift = |arm: usize, level: usize| given[arm][level] - bare[arm][level];
    assert_eq!([given[0][2], given[1][3]], [7e5_f64.ln(); 2]);
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    close(shift(0, 0), shift(0, 2));
    close(shift(1, 5), shift(1, 3));
    let mean = (shift(0, 2) + shift(0, 3) + shift(1, 2) + shift(1, 3)) / 4.0;
    close(shift(2, 0), mean);
    close(shift(3, 5), mean);
}

#[test]
fn a_value_without_a_column_is_run_before_the_search_ends() {
    let hasty = Settings { stop_gain: f64::INFINITY, ..Settings::default() };
    let (measurements, _, _) = run(&Slipway::new(sparse(), hasty));
    let arms: std::collections::BTreeSet<usize> = measurements.iter().map(|m| m.cell.arm).collect();
    assert_eq!(arms.len(), 4, "columns stand in place of the rule of thumb");
}

#[test]
fn of_an_axis_that_columns_leave_out_every_value_is_run() {
    let mut space = with_columns([1.0; 3], |cell| truth(&two_axes(), cell));
    let hasty = Settings { stop_gain: f64::INFINITY, ..Settings::default() };
    let (trusting, _, _) = run(&Slipway::new(space.clone(), hasty));
    space.columns.silent = vec![1];
    let (asking, _, _) = run(&Slipway::new(space, hasty));
    assert!(policies(&trusting).len() < 3, "{:?}", policies(&trusting));
    assert_eq!(policies(&asking), [0, 1, 2]);
}

/// Columns of other requests are off by a factor of 40 everywhere.
#[test]
fn a_common_factor_costs_no_run_and_changes_no_choice() {
    let of = |factor: f64, unit| {
        let mut space = with_columns([factor; 3], |cell| truth(&two_axes(), cell));
        space.columns.unit = unit;
        let (measurements, conclusion, _) = run(&Slipway::new(space, Settings::default()));
        let Conclusion::Chosen { cell, .. } = conclusion else { panic!("{conclusion:?}") };
        (measurements.len(), cell.arm / 3, cell.level)
    };
    let (runs, arm, level) = of(1.0, ColumnUnit::Same);
    let (others, other_arm, other_level) = of(40.0, ColumnUnit::OtherWork);
    assert_eq!((other_arm, other_level), (arm, level));
    assert!(others <= runs + 1, "{others} {runs}");
}
