//! The part of the report that is about one device. Pure.

use serde::Serialize;

use crate::{classify::EnginePhase, timeline::causes::Cause};

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceReport {
    /// Index of the device in this report.
    pub device: usize,
    /// Index of the file it comes from.
    pub file: usize,
    /// Its number in that file.
    pub id: u32,
    /// Product name.
    pub name: Option<String>,
    /// Kernels.
    pub kernels: u64,
    /// Kernel-busy share of the time between the first kernel's start and the last one's end; overlaps count once.
    pub active_pct: f64,
    /// Kernel-busy time.
    pub active_ms: f64,
    /// First kernel's start to last kernel's end.
    pub total_wall_ms: f64,
    /// Kernel-busy share of the whole capture.
    pub capture_active_pct: f64,
    /// Idle time between kernels.
    pub total_gap_ms: f64,
    /// Gaps between kernels.
    pub num_gaps: u64,
    /// Mean gap.
    pub avg_gap_us: f64,
    /// Idle time between kernels by cause.
    pub idle: Vec<IdleRow>,
    /// Idle time before the first and after the last kernel, by cause.
    pub idle_outside: Vec<IdleRow>,
    /// Gaps by length.
    pub gap_sizes: Vec<GapSizeRow>,
    /// The longest gaps.
    pub longest_gaps: Vec<GapRow>,
    /// Copies by direction.
    pub copies: Vec<CopyRow>,
    /// Time with copies as a share of `total_wall_ms`; copies may overlap kernels.
    pub copy_pct: f64,
    /// Sets of memory.
    pub memset_ms: f64,
    /// Sampled counters while kernels ran.
    pub counters: Vec<CounterRow>,
    /// Memory over time.
    pub memory: Option<MemoryReport>,
}

/// Idle time of one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IdleRow {
    /// The cause.
    pub cause: Cause,
    /// Time.
    pub ms: f64,
    /// Share of the time between first and last kernel (of the capture for `idleOutside`).
    pub pct_of_wall: f64,
    /// Gaps of which it is the main cause.
    pub gaps: u64,
}

/// Gaps of one class of length.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapSizeRow {
    /// Upper edge, nothing for the last class.
    pub below_us: Option<u64>,
    /// Gaps.
    pub count: u64,
    /// Their time.
    pub ms: f64,
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GapRow {
    /// Start after the capture's.
    pub at_ms: f64,
    /// Length.
    pub us: f64,
    /// Main cause.
    pub cause: Cause,
    /// Kernel before.
    pub before: Option<String>,
    /// Kernel after.
    pub after: String,
}

/// Copies of one direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyRow {
    /// `HostToDevice` and so on.
    pub kind: String,
    /// Copies.
    pub count: u64,
    /// Their time.
    pub ms: f64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes over time.
    pub gb_per_s: f64,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterRow {
    /// `SmActive` and so on.
    pub counter: String,
    /// The engine's phase, nothing for all.
    pub phase: Option<EnginePhase>,
    /// Mean, percent of the peak.
    pub mean_pct: f64,
}

/// Memory over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryReport {
    /// Highest allocation.
    pub peak_allocated_mb: f64,
    /// Highest reservation of the caching allocator, where stated.
    pub peak_reserved_mb: Option<f64>,
    /// Share of the reservation that was not allocated at the peak: cache and fragmentation.
    pub unused_at_peak_pct: Option<f64>,
    /// Allocation at the end less that at the start; growth over equal steps is a leak.
    pub growth_mb: f64,
    /// Share of the device's memory at the peak, where its size is known.
    pub peak_pct_of_device: Option<f64>,
    /// Maxima of consecutive stretches.
    pub timeline: Vec<MemoryRow>,
}

/// One stretch of the timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryRow {
    /// Start after the capture's.
    pub at_ms: f64,
    /// Highest allocation in it.
    pub allocated_mb: f64,
    /// Highest reservation in it.
    pub reserved_mb: f64,
}
