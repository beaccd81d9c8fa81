//! Why a device is idle. Pure.

use serde::Serialize;

/// Cause of an idle nanosecond; every idle nanosecond has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Cause {
    /// Agent runs wait for tools and none is in inference.
    Tool,
    /// Agent runs preprocess on the CPU and none is in inference.
    Preprocessing,
    /// No agent run needs the model.
    NoWork,
    /// A copy or a set runs on the device, and no kernel.
    MemoryCopy,
    /// The profiler holds the host up: no property of the program.
    Profiler,
    /// The host is inside an allocation or a release of memory.
    Allocation,
    /// The host is inside a launch call.
    Launch,
    /// The host is inside another CUDA call.
    CudaCall,
    /// The host runs operators of the framework (dispatch).
    HostDispatch,
    /// The host waits for the device and has nothing launched.
    Synchronization,
    /// The host does something that was not recorded, in a gap shorter than [`LONG_GAP_NANOS`].
    HostOther,
    /// The same in a longer gap: too long for dispatch. A tool, preprocessing or an empty queue, which only spans can
    /// tell.
    Unexplained,
    /// The next kernel was launched before the gap began: latency and dependencies on the device.
    Queued,
}

impl Cause {
    /// All causes in the order of reports.
    pub const ALL: [Self; 13] = [
        Self::Tool,
        Self::Preprocessing,
        Self::NoWork,
        Self::MemoryCopy,
        Self::Profiler,
        Self::Allocation,
        Self::Launch,
        Self::CudaCall,
        Self::HostDispatch,
        Self::Synchronization,
        Self::HostOther,
        Self::Unexplained,
        Self::Queued,
    ];

    /// Causes that lie with the host's side of the engine: CUDA graphs, fewer kernels or a faster host remove them.
    #[must_use]
    pub const fn is_overhead(self) -> bool {
        matches!(
            self,
            Self::Allocation
                | Self::Launch
                | Self::CudaCall
                | Self::HostDispatch
                | Self::Synchronization
                | Self::HostOther
        )
    }

    /// Causes that lie outside the engine: the agent gives the device nothing to do.
    #[must_use]
    pub const fn is_agent(self) -> bool {
        matches!(self, Self::Tool | Self::Preprocessing | Self::NoWork)
    }
}

/// A gap longer than this without any recorded host work is not dispatch: eager dispatch leaves gaps of 50 to 200 us.
pub const LONG_GAP_NANOS: u64 = 5_000_000;

/// Nanoseconds per cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CauseTimes([u64; Cause::ALL.len()]);

impl CauseTimes {
    /// Adds time to a cause.
    pub fn add(&mut self, cause: Cause, nanos: u64) {
        self.0[cause as usize] += nanos;
    }

    /// Returns the time of a cause.
    #[must_use]
    pub const fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for (sum, nanos) in self.0.iter_mut().zip(other.0) {
            *sum += nanos;
        }
    }

    /// Returns the sum of the causes that a predicate takes.
    #[must_use]
    pub fn sum(&self, take: impl Fn(Cause) -> bool) -> u64 {
        Cause::ALL.into_iter().filter(|&cause| take(cause)).map(|cause| self.of(cause)).sum()
    }

    /// Moves the time of one cause to another.
    pub fn relabel(&mut self, from: Cause, to: Cause) {
        let nanos = std::mem::take(&mut self.0[from as usize]);
        self.add(to, nanos);
    }

    /// Returns the cause with the most time, the first of equals.
    #[must_use]
    pub fn dominant(&self) -> Cause {
        let mut best = Cause::HostOther;
        for cause in Cause::ALL {
            if self.of(cause) > self.of(best) {
                best = cause;
            }
        }
        best
    }
}

/// What the host's threads do at one instant, as counts of open activities.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostActivity([u32; 6]);

/// Kind of an open activity of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// The profiler's own work.
    Profiler,
    /// An allocation or a release.
    Allocation,
    /// A launch.
    Launch,
    /// Another call.
    Call,
    /// An operator of the framework.
    Operator,
    /// A wait for the device.
    Wait,
}

impl HostActivity {
    /// Opens an activity.
    pub fn begin(&mut self, activity: Activity) {
        self.0[activity as usize] += 1;
    }

    /// Closes an activity.
    pub fn end(&mut self, activity: Activity) {
        let count = &mut self.0[activity as usize];
        *count = count.saturating_sub(1);
    }

    /// Returns why the device would be idle now. Threads that wait come last: a server always has some.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        let [profiler, allocation, launch, call, operator, wait] = self.0;
        if profiler > 0 {
            Cause::Profiler
        } else if allocation > 0 {
            Cause::Allocation
        } else if launch > 0 {
            Cause::Launch
        } else if call > 0 {
            Cause::CudaCall
        } else if operator > 0 {
            Cause::HostDispatch
        } else if wait > 0 {
            Cause::Synchronization
        } else {
            Cause::HostOther
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_thread_does_not_hide_one_that_launches() {
        let mut host = HostActivity::default();
        host.begin(Activity::Wait);
        host.begin(Activity::Operator);
        host.begin(Activity::Launch);
        assert_eq!(host.cause(), Cause::Launch);
        host.end(Activity::Launch);
        assert_eq!(host.cause(), Cause::HostDispatch);
        host.end(Activity::Operator);
        assert_eq!(host.cause(), Cause::Synchronization);
        host.end(Activity::Wait);
        assert_eq!(host.cause(), Cause::HostOther);
    }

    #[test]
    fn every_cause_has_its_place() {
        let mut times = CauseTimes::default();
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, at);
            times.add(cause, at as u64);
        }
        assert_eq!(times.dominant(), Cause::Queued);
        assert_eq!(times.sum(|_| true), 78);
    }
}
