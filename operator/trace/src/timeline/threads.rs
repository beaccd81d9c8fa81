//! Stacks of the host's threads: self times of operators and calls, ranges around a launch. Pure.

use std::collections::HashMap;

use super::{device::Durations, ranges::RangeNode};
use crate::{
    classify::EnginePhase,
    record::{NameId, Thread},
};

/// What a frame of a stack is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// An operator of the framework with the work of this call.
    Operator { name: NameId, flops: u64, bytes: u64 },
    /// A named range.
    Range { node: RangeNode, phase: Option<EnginePhase> },
    /// A CUDA call that does not wait.
    Call,
    /// A CUDA call that waits for the device: its time does not count as work of the host.
    Wait,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: FrameKind,
    start: i64,
    end: i64,
    children_nanos: u64,
}

/// Sums of one operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperatorStats {
    /// Calls.
    pub count: u64,
    /// Host time without what it called.
    pub self_cpu_nanos: u64,
    /// Kernels, copies and sets it launched itself.
    pub device_nanos: u64,
    /// Floating-point operations of the calls with known shapes.
    pub flops: u64,
    /// Bytes of the same calls.
    pub bytes: u64,
    /// Device time of the same calls.
    pub flops_device_nanos: u64,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Innermost operator with its work.
    pub operator: Option<(NameId, u64, u64)>,
    /// Innermost range.
    pub range: Option<RangeNode>,
    /// Phase of the innermost range that states one.
    pub phase: Option<EnginePhase>,
    /// Whether the thread is inside a CUDA call.
    pub in_call: bool,
}

/// The stacks.
#[derive(Debug, Default)]
pub struct Threads {
    stacks: HashMap<Thread, Vec<Frame>>,
    /// Operators by name.
    pub operators: HashMap<NameId, OperatorStats>,
    /// Host time in operators and in CUDA calls that do not wait.
    pub working_nanos: u64,
    /// Ranges that state a phase and lie in no other such range.
    pub phase_steps: [Durations; EnginePhase::ALL.len()],
}

impl Threads {
    /// Returns where a thread stands at an instant.
    pub fn position(&mut self, thread: Thread, at: i64) -> Position {
        self.unwind(thread, at);
        let mut position = Position::default();
        for frame in self.stacks.get(&thread).into_iter().flatten() {
            match frame.kind {
                FrameKind::Operator { name, flops, bytes } => position.operator = Some((name, flops, bytes)),
                FrameKind::Range { node, phase } => {
                    position.range = Some(node);
                    position.phase = phase.or(position.phase);
                }
                FrameKind::Call | FrameKind::Wait => position.in_call = true,
            }
        }
        position
    }

    /// Enters a frame; call [`Self::position`] at the same instant before.
    pub fn enter(&mut self, thread: Thread, (start, end): (i64, i64), kind: FrameKind) {
        let stack = self.stacks.entry(thread).or_default();
        match kind {
            FrameKind::Operator { name, flops, bytes } => {
                let stats = self.operators.entry(name).or_default();
                stats.count += 1;
                stats.flops = stats.flops.saturating_add(flops);
                stats.bytes = stats.bytes.saturating_add(bytes);
            }
            FrameKind::Range { phase: Some(phase), .. } => {
                let nested = stack.iter().any(|frame| matches!(frame.kind, FrameKind::Range { phase: Some(_), .. }));
                if !nested {
                    self.phase_steps[phase as usize].add(end.abs_diff(start));
                }
            }
            FrameKind::Range { phase: None, .. } | FrameKind::Call | FrameKind::Wait => {}
        }
        if let Some(parent) = stack.last_mut() {
            // Clocks of two tracers can make a child outlast its parent by some nanoseconds.
            let inside = end.min(parent.end).saturating_sub(start).max(0).unsigned_abs();
            parent.children_nanos = parent.children_nanos.saturating_add(inside);
        }
        stack.push(Frame { kind, start, end, children_nanos: 0 });
    }

    /// Takes the profiler's own time from whatever it held up. It names no thread; it interrupts the frame that was
    /// entered last of those that enclose it, as `torch.profiler` has it too.
    pub fn overhead(&mut self, (start, end): (i64, i64)) {
        let threads: Vec<_> = self.stacks.keys().copied().collect();
        for &thread in &threads {
            self.unwind(thread, start);
        }
        let open = self.stacks.values_mut().filter_map(|stack| stack.last_mut()).filter(|frame| frame.end >= end);
        if let Some(frame) = open.max_by_key(|frame| (frame.start, frame.end)) {
            frame.children_nanos = frame.children_nanos.saturating_add(end.abs_diff(start));
        }
    }

    /// Adds device time to the operator that launched it.
    pub fn launched(&mut self, (name, flops, _): (NameId, u64, u64), device_nanos: u64) {
        let stats = self.operators.entry(name).or_default();
        stats.device_nanos = stats.device_nanos.saturating_add(device_nanos);
        if flops > 0 {
            stats.flops_device_nanos = stats.flops_device_nanos.saturating_add(device_nanos);
        }
    }

    /// Leaves every frame.
    pub fn finish(&mut self) {
        let threads: Vec<_> = self.stacks.keys().copied().collect();
        for thread in threads {
            self.unwind(thread, i64::MAX);
        }
    }

    fn unwind(&mut self, thread: Thread, at: i64) {
        let Some(stack) = self.stacks.get_mut(&thread) else { return };
        while let Some(frame) = stack.last()
            && frame.end <= at
        {
            let own = frame.end.abs_diff(frame.start).saturating_sub(frame.children_nanos);
            match frame.kind {
                FrameKind::Operator { name, .. } => {
                    let stats = self.operators.entry(name).or_default();
                    stats.self_cpu_nanos = stats.self_cpu_nanos.saturating_add(own);
                    self.working_nanos = self.working_nanos.saturating_add(own);
                }
                FrameKind::Call => self.working_nanos = self.working_nanos.saturating_add(own),
                FrameKind::Wait | FrameKind::Range { .. } => {}
            }
            stack.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn operator(name: u32) -> FrameKind {
        FrameKind::Operator { name: NameId(name), flops: 0, bytes: 0 }
    }

    #[test]
    fn nested_operators_count_their_own_time_only() {
        let (mut threads, thread) = (Threads::default(), Thread(0));
        threads.enter(thread, (0, 100), operator(1));
        threads.position(thread, 10);
        threads.enter(thread, (10, 60), operator(2));
        threads.position(thread, 20);
        threads.enter(thread, (20, 30), FrameKind::Call);
        threads.position(thread, 60);
        threads.enter(thread, (60, 90), FrameKind::Wait);
        threads.finish();

        let own = |name| threads.operators[&NameId(name)].self_cpu_nanos;
        assert_eq!((own(1), own(2)), (20, 40));
        assert_eq!(threads.working_nanos, 20 + 40 + 10);
    }

    #[test]
    fn the_profilers_own_time_is_nobodys() {
        let mut threads = Threads::default();
        threads.enter(Thread(0), (0, 100), operator(1));
        threads.enter(Thread(1), (5, 90), operator(2));
        threads.overhead((10, 40));
        threads.finish();

        let own = |name| threads.operators[&NameId(name)].self_cpu_nanos;
        assert_eq!((own(1), own(2)), (100, 55));
    }

    #[test]
    fn a_launch_stands_in_the_innermost_operator_and_phase() {
        let (mut threads, thread) = (Threads::default(), Thread(0));
        let range = |phase| FrameKind::Range { node: RangeNode::ROOT, phase };
        threads.enter(thread, (0, 100), range(Some(EnginePhase::Decode)));
        threads.enter(thread, (10, 90), range(None));
        threads.enter(thread, (20, 80), operator(7));

        let inside = threads.position(thread, 50);
        let after = threads.position(thread, 85);

        assert_eq!((inside.operator, inside.phase), (Some((NameId(7), 0, 0)), Some(EnginePhase::Decode)));
        assert_eq!((after.operator, after.phase), (None, Some(EnginePhase::Decode)));
    }
}
