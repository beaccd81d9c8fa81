//! What is counted of GPUs at work, with a stand-in for the driver's libraries.

use pretty_assertions::assert_eq;
use slipway_preflight::watch::{Sample, Watch, Working};
use slipway_vocabulary::{
    preflight::Slowdown,
    telemetry::{GpuFault, GpuWindow, Telemetry, TelemetryWindow},
};

/// A GPU that works at its power limit, and is hot from a second on.
struct StandIn {
    hot_from: u64,
}

impl StandIn {
    fn at(&self, second: u64) -> Hot {
        Hot { is_hot: second >= self.hot_from }
    }
}

struct Hot {
    is_hot: bool,
}

impl Working for Hot {
    fn sample(&self) -> Vec<Sample> {
        let (by, clock) = if self.is_hot { (Slowdown::Heat, 1_200) } else { (Slowdown::PowerCap, 1_900) };
        vec![Sample {
            slowed_by: vec![by],
            xids: Vec::new(),
            utilization_percent: Some(90),
            memory_used_mib: Some(40_000),
            milliwatts: Some(690_400),
            clock_mhz: Some(clock),
            max_clock_mhz: Some(1_980),
        }]
    }
}

fn counted(gpus: &StandIn, seconds: std::ops::Range<u64>) -> Watch {
    let mut watch = Watch::default();
    seconds.for_each(|second| watch.count(second, &gpus.at(second).sample()));
    watch
}

#[test]
fn samples_become_the_windows_of_the_evidence() {
    let mut watch = counted(&StandIn { hot_from: 15 }, 0..20);
    let window = |id, slowed, clock_mhz| TelemetryWindow {
        id,
        gpus: vec![GpuWindow {
            gpu: 0,
            samples: 10,
            slowed,
            xids: Vec::new(),
            utilization_percent: Some(90),
            memory_used_mib: Some(40_000),
            power_watts: Some(690),
            clock_mhz: Some(clock_mhz),
            max_clock_mhz: Some(1_980),
        }],
    };
    let first = window(0, vec![(Slowdown::PowerCap, 10)], 1_900);
    let second = window(1, vec![(Slowdown::PowerCap, 5), (Slowdown::Heat, 5)], 1_550);
    assert_eq!(watch.told(19, None), Telemetry { windows: vec![first.clone(), second.clone()] }, "the open one, too");
    assert_eq!(watch.told(20, None), Telemetry { windows: vec![first, second.clone()] });
    assert_eq!(watch.told(20, Some(0)), Telemetry { windows: vec![second.clone()] });
    assert_eq!(
        second.gpus[0].faults(),
        [GpuFault::Slowed {
            gpu: 0,
            by: vec![Slowdown::Heat],
            slowed_samples: 5,
            samples: 10,
            clock_mhz: Some(1_550),
            max_clock_mhz: Some(1_980),
        }]
    );
}

#[test]
fn errors_are_kept_with_their_window_and_bounded() {
    let mut watch = Watch::default();
    let errors = |codes: Vec<Option<u64>>| vec![Sample { xids: codes, ..Sample::default() }];
    watch.count(1, &errors(vec![Some(79), None]));
    watch.count(2, &errors(vec![Some(31); 100]));
    let window = watch.told(10, None).windows.remove(0);
    assert_eq!(window.gpus[0].xids.len(), 16);
    assert_eq!(window.gpus[0].xids[..3], [79, 0, 31]);
}

#[test]
fn a_gpu_that_appears_late_is_counted_and_one_hour_is_kept() {
    let mut watch = Watch::default();
    watch.count(1, &[Sample::default()]);
    watch.count(2, &[Sample::default(), Sample::default()]);
    let samples: Vec<u32> = watch.told(10, None).windows[0].gpus.iter().map(|gpu| gpu.samples).collect();
    assert_eq!(samples, [2, 1]);
    let mut watch = counted(&StandIn { hot_from: 0 }, 0..5_000);
    let windows = watch.told(5_000, None).windows;
    assert_eq!((windows.len(), windows[0].id, windows[359].id), (360, 140, 499));
}
