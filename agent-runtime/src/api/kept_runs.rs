//! Runs of `/v1/runs` that their client may read and cancel: those in flight, and the latest that have ended.
//!
//! They stay in this pod's memory for a while, as outcomes of keys do. A run's name is known to its client alone.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{agent::State, clock::Timestamp};

/// How long a run is kept after its end.
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// The most ended runs that are kept, and the most memory of them all; the oldest go first.
const MAX_KEPT: usize = 256;
const MAX_KEPT_BYTES: usize = 8 << 20;

/// The runs that are kept.
#[derive(Default)]
pub struct KeptRuns(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    in_flight: HashMap<String, CancellationToken>,
    ended: HashMap<String, Arc<State>>,
    /// Names of ended runs in the order of their ends, each with its end and its bytes.
    order: VecDeque<(String, Timestamp, usize)>,
    bytes: usize,
}

/// What is known of a run.
#[derive(Clone, Debug)]
pub enum KeptRun {
    /// It is in flight.
    Running,
    /// It has ended.
    Ended(Arc<State>),
}

impl KeptRuns {
    /// Keeps a run that begins, and gives what cancels it.
    pub fn begin(&self, id: &str) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.runs().in_flight.insert(id.to_owned(), cancel.clone());
        cancel
    }

    /// A run has ended; without a state it is forgotten. A run that was not kept stays so.
    pub fn end(&self, id: &str, state: Option<&State>, now: Timestamp) {
        let mut runs = self.runs();
        if runs.in_flight.remove(id).is_none() {
            return;
        }
        if let Some(state) = state {
            let bytes = state.bytes();
            runs.bytes += bytes;
            runs.order.push_back((id.to_owned(), now, bytes));
            runs.ended.insert(id.to_owned(), Arc::new(state.clone()));
        }
        runs.tidy(now);
    }

    /// What is known of a run.
    pub fn get(&self, id: &str, now: Timestamp) -> Option<KeptRun> {
        let mut runs = self.runs();
        runs.tidy(now);
        let ended = runs.ended.get(id).cloned().map(KeptRun::Ended);
        ended.or_else(|| runs.in_flight.contains_key(id).then_some(KeptRun::Running))
    }

    /// Cancels a run that is in flight, and gives what is known of it.
    pub fn cancel(&self, id: &str, now: Timestamp) -> Option<KeptRun> {
        if let Some(cancel) = self.runs().in_flight.get(id) {
            cancel.cancel();
        }
        self.get(id, now)
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runs {
    fn tidy(&mut self, now: Timestamp) {
        while let Some((_, at, _)) = self.order.front() {
            if at.plus(KEPT_FOR) > now && self.order.len() <= MAX_KEPT && self.bytes <= MAX_KEPT_BYTES {
                return;
            }
            if let Some((id, _, bytes)) = self.order.pop_front() {
                self.bytes -= bytes;
                self.ended.remove(&id);
            }
        }
    }
}
