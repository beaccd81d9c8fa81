//! How much is in flight, added up over time. Pure: the time is an argument.

use slipway_vocabulary::evidence::Load;

use crate::clock::Timestamp;

use super::values::Waiting;

/// Adds up the time that runs and model requests are in flight.
///
/// # Invariants
/// Every change of what is in flight goes through [`LoadMeter::pass`] first. So the sum up to a moment counts what
/// was in flight until then.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadMeter {
    runs: u64,
    model_requests: u64,
    since: Timestamp,
    load: Load,
}

impl LoadMeter {
    pub(super) const fn new(since: Timestamp) -> Self {
        Self { runs: 0, model_requests: 0, since, load: Load { run_microseconds: 0, model_request_microseconds: 0 } }
    }

    /// Model requests in flight.
    pub(super) const fn model_requests(&self) -> u64 {
        self.model_requests
    }

    pub(super) fn start_run(&mut self, now: Timestamp) {
        self.pass(now);
        self.runs += 1;
    }

    /// Notes that a run waits for something else than before.
    pub(super) fn wait(&mut self, now: Timestamp, before: Waiting, after: Waiting) {
        self.pass(now);
        self.model_requests -= u64::from(before.is_for_model());
        self.model_requests += u64::from(after.is_for_model());
    }

    pub(super) fn end_run(&mut self, now: Timestamp, waiting: Waiting) {
        self.wait(now, waiting, Waiting::Nothing);
        self.runs -= 1;
    }

    /// Ends a window: what was in flight between its two ends.
    pub(super) fn take(&mut self, begin: Timestamp, end: Timestamp) -> Load {
        // After a long silence windows are left out: what is in flight since then counts only in those that are kept.
        self.since = self.since.max(begin);
        self.pass(end);
        std::mem::take(&mut self.load)
    }

    fn pass(&mut self, now: Timestamp) {
        let passed = now.micros_since(self.since);
        self.load.run_microseconds += self.runs * passed;
        self.load.model_request_microseconds += self.model_requests * passed;
        self.since = self.since.max(now);
    }
}
