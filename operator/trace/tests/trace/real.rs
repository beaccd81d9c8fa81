//! A real trace: torch 2.11 on an H200 (see `fixtures/trace/README.md`), compared with what torch itself says of it.

use std::{collections::BTreeMap, fs::File, io::BufReader};

use flate2::read::MultiGzDecoder;
use pretty_assertions::assert_eq;
use serde::Deserialize;
use slipway_trace::{
    EnginePhase, Options, PhaseSource, analyze, averages, diagnose::BottleneckClass, format::Format, kineto,
    report::Report, spans,
};

use super::chrome::{intake, options};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/h200-torch-2.11");

fn report(with_spans: bool) -> Report {
    let mut intake = intake();
    kineto::read(MultiGzDecoder::new(File::open(format!("{FIXTURE}.json.gz")).unwrap()), &mut intake).unwrap();
    if !with_spans {
        return analyze(intake.finish(), options(Format::Kineto, PhaseSource::Ranges)).unwrap();
    }
    let lines = BufReader::new(File::open(format!("{FIXTURE}.spans.jsonl")).unwrap());
    spans::read(lines, &mut intake).unwrap();
    analyze(intake.finish(), options(Format::Kineto, PhaseSource::Spans)).unwrap()
}

#[derive(Deserialize)]
struct Average {
    key: String,
    count: u64,
    self_cpu_time_total: f64,
    self_device_time_total: f64,
    flops: f64,
}

#[test]
fn self_times_and_counts_of_every_operator_are_torchs_own() {
    let averages: Vec<Average> =
        serde_json::from_reader(File::open(format!("{FIXTURE}.averages.json")).unwrap()).unwrap();
    let nanos = |micros: f64| (micros * 1_000.0).round() as u64;
    let mut of_torch: BTreeMap<_, _> = averages
        .iter()
        .map(|row| (row.key.clone(), (row.count, nanos(row.self_cpu_time_total), nanos(row.self_device_time_total))))
        .collect();
    let operators = report(false).operators.unwrap();

    let mut ours = BTreeMap::new();
    for row in operators.by_cpu_time.into_iter().chain(operators.by_device_time) {
        let nanos = |ms: f64| (ms * 1e6).round() as u64;
        ours.insert(row.name, (row.count, nanos(row.cpu_ms), nanos(row.device_ms)));
    }
    of_torch.retain(|name, _| ours.contains_key(name));

    assert!(ours.len() >= 30, "{}", ours.len());
    assert_eq!(ours, of_torch);
}

#[test]
fn flops_from_shapes_are_torchs_own() {
    let averages: Vec<Average> =
        serde_json::from_reader(File::open(format!("{FIXTURE}.averages.json")).unwrap()).unwrap();
    let operators = report(false).operators.unwrap();

    for name in ["aten::mm", "aten::addmm"] {
        let torch = averages.iter().find(|row| row.key == name).unwrap();
        let ours = operators.by_device_time.iter().find(|row| row.name == name).unwrap();
        let tflops = torch.flops / torch.self_device_time_total / 1e6;
        assert!((ours.achieved_tflops.unwrap() - tflops).abs() < 0.001, "{name}: {ours:?} against {tflops}");
    }
}

#[test]
fn the_agents_step_is_seen_as_it_was() {
    let report = report(true);

    assert_eq!(report.bottleneck.class, Some(BottleneckClass::ToolBound));
    assert_eq!(report.devices[0].name.as_deref(), Some("NVIDIA H200"));
    assert_eq!((report.devices[0].kernels, report.launch.unattributed_kernels), (104, 0));
    let phases: Vec<_> = report.engine_phases.iter().map(|row| (row.phase, row.steps, row.kernels)).collect();
    assert_eq!(phases, [(EnginePhase::Prefill, 1, 23), (EnginePhase::Decode, 3, 81)]);
    let agent = report.agent_phases.unwrap();
    let wall: Vec<_> = agent.phases.iter().map(|row| (row.phase, row.wall_ms.round())).collect();
    assert_eq!(
        (agent.source, wall),
        ("spans", vec![("preprocessing", 2.0), ("inference", 5.0), ("tool", 15.0), ("idle", 0.0)])
    );
}

#[test]
fn the_traces_own_ranges_tell_the_same_without_spans() {
    let (with, without) = (report(true), report(false));

    assert_eq!(without.bottleneck.class, with.bottleneck.class);
    let shares = |report: &Report| {
        let agent = report.agent_phases.clone().unwrap();
        agent.phases.iter().map(|row| row.wall_pct.round()).collect::<Vec<_>>()
    };
    assert_eq!(shares(&with), shares(&without));
}

#[test]
fn what_the_profiler_held_up_is_not_preprocessing() {
    let report = report(true);

    // "Activity Buffer Request" took 1.84 ms of the 2.26 ms that the span calls preprocessing.
    let idle = |name: &str| {
        let row = report.devices[0].idle_outside.iter().find(|row| format!("{:?}", row.cause) == name);
        row.map(|row| (row.ms * 100.0).round() / 100.0)
    };
    assert_eq!((idle("Profiler"), idle("Preprocessing")), (Some(1.84), Some(0.42)));
}

#[test]
fn torchs_averages_can_stand_in_for_the_traces_operators() {
    let mut intake = intake();
    kineto::read(MultiGzDecoder::new(File::open(format!("{FIXTURE}.json.gz")).unwrap()), &mut intake).unwrap();
    let averages = averages::read(File::open(format!("{FIXTURE}.averages.json")).unwrap()).unwrap();
    let with = Options { averages: Some(averages), ..options(Format::Kineto, PhaseSource::Ranges) };

    let found = analyze(intake.finish(), with).unwrap().operators.unwrap();

    let own = report(false).operators.unwrap();
    assert_eq!((found.source, own.source), ("averages", "trace"));
    assert_eq!((found.device_ms, found.cpu_to_gpu_ratio), (own.device_ms, own.cpu_to_gpu_ratio));
}
