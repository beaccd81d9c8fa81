use pretty_assertions::assert_eq;

use super::*;
use slipway_worker_contract::GpuFigure;

use crate::profile::records::{Chunk, Request, Worst};

/// `count` requests, one every 10 ms, of which every tenth takes 80 ms and the others 20 ms.
fn records(count: u64) -> Records {
    let request = |i: u64| {
        let millis = if i % 10 == 9 { 80 } else { 20 };
        Request::new(i * 10_000_000, (i * 10 + millis) * 1_000_000)
    };
    let chunk = Chunk { window_nanos: count * 10_000_000, requests: (0..count).map(request).collect() };
    let circumstances = Circumstances::default();
    Records {
        format_version: 1,
        metric: LatencyMetric::RequestLatency,
        arm: "i1".into(),
        level: 4,
        circumstances,
        chunks: vec![chunk],
    }
}

fn rules(objectives: &[LatencyObjective]) -> Rules {
    Rules { objectives: objectives.to_vec(), ..Rules::default() }
}

fn objective(percentile: Percentile, max_microseconds: u64) -> LatencyObjective {
    LatencyObjective { name: "fast".into(), metric: LatencyMetric::RequestLatency, percentile, max_microseconds }
}

fn judged(count: u64, objectives: &[LatencyObjective]) -> (MeasurementVerdict, String) {
    let row = row(&records(count), &rules(objectives));
    (row.verdict, row.reason)
}

#[test]
fn a_row_has_throughput_and_percentiles_with_bounds() {
    let circumstances =
        Circumstances { gpu_millis: 9_000, ended: "all requests measured".into(), ..Circumstances::default() };
    let row = row(&Records { circumstances, ..records(420) }, &rules(&[objective(Percentile::P95, 100_000)]));
    let latency = |percentile, micros, lower_micros, upper_micros| Latency {
        metric: LatencyMetric::RequestLatency,
        percentile,
        micros,
        lower_micros,
        upper_micros: Some(upper_micros),
    };
    let expected = Row {
        arm: "i1".into(),
        level: 4,
        verdict: MeasurementVerdict::Feasible,
        count: 420,
        errors: 0,
        millis: 4_200,
        per_kilosecond: 100_000,
        per_kilosecond_error: Some(0),
        latencies: vec![
            latency(Percentile::P50, 20_000, 20_000, 20_000),
            latency(Percentile::P95, 80_000, 80_000, 80_000),
            latency(Percentile::P99, 80_000, 80_000, 80_000),
        ],
        output_tokens: None,
        gpu: None,
        gpu_millis: 9_000,
        model_analyzer: None,
        records: None,
        arrivals_per_kilosecond: None,
        reason: "all requests measured".into(),
    };
    assert_eq!(row, expected);
}

#[test]
fn an_objective_is_missed_met_or_left_open_by_its_bound() {
    let p95 = |max| [objective(Percentile::P95, max)];
    assert_eq!(judged(420, &p95(100_000)).0, MeasurementVerdict::Feasible);
    assert_eq!(
        judged(420, &p95(50_000)),
        (MeasurementVerdict::Infeasible, "fast is missed: 10.0 % of 420 are above its limit".to_owned())
    );
    let (verdict, reason) = judged(420, &[objective(Percentile::P90, 50_000)]);
    assert_eq!(
        (verdict, reason.as_str()),
        (MeasurementVerdict::Unbounded, "fast lies within the bounds of 420 requests")
    );
    let (verdict, reason) = judged(58, &p95(100_000));
    assert_eq!((verdict, reason.as_str()), (MeasurementVerdict::Unbounded, "fast needs 59 requests, 58 were measured"));
}

#[test]
fn errors_beyond_their_limit_make_a_level_infeasible() {
    let judged = |errors, error_rate_max_ppm| {
        let circumstances = Circumstances { errors, ..Circumstances::default() };
        let rules = Rules { error_rate_max_ppm, ..Rules::default() };
        let row = row(&Records { circumstances, ..records(420) }, &rules);
        (row.verdict, row.errors, row.reason)
    };
    assert_eq!(judged(5, Some(20_000)), (MeasurementVerdict::Feasible, 5, String::new()));
    assert_eq!(judged(5, Some(10_000)), (MeasurementVerdict::Infeasible, 5, "5 of 425 failed".to_owned()));
    assert_eq!(judged(5, None).0, MeasurementVerdict::Feasible);
}

#[test]
fn a_limit_on_a_gpu_is_missed_from_either_side_and_open_where_no_gpu_was_seen() {
    let judged = |utilization_percent: Option<u8>, min, max| {
        let limit = GpuLimit { figure: GpuFigure::Utilization, min, max };
        of_gpu(Gpu { memory_mib: Some(14_336), utilization_percent, power_watts: Some(200) }, &[limit])
    };
    assert_eq!(judged(Some(60), Some(60), Some(90)), (MeasurementVerdict::Feasible, String::new(), false));
    let low = "GPU utilization is too low: 41 % of at least 60 %".to_owned();
    assert_eq!(judged(Some(41), Some(60), None), (MeasurementVerdict::Infeasible, low, true));
    let high = "GPU utilization is too high: 95 % of at most 90 %".to_owned();
    assert_eq!(judged(Some(95), None, Some(90)), (MeasurementVerdict::Infeasible, high, true));
    let unknown = "GPU utilization is not known: Triton's metrics did not have it during this level".to_owned();
    assert_eq!(judged(None, Some(60), None), (MeasurementVerdict::Unbounded, unknown, false));
}

#[test]
fn too_much_power_or_memory_closes_higher_levels_also_beside_a_figure_that_may_be_met_there() {
    let gpu = Gpu { memory_mib: Some(14_336), utilization_percent: Some(41), power_watts: Some(200) };
    let busy = GpuLimit { figure: GpuFigure::Utilization, min: Some(60), max: None };
    let at_most = |figure, max| GpuLimit { figure, min: None, max: Some(max) };
    let is_open = |limits: &[GpuLimit]| of_gpu(gpu, limits).2;
    assert!(is_open(&[busy]));
    assert!(is_open(&[busy, at_most(GpuFigure::Power, 300)]), "a limit that is met closes nothing");
    assert!(!is_open(&[busy, at_most(GpuFigure::Power, 150)]));
    assert!(!is_open(&[at_most(GpuFigure::Memory, 10_000)]));
}

/// The verdict on a fast level, its reason, and whether higher levels are open.
fn of_gpu(gpu: Gpu, limits: &[GpuLimit]) -> (MeasurementVerdict, String, bool) {
    let circumstances = Circumstances { gpu: Some(gpu), ..Circumstances::default() };
    let rules = Rules { gpu_limits: limits.to_vec(), ..rules(&[objective(Percentile::P95, 100_000)]) };
    let row = row(&Records { circumstances, ..records(420) }, &rules);
    let is_open = leaves_higher_levels_open(&row, &rules);
    (row.verdict, row.reason, is_open)
}

#[test]
fn a_slow_level_is_named_for_its_latency_though_its_gpu_idles() {
    let gpu = Some(Gpu { utilization_percent: Some(10), ..Gpu::default() });
    let circumstances = Circumstances { gpu, ..Circumstances::default() };
    let limit = GpuLimit { figure: GpuFigure::Utilization, min: Some(60), max: None };
    let rules = Rules { gpu_limits: vec![limit], ..rules(&[objective(Percentile::P95, 50_000)]) };
    let row = row(&Records { circumstances, ..records(420) }, &rules);
    assert_eq!(row.reason, "fast is missed: 10.0 % of 420 are above its limit");
    assert!(!leaves_higher_levels_open(&row, &rules), "more in flight makes it slower still");
}

#[test]
fn a_row_has_room_for_what_is_limited_before_what_is_not() {
    let percentiles = [Percentile::P50, Percentile::P90, Percentile::P95, Percentile::P99, Percentile::P99_9];
    let objectives = percentiles.map(|p| objective(p, 9_000_000));
    let gpu = Gpu { memory_mib: Some(14_336), utilization_percent: Some(60), power_watts: Some(200) };
    let circumstances = Circumstances { gpu: Some(gpu), ended: "x".repeat(300), ..Circumstances::default() };
    let limit = GpuLimit { figure: GpuFigure::Power, min: None, max: Some(300) };
    let rules = Rules { gpu_limits: vec![limit], ..rules(&objectives) };
    let metric = LatencyMetric::AgentRunLatency;
    let others = [LatencyMetric::TimeToFirstToken, LatencyMetric::RequestLatency, LatencyMetric::InterTokenLatency];
    let objectives: Vec<_> = [metric]
        .iter()
        .chain(&others)
        .flat_map(|metric| objectives.clone().map(|o| LatencyObjective { metric: *metric, ..o }))
        .collect();
    let rules = Rules { objectives: objectives.clone(), ..rules };
    let of_runs = Records { circumstances, ..runs() };
    let row = reported(&of_runs, Some(Digest::from_bytes(&[7; 32])), &rules).unwrap();
    assert_eq!(row.gpu, Some(Gpu { power_watts: Some(200), ..Gpu::default() }));
    let without = Row { gpu: Some(gpu), latencies: row.latencies.clone(), reason: String::new(), ..row.clone() };
    assert!(without.fitted().is_err(), "the figures without a limit would take the place of an objective");
}

#[test]
fn a_level_whose_objective_had_no_room_in_its_row_does_not_go_on_for_the_sake_of_its_gpu() {
    let gpu = Some(Gpu { utilization_percent: Some(10), ..Gpu::default() });
    let circumstances = Circumstances { gpu, ..Circumstances::default() };
    let limit = GpuLimit { figure: GpuFigure::Utilization, min: Some(60), max: None };
    let rules = Rules { gpu_limits: vec![limit], ..rules(&[objective(Percentile::P95, 50_000)]) };
    let row = Row { latencies: Vec::new(), ..row(&Records { circumstances, ..records(420) }, &rules) };
    assert!(!leaves_higher_levels_open(&row, &rules));
}

#[test]
fn one_altered_number_in_the_records_changes_the_row() {
    let text = String::from_utf8(records(420).to_bytes()).unwrap();
    let altered = text.replacen("[0,20000000]", "[0,90000000]", 1);
    assert_ne!(altered, text);
    let of = |text: &str| row(&Records::parse(text.as_bytes()).unwrap(), &Rules::default());
    assert_ne!(of(&altered), of(&text));
}

/// 300 runs of 20 ms whose first token came after 5 ms, but after 50 ms in every tenth.
fn runs() -> Records {
    let mut runs = Records { metric: LatencyMetric::AgentRunLatency, ..records(300) };
    for (i, run) in runs.chunks[0].requests.iter_mut().enumerate() {
        let first_token = if i % 10 == 0 { 50_000 } else { 5_000 };
        run.first_token = Some(first_token);
        run.worst = Worst { first_token: Some(first_token / 5), ..Worst::default() };
    }
    runs
}

#[test]
fn each_objective_of_a_run_is_judged_by_its_own_metric() {
    let judged = |metric, max_microseconds| {
        let of = LatencyObjective { name: "it".into(), metric, percentile: Percentile::P95, max_microseconds };
        let row = row(&runs(), &rules(&[of]));
        (row.verdict, row.reason)
    };
    assert_eq!(judged(LatencyMetric::AgentRunLatency, 90_000).0, MeasurementVerdict::Feasible);
    assert_eq!(judged(LatencyMetric::TimeToFirstToken, 60_000).0, MeasurementVerdict::Feasible);
    let missed = "it is missed: 10.0 % of 300 are above its limit".to_owned();
    assert_eq!(judged(LatencyMetric::TimeToFirstToken, 40_000), (MeasurementVerdict::Infeasible, missed));
    assert_eq!(judged(LatencyMetric::RequestTimeToFirstToken, 10_000).0, MeasurementVerdict::Feasible);
    let unseen = "it needs 59 requests, 0 were measured".to_owned();
    assert_eq!(judged(LatencyMetric::InterTokenLatency, 1), (MeasurementVerdict::Unbounded, unseen));
}

#[test]
fn a_row_of_runs_has_the_medians_of_their_parts_though_no_objective_names_them() {
    let row = row(&runs(), &Rules::default());
    let found: Vec<_> = row.latencies.iter().map(|l| (l.metric, l.percentile, l.micros)).collect();
    let expected = [
        (LatencyMetric::AgentRunLatency, Percentile::P50, 20_000),
        (LatencyMetric::AgentRunLatency, Percentile::P99, 80_000),
        (LatencyMetric::RequestTimeToFirstToken, Percentile::P50, 1_000),
        (LatencyMetric::TimeToFirstToken, Percentile::P50, 5_000),
    ];
    assert_eq!(found.into_iter().collect::<std::collections::BTreeSet<_>>(), expected.into_iter().collect());
}

#[test]
fn an_open_loop_must_reach_its_target_but_for_chance() {
    let judged = |arrivals_per_kilosecond, target| {
        let circumstances = Circumstances { arrivals_per_kilosecond, ..Circumstances::default() };
        let rules = Rules { target_per_kilosecond: Some(target), ..Rules::default() };
        let row = row(&Records { circumstances, ..records(420) }, &rules);
        (row.verdict, row.reason)
    };
    // 420 in 4.2 s: 430 are within chance of it, 470 are not.
    assert_eq!(judged(Some(102_000), 102_381).0, MeasurementVerdict::Feasible);
    let reason = "throughput is too low: 100.00 of 111.91 a second were served".to_owned();
    assert_eq!(judged(Some(111_905), 111_905), (MeasurementVerdict::Infeasible, reason));
    assert_eq!(
        judged(None, 111_905).0,
        MeasurementVerdict::Feasible,
        "a closed loop at a low level is slow by its nature"
    );
}

#[test]
fn a_row_of_many_objectives_leaves_out_what_nobody_asked_for_and_then_the_last() {
    let all = [Percentile::P50, Percentile::P90, Percentile::P95, Percentile::P99, Percentile::P99_9];
    let of = |metric| all.map(|p| LatencyObjective { metric, ..objective(p, 9_000_000) });
    let metrics =
        [LatencyMetric::AgentRunLatency, LatencyMetric::TimeToFirstToken, LatencyMetric::RequestTimeToFirstToken];
    let objectives = metrics.map(of).concat();
    let digest = Digest::from_bytes(&[7; 32]);
    let row = reported(&runs(), Some(digest), &rules(&objectives)).unwrap();
    let place = |l: &Latency| objectives.iter().position(|o| (o.metric, o.percentile) == (l.metric, l.percentile));
    let mut kept: Vec<_> = row.latencies.iter().map(place).collect();
    kept.sort_unstable();
    assert_eq!(kept, (0..kept.len()).map(Some).collect::<Vec<_>>());
    assert!((10..15).contains(&kept.len()), "{kept:?}");
}
