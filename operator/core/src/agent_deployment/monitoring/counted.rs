//! What is remembered of a pod's last hour, so that only what it has counted since is asked for. Pure.
//!
//! Metrics are added up in blocks of five minutes: a pod's hour takes a kilobyte or two, in few pieces. What the judge
//! and the test of drift read, window by window, is not remembered.

mod blocks;
mod packed;

use std::collections::VecDeque;

use slipway_crds::v1alpha1::AgentDeploymentSpec;
use slipway_vocabulary::{
    evidence::{Evidence, Histogram, Metric, MetricWindow, RING_WINDOWS, Window},
    telemetry::{GpuFault, GpuWindow},
};

pub(super) use self::blocks::CountedLoad;
use self::blocks::{Block, Blocks, Counting, Loads, Sums};

/// Windows whose load is kept where nothing needs the load of an hour.
const FEW: usize = 6;
/// Errors of hardware of one pod that are remembered.
const MOST_BROKEN: usize = 16;
/// Bytes of most buckets. What loads take is counted in them.
const BYTES_OF_BUCKET: usize = 2;
/// Buckets of one pod that are remembered at most. A pod that fills more is asked for its hour each time.
pub const MOST_BUCKETS: usize = 8_192;

/// What is needed of a pod's hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    metrics: Metrics,
    /// Windows whose load is kept.
    loads: usize,
}

/// Metrics, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Metrics(u16);

const _: () = assert!(Metric::ALL.len() <= 16, "each metric has a bit");

impl FromIterator<Metric> for Metrics {
    fn from_iter<I: IntoIterator<Item = Metric>>(metrics: I) -> Self {
        Self(metrics.into_iter().fold(0, |bits, metric| bits | (1 << metric as u16)))
    }
}

impl Metrics {
    fn has(self, metric: Metric) -> bool {
        self.0 & (1 << metric as u16) != 0
    }
}

impl Keep {
    /// What the status and the autoscaler need.
    pub fn of(spec: &AgentDeploymentSpec) -> Self {
        let bounded = spec.slo.objectives.iter().map(|objective| Metric::of(objective.metric));
        let metrics = bounded.chain([Metric::AgentRunLatency]).collect();
        Self { metrics, loads: if spec.serving.autoscaling.is_some() { RING_WINDOWS } else { FEW } }
    }
}

/// The last hour of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedHour {
    keep: Keep,
    started_at: Box<str>,
    last: Option<u64>,
    blocks: Blocks,
    loads: Loads,
    broken: Vec<BrokenGpu>,
    /// Whether the pod has reported on its GPUs.
    has_gpus: bool,
}

/// An error of a GPU's hardware. It lasts as long as the pod, beyond the hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenGpu {
    /// The window in which it was first seen.
    pub window: u64,
    /// What broke.
    pub fault: GpuFault,
}

/// A metric's part of a block.
pub(super) struct Part {
    pub(super) metric: Metric,
    pub(super) count: u64,
    pub(super) errors: u64,
    pub(super) values: Histogram,
}

impl CountedHour {
    /// Nothing yet.
    pub fn new(keep: Keep) -> Self {
        let (blocks, loads) = (Blocks::default(), Loads::default());
        Self { keep, started_at: Box::default(), last: None, blocks, loads, broken: Vec::new(), has_gpus: false }
    }

    /// The window after which the pod is to report, if it is to report what this lacks. What a GPU did in the last
    /// window that was counted may have been told later.
    pub fn asks_after(&self) -> u64 {
        self.last().saturating_sub(u64::from(self.has_gpus))
    }

    /// The last window that was counted.
    fn last(&self) -> u64 {
        self.last.unwrap_or(0)
    }

    /// Whether it has what is needed now.
    pub fn keeps(&self, keep: &Keep) -> bool {
        self.keep == *keep
    }

    /// Buckets that it takes, or whose memory it takes.
    pub fn size(&self) -> usize {
        self.blocks.buckets() + self.loads.bytes() / BYTES_OF_BUCKET
    }

    /// The errors of hardware that its GPUs have raised.
    pub fn broken(&self) -> &[BrokenGpu] {
        &self.broken
    }

    /// Adds what the pod has counted after a window. False where the answer does not continue what is remembered: the
    /// pod has started again, and is to be asked for everything.
    #[must_use]
    pub fn add(&mut self, answer: &Evidence, asked_after: u64) -> bool {
        if self.last.is_some() && *answer.started_at != *self.started_at {
            if asked_after > 0 {
                return false;
            }
            *self = Self::new(self.keep.clone());
        }
        self.started_at = answer.started_at.as_str().into();
        for window in &answer.windows {
            self.learn_faults(window);
        }
        let known = self.last;
        let (mut blocks, mut loads) = (self.blocks.counting(), self.loads.iter().collect::<VecDeque<_>>());
        for window in answer.windows.iter().filter(|window| known.is_none_or(|known| window.id > known)) {
            self.last = Some(window.id);
            loads.push_back(load_of(window));
            let is_kept = |row: &&MetricWindow| row.count > 0 && self.keep.metrics.has(row.metric);
            blocks.add(window.id, window.metrics.iter().filter(is_kept));
        }
        self.keep_latest(blocks, loads);
        true
    }

    /// A pod may learn of a fault after its window was counted.
    fn learn_faults(&mut self, window: &Window) {
        self.has_gpus |= !window.gpus.is_empty();
        for fault in window.gpus.iter().filter_map(GpuWindow::broken) {
            let is_known = self.broken.iter().any(|known| known.fault == fault);
            if !is_known && self.broken.len() < MOST_BROKEN {
                self.broken.push(BrokenGpu { window: window.id, fault });
            }
        }
    }

    /// Without what the pod itself no longer has, in whole blocks.
    fn keep_latest(&mut self, mut blocks: Counting, mut loads: VecDeque<CountedLoad>) {
        let ring = u64::try_from(RING_WINDOWS).unwrap_or(u64::MAX);
        let oldest = self.last().saturating_sub(ring);
        blocks.forget(oldest);
        while loads.len() > self.keep.loads || loads.front().is_some_and(|load| load.id <= oldest) {
            loads.pop_front();
        }
        (self.blocks, self.loads) = (Blocks::of(&blocks), Loads::of(&loads));
    }

    /// The first and the last window of each block, with what finished in between.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, u64, Vec<Part>)> {
        self.blocks.iter().map(|Block { first, last, metrics }| {
            let part = |(metric, Sums { count, errors, buckets })| {
                let pairs = buckets.into_iter().map(|(bucket, count)| (bucket, u64::from(count)));
                Part { metric, count, errors, values: Histogram::from_pairs(pairs).unwrap_or_default() }
            };
            (first, last, metrics.into_iter().map(part).collect())
        })
    }

    /// The latest windows.
    pub(super) fn loads(&self) -> impl Iterator<Item = CountedLoad> {
        self.loads.iter()
    }
}

fn load_of(window: &Window) -> CountedLoad {
    let rows = |metric| window.metrics.iter().filter(move |row| row.metric == metric);
    let sum = |rows: &mut dyn Iterator<Item = u64>| rows.fold(0_u64, u64::saturating_add);
    CountedLoad {
        id: window.id,
        load: window.load,
        admitted: sum(&mut rows(Metric::AgentRunLatency).map(|row| row.started)),
        refused: sum(&mut rows(Metric::Shed).map(|row| row.count)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;
    use slipway_crds::v1alpha1::agent_deployment::LatencyMetric;

    use super::*;
    use crate::agent_deployment::monitoring::{load::ObservedLoad, observed_objectives::ObservedObjectives};

    fn keep(loads: usize) -> Keep {
        Keep { metrics: [Metric::AgentRunLatency].into_iter().collect(), loads }
    }

    /// Windows in which a run of each of two strata finished, one of them with an error.
    fn evidence(started_at: &str, ids: impl IntoIterator<Item = u64>) -> Evidence {
        let window = |id: u64| {
            let row = |metric: &str, stratum: &str, errors: u64| {
                json!({"metric": metric, "unit": "Run", "stratum": stratum, "started": 1, "count": 1, "errors": errors,
                    "buckets": if errors == 0 { json!([[600 + id % 7, 1]]) } else { json!([]) }})
            };
            let rows = [
                row("AgentRunLatency", "p1", 0),
                row("AgentRunLatency", "p2", 1),
                row("Shed", "", 1),
                row("ToolTime", "", 0),
            ];
            json!({"id": id, "metrics": rows, "load": {"runMicroseconds": id, "modelRequestMicroseconds": 1}})
        };
        let windows: Vec<_> = ids.into_iter().map(window).collect();
        let evidence = json!({"revision": "a", "pod": "p", "startedAt": started_at, "windows": windows});
        serde_json::from_value(evidence).expect("evidence")
    }

    fn remembered(parts: &[Evidence], loads: usize) -> CountedHour {
        let mut hour = CountedHour::new(keep(loads));
        for part in parts {
            let asked_after = hour.last();
            assert!(hour.add(part, asked_after));
        }
        hour
    }

    /// What pods and reports have in common: that of blocks is a little longer.
    #[test]
    fn piece_by_piece_as_much_is_counted_as_at_once() {
        let whole = evidence("t", 1_000..1_360);
        let pieces = [evidence("t", 1_000..1_100), evidence("t", 1_050..1_333), evidence("t", 1_300..1_360)];
        let hour = remembered(&pieces, RING_WINDOWS);
        assert_eq!(hour, remembered(std::slice::from_ref(&whole), RING_WINDOWS));
        let mut expected = whole.clone();
        expected.windows.iter_mut().for_each(|window| {
            window.metrics.retain(|row| row.metric != Metric::ToolTime && row.metric != Metric::Shed)
        });
        assert_eq!(ObservedObjectives::of_hours([&hour]), ObservedObjectives::of([&expected]));
        assert_eq!(ObservedLoad::of_hours([Some(&hour), None]), ObservedLoad::of([Some(&whole), None]));
    }

    #[test]
    fn of_an_hour_ago_whole_blocks_are_forgotten() {
        let hour = remembered(&[evidence("t", 1_000..1_360), evidence("t", 1_360..1_400)], FEW);
        let first = hour.blocks().map(|(first, _, _)| first).min();
        assert_eq!((first, hour.last(), hour.loads().count()), (Some(1_020), 1_399, FEW));
        assert_eq!(hour.size(), 13 * 7 + 43 / 2, "seven buckets in each block, and loads");
    }

    #[test]
    fn a_broken_gpu_is_remembered_beyond_the_hour_and_until_the_pod_starts_again() {
        let mut broken = evidence("t", 1_000..1_002);
        broken.windows[0].gpus = vec![GpuWindow { samples: 10, xids: vec![79], ..GpuWindow::default() }];
        let later = [1_002..1_360, 1_360..1_700, 1_700..1_800].map(|ids| evidence("t", ids));
        let mut hour = remembered(&[[broken].as_slice(), &later].concat(), FEW);
        let fault = GpuFault::Broken { gpu: 0, code: 79 };
        assert_eq!(hour.broken(), [BrokenGpu { window: 1_000, fault }]);
        assert!(hour.add(&evidence("u", 1_801..1_802), 0));
        assert_eq!(hour.broken(), []);
    }

    #[test]
    fn what_a_gpu_did_in_a_window_that_was_counted_already_is_learned_with_the_next_answer() {
        let calm = GpuWindow { samples: 10, ..GpuWindow::default() };
        let of = |ids: std::ops::Range<u64>, last: GpuWindow| {
            let mut evidence = evidence("t", ids);
            evidence.windows[0].gpus = vec![last];
            evidence
        };
        let mut hour = remembered(&[evidence("t", 1_000..1_001)], FEW);
        assert_eq!(hour.asks_after(), 1_000, "a pod without GPUs reports each window once");
        assert!(hour.add(&of(1_001..1_002, calm), 1_000));
        assert_eq!(hour.asks_after(), 1_000);
        let late = of(1_001..1_003, GpuWindow { samples: 10, xids: vec![79], ..GpuWindow::default() });
        assert!(hour.add(&late, 1_000));
        assert_eq!(hour.broken(), [BrokenGpu { window: 1_001, fault: GpuFault::Broken { gpu: 0, code: 79 } }]);
        let observed = ObservedObjectives::of_hours([&hour]);
        assert_eq!(observed.of_metric(LatencyMetric::AgentRunLatency).map(|counted| counted.count), Some(6));
    }

    #[test]
    fn a_pod_that_has_started_again_is_asked_for_everything() {
        let mut hour = remembered(&[evidence("t", 1_000..1_010)], FEW);
        assert!(!hour.add(&evidence("u", 1_012..1_013), 1_009));
        assert!(hour.add(&evidence("u", 1_011..1_013), 0));
        assert_eq!(hour, remembered(&[evidence("u", 1_011..1_013)], FEW));
    }

    #[test]
    fn another_objective_needs_other_metrics() {
        let read = |objectives: serde_json::Value| -> AgentDeploymentSpec {
            let (model, engine) = (json!({"uri": "hf://a/b"}), json!({"backend": "Custom"}));
            let spec = json!({"model": model, "engine": engine, "agent": {"systemPrompt": ""}, "slo": {"objectives": objectives}});
            serde_json::from_value(spec).expect("a spec")
        };
        let of =
            |metric: &str| Keep::of(&read(json!([{"name": "a", "metric": metric, "percentile": "p95", "max": "5s"}])));
        let hour = CountedHour::new(of("RequestLatency"));
        assert!(hour.keeps(&of("RequestLatency")) && !hour.keeps(&of("TimeToFirstToken")));
        assert_eq!(of("AgentRunLatency"), keep(FEW));
    }
}
