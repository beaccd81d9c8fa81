//! What the pod's GPUs do, as metrics. Values are those of the last finished window.

use std::{collections::BTreeMap, sync::atomic::AtomicU64};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};
use slipway_vocabulary::{preflight::Slowdown, telemetry::GpuWindow};

const BYTES_PER_MIB: u64 = 1 << 20;
const HERTZ_PER_MHZ: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GpuLabel {
    gpu: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SlowdownLabels {
    gpu: u32,
    cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct XidLabels {
    gpu: u32,
    xid: u64,
}

/// Figures by GPU.
#[derive(Debug, Default)]
pub(super) struct GpuMetrics {
    utilization: Family<GpuLabel, Gauge<f64, AtomicU64>>,
    memory: Family<GpuLabel, Gauge<u64, AtomicU64>>,
    power: Family<GpuLabel, Gauge<u64, AtomicU64>>,
    clock: Family<GpuLabel, Gauge<u64, AtomicU64>>,
    max_clock: Family<GpuLabel, Gauge<u64, AtomicU64>>,
    slowed: Family<SlowdownLabels, Gauge<f64, AtomicU64>>,
    xids: Family<XidLabels, Gauge<u64, AtomicU64>>,
}

impl GpuMetrics {
    /// Registers every metric. None has a series before the first window.
    pub(super) fn new(r: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { utilization, memory, power, clock, max_clock, slowed, xids } = &metrics;
        r.register("slipway_gpu_utilization_ratio", "Share of time in which a GPU had work", utilization.clone());
        r.register("slipway_gpu_memory_used_bytes", "Most memory in use on a GPU", memory.clone());
        r.register("slipway_gpu_power_watts", "Mean power of a GPU", power.clone());
        r.register("slipway_gpu_clock_hertz", "Mean clock of a GPU's multiprocessors", clock.clone());
        r.register("slipway_gpu_clock_limit_hertz", "The highest clock that they can have", max_clock.clone());
        r.register(
            "slipway_gpu_slowed_ratio",
            "Share of samples in which a cause lowered a GPU's clocks",
            slowed.clone(),
        );
        r.register("slipway_gpu_xid_errors", "XID errors of a GPU in the last hour", xids.clone());
        metrics
    }

    /// Takes the windows of the last hour, by id. The last one may still grow, so the one before it is shown.
    pub(super) fn show(&self, windows: &BTreeMap<u64, Vec<GpuWindow>>) {
        self.clear();
        for gpu in windows.values().rev().nth(1).into_iter().flatten() {
            self.show_window(gpu);
        }
        for window in windows.values().flatten() {
            for xid in &window.xids {
                self.xids.get_or_create(&XidLabels { gpu: window.gpu, xid: *xid }).inc();
            }
        }
    }

    fn show_window(&self, window: &GpuWindow) {
        let label = GpuLabel { gpu: window.gpu };
        if let Some(percent) = window.utilization_percent {
            self.utilization.get_or_create(&label).set(f64::from(percent) / 100.0);
        }
        let figures = [
            (&self.memory, window.memory_used_mib.map(|mib| mib.saturating_mul(BYTES_PER_MIB))),
            (&self.power, window.power_watts.map(u64::from)),
            (&self.clock, window.clock_mhz.map(|mhz| u64::from(mhz).saturating_mul(HERTZ_PER_MHZ))),
            (&self.max_clock, window.max_clock_mhz.map(|mhz| u64::from(mhz).saturating_mul(HERTZ_PER_MHZ))),
        ];
        for (family, value) in figures {
            if let Some(value) = value {
                family.get_or_create(&label).set(value);
            }
        }
        for (cause, samples) in &window.slowed {
            let labels = SlowdownLabels { gpu: window.gpu, cause: cause_label(*cause) };
            let share = f64::from(*samples) / f64::from(window.samples.max(1));
            self.slowed.get_or_create(&labels).set(share);
        }
    }

    /// Figures that no window has any more lose their series.
    fn clear(&self) {
        self.utilization.clear();
        for family in [&self.memory, &self.power, &self.clock, &self.max_clock] {
            family.clear();
        }
        self.slowed.clear();
        self.xids.clear();
    }
}

const fn cause_label(cause: Slowdown) -> &'static str {
    match cause {
        Slowdown::PowerCap => "power_cap",
        Slowdown::Heat => "heat",
        Slowdown::HardwareHeat => "hardware_heat",
        Slowdown::PowerBrake => "power_brake",
        Slowdown::Hardware => "hardware",
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    fn window(utilization_percent: u32, xids: &[u64]) -> Vec<GpuWindow> {
        vec![GpuWindow {
            gpu: 0,
            samples: 10,
            slowed: vec![(Slowdown::HardwareHeat, 4)],
            xids: xids.to_vec(),
            utilization_percent: Some(utilization_percent),
            memory_used_mib: Some(70_000),
            power_watts: Some(640),
            clock_mhz: Some(1_755),
            max_clock_mhz: Some(1_980),
        }]
    }

    fn shown(windows: &[(u64, Vec<GpuWindow>)]) -> String {
        let mut registry = Registry::default();
        let metrics = GpuMetrics::new(&mut registry);
        metrics.show(&BTreeMap::from([(1, window(99, &[13])), (2, window(99, &[13]))]));
        metrics.show(&windows.iter().cloned().collect());
        let mut encoded = String::new();
        text::encode(&mut encoded, &registry).unwrap();
        encoded
    }

    /// docs/metrics.md and the chart's dashboards are compared with this snapshot.
    #[test]
    fn figures_are_those_of_the_last_finished_window_and_errors_those_of_all() {
        let windows = [(1, window(10, &[94])), (2, window(80, &[94])), (3, window(55, &[]))];
        insta::assert_snapshot!(shown(&windows));
    }

    #[test]
    fn without_a_finished_window_there_is_no_figure() {
        for windows in [&[(7, window(80, &[]))][..], &[]] {
            let text = shown(windows);
            assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
        }
    }
}
