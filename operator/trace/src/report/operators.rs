//! Operators as rows. Pure.

use std::cmp::Reverse;

use super::{MemoryOperators, OperatorRow, Operators, ROWS, ms, pct, round};
use crate::{
    averages::Averages,
    classify,
    diagnose::peaks::Peak,
    record::Names,
    timeline::{Timeline, threads::OperatorStats},
};

/// Rows of the table of dispatch-heavy operators, and of operators without GPU time.
const FEW_ROWS: (usize, usize) = (15, 10);
/// Host time over GPU time above which an operator is dispatch-heavy.
const DISPATCH_HEAVY: f64 = 5.0;

/// All operators of a capture.
pub(super) struct OperatorTable {
    source: &'static str,
    operators: Vec<(String, OperatorStats)>,
    cpu_nanos: u64,
}

impl OperatorTable {
    /// Takes torch's own averages where they were given, else what the trace holds, else nothing.
    pub(super) fn new(timeline: &Timeline, names: &Names, averages: Option<&Averages>) -> Option<Self> {
        if let Some(averages) = averages {
            let own: u64 = averages.operators.iter().map(|(_, stats)| stats.self_cpu_nanos).sum();
            let cpu_nanos = own.saturating_add(averages.calls_nanos);
            return Some(Self { source: "averages", operators: averages.operators.clone(), cpu_nanos });
        }
        let threads = &timeline.threads;
        let named = threads.operators.iter().map(|(&name, &stats)| (names.text(name).to_owned(), stats));
        let operators: Vec<_> = named.collect();
        (!operators.is_empty()).then_some(Self { source: "trace", operators, cpu_nanos: threads.working_nanos })
    }

    /// Returns host time over GPU time, nothing where operators launched nothing.
    pub(super) fn cpu_to_gpu_ratio(&self) -> Option<f64> {
        let device = self.device_nanos();
        (device > 0).then(|| self.cpu_nanos as f64 / device as f64)
    }

    fn device_nanos(&self) -> u64 {
        self.operators.iter().fold(0, |sum, (_, stats)| sum.saturating_add(stats.device_nanos))
    }
}

/// Makes the tables.
pub(super) fn tables(table: &OperatorTable, peaks: &[Option<Peak>]) -> Operators {
    let cpu = table.cpu_nanos;
    // Operators are attributed to no device; where all devices are one product, its peak holds for all.
    let peak = peaks.first().copied().flatten().filter(|first| peaks.iter().all(|peak| *peak == Some(*first)));
    let all: Vec<_> = table.operators.iter().collect();
    let top = |rows: usize, keep: &dyn Fn(&OperatorStats) -> bool, key: &dyn Fn(&OperatorStats) -> u64| {
        let mut kept: Vec<_> = all.iter().filter(|(_, stats)| keep(stats)).copied().collect();
        kept.sort_by_key(|(name, stats)| (Reverse(key(stats)), name));
        kept.into_iter().take(rows).map(|(name, stats)| row(name, stats, peak)).collect::<Vec<_>>()
    };
    let is_heavy = |stats: &OperatorStats| {
        stats.device_nanos > 0 && stats.self_cpu_nanos as f64 / stats.device_nanos as f64 > DISPATCH_HEAVY
    };
    let memory = all.iter().filter(|(name, _)| classify::is_memory_operator(name));
    let (count, memory_nanos) =
        memory.fold((0, 0), |(count, nanos), (_, stats)| (count + stats.count, nanos + stats.self_cpu_nanos));
    Operators {
        source: table.source,
        cpu_ms: ms(cpu),
        device_ms: ms(table.device_nanos()),
        cpu_to_gpu_ratio: table.cpu_to_gpu_ratio().map(round),
        by_device_time: top(ROWS, &|stats| stats.device_nanos > 0, &|stats| stats.device_nanos),
        by_cpu_time: top(ROWS, &|_| true, &|stats| stats.self_cpu_nanos),
        dispatch_heavy: top(FEW_ROWS.0, &is_heavy, &|stats| stats.self_cpu_nanos),
        cpu_only: top(FEW_ROWS.1, &|stats| stats.device_nanos == 0, &|stats| stats.self_cpu_nanos),
        memory: MemoryOperators { count, cpu_ms: ms(memory_nanos), cpu_pct: pct(memory_nanos, cpu) },
    }
}

fn row(name: &str, stats: &OperatorStats, peak: Option<Peak>) -> OperatorRow {
    let tflops = (stats.flops > 0 && stats.flops_device_nanos > 0)
        .then(|| stats.flops as f64 / stats.flops_device_nanos as f64 / 1e3);
    OperatorRow {
        name: name.to_owned(),
        count: stats.count,
        cpu_ms: ms(stats.self_cpu_nanos),
        device_ms: ms(stats.device_nanos),
        ratio: (stats.device_nanos > 0).then(|| round(stats.self_cpu_nanos as f64 / stats.device_nanos as f64)),
        achieved_tflops: tflops.map(round),
        peak_pct: tflops.zip(peak).map(|(tflops, peak)| round(100.0 * tflops / peak.tflops)),
        flops_per_byte: (stats.bytes > 0).then(|| round(stats.flops as f64 / stats.bytes as f64)),
    }
}
