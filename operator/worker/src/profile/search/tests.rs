//! Walks and searches end where they should, say why, and go on from any of their rows.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_worker_contract::{
    Campaign, Cell, Digest, Driver, EngineEntry, EngineRef, Expected, Gpu, GpuFigure, GpuLimit, Latency, LatencyMetric,
    LatencyObjective, MeasureSettings, MeasurementVerdict, OptimizeFor, OtherEngine, Percentile, ServeConfig,
    WhyNotMeasured,
};

use super::*;

mod prices;

fn arms(ids: &[&str]) -> Vec<Arm> {
    ids.iter().map(|id| Arm { id: (*id).into(), config: ServeConfig::default() }).collect()
}

fn ladder(ids: &[&str], levels: &[u32], max_measurements: u32, earlier: usize) -> Ladder {
    Ladder::new(Plan::new(&arms(ids), levels, max_measurements, earlier), Rules::default())
}

fn row(arm: &str, level: u32, verdict: MeasurementVerdict) -> Row {
    Row {
        arm: arm.into(),
        level,
        verdict,
        count: 300,
        errors: 0,
        millis: 1,
        per_kilosecond: 1,
        per_kilosecond_error: None,
        latencies: Vec::new(),
        output_tokens: None,
        gpu: None,
        gpu_millis: 1,
        model_analyzer: None,
        records: None,
        arrivals_per_kilosecond: None,
        reason: String::new(),
    }
}

/// Walks to the end; arm `a` misses from level 4 on, arm `b` never.
fn walk(search: &dyn Search, mut rows: Vec<Row>) -> (Vec<(String, u32)>, Ended) {
    loop {
        match search.next(&rows) {
            Next::Done(ended) => return (rows.into_iter().map(|r| (r.arm, r.level)).collect(), ended),
            Next::Measure { arm, level } => {
                let missed = arm == 0 && level >= 4;
                let verdict = if missed { MeasurementVerdict::Infeasible } else { MeasurementVerdict::Feasible };
                rows.push(row(["a", "b"][arm], level, verdict));
            }
        }
    }
}

#[test]
fn an_arm_is_left_at_the_level_that_misses() {
    let (cells, ended) = walk(&ladder(&["a", "b"], &[8, 1, 4, 2], 20, 0), Vec::new());
    let expected = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 4), ("b", 4), ("b", 8)];
    assert_eq!(cells, expected.map(|(arm, level)| (arm.to_owned(), level)));
    assert_eq!(ended, Ended::complete("every arm was measured up to its limit"));
}

/// At least 60 % of utilization.
fn busy() -> GpuLimit {
    GpuLimit { figure: GpuFigure::Utilization, min: Some(60), max: None }
}

fn gpu(utilization_percent: u8) -> Gpu {
    Gpu { memory_mib: Some(14_336), utilization_percent: Some(utilization_percent), power_watts: Some(200) }
}

#[test]
fn a_walk_goes_on_above_a_level_that_leaves_the_gpu_idle_and_ends_above_one_that_draws_too_much_power() {
    let cool = GpuLimit { figure: GpuFigure::Power, min: None, max: Some(250) };
    let rules = Rules { gpu_limits: vec![busy(), cool], ..Rules::default() };
    let search = Ladder::new(Plan::new(&arms(&["a"]), &[1, 2, 4, 8, 16], 20, 0), rules);
    let at = |level, utilization, power_watts, verdict| Row {
        gpu: Some(Gpu { power_watts: Some(power_watts), ..gpu(utilization) }),
        ..row("a", level, verdict)
    };
    let mut rows = vec![at(1, 20, 120, MeasurementVerdict::Infeasible), at(2, 45, 180, MeasurementVerdict::Infeasible)];
    assert_eq!(search.next(&rows), Next::Measure { arm: 0, level: 4 });
    rows.push(at(4, 70, 230, MeasurementVerdict::Feasible));
    rows.push(at(8, 90, 260, MeasurementVerdict::Infeasible));
    assert_eq!(search.next(&rows), Next::Done(Ended::complete("every arm was measured up to its limit")));
    let expected = [entry("a", Some((16, 16)), WhyNotMeasured::Infeasible, "level 8 is infeasible already: ")];
    assert_eq!(search.not_measured(&rows, ProfileEnd::Complete), expected);
}

/// Utilization of an engine in INT8 for torch behind Triton, on an H200.
#[test]
fn a_walk_goes_on_above_too_much_utilization_which_may_fall_with_more_in_flight() {
    let spare = GpuLimit { figure: GpuFigure::Utilization, min: None, max: Some(22) };
    let rules = Rules { gpu_limits: vec![spare], ..Rules::default() };
    let search = Ladder::new(Plan::new(&arms(&["a"]), &[2, 8, 32], 20, 0), rules);
    let at = |level, utilization, verdict| Row { gpu: Some(gpu(utilization)), ..row("a", level, verdict) };
    let mut rows = vec![at(2, 47, MeasurementVerdict::Infeasible)];
    assert_eq!(search.next(&rows), Next::Measure { arm: 0, level: 8 });
    rows.push(at(8, 34, MeasurementVerdict::Infeasible));
    assert_eq!(search.next(&rows), Next::Measure { arm: 0, level: 32 });
    let open = [entry("a", Some((32, 32)), WhyNotMeasured::Budget, "the budget ended before it")];
    assert_eq!(search.not_measured(&rows, ProfileEnd::BudgetUsed), open);
    rows.push(at(32, 20, MeasurementVerdict::Feasible));
    assert_eq!(search.next(&rows), Next::Done(Ended::complete("every arm was measured up to its limit")));
}

#[test]
fn a_walk_resumes_from_any_prefix_of_its_rows() {
    let search = ladder(&["a", "b"], &[1, 2, 4, 8], 20, 0);
    let (whole, _) = walk(&search, Vec::new());
    for length in 0..whole.len() {
        let verdict = |arm: &str, level| match (arm, level) {
            ("a", 4..) => MeasurementVerdict::Infeasible,
            _ => MeasurementVerdict::Feasible,
        };
        let prefix: Vec<Row> = whole[..length].iter().map(|(a, l)| row(a, *l, verdict(a, *l))).collect();
        assert_eq!(walk(&search, prefix).0, whole);
    }
}

#[test]
fn the_budget_counts_the_rows_of_this_job_only() {
    let earlier = vec![row("a", 1, MeasurementVerdict::Feasible)];
    let (cells, ended) = walk(&ladder(&["a", "b"], &[1, 2, 4], 2, 1), earlier);
    assert_eq!((cells.len(), ended), (3, Ended::budget_used("the budget of 2 measurements is used")));
}

#[test]
fn given_points_are_measured_once_each_in_their_order_whatever_their_verdicts() {
    let point = |id: &str, level| Cell { arm: Arm { id: id.into(), config: ServeConfig::default() }, level };
    let search = Given::new(&[point("b", 8), point("a", 4), point("b", 2)]);
    assert_eq!(search.arms().iter().map(|arm| arm.id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    let mut rows = Vec::new();
    while let Next::Measure { arm, level } = search.next(&rows) {
        rows.push(row(&search.arms()[arm].id, level, MeasurementVerdict::Infeasible));
    }
    let cells: Vec<_> = rows.iter().map(|row| (row.arm.as_str(), row.level)).collect();
    assert_eq!(cells, [("b", 8), ("a", 4), ("b", 2)]);
    assert_eq!(search.next(&rows), Next::Done(Ended::complete("every point was measured once more")));
    let resumed = search.next(&rows[..1]);
    assert_eq!((resumed, search.to_beat(&rows)), (Next::Measure { arm: 1, level: 4 }, None));
}

fn entry(arm: &str, levels: Option<(u32, u32)>, why: WhyNotMeasured, reason: &str) -> NotMeasured {
    NotMeasured { arm: arm.into(), levels, why, reason: reason.into() }
}

#[test]
fn what_a_walk_leaves_out_has_a_reason() {
    let search = ladder(&["a", "b", "c"], &[1, 2, 4, 8], 20, 0);
    let mut rows = vec![
        row("a", 1, MeasurementVerdict::Feasible),
        row("a", 2, MeasurementVerdict::Infeasible),
        row("b", 1, MeasurementVerdict::Failed),
    ];
    rows[1].reason = "fast is missed".into();
    rows[2].reason = "no memory".into();
    let ended = |end| search.not_measured(&rows, end);
    let infeasible = "level 2 is infeasible already: fast is missed";
    let expected = [
        entry("a", Some((4, 8)), WhyNotMeasured::Infeasible, infeasible),
        entry("b", Some((2, 8)), WhyNotMeasured::Failed, "level 1 failed: no memory"),
        entry("c", None, WhyNotMeasured::Budget, "the budget ended before it"),
    ];
    assert_eq!(ended(ProfileEnd::BudgetUsed), expected);
    assert_eq!(ended(ProfileEnd::Interrupted)[2].why, WhyNotMeasured::Interrupted);
}

/// A task of 48 cells: instances 1 to 4 x batches of 1 and 8 x six levels.
pub(super) fn large_space(optimize_for: OptimizeFor) -> ProfileTask {
    let arm = |instances: u32, batch: u32| Arm {
        id: format!("i{instances}-b{batch}"),
        config: ServeConfig { instances: Some(instances), max_batch_size: Some(batch), ..ServeConfig::default() },
    };
    let arms = [1, 2, 3, 4].into_iter().flat_map(|i| [1, 8].map(|b| arm(i, b))).collect();
    ProfileTask {
        input_hash: "h".into(),
        engine: EngineRef { identity: "e".into(), manifest_digest: Digest::from_bytes(&[1; 32]) },
        model: "agent".into(),
        entry: EngineEntry::Engine,
        tokenizer: None,
        no_build: None,
        loaded_at_start: false,
        gpus: 1,
        campaign: Campaign::Explore {
            arms,
            levels: vec![1, 2, 4, 8, 16, 32],
            max_measurements: 48,
            max_gpu_millis: 10_000_000,
            driver: Driver::ModelAnalyzer,
        },
        workloads: Vec::new(),
        objectives: vec![LatencyObjective {
            name: "fast".into(),
            metric: LatencyMetric::RequestLatency,
            percentile: Percentile::P95,
            max_microseconds: 400_000,
        }],
        error_rate_max_ppm: None,
        optimize_for,
        measure: MeasureSettings::default(),
        measured: Vec::new(),
        other_engines: Vec::new(),
        costs: None,
        first: None,
        target_per_kilosecond: None,
        gpu_limits: Vec::new(),
        expected: Vec::new(),
    }
}

fn plan(task: &ProfileTask, max_measurements: u32, earlier: usize) -> Plan {
    let Campaign::Explore { arms, levels, .. } = &task.campaign else { panic!("the task explores") };
    Plan::new(arms, levels, max_measurements, earlier)
}

/// A server whose throughput saturates; `speed` and `tail` vary from case to case.
fn serve(task: &ProfileTask, arm: usize, level: u32, (speed, tail): (f64, f64)) -> Row {
    let plan = plan(task, 1, 0);
    let config = &plan.arms[arm].config;
    let instances = f64::from(config.instances.unwrap_or(1));
    let batch = f64::from(config.max_batch_size.unwrap_or(1));
    let capacity = speed * instances.powf(0.6) * batch.powf(0.4);
    let in_flight = f64::from(level);
    let throughput = capacity * in_flight / (in_flight + instances * batch.sqrt());
    let micros = (in_flight / throughput * 1e6 * tail) as u64;
    let latency = |percentile| Latency {
        metric: LatencyMetric::RequestLatency,
        percentile,
        micros,
        lower_micros: micros * 98 / 100,
        upper_micros: Some(micros * 102 / 100),
    };
    let feasible = micros <= task.objectives[0].max_microseconds;
    Row {
        latencies: [Percentile::P95, Percentile::P99].map(latency).to_vec(),
        per_kilosecond: (throughput * 1e3) as u64,
        per_kilosecond_error: None,
        millis: 20_000,
        gpu_millis: 30_000,
        ..row(
            &plan.arms[arm].id,
            level,
            if feasible { MeasurementVerdict::Feasible } else { MeasurementVerdict::Infeasible },
        )
    }
}

fn search_all(task: &ProfileTask, search: &dyn Search, truth: (f64, f64)) -> (Vec<Row>, Ended) {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        match search.next(&rows) {
            Next::Done(ended) => return (rows, ended),
            Next::Measure { arm, level } => rows.push(serve(task, arm, level, truth)),
        }
    }
}

/// The best throughput that meets the objective, by measuring everything.
fn best(task: &ProfileTask, truth: (f64, f64)) -> Option<u64> {
    let plan = plan(task, 1, 0);
    let all = (0..plan.arms.len()).flat_map(|arm| plan.levels.iter().map(move |level| (arm, *level)));
    let rows = all.map(|(arm, level)| serve(task, arm, level, truth));
    rows.filter(|row| row.verdict == MeasurementVerdict::Feasible).map(|row| row.per_kilosecond).max()
}

fn found(rows: &[Row]) -> Option<u64> {
    rows.iter().filter(|row| row.verdict == MeasurementVerdict::Feasible).map(|row| row.per_kilosecond).max()
}

#[test]
fn small_spaces_are_walked_and_large_ones_or_small_budgets_searched() {
    let task = large_space(OptimizeFor::Throughput);
    let a_b = |levels: &[u32], most| choose(&task, Plan::new(&arms(&["a", "b"]), levels, most, 0));
    // Only a walk begins every arm at its lowest level, and knows no throughput to beat.
    let rows = [row("a", 1, MeasurementVerdict::Feasible)];
    assert_eq!(a_b(&[1, 2, 4], 6).to_beat(&rows), None);
    assert!(a_b(&[1, 2, 4], 5).to_beat(&rows).is_some());
    assert!(choose(&task, plan(&task, 48, 0)).to_beat(&rows).is_some());
}

#[test]
fn a_large_space_is_searched_for_its_best_point_and_the_rest_has_reasons() {
    let task = large_space(OptimizeFor::Throughput);
    let truth = (20.0, 1.3);
    let search = Guided::new(&task, plan(&task, 48, 0));
    let (rows, ended) = search_all(&task, &search, truth);
    assert_eq!(ended.end, ProfileEnd::Complete);
    let (best, found) = (best(&task, truth).unwrap() as f64, found(&rows).unwrap() as f64);
    assert!(found >= 0.95 * best, "{found} of {best}");
    assert!(rows.len() < 24, "{} of 48 cells", rows.len());
    let left_out = search.not_measured(&rows, ended.end);
    for arm in &plan(&task, 48, 0).arms {
        let measured = rows.iter().filter(|row| row.arm == arm.id).count();
        assert!(measured == 6 || left_out.iter().any(|entry| entry.arm == arm.id), "{}", arm.id);
        assert_eq!(measured == 0, left_out.iter().any(|entry| entry.arm == arm.id && entry.levels.is_none()));
    }
}

/// The server, where it sheds what its instances have no room for.
fn serve_or_shed(task: &ProfileTask, arm: usize, level: u32) -> Row {
    let row = serve(task, arm, level, (20.0, 1.3));
    let room = 4 * plan(task, 1, 0).arms[arm].config.instances.unwrap_or(1);
    let errors = if level > room { row.count * (level - room) / level } else { 0 };
    let most = task.error_rate_max_ppm.unwrap_or(1_000_000);
    let is_over = u64::from(errors) * 1_000_000 > u64::from(most) * u64::from(row.count);
    let verdict = if is_over { MeasurementVerdict::Infeasible } else { row.verdict };
    Row { count: row.count - errors, errors, verdict, ..row }
}

#[test]
fn where_much_fails_at_high_levels_a_search_finds_the_best_point_within_the_limit() {
    let task = ProfileTask { error_rate_max_ppm: Some(10_000), ..large_space(OptimizeFor::Throughput) };
    let search = Guided::new(&task, plan(&task, 48, 0));
    let mut rows: Vec<Row> = Vec::new();
    while let Next::Measure { arm, level } = search.next(&rows) {
        rows.push(serve_or_shed(&task, arm, level));
    }
    let plan = plan(&task, 48, 0);
    let all = (0..plan.arms.len()).flat_map(|arm| plan.levels.iter().map(move |level| (arm, *level)));
    let truth: Vec<Row> = all.map(|(arm, level)| serve_or_shed(&task, arm, level)).collect();
    let (best, found) = (found(&truth).unwrap() as f64, found(&rows).unwrap() as f64);
    let shedding = rows.iter().filter(|row| row.errors > 0).count();
    println!("{found} of {best} with {} of {} rows, {shedding} of which shed", rows.len(), truth.len());
    assert!(found >= 0.95 * best, "{found} of {best}");
    assert!(rows.len() < 24, "{} of 48 cells", rows.len());
}

#[test]
fn a_search_begins_with_the_point_that_an_earlier_campaign_chose_and_goes_on_by_its_rows() {
    let task = large_space(OptimizeFor::Throughput);
    let plan_of = plan(&task, 48, 0);
    let first = Cell { arm: plan_of.arms[5].clone(), level: 16 };
    let warm = ProfileTask { first: Some(first), ..task.clone() };
    let search = Guided::new(&warm, plan_of);
    assert_eq!(search.next(&[]), Next::Measure { arm: 5, level: 16 });
    let truth = (20.0, 1.3);
    let (rows, ended) = search_all(&warm, &search, truth);
    let (best, found) = (best(&task, truth).unwrap() as f64, found(&rows).unwrap() as f64);
    assert!(ended.end == ProfileEnd::Complete && found >= 0.95 * best, "{found} of {best}");
    let gone = Cell { arm: Arm { id: "gone".into(), config: ServeConfig::default() }, level: 16 };
    let without = Guided::new(&ProfileTask { first: Some(gone), ..task.clone() }, plan(&task, 48, 0));
    assert_eq!(without.next(&[]), Guided::new(&task, plan(&task, 48, 0)).next(&[]), "a point that it lacks is none");
}

#[test]
fn another_engine_that_cannot_be_beaten_ends_the_search_early() {
    let mut task = large_space(OptimizeFor::Throughput);
    let alone = search_all(&task, &Guided::new(&task, plan(&task, 48, 0)), (20.0, 1.3)).0.len();
    let fast = serve(&task, 7, 8, (400.0, 1.3));
    task.other_engines = vec![OtherEngine {
        name: "INT8".into(),
        gpus: 1,
        microdollars_per_hour: None,
        rows: vec![fast.clone()],
        expected: Vec::new(),
    }];
    let search = Guided::new(&task, plan(&task, 48, 0));
    let (rows, _) = search_all(&task, &search, (20.0, 1.3));
    assert!(rows.len() < alone, "{} and {alone} alone", rows.len());
    let expected = ToBeat { per_kilosecond: fast.per_kilosecond, of: "INT8, i4-b8 at 8".into() };
    assert_eq!(search.to_beat(&rows), Some(expected));
}

/// What a model expects of [`serve`]'s engine, `factor` times as fast.
fn expected(task: &ProfileTask, factor: f64) -> Vec<Expected> {
    let at = |level: u32| {
        let row = serve(task, 0, level, (20.0 * factor, 1.3));
        let micros = row.latencies[0].micros;
        Expected {
            level,
            per_kilosecond: row.per_kilosecond,
            request_micros: micros,
            first_token_micros: micros / 10,
            inter_token_micros: micros / 100,
        }
    };
    [1, 2, 4, 8, 16, 32].map(at).to_vec()
}

#[test]
fn what_is_expected_of_two_engines_ends_the_search_of_the_worse_early() {
    let mut task = large_space(OptimizeFor::Throughput);
    // The other one was measured to be three times as fast; whether this one is, only expectations say.
    let other: Vec<Row> = [(7, 8), (7, 4)].map(|(arm, level)| serve(&task, arm, level, (60.0, 1.3))).to_vec();
    task.other_engines = vec![OtherEngine {
        name: "FP8".into(),
        gpus: 1,
        microdollars_per_hour: None,
        rows: other,
        expected: Vec::new(),
    }];
    let runs = |task: &ProfileTask| search_all(task, &Guided::new(task, plan(task, 48, 0)), (20.0, 1.3)).0.len();
    let bare = runs(&task);
    task.expected = expected(&task, 1.0);
    task.other_engines[0].expected = expected(&task, 3.0);
    let told = runs(&task);
    println!("{told} rows, and {bare} without expectations");
    assert!(told <= bare, "{told} rows, and {bare} without expectations");
}

#[test]
fn expectations_of_other_requests_or_of_no_truth_change_no_answer() {
    let mut task = large_space(OptimizeFor::Throughput);
    let truth = (20.0, 1.3);
    let best = best(&task, truth).unwrap() as f64;
    for factor in [0.02, 1.0, 50.0] {
        task.expected = expected(&task, factor);
        let (rows, ended) = search_all(&task, &Guided::new(&task, plan(&task, 48, 0)), truth);
        let found = found(&rows).unwrap() as f64;
        assert!(found >= 0.95 * best, "{factor}: {found} of {best}");
        assert!(ended.end == ProfileEnd::Complete && rows.len() < 30, "{factor}: {} rows", rows.len());
    }
}

#[test]
fn an_arm_that_failed_is_not_asked_for_again() {
    let task = large_space(OptimizeFor::Cost);
    let search = Guided::new(&task, plan(&task, 48, 0));
    let Next::Measure { arm, level } = search.next(&[]) else { panic!("there is much to measure") };
    let failed = row(&plan(&task, 1, 0).arms[arm].id, level, MeasurementVerdict::Failed);
    let mut rows = vec![failed.clone()];
    while let Next::Measure { arm, level } = search.next(&rows) {
        rows.push(serve(&task, arm, level, (20.0, 1.3)));
        assert_ne!(rows[rows.len() - 1].arm, failed.arm);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_search_goes_on_from_any_of_its_rows_within_its_budget_and_repeats_nothing(
        speed in 2.0_f64..60.0, tail in 1.0_f64..2.0, most in 1_u32..16, cut in 0_usize..16
    ) {
        let task = large_space(OptimizeFor::Throughput);
        let (rows, ended) = search_all(&task, &Guided::new(&task, plan(&task, most, 0)), (speed, tail));
        prop_assert!(rows.len() <= most as usize);
        let cells: BTreeSet<_> = rows.iter().map(|row| (row.arm.clone(), row.level)).collect();
        prop_assert_eq!(cells.len(), rows.len());
        prop_assert!(ended.end == ProfileEnd::Complete || rows.len() == most as usize);

        // Another Job that was given the first rows goes on alike.
        let cut = cut.min(rows.len());
        let resumed = Guided::new(&task, plan(&task, most - cut as u32, cut));
        let next = |row: Option<&Row>| row.map(|row| (row.arm.clone(), row.level));
        let asked = match resumed.next(&rows[..cut]) {
            Next::Measure { arm, level } => Some((plan(&task, 1, 0).arms[arm].id.clone(), level)),
            Next::Done(_) => None,
        };
        prop_assert_eq!(asked, next(rows.get(cut)));
    }
}

#[test]
fn a_walk_ends_where_triton_does_not_have_a_limited_figure() {
    let limit = GpuLimit { figure: GpuFigure::Power, min: None, max: Some(300) };
    let rules = Rules { gpu_limits: vec![limit], ..Rules::default() };
    let ladder = Ladder::new(Plan::new(&arms(&["a", "b"]), &[1, 2, 4], 20, 0), rules);
    let long = |arm, level| Row { millis: 9_000, ..row(arm, level, MeasurementVerdict::Unbounded) };
    let first = long("a", 1);
    assert_eq!(ladder.next(std::slice::from_ref(&first)), Next::Measure { arm: 1, level: 1 });
    let short = Row { millis: 900, ..long("b", 1) };
    assert_eq!(
        ladder.next(&[first.clone(), short]),
        Next::Measure { arm: 0, level: 2 },
        "it was too short for a sample"
    );
    let both = [first.clone(), long("b", 1)];
    let words =
        "GPU power is limited, and Triton's metrics do not have it: remove the limit, or use GPUs that report it";
    assert_eq!(ladder.next(&both), Next::Done(Ended::complete(words)));
    let skipped = ladder.not_measured(&both, ProfileEnd::Complete);
    assert!(skipped.iter().all(|entry| entry.reason == words) && skipped.len() == 2, "{skipped:?}");
    let gpu = Some(Gpu { power_watts: Some(250), ..Gpu::default() });
    let known = [first, Row { gpu, ..long("b", 1) }];
    assert_eq!(ladder.next(&known), Next::Measure { arm: 0, level: 2 });
}
