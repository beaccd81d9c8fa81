use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use slipway_crds::v1alpha1::{
    agent_deployment::{OptimizeFor, ProfilingDriver},
    profile::{Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
};
use slipway_selection::{
    infeasible,
    judged::{Judged, judge},
    select, target,
};
use slipway_worker_contract::{Gpu, Row};

use super::{
    super::*,
    cluster::{cluster, row},
};
use crate::profile::{rows, scope::Subject};

/// Measurements of engine-a with one configuration: level, throughput, latency.
fn measured(points: &[(u32, u64, u64)]) -> Vec<Measurement> {
    let subject = Subject::explored("engine-a");
    let rows: Vec<_> = points
        .iter()
        .enumerate()
        .map(|(index, &(level, rate, micros))| row(&format!("c-{index}"), level, (rate, micros)))
        .collect();
    rows::found(subject, &rows, &[]).into_status(ProfileStatus::default()).measurements
}

fn inputs(optimize_for: OptimizeFor) -> ProfileInputs {
    ProfileInputs { optimize_for, ..cluster().world.spec.inputs }
}

#[rstest]
#[case::most_requests(OptimizeFor::Throughput, 1)]
#[case::lowest_latency(OptimizeFor::Latency, 0)]
#[case::lowest_cost(OptimizeFor::Cost, 1)]
fn what_is_looked_for_decides(#[case] optimize_for: OptimizeFor, #[case] best: usize) {
    let measurements = measured(&[(1, 5_000, 50_000), (4, 9_000, 90_000), (8, 12_000, 190_000)]);
    assert_eq!(select::ranked(&inputs(optimize_for), &measurements).first(), Some(&best), "the third misses its bound");
}

#[test]
fn a_tie_of_one_percent_goes_to_the_lower_latency() {
    let measurements = measured(&[(8, 10_000, 150_000), (4, 9_950, 90_000), (1, 9_800, 20_000)]);
    assert_eq!(select::ranked(&inputs(OptimizeFor::Throughput), &measurements), [1, 0, 2]);
}

#[rstest]
#[case::by_less_than_the_margin(OptimizeFor::Throughput, (10_400, 50_000), false)]
#[case::by_the_margin(OptimizeFor::Throughput, (10_500, 50_000), true)]
#[case::where_the_bounds_overlap(OptimizeFor::Latency, (10_000, 94_000), false)]
#[case::beyond_the_bounds(OptimizeFor::Latency, (10_000, 60_000), true)]
fn what_serves_is_beaten_only_clearly(
    #[case] optimize_for: OptimizeFor,
    #[case] (rate, micros): (u64, u64),
    #[case] is_better: bool,
) {
    let measurements = measured(&[(4, 10_000, 100_000), (8, rate, micros)]);
    let better = select::is_clearly_better(&inputs(optimize_for), &measurements[1], &measurements[0]);
    assert_eq!(better, is_better, "{measurements:?}");
}

#[test]
fn a_throughput_of_requests_rules_points_out_by_the_share_of_a_replica() {
    let mut inputs = inputs(OptimizeFor::Latency);
    inputs.throughput = Some(serde_norway::from_str("{min: '12', unit: Requests}").expect("an objective"));
    let measurements = measured(&[(1, 5_000, 50_000), (4, 6_000, 90_000)]);
    assert_eq!(select::ranked(&inputs, &measurements), [1], "12 a second over 2 replicas");
    inputs.throughput = Some(serde_norway::from_str("{min: '12', unit: Runs}").expect("an objective"));
    assert_eq!(select::ranked(&inputs, &measurements), [0, 1], "requests are no runs");
}

/// A limit on a GPU's figure, and points of so much utilization.
fn with_gpus(limit: &str, utilizations: &[u8]) -> (ProfileInputs, Vec<Measurement>) {
    let mut inputs = inputs(OptimizeFor::Throughput);
    inputs.gpu = vec![serde_norway::from_str(limit).expect("a limit")];
    let rows: Vec<_> = utilizations
        .iter()
        .zip(1..)
        .map(|(utilization, level)| {
            let gpu = Gpu { memory_mib: Some(14_336), utilization_percent: Some(*utilization), power_watts: Some(210) };
            Row { gpu: Some(gpu), ..row("instances-1", level, (1_000 * u64::from(level), 50_000)) }
        })
        .collect();
    let status = rows::found(Subject::explored("engine-a"), &rows, &[]).into_status(ProfileStatus::default());
    (inputs, status.measurements)
}

#[test]
fn a_row_of_an_earlier_campaign_is_judged_by_limits_on_gpus_from_both_sides() {
    let judged_by = |limit| {
        let (inputs, measurements) = with_gpus(limit, &[40, 70, 95]);
        measurements.iter().map(|row| judge(&inputs, row)).collect::<Vec<_>>()
    };
    let met = Judged::Decided { verdict: MeasurementVerdict::Feasible, reason: String::new() };
    let missed = |reason: &str| Judged::Decided { verdict: MeasurementVerdict::Infeasible, reason: reason.to_owned() };
    let low = missed("GPU utilization is too low: 40 % of at least 60 %");
    let high = missed("GPU utilization is too high: 95 % of at most 90 %");
    assert_eq!(judged_by("{figure: Utilization, min: 60, max: 90}"), [low, met, high]);
    let (inputs, mut measurements) = with_gpus("{figure: Power, max: 300}", &[40]);
    let open = Judged::Open { objective: "gpu-power".to_owned() };
    measurements[0].gpu.iter_mut().for_each(|gpu| gpu.power_watts = None);
    assert_eq!(judge(&inputs, &measurements[0]), open, "an unsampled power does not count as 0 W");
    measurements[0].gpu = None;
    assert_eq!(judge(&inputs, &measurements[0]), open);
}

#[test]
fn a_figure_of_zero_that_an_earlier_worker_reported_is_not_known() {
    let gpu = |power_watts, utilization_percent| Gpu { memory_mib: Some(0), utilization_percent, power_watts };
    let stored = |gpu| {
        let row = Row { gpu: Some(gpu), ..row("instances-1", 1, (1_000, 50_000)) };
        rows::found(Subject::explored("engine-a"), &[row], &[]).measurements[0].gpu
    };
    assert_eq!(stored(gpu(Some(0), Some(0))), None);
    let known = stored(gpu(Some(210), Some(0))).expect("it has a power");
    assert_eq!((known.power_watts, known.utilization_percent, known.memory_mebibytes), (Some(210), None, None));
}

#[test]
fn a_limited_figure_that_no_row_has_is_named() {
    let (mut inputs, mut measurements) = with_gpus("{figure: Power, max: 300}", &[40, 50]);
    inputs.objectives.truncate(1);
    for row in &mut measurements {
        row.gpu.iter_mut().for_each(|gpu| gpu.power_watts = None);
        row.verdict = MeasurementVerdict::Unbounded;
    }
    let found = infeasible::explain(&inputs, &measurements, MeasurementPurpose::Explore);
    assert_eq!((found.binding_objective.as_str(), found.nearest), ("gpu-power", Some(0)));
}

#[test]
fn a_confirm_run_at_the_load_of_the_target_need_not_keep_the_gpu_as_busy_as_its_level() {
    let judged_by = |limit, purpose| {
        let (inputs, mut measurements) = with_gpus(limit, &[40]);
        measurements[0].purpose = purpose;
        let found = infeasible::explain(&inputs, &measurements, purpose);
        (judge(&inputs, &measurements[0]), found.binding_objective)
    };
    let met = Judged::Decided { verdict: MeasurementVerdict::Feasible, reason: String::new() };
    let (judged, binding) = judged_by("{figure: Utilization, min: 60}", MeasurementPurpose::Confirm);
    assert_eq!((judged, binding == "gpu-utilization"), (met, false));
    let (judged, binding) = judged_by("{figure: Utilization, min: 20, max: 30}", MeasurementPurpose::Confirm);
    let reason = "GPU utilization is too high: 40 % of at most 30 %".to_owned();
    assert_eq!(judged, Judged::Decided { verdict: MeasurementVerdict::Infeasible, reason });
    assert_eq!(binding, "gpu-utilization");
    let (_, binding) = judged_by("{figure: Utilization, min: 60}", MeasurementPurpose::Explore);
    assert_eq!(binding, "gpu-utilization");
}

#[test]
fn what_a_limit_on_gpus_would_take_is_said_for_the_bound_that_is_missed() {
    let words = |limit| {
        let (inputs, measurements) = with_gpus(limit, &[40, 45]);
        infeasible::explain(&inputs, &measurements, MeasurementPurpose::Explore)
    };
    let found = words("{figure: Utilization, min: 60, max: 90}");
    let expected = "GPU utilization would be met with a min of 45 % or less (it is 60 %), by fp32/instances-1 at 2 in \
                    flight";
    assert_eq!((found.binding_objective.as_str(), found.what_it_would_take.as_str()), ("gpu-utilization", expected));
    let found = words("{figure: Power, max: 200}");
    let expected =
        "GPU power would be met with a max of 210 W or more (it is 200 W), by fp32/instances-1 at 1 in flight";
    assert_eq!(found.what_it_would_take, expected);
}

#[rstest]
#[case::confirmed(ProfilingDriver::ModelAnalyzer, "Runs", [None, Some(6_000)])]
#[case::compared(ProfilingDriver::ModelAnalyzer, "Requests", [Some(6_000), None])]
#[case::both(ProfilingDriver::AgentRun, "Runs", [Some(6_000), Some(6_000)])]
fn a_throughput_is_asked_of_what_counts_the_same(
    #[case] driver: ProfilingDriver,
    #[case] unit: &str,
    #[case] asked: [Option<u64>; 2],
) {
    let throughput = serde_norway::from_str(&format!("{{min: '12', unit: {unit}}}")).expect("an objective");
    let inputs = ProfileInputs { driver, throughput: Some(throughput), ..inputs(OptimizeFor::Throughput) };
    let target = |purpose| target::target_per_kilosecond(&inputs, "engine-a", target::driver_for(&inputs, purpose));
    assert_eq!([MeasurementPurpose::Explore, MeasurementPurpose::Confirm].map(target), asked);
}

#[test]
fn one_altered_row_changes_the_choice() {
    let mut measurements = measured(&[(1, 5_000, 50_000), (4, 9_000, 90_000)]);
    let best = |measurements: &[Measurement]| select::ranked(&inputs(OptimizeFor::Throughput), measurements)[0];
    assert_eq!(best(&measurements), 1);
    measurements[1].per_kilosecond = 4_000;
    assert_eq!(best(&measurements), 0);
}

fn points() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    prop::collection::vec((1u32..64, 1u64..100_000, 1_000u64..400_000), 0..24)
}

proptest! {
    #[test]
    fn every_feasible_point_is_ranked_once_and_no_other(points in points()) {
        let measurements = measured(&points);
        let mut ranked = select::ranked(&inputs(OptimizeFor::Throughput), &measurements);
        ranked.sort_unstable();
        let feasible: Vec<usize> = (0..measurements.len())
            .filter(|index| measurements[*index].verdict == MeasurementVerdict::Feasible)
            .collect();
        prop_assert_eq!(ranked, feasible);
    }

    #[test]
    fn the_best_is_within_a_percent_of_the_most(points in points()) {
        let measurements = measured(&points);
        let feasible = measurements.iter().filter(|m| m.verdict == MeasurementVerdict::Feasible);
        let most = feasible.map(|m| m.per_kilosecond).max();
        let best = select::ranked(&inputs(OptimizeFor::Throughput), &measurements).first().copied();
        prop_assert_eq!(best.is_some(), most.is_some());
        if let (Some(best), Some(most)) = (best, most) {
            prop_assert!(measurements[best].per_kilosecond as f64 >= most as f64 * 0.99);
        }
    }

    #[test]
    fn nothing_measured_beats_a_point_of_the_front_in_both(points in points()) {
        let measurements = measured(&points);
        let inputs = inputs(OptimizeFor::Throughput);
        for member in select::front(&inputs, &measurements) {
            let member = &measurements[usize::try_from(member).expect("a position")];
            let of = |m: &Measurement| m.latencies[1].microseconds;
            let beats = |m: &Measurement| of(m) < of(member) && m.per_kilosecond > member.per_kilosecond;
            prop_assert!(!measurements.iter().any(beats));
        }
    }
}
