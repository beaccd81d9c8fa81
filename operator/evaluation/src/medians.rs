//! Recorded grids without the noise of single samples. Pure.

use std::collections::BTreeMap;

use slipway_analysis::{
    search::{Cell, Constraint, Role},
    slo::{Bound, quantile},
};
use slipway_vocabulary::evidence::Quantile;

use crate::replay::{Problem, Row};

/// The problem with every value replaced by the median over the rows that differ only on the axis with a role. Where
/// that axis changes nothing, such rows are repeats of one measurement, and the best of them is the luckiest.
///
/// A limit on what is sampled of a device moves with the values: as many rows meet it as before, or more where rows are
/// equal. Other limits stay. The problem is returned as it is where no axis has the role.
#[must_use]
pub fn of_repeats(mut problem: Problem, role: Role) -> Problem {
    let Some(axis) = problem.space.axis(role) else { return problem };
    let mut repeats: BTreeMap<String, Vec<Cell>> = BTreeMap::new();
    for cell in problem.space.cells() {
        let mut values = problem.space.arms[cell.arm].values.clone();
        values.remove(axis);
        repeats.entry(format!("{values:?} {}", cell.level)).or_default().push(cell);
    }
    let before = problem.clone();
    for cells in repeats.values() {
        let measured: Vec<&Vec<f64>> = cells.iter().filter_map(|cell| before.row(*cell)?.values.as_ref()).collect();
        let median = |metric: usize| quantile(&sorted(measured.iter().map(|row| row[metric])), Quantile::P50);
        let Some(medians) = (0..before.space.metrics.len()).map(median).collect::<Option<Vec<f64>>>() else { continue };
        for cell in cells {
            let row: Option<&mut Row> = problem.rows[cell.arm][cell.level].as_mut();
            if let Some(values) = row.and_then(|row| row.values.as_mut()) {
                values.clone_from(&medians);
            }
        }
    }
    let limits = before.space.constraints.iter().map(|limit| moved(limit, &before, &problem));
    problem.space.constraints = limits.collect();
    problem
}

/// A limit on a sampled figure that as many rows meet as met it before.
fn moved(limit: &Constraint, before: &Problem, after: &Problem) -> Constraint {
    let column = |problem: &Problem| -> Vec<f64> {
        let rows = problem.rows.iter().flatten().flatten().filter_map(|row| row.values.as_ref());
        sorted(rows.map(|values| values[limit.metric]))
    };
    let (old, new) = (column(before), column(after));
    let is_sampled = before.space.metrics[limit.metric].kind.is_sampled();
    let bound = match limit.bound {
        bound if !is_sampled || new.is_empty() => bound,
        Bound::AtLeast(least) => Bound::AtLeast(new[old.partition_point(|value| *value < least).min(new.len() - 1)]),
        Bound::AtMost(most) => Bound::AtMost(new[old.partition_point(|value| *value <= most).saturating_sub(1)]),
    };
    Constraint { bound, ..*limit }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_analysis::{
        pareto::Direction,
        search::{Arm, Axis, Columns, Metric, MetricKind, Space, Value},
    };

    use super::*;
    use crate::replay::Abort;

    /// Two instance counts with three batch limits each, at one load: throughput, utilization and a time.
    fn problem(rows: [[f64; 3]; 6], constraints: Vec<Constraint>) -> Problem {
        let arm = |k: usize| Arm {
            values: vec![Value::Number((1 + k / 3) as f64), Value::Number((1 + k % 3) as f64)],
            gpus: 1.0,
            price: None,
            start_seconds: None,
            engine: k,
            levels: vec![true],
        };
        let axis = |(name, role): (&str, Role)| Axis { name: name.into(), role: Some(role) };
        let metric = |(name, kind): (&str, MetricKind)| Metric { name: name.into(), kind, prior: Vec::new() };
        let metrics = [
            ("rate", MetricKind::Throughput),
            ("utilization", MetricKind::Utilization),
            ("p99_ms", MetricKind::Latency),
        ];
        let space = Space {
            axes: [("instances", Role::Instances), ("batch", Role::MaxBatchSize)].map(axis).to_vec(),
            arms: (0..6).map(arm).collect(),
            levels: vec![1.0],
            run_seconds: None,
            metrics: metrics.map(metric).to_vec(),
            objective: 0,
            direction: Direction::Maximize,
            constraints,
            abort_fraction: 1.0,
            prices_known: false,
            columns: Columns::default(),
            model: None,
        };
        let row = |values: [f64; 3]| Row { values: Some(values.to_vec()), start_seconds: 1.0, run_seconds: 1.0 };
        Problem {
            space,
            arm_columns: Vec::new(),
            rows: rows.map(|values| vec![Some(row(values))]).to_vec(),
            abort: Abort::Never,
            noise_log_sd: 0.0,
        }
    }

    const ROWS: [[f64; 3]; 6] = [
        [10.0, 30.0, 5.0],
        [11.0, 20.0, 6.0],
        [12.0, 90.0, 4.0],
        [20.0, 60.0, 9.0],
        [22.0, 50.0, 8.0],
        [21.0, 70.0, 7.0],
    ];

    #[test]
    fn repeats_of_one_measurement_get_their_median_in_every_metric() {
        let problem = of_repeats(problem(ROWS, Vec::new()), Role::MaxBatchSize);
        let values: Vec<Vec<f64>> = problem.rows.iter().flatten().flatten().filter_map(|r| r.values.clone()).collect();
        let (one, two) = (vec![11.0, 30.0, 5.0], vec![21.0, 60.0, 8.0]);
        assert_eq!(values, [one.clone(), one.clone(), one, two.clone(), two.clone(), two]);
    }

    #[test]
    fn a_limit_on_a_sampled_figure_moves_with_the_values_and_others_stay() {
        let limit = |metric, bound| Constraint { metric, bound };
        let bounds = |least: f64, most: f64| {
            vec![limit(1, Bound::AtLeast(least)), limit(1, Bound::AtMost(most)), limit(2, Bound::AtMost(6.0))]
        };
        // Three rows meet the first limit, and two the second.
        let problem = of_repeats(problem(ROWS, bounds(55.0, 40.0)), Role::MaxBatchSize);
        assert_eq!(problem.space.constraints, bounds(60.0, 30.0));
    }

    #[test]
    fn without_the_axis_nothing_changes() {
        let before = problem(ROWS, Vec::new());
        assert_eq!(of_repeats(before.clone(), Role::Precision).rows, before.rows);
    }
}
