//! Bounds the calls of one service: how many at once, and none while it is left alone. IO: it reads the clock.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use slipway_runtime_config::CircuitBreaker;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::breaker::{Breaker, Health, Resting, Turn};

/// Calls of one service at once, where its configuration does not say. A pod full of runs could make thousands; the
/// others wait.
const CALLS_AT_ONCE: u32 = 64;

/// Lets calls through to one service.
#[derive(Debug)]
pub(super) struct Gate {
    places: Semaphore,
    breaker: Option<Mutex<Breaker>>,
    began: Instant,
    dice: RandomState,
}

/// Why a call was not admitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// No place became free in time.
    Full,
    /// The service is left alone.
    Resting {
        /// For so much longer.
        remaining: Duration,
    },
}

/// A place among the calls under way. One that is dropped without a word says nothing of the service.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    gate: &'a Gate,
    turn: Turn,
    health: Health,
    _place: SemaphorePermit<'a>,
}

impl Gate {
    pub(super) fn new(max_in_flight: Option<u32>, breaker: Option<CircuitBreaker>) -> Self {
        let places = usize::try_from(max_in_flight.unwrap_or(CALLS_AT_ONCE)).unwrap_or(Semaphore::MAX_PERMITS);
        let of = |CircuitBreaker { failures, pause_milliseconds }| {
            Mutex::new(Breaker::new(failures, Duration::from_millis(pause_milliseconds)))
        };
        Self {
            places: Semaphore::new(places),
            breaker: breaker.map(of),
            began: Instant::now(),
            dice: RandomState::new(),
        }
    }

    /// Waits for a place, not longer than this.
    pub(super) async fn enter(&self, longest: Duration) -> Result<Pass<'_>, Closed> {
        // Never closed, so a place comes, or does not in time.
        let place = tokio::time::timeout(longest, self.places.acquire()).await;
        let place = place.ok().and_then(Result::ok).ok_or(Closed::Full)?;
        let turn = match &self.breaker {
            None => Turn::Usual,
            Some(breaker) => {
                let admitted = breaker.lock().unwrap_or_else(PoisonError::into_inner).admit(self.began.elapsed());
                admitted.map_err(|Resting { remaining }| Closed::Resting { remaining })?
            }
        };
        Ok(Pass { gate: self, turn, health: Health::Unknown, _place: place })
    }

    /// A number that nobody can tell before.
    pub(super) fn dice(&self) -> u64 {
        self.dice.hash_one(Instant::now())
    }
}

impl Pass<'_> {
    /// Ends the call, with what it says of the service.
    pub(super) fn end(mut self, health: Health) {
        self.health = health;
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(breaker) = &self.gate.breaker {
            let (now, dice) = (self.gate.began.elapsed(), self.gate.dice());
            breaker.lock().unwrap_or_else(PoisonError::into_inner).record(self.turn, self.health, now, dice);
        }
    }
}
