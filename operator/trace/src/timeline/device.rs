//! What one device did: busy and idle time, gaps, copies, collectives, counters. Pure.

use std::collections::BTreeMap;

use super::{
    causes::{Cause, CauseTimes, LONG_GAP_NANOS},
    memory::MemoryTimeline,
};
use crate::{
    classify::EnginePhase,
    record::{CopyKind, Counter, NameId},
};

/// Upper edges of the classes of gaps, in nanoseconds; eager dispatch shows as many gaps of 50 to 200 us.
pub const GAP_EDGES: [u64; 5] = [10_000, 50_000, 200_000, 1_000_000, 10_000_000];

/// Longest gaps that are kept with their neighbours.
const LONGEST: usize = 10;

/// One gap between two kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Length in nanoseconds.
    pub nanos: u64,
    /// Start on the capture's clock.
    pub start: i64,
    /// Cause of most of it.
    pub cause: Cause,
    /// Kernel that started last before it.
    pub before: Option<NameId>,
    /// Kernel that ended it.
    pub after: NameId,
}

/// Count, sum and greatest of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Sum in nanoseconds.
    pub nanos: u64,
    /// Greatest in nanoseconds.
    pub max_nanos: u64,
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, nanos: u64) {
        self.count += 1;
        self.nanos = self.nanos.saturating_add(nanos);
        self.max_nanos = self.max_nanos.max(nanos);
    }
}

/// Mean of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mean {
    sum_milli: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, milli: u32) {
        self.sum_milli += u64::from(milli);
        self.count += 1;
    }

    /// Returns the mean, nothing without samples.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_milli as f64 / self.count as f64 / 1_000.0)
    }
}

/// State and sums of one device.
#[derive(Debug, Default)]
pub struct DeviceState {
    kernels_open: u32,
    communication_open: u32,
    copies_open: u32,
    pending: CauseTimes,
    idle_since: i64,
    last_name: Option<NameId>,
    last_phase: Option<EnginePhase>,
    /// Start of the first kernel.
    pub first_start: Option<i64>,
    /// End of the last kernel.
    pub last_end: i64,
    /// Time with a kernel, overlaps merged.
    pub busy_nanos: u64,
    /// Time with collectives and nothing else.
    pub exposed_communication_nanos: u64,
    /// Idle time between the first and the last kernel, by cause.
    pub causes: CauseTimes,
    /// Gaps by their dominant cause.
    pub gaps_by_cause: [u64; Cause::ALL.len()],
    /// Idle time before the first and after the last kernel, by cause.
    pub edge_causes: CauseTimes,
    /// Count and time of gaps by length; the last entry has no upper edge.
    pub gap_sizes: [(u64, u64); GAP_EDGES.len() + 1],
    /// The longest gaps, longest first.
    pub longest: Vec<Gap>,
    /// Kernels.
    pub kernels: Durations,
    /// Kernels of NCCL.
    pub nccl: Durations,
    /// Copies by direction with their bytes.
    pub copies: BTreeMap<CopyKind, (Durations, u64)>,
    /// Sets of memory.
    pub sets: Durations,
    /// Busy time and idle time between kernels of one phase, by phase.
    pub phase_times: [(u64, u64); EnginePhase::ALL.len()],
    /// Counters while kernels ran: over all, then by phase.
    pub counters: BTreeMap<(Option<EnginePhase>, Counter), Mean>,
    /// Memory.
    pub memory: MemoryTimeline,
}

/// A kernel as the device sees it start.
#[derive(Clone, Copy, Debug)]
pub struct KernelStart {
    /// Its start.
    pub at: i64,
    /// Its name.
    pub name: NameId,
    /// The engine's phase it was launched in.
    pub phase: Option<EnginePhase>,
    /// When the call that launched it ended.
    pub launched: Option<i64>,
    /// Whether it belongs to a collective.
    pub communication: bool,
}

impl DeviceState {
    /// Lets time pass; `host` says why the device would be idle.
    pub fn pass(&mut self, nanos: u64, host: Cause) {
        if self.kernels_open == 0 {
            let cause = if self.copies_open > 0 { Cause::MemoryCopy } else { host };
            self.pending.add(cause, nanos);
            return;
        }
        self.busy_nanos += nanos;
        if self.communication_open == self.kernels_open {
            self.exposed_communication_nanos += nanos;
        }
        if let Some(phase) = self.last_phase {
            self.phase_times[phase as usize].0 += nanos;
        }
    }

    /// Begins a kernel.
    pub fn kernel_starts(&mut self, kernel: KernelStart) {
        if self.kernels_open == 0 {
            self.close_gap(kernel);
        }
        self.first_start.get_or_insert(kernel.at);
        self.kernels_open += 1;
        self.communication_open += u32::from(kernel.communication);
        (self.last_name, self.last_phase) = (Some(kernel.name), kernel.phase);
    }

    /// Ends a kernel.
    pub fn kernel_ends(&mut self, at: i64, communication: bool) {
        self.kernels_open = self.kernels_open.saturating_sub(1);
        self.communication_open = self.communication_open.saturating_sub(u32::from(communication));
        self.last_end = self.last_end.max(at);
        if self.kernels_open == 0 {
            self.idle_since = at;
        }
    }

    /// Begins a copy or a set.
    pub fn copy_starts(&mut self) {
        self.copies_open += 1;
    }

    /// Ends a copy or a set.
    pub fn copy_ends(&mut self) {
        self.copies_open = self.copies_open.saturating_sub(1);
    }

    /// Takes a sample of a counter; samples of an idle device say nothing about kernels.
    pub fn sample(&mut self, counter: Counter, milli_percent: u32) {
        if self.kernels_open == 0 {
            return;
        }
        self.counters.entry((None, counter)).or_default().add(milli_percent);
        if let Some(phase) = self.last_phase {
            self.counters.entry((Some(phase), counter)).or_default().add(milli_percent);
        }
    }

    /// Ends the capture: what is idle now follows the last kernel.
    pub fn finish(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.edge_causes.merge(&pending);
    }

    /// Returns the time from the first kernel's start to the last one's end.
    #[must_use]
    pub fn wall_nanos(&self) -> u64 {
        self.first_start.map_or(0, |first| self.last_end.abs_diff(first))
    }

    fn close_gap(&mut self, kernel: KernelStart) {
        let mut pending = std::mem::take(&mut self.pending);
        if self.first_start.is_none() {
            self.edge_causes.merge(&pending);
            return;
        }
        let nanos = kernel.at.saturating_sub(self.idle_since).max(0).unsigned_abs();
        if nanos == 0 {
            return;
        }
        if kernel.launched.is_some_and(|launched| launched <= self.idle_since) {
            for cause in Cause::ALL.into_iter().filter(|cause| cause.is_overhead()) {
                pending.relabel(cause, Cause::Queued);
            }
        } else if nanos > LONG_GAP_NANOS {
            pending.relabel(Cause::HostOther, Cause::Unexplained);
        }
        if let (Some(before), Some(after)) = (self.last_phase, kernel.phase)
            && before == after
        {
            self.phase_times[after as usize].1 += nanos - pending.sum(Cause::is_agent).min(nanos);
        }
        self.count_gap(nanos, &pending, kernel);
    }

    fn count_gap(&mut self, nanos: u64, causes: &CauseTimes, kernel: KernelStart) {
        let cause = causes.dominant();
        self.causes.merge(causes);
        self.gaps_by_cause[cause as usize] += 1;
        let size = GAP_EDGES.iter().position(|&edge| nanos < edge).unwrap_or(GAP_EDGES.len());
        self.gap_sizes[size].0 += 1;
        self.gap_sizes[size].1 += nanos;
        let at = self.longest.partition_point(|gap| gap.nanos >= nanos);
        if at < LONGEST {
            let gap = Gap { nanos, start: self.idle_since, cause, before: self.last_name, after: kernel.name };
            self.longest.insert(at, gap);
            self.longest.truncate(LONGEST);
        }
    }
}
