//! Phases of agent runs over time. Pure.

use super::causes::Cause;
use crate::record::AgentPhase;

/// Phases in the order in which one of several decides an instant: a run in inference explains the device, whatever the
/// other runs wait for.
pub const PRECEDENCE: [AgentPhase; 4] =
    [AgentPhase::Inference, AgentPhase::Preprocessing, AgentPhase::Tool, AgentPhase::Idle];

/// Where phases come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseSource {
    /// Spans of the agent runtime: an instant without any has no work.
    Spans,
    /// Ranges of the trace whose names state a phase: an instant without any is unknown.
    Ranges,
}

/// Counts and sums.
#[derive(Debug)]
pub struct Phases {
    source: PhaseSource,
    open: [u32; 4],
    wall: [u64; 5],
    run_time: [u64; 4],
    seen: bool,
}

impl Phases {
    /// Starts with nothing open.
    #[must_use]
    pub const fn new(source: PhaseSource) -> Self {
        Self { source, open: [0; 4], wall: [0; 5], run_time: [0; 4], seen: false }
    }

    /// Returns where phases come from, nothing where there were none.
    #[must_use]
    pub fn source(&self) -> Option<PhaseSource> {
        self.seen.then_some(self.source)
    }

    /// Begins a phase of a run that has the given length inside the capture.
    pub fn begin(&mut self, phase: AgentPhase, nanos: u64) {
        self.seen = true;
        self.open[phase as usize] += 1;
        let sum = &mut self.run_time[phase as usize];
        *sum = sum.saturating_add(nanos);
    }

    /// Ends a phase of a run.
    pub fn end(&mut self, phase: AgentPhase) {
        let open = &mut self.open[phase as usize];
        *open = open.saturating_sub(1);
    }

    /// Lets time pass.
    pub fn pass(&mut self, nanos: u64) {
        let at = self.current().map_or(4, |phase| phase as usize);
        self.wall[at] += nanos;
    }

    /// Returns why a device is idle now by the phases alone; nothing where the engine's own side decides.
    #[must_use]
    pub fn cause(&self) -> Option<Cause> {
        match (self.current(), self.source) {
            (Some(AgentPhase::Inference), _) | (None, PhaseSource::Ranges) => None,
            (Some(AgentPhase::Preprocessing), _) => Some(Cause::Preprocessing),
            (Some(AgentPhase::Tool), _) => Some(Cause::Tool),
            (Some(AgentPhase::Idle), _) | (None, PhaseSource::Spans) => Some(Cause::NoWork),
        }
    }

    /// Returns the time in which a phase decided.
    #[must_use]
    pub const fn wall_nanos(&self, phase: AgentPhase) -> u64 {
        self.wall[phase as usize]
    }

    /// Returns the time in which no run was in any phase.
    #[must_use]
    pub const fn outside_nanos(&self) -> u64 {
        self.wall[4]
    }

    /// Returns the sum over all runs of their time in a phase.
    #[must_use]
    pub const fn run_nanos(&self, phase: AgentPhase) -> u64 {
        self.run_time[phase as usize]
    }

    fn current(&self) -> Option<AgentPhase> {
        PRECEDENCE.into_iter().find(|&phase| self.open[phase as usize] > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_inference_explains_the_device_whatever_others_wait_for() {
        let mut phases = Phases::new(PhaseSource::Spans);
        assert_eq!(phases.cause(), Some(Cause::NoWork));
        phases.begin(AgentPhase::Tool, 10);
        assert_eq!(phases.cause(), Some(Cause::Tool));
        phases.begin(AgentPhase::Preprocessing, 10);
        assert_eq!(phases.cause(), Some(Cause::Preprocessing));
        phases.begin(AgentPhase::Inference, 10);
        assert_eq!(phases.cause(), None);
    }

    #[test]
    fn ranges_do_not_cover_everything_so_their_absence_says_nothing() {
        assert_eq!(Phases::new(PhaseSource::Ranges).cause(), None);
    }
}
