//! One device as rows. Pure.

use super::{
    CopyRow, CounterRow, DeviceReport, GapRow, GapSizeRow, IdleRow, MemoryReport, MemoryRow, ms, pct, round, us,
};
use crate::{
    record::{DeviceInfo, Names, Source},
    timeline::{
        Timeline,
        causes::{Cause, CauseTimes},
        device::{DeviceState, GAP_EDGES},
        memory::MemoryTimeline,
    },
};

pub(super) fn rows(timeline: &Timeline, names: &Names, source: &Source, origin: i64) -> Vec<DeviceReport> {
    let devices = timeline.devices.iter().zip(&source.devices).enumerate();
    devices.map(|(at, (state, info))| row(at, state, info, &View { timeline, names, origin })).collect()
}

struct View<'a> {
    timeline: &'a Timeline,
    names: &'a Names,
    origin: i64,
}

fn row(device: usize, state: &DeviceState, info: &DeviceInfo, view: &View<'_>) -> DeviceReport {
    let wall = state.wall_nanos();
    let gap = wall.saturating_sub(state.busy_nanos);
    let num_gaps: u64 = state.gap_sizes.iter().map(|(count, _)| count).sum();
    let copy_nanos: u64 = state.copies.values().map(|(durations, _)| durations.nanos).sum();
    DeviceReport {
        device,
        file: info.file,
        id: info.id,
        name: info.name.clone(),
        kernels: state.kernels.count,
        active_pct: pct(state.busy_nanos, wall),
        active_ms: ms(state.busy_nanos),
        total_wall_ms: ms(wall),
        capture_active_pct: pct(state.busy_nanos, view.timeline.capture_nanos()),
        total_gap_ms: ms(gap),
        num_gaps,
        avg_gap_us: if num_gaps == 0 { 0.0 } else { round(us(gap) / num_gaps as f64) },
        idle: idle(&state.causes, wall, Some(&state.gaps_by_cause)),
        idle_outside: idle(&state.edge_causes, view.timeline.capture_nanos(), None),
        gap_sizes: gap_sizes(state),
        longest_gaps: longest_gaps(state, view),
        copies: copies(state),
        copy_pct: pct(copy_nanos, wall),
        memset_ms: ms(state.sets.nanos),
        counters: counters(state),
        memory: memory(&state.memory, info, view.origin),
    }
}

fn idle(causes: &CauseTimes, wall: u64, gaps: Option<&[u64; Cause::ALL.len()]>) -> Vec<IdleRow> {
    let mut rows: Vec<_> = Cause::ALL
        .into_iter()
        .filter(|&cause| causes.of(cause) > 0)
        .map(|cause| IdleRow {
            cause,
            ms: ms(causes.of(cause)),
            pct_of_wall: pct(causes.of(cause), wall),
            gaps: gaps.map_or(0, |gaps| gaps[cause as usize]),
        })
        .collect();
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    rows
}

fn gap_sizes(state: &DeviceState) -> Vec<GapSizeRow> {
    let edges = GAP_EDGES.into_iter().map(|edge| Some(edge / 1_000)).chain([None]);
    let rows = edges.zip(state.gap_sizes);
    rows.map(|(below_us, (count, nanos))| GapSizeRow { below_us, count, ms: ms(nanos) }).collect()
}

fn longest_gaps(state: &DeviceState, view: &View<'_>) -> Vec<GapRow> {
    let rows = state.longest.iter().map(|gap| GapRow {
        at_ms: ms(gap.start.abs_diff(view.origin)),
        us: us(gap.nanos),
        cause: gap.cause,
        before: gap.before.map(|name| view.names.text(name).to_owned()),
        after: view.names.text(gap.after).to_owned(),
    });
    rows.collect()
}

fn copies(state: &DeviceState) -> Vec<CopyRow> {
    let rows = state.copies.iter().map(|(kind, &(durations, bytes))| CopyRow {
        kind: format!("{kind:?}"),
        count: durations.count,
        ms: ms(durations.nanos),
        bytes,
        gb_per_s: if durations.nanos == 0 { 0.0 } else { round(bytes as f64 / durations.nanos as f64) },
    });
    rows.collect()
}

fn counters(state: &DeviceState) -> Vec<CounterRow> {
    let rows = state.counters.iter().filter_map(|(&(phase, counter), mean)| {
        Some(CounterRow { counter: format!("{counter:?}"), phase, mean_pct: round(mean.value()?) })
    });
    rows.collect()
}

fn memory(timeline: &MemoryTimeline, info: &DeviceInfo, origin: i64) -> Option<MemoryReport> {
    if timeline.is_empty() {
        return None;
    }
    // Where only changes were recorded, what was held before the capture is known once it is released.
    let before = timeline.held_before();
    let peak = timeline.peak();
    let allocated = peak.allocated.saturating_add(before);
    let rows = timeline.points().map(|(at, point)| MemoryRow {
        at_ms: ms(at.abs_diff(origin)),
        allocated_mb: mb(point.allocated.saturating_add(before)),
        reserved_mb: mb(point.reserved),
    });
    Some(MemoryReport {
        peak_allocated_mb: mb(allocated),
        peak_reserved_mb: (peak.reserved > 0).then(|| mb(peak.reserved)),
        unused_at_peak_pct: timeline.unused_share_at_peak().map(|share| round(100.0 * share)),
        growth_mb: round(timeline.growth() as f64 / 1e6),
        peak_pct_of_device: info.memory_bytes.map(|bytes| pct(allocated.max(peak.reserved), bytes)),
        timeline: rows.collect(),
    })
}

fn mb(bytes: u64) -> f64 {
    round(bytes as f64 / 1e6)
}
