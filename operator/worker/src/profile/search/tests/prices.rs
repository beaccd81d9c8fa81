//! Searches over engines whose replicas have several prices.

use pretty_assertions::assert_eq;
use slipway_worker_contract::Costs;

use super::*;

/// What a replica costs in dollars an hour, without limits.
fn costs(dollars: u64) -> Costs {
    let microdollars_per_hour = dollars * 1_000_000;
    Costs { microdollars_per_hour, target_per_kilosecond: None, max_microdollars_per_thousand: None }
}

/// An engine of another GPU model that was measured before.
fn on_another_gpu(dollars: u64, rows: Vec<Row>) -> OtherEngine {
    OtherEngine {
        name: "fp16-l4".into(),
        gpus: 1,
        microdollars_per_hour: Some(dollars * 1_000_000),
        rows,
        expected: Vec::new(),
    }
}

#[test]
fn a_rival_on_a_gpu_of_a_quarter_of_the_price_counts_four_times_where_cost_is_looked_for() {
    let mut task = large_space(OptimizeFor::Cost);
    let rival = serve(&task, 7, 8, (20.0, 1.3));
    task.costs = Some(costs(4));
    task.other_engines = vec![on_another_gpu(1, vec![rival.clone()])];
    let to_beat = |task: &ProfileTask| Guided::new(task, plan(task, 48, 0)).to_beat(&[]).map(|of| of.per_kilosecond);
    assert_eq!(to_beat(&task), Some(4 * rival.per_kilosecond));
    task.optimize_for = OptimizeFor::Throughput;
    assert_eq!(to_beat(&task), Some(rival.per_kilosecond), "its price is no throughput");
}

/// What can never be chosen is nothing to beat: the row that can may be slower for each dollar.
#[test]
fn a_rival_that_misses_a_limit_on_throughput_or_cost_is_none() {
    let mut task = large_space(OptimizeFor::Cost);
    let rival = serve(&task, 7, 8, (20.0, 1.3));
    let to_beat = |task: &ProfileTask| Guided::new(task, plan(task, 48, 0)).to_beat(&[]).map(|of| of.per_kilosecond);
    let limited =
        |target, most| Costs { target_per_kilosecond: target, max_microdollars_per_thousand: most, ..costs(4) };
    task.other_engines = vec![on_another_gpu(1, vec![rival.clone()])];
    task.costs = Some(limited(Some(rival.per_kilosecond + 1), None));
    assert_eq!(to_beat(&task), None, "it is too slow");
    let of_a_thousand = 1_000_000_000_000 / 3_600 / rival.per_kilosecond;
    task.costs = Some(limited(None, Some(of_a_thousand * 9 / 10)));
    assert_eq!(to_beat(&task), None, "it is too dear");
    task.costs = Some(limited(Some(rival.per_kilosecond), Some(of_a_thousand * 11 / 10)));
    assert_eq!(to_beat(&task), Some(4 * rival.per_kilosecond));
}

#[test]
fn an_engine_that_is_too_dear_for_its_speed_is_left_early() {
    let rows = |dollars: u64| {
        let mut task = large_space(OptimizeFor::Cost);
        task.costs = Some(costs(dollars));
        let other = [(7, 8), (7, 4)].map(|(arm, level)| serve(&task, arm, level, (20.0, 1.3))).to_vec();
        task.other_engines = vec![on_another_gpu(1, other)];
        search_all(&task, &Guided::new(&task, plan(&task, 48, 0)), (20.0, 1.3)).0.len()
    };
    let (equal, dear) = (rows(1), rows(30));
    assert!(dear < equal, "{dear} rows at 30 times the price, and {equal} at the same");
}

/// The two limits are of different units: one is for each replica, the other for each dollar. Either may be the
/// stricter.
#[test]
fn a_target_and_a_limit_on_cost_both_bind_whatever_is_looked_for() {
    let truth = (20.0, 1.3);
    for optimize_for in [OptimizeFor::Throughput, OptimizeFor::Cost, OptimizeFor::Latency] {
        for shares in [(0.5, 0.9), (0.9, 0.5)] {
            let mut task = large_space(optimize_for);
            let most = best(&task, truth).unwrap() as f64;
            let (target, least_for_cost) = (shares.0 * most, shares.1 * most);
            task.target_per_kilosecond = Some((0.9 * most) as u64);
            task.costs = Some(Costs {
                microdollars_per_hour: 3_600_000,
                target_per_kilosecond: Some(target as u64),
                max_microdollars_per_thousand: Some((1e9 / least_for_cost) as u64),
            });
            let (rows, _) = search_all(&task, &Guided::new(&task, plan(&task, 48, 0)), truth);
            let within = rows.iter().filter(|row| row.per_kilosecond as f64 >= 0.9 * most - 1.0).count();
            assert!(within > 0, "{optimize_for:?} {shares:?}: none of {} rows is within", rows.len());
        }
    }
}

/// Dollars in place of GPUs change the unit of what is looked for, and no choice.
#[test]
fn at_one_price_a_search_finds_as_good_a_point_as_without_prices() {
    let bare = large_space(OptimizeFor::Cost);
    let truth = (20.0, 1.3);
    let of = |task: &ProfileTask| found(&search_all(task, &Guided::new(task, plan(task, 48, 0)), truth).0).unwrap();
    let priced = ProfileTask { costs: Some(costs(3)), ..bare.clone() };
    let (without, with) = (of(&bare) as f64, of(&priced) as f64);
    assert!(with >= 0.95 * without, "{with} of {without}");
}
