//! One pass over the records in time order: everything that is counted, with bounded memory. Pure.
//!
//! Time moves from start to start; whatever ends in between is taken from a heap first. So between two instants the
//! state of every device, thread and run is constant, and each idle nanosecond gets exactly one cause.

pub mod causes;
pub mod device;
pub mod histogram;
mod launches;
pub mod memory;
pub mod phases;
pub mod ranges;
pub mod stats;
pub mod threads;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use self::{
    causes::{Activity, Cause, HostActivity},
    device::{DeviceState, KernelStart},
    launches::{Launch, Launches},
    phases::{PhaseSource, Phases},
    ranges::{RangeNode, RangeTree},
    stats::{Calls, KernelMix, KernelStats},
    threads::{FrameKind, Threads},
};
use super::{
    classify::{self, ApiClass, EnginePhase, KernelClass},
    intake::Extent,
    record::{AgentPhase, Correlation, Device, Event, NameId, Names, Record, Thread},
};

/// What the analysis needs to know beside the records.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Start and end of the capture.
    pub extent: Extent,
    /// Where phases come from.
    pub phase_source: PhaseSource,
    /// FLOPs per byte at which each device turns from memory-bound to compute-bound, where known.
    pub ridges: Vec<Option<f64>>,
}

/// All sums of one capture.
#[derive(Debug)]
pub struct Timeline {
    /// Devices, in the order of [`super::record::Source::devices`].
    pub devices: Vec<DeviceState>,
    /// Kernels by name.
    pub kernels: HashMap<NameId, KernelStats>,
    /// Kernel time over all phases.
    pub mix: KernelMix,
    /// Kernel time by engine phase, in the order of [`EnginePhase::ALL`].
    pub phase_mix: [KernelMix; EnginePhase::ALL.len()],
    /// Kernels whose launch was not recorded or lies too far back.
    pub unattributed_kernels: u64,
    /// CUDA calls.
    pub calls: Calls,
    /// Stacks.
    pub threads: Threads,
    /// Ranges.
    pub ranges: RangeTree,
    /// Phases of agent runs.
    pub phases: Phases,
    setup: Setup,
    now: i64,
    ends: BinaryHeap<Reverse<(i64, Ending)>>,
    host: HostActivity,
    launches: Launches,
    process_phases: [u32; EnginePhase::ALL.len()],
    engine_phases: HashMap<NameId, Option<EnginePhase>>,
    agent_phases: HashMap<NameId, Option<AgentPhase>>,
    api_classes: HashMap<NameId, ApiClass>,
    nccl_names: HashMap<NameId, bool>,
}

/// What ends at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    Kernel { device: Device, communication: bool },
    Copy(Device),
    Host(Activity),
    Phase(AgentPhase),
    ProcessPhase(EnginePhase),
}

impl Timeline {
    /// Starts at the beginning of a capture with the given number of devices.
    #[must_use]
    pub fn new(setup: Setup, devices: usize) -> Self {
        Self {
            devices: std::iter::repeat_with(DeviceState::default).take(devices).collect(),
            kernels: HashMap::new(),
            mix: KernelMix::default(),
            phase_mix: [KernelMix::default(); EnginePhase::ALL.len()],
            unattributed_kernels: 0,
            calls: Calls::default(),
            threads: Threads::default(),
            ranges: RangeTree::default(),
            phases: Phases::new(setup.phase_source),
            now: setup.extent.from,
            setup,
            ends: BinaryHeap::new(),
            host: HostActivity::default(),
            launches: Launches::default(),
            process_phases: [0; EnginePhase::ALL.len()],
            engine_phases: HashMap::new(),
            agent_phases: HashMap::new(),
            api_classes: HashMap::new(),
            nccl_names: HashMap::new(),
        }
    }

    /// Takes the next record in time order.
    pub fn record(&mut self, record: &Record, names: &Names) {
        self.advance(record.start);
        match record.event {
            Event::Kernel { device, name, correlation } => self.kernel(record, (device, name, correlation), names),
            Event::Graph { device, name, correlation } => {
                self.kernels.entry(name).or_insert_with(|| KernelStats::new(KernelClass::Graph));
                self.kernel(record, (device, name, correlation), names);
            }
            Event::Copy { device, kind, bytes, correlation } => {
                if let Some(state) = self.devices.get_mut(usize::from(device.0)) {
                    let (durations, sum) = state.copies.entry(kind).or_default();
                    durations.add(record.duration());
                    *sum = sum.saturating_add(bytes);
                }
                self.copy(record, device, correlation);
            }
            Event::Set { device, correlation, .. } => {
                if let Some(state) = self.devices.get_mut(usize::from(device.0)) {
                    state.sets.add(record.duration());
                }
                self.copy(record, device, correlation);
            }
            Event::Api { thread, name, correlation } => self.call(record, (thread, name, correlation), names),
            Event::Operator { thread, name, flops, bytes } => {
                self.threads.position(thread, record.start);
                self.threads.enter(thread, (record.start, record.end), FrameKind::Operator { name, flops, bytes });
                self.open(record, Activity::Operator);
            }
            Event::Range { thread, name } => self.range(record, thread, name, names),
            Event::ProcessRange { name } => self.process_range(record, name, names),
            Event::Overhead => {
                self.threads.overhead((record.start, record.end));
                self.open(record, Activity::Profiler);
            }
            Event::MemoryLevel { device, allocated, reserved } => {
                if let Some(state) = self.devices.get_mut(usize::from(device.0)) {
                    state.memory.level(record.start, allocated, reserved);
                }
            }
            Event::MemoryDelta { device, bytes } => {
                if let Some(state) = self.devices.get_mut(usize::from(device.0)) {
                    state.memory.delta(record.start, bytes);
                }
            }
            Event::Sample { device, counter, milli_percent } => {
                if let Some(state) = self.devices.get_mut(usize::from(device.0)) {
                    state.sample(counter, milli_percent);
                }
            }
            Event::Phase { phase, .. } => self.phase(record, phase),
        }
    }

    /// Ends the capture.
    pub fn finish(&mut self) {
        self.advance(self.setup.extent.to);
        self.threads.finish();
        for device in &mut self.devices {
            device.finish();
        }
    }

    /// Returns the capture's length in nanoseconds.
    #[must_use]
    pub const fn capture_nanos(&self) -> u64 {
        self.setup.extent.to.abs_diff(self.setup.extent.from)
    }

    fn advance(&mut self, to: i64) {
        while let Some(&Reverse((at, ending))) = self.ends.peek()
            && at <= to
        {
            self.ends.pop();
            self.pass(at);
            match ending {
                Ending::Kernel { device, communication } => {
                    self.devices[usize::from(device.0)].kernel_ends(at, communication);
                }
                Ending::Copy(device) => self.devices[usize::from(device.0)].copy_ends(),
                Ending::Host(activity) => self.host.end(activity),
                Ending::Phase(phase) => self.phases.end(phase),
                Ending::ProcessPhase(phase) => self.process_phases[phase as usize] -= 1,
            }
        }
        self.pass(to);
    }

    /// Lets time pass up to an instant; spans may lie outside the capture, where nothing counts.
    fn pass(&mut self, to: i64) {
        let to = to.min(self.setup.extent.to);
        if to <= self.now {
            return;
        }
        let nanos = to.abs_diff(self.now);
        self.now = to;
        // The profiler also holds up what a span calls preprocessing, so it comes before the phases.
        let host = self.host.cause();
        let cause = if host == Cause::Profiler { host } else { self.phases.cause().unwrap_or(host) };
        for device in &mut self.devices {
            device.pass(nanos, cause);
        }
        self.phases.pass(nanos);
    }

    fn kernel(&mut self, record: &Record, (device, name, correlation): (Device, NameId, Correlation), names: &Names) {
        let nanos = record.duration();
        let stats =
            self.kernels.entry(name).or_insert_with(|| KernelStats::new(classify::kernel_class(names.text(name))));
        stats.add(nanos);
        let class = stats.class;
        let nccl = *self.nccl_names.entry(name).or_insert_with(|| classify::is_nccl(names.text(name)));
        let launch = self.launches.of(correlation);
        self.attribute(record, launch);
        let mut phase = launch.and_then(|(launch, _)| launch.phase);
        phase = phase.or_else(|| self.process_phase());
        let gemm = launch.and_then(|(launch, _)| self.gemm_bound(device, class, &launch));
        self.mix.add(class, nanos, nccl, gemm);
        if let Some(phase) = phase {
            self.phase_mix[phase as usize].add(class, nanos, nccl, gemm);
        }
        let communication = class == KernelClass::Communication;
        let launched = launch.map(|(launch, _)| launch.end);
        let Some(state) = self.devices.get_mut(usize::from(device.0)) else { return };
        state.kernels.add(nanos);
        if nccl {
            state.nccl.add(nanos);
        }
        state.kernel_starts(KernelStart { at: record.start, name, phase, launched, communication });
        self.ends.push(Reverse((record.end, Ending::Kernel { device, communication })));
    }

    fn attribute(&mut self, record: &Record, launch: Option<(Launch, bool)>) {
        let nanos = record.duration();
        let Some((launch, first)) = launch else {
            self.unattributed_kernels += 1;
            return;
        };
        if let Some(operator) = launch.operator {
            self.threads.launched((operator, launch.flops, launch.bytes), nanos);
        }
        self.ranges.kernel(launch.range, nanos);
        if first {
            self.calls.launch_to_start.add(record.start.saturating_sub(launch.start).max(0).unsigned_abs());
        }
    }

    fn copy(&mut self, record: &Record, device: Device, correlation: Correlation) {
        if let Some((Launch { operator: Some(operator), flops, bytes, .. }, _)) = self.launches.of(correlation) {
            self.threads.launched((operator, flops, bytes), record.duration());
        }
        if let Some(state) = self.devices.get_mut(usize::from(device.0)) {
            state.copy_starts();
            self.ends.push(Reverse((record.end, Ending::Copy(device))));
        }
    }

    fn call(&mut self, record: &Record, (thread, name, correlation): (Thread, NameId, Correlation), names: &Names) {
        let class = *self.api_classes.entry(name).or_insert_with(|| classify::api_class(names.text(name)));
        let position = self.threads.position(thread, record.start);
        let nanos = record.duration();
        self.calls.by_name.entry(name).or_default().add(nanos);
        // A runtime call contains the driver call it makes; only the outer one counts.
        if !position.in_call {
            self.calls.add(class, nanos);
        }
        let (kind, activity) = match class {
            ApiClass::Synchronize => (FrameKind::Wait, Activity::Wait),
            ApiClass::Launch => (FrameKind::Call, Activity::Launch),
            ApiClass::Allocate | ApiClass::Free => (FrameKind::Call, Activity::Allocation),
            ApiClass::Copy | ApiClass::Other => (FrameKind::Call, Activity::Call),
        };
        self.threads.enter(thread, (record.start, record.end), kind);
        self.open(record, activity);
        if correlation == Correlation::NONE || class == ApiClass::Synchronize {
            return;
        }
        let (operator, flops, bytes) =
            position.operator.map_or((None, 0, 0), |(name, flops, bytes)| (Some(name), flops, bytes));
        let launch = Launch {
            start: record.start,
            end: record.end,
            operator,
            flops,
            bytes,
            range: position.range.unwrap_or(RangeNode::ROOT),
            phase: position.phase,
            seen: false,
        };
        self.launches.insert(correlation, launch);
    }

    fn range(&mut self, record: &Record, thread: Thread, name: NameId, names: &Names) {
        let parent = self.threads.position(thread, record.start).range.unwrap_or(RangeNode::ROOT);
        let node = self.ranges.enter(parent, name, record.duration());
        let phase = self.engine_phase(name, names);
        self.threads.enter(thread, (record.start, record.end), FrameKind::Range { node, phase });
        self.phase_of_range(record, name, names);
    }

    fn process_range(&mut self, record: &Record, name: NameId, names: &Names) {
        self.ranges.enter(RangeNode::ROOT, name, record.duration());
        if let Some(phase) = self.engine_phase(name, names) {
            self.process_phases[phase as usize] += 1;
            self.threads.phase_steps[phase as usize].add(record.duration());
            self.ends.push(Reverse((record.end, Ending::ProcessPhase(phase))));
        }
        self.phase_of_range(record, name, names);
    }

    fn phase_of_range(&mut self, record: &Record, name: NameId, names: &Names) {
        if self.setup.phase_source == PhaseSource::Spans {
            return;
        }
        let phase = *self.agent_phases.entry(name).or_insert_with(|| classify::agent_phase(names.text(name)));
        if let Some(phase) = phase {
            self.phase(record, phase);
        }
    }

    fn phase(&mut self, record: &Record, phase: AgentPhase) {
        let Extent { from, to } = self.setup.extent;
        let inside = record.end.min(to).saturating_sub(record.start.max(from)).max(0);
        self.phases.begin(phase, inside.unsigned_abs());
        self.ends.push(Reverse((record.end, Ending::Phase(phase))));
    }

    fn open(&mut self, record: &Record, activity: Activity) {
        self.host.begin(activity);
        self.ends.push(Reverse((record.end, Ending::Host(activity))));
    }

    fn engine_phase(&mut self, name: NameId, names: &Names) -> Option<EnginePhase> {
        *self.engine_phases.entry(name).or_insert_with(|| classify::engine_phase(names.text(name)))
    }

    fn process_phase(&self) -> Option<EnginePhase> {
        EnginePhase::ALL.into_iter().find(|&phase| self.process_phases[phase as usize] > 0)
    }

    fn gemm_bound(&self, device: Device, class: KernelClass, launch: &Launch) -> Option<bool> {
        let ridge = self.setup.ridges.get(usize::from(device.0)).copied().flatten()?;
        let known = class == KernelClass::Gemm && launch.flops > 0 && launch.bytes > 0;
        known.then(|| launch.flops as f64 / launch.bytes as f64 >= ridge)
    }
}

#[cfg(test)]
mod tests;
