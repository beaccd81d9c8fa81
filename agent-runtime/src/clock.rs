//! Time as an input: one source that is the system's in a pod and the test's in a test.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A moment, in microseconds since the Unix epoch (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment that many microseconds after the Unix epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch.
    pub const fn as_seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Microseconds from `earlier` to this moment; zero when `earlier` is later.
    pub const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment a while later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = i64::try_from(self.0).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(timestamp) => timestamp.fmt(f),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

/// A source of time.
#[derive(Clone)]
pub struct Clock(Source);

#[derive(Clone)]
enum Source {
    System { origin: Timestamp, start: Instant },
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// Makes a clock that shows `origin` now and follows the monotonic clock. It never jumps, so durations are exact.
    /// It follows UTC as closely as the kernel disciplines the monotonic clock.
    pub fn system(origin: Timestamp) -> Self {
        Self(Source::System { origin, start: Instant::now() })
    }

    /// A virtual clock for tests, and the handle that moves it.
    pub fn manual(origin: Timestamp) -> (Self, ManualClock) {
        let micros = Arc::new(AtomicU64::new(origin.as_micros()));
        (Self(Source::Manual(Arc::clone(&micros))), ManualClock(micros))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { origin, start } => origin.plus(start.elapsed()),
            Source::Manual(micros) => Timestamp(micros.load(Ordering::SeqCst)),
        }
    }
}

/// Moves a virtual clock.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}
