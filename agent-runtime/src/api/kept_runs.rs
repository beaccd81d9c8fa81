//! Runs of `/v1/runs` and `/v1/responses` that their client may read: those in flight, and the latest that have ended.
//!
//! They stay in this pod's memory for a while, as outcomes of keys do. A run's name is known to its client alone, and
//! to no other tenant it names anything.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    access::Tenant,
    agent::{Message, State},
    clock::Timestamp,
};

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
    /// Whose the runs of both are.
    owners: HashMap<String, Option<Tenant>>,
    /// Of responses: when they were admitted, and what is needed to show and continue them.
    remembered: HashMap<String, (Timestamp, Arc<Remembered>)>,
    /// Names of ended runs in the order of their ends, each with its end and its bytes.
    order: VecDeque<(String, Timestamp, usize)>,
    bytes: usize,
}

/// What is needed to show and continue a response beside its run.
#[derive(Debug, Default)]
pub struct Remembered {
    /// What was said before it, without the request's own instructions.
    pub messages: Vec<Message>,
    /// The request's fields that the response repeats.
    pub echo: Map<String, Value>,
}

impl Remembered {
    /// About what it takes.
    fn bytes(&self) -> usize {
        let message = |message: &Message| message.text.len() + message.thoughts.len() + call_bytes(message);
        self.messages.iter().map(message).sum::<usize>() + Value::Object(self.echo.clone()).to_string().len()
    }
}

fn call_bytes(message: &Message) -> usize {
    message.calls.iter().map(|call| call.id.len() + call.name.len() + call.arguments.len()).sum()
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
    pub fn begin(
        &self,
        (id, tenant): (&str, Option<&Tenant>),
        at: Timestamp,
        remembered: Option<Arc<Remembered>>,
    ) -> CancellationToken {
        let cancel = CancellationToken::new();
        let mut runs = self.runs();
        runs.owners.insert(id.to_owned(), tenant.cloned());
        runs.in_flight.insert(id.to_owned(), cancel.clone());
        if let Some(remembered) = remembered {
            runs.remembered.insert(id.to_owned(), (at, remembered));
        }
        cancel
    }

    /// A run has ended; without a state it is forgotten. A run that was not kept stays so.
    pub fn end(&self, id: &str, state: Option<&State>, now: Timestamp) {
        let mut runs = self.runs();
        if runs.in_flight.remove(id).is_none() {
            return;
        }
        if state.is_none() {
            runs.remembered.remove(id);
            runs.owners.remove(id);
        }
        if let Some(state) = state {
            let remembered = runs.remembered.get(id).map_or(0, |(_, remembered)| remembered.bytes());
            let bytes = state.bytes() + remembered;
            runs.bytes += bytes;
            runs.order.push_back((id.to_owned(), now, bytes));
            runs.ended.insert(id.to_owned(), Arc::new(state.clone()));
        }
        runs.tidy(now);
    }

    /// What is known of a tenant's run.
    pub fn get(&self, (id, tenant): (&str, Option<&Tenant>), now: Timestamp) -> Option<KeptRun> {
        let mut runs = self.runs();
        runs.tidy(now);
        runs.owners.get(id).filter(|owner| owner.as_ref() == tenant)?;
        let ended = runs.ended.get(id).cloned().map(KeptRun::Ended);
        ended.or_else(|| runs.in_flight.contains_key(id).then_some(KeptRun::Running))
    }

    /// What is known of a tenant's response: when it was admitted, what was asked, and its run.
    pub fn response(
        &self,
        name: (&str, Option<&Tenant>),
        now: Timestamp,
    ) -> Option<(Timestamp, Arc<Remembered>, KeptRun)> {
        let run = self.get(name, now)?;
        let (at, remembered) = self.runs().remembered.get(name.0).cloned()?;
        Some((at, remembered, run))
    }

    /// Forgets a response that has ended. One in flight stays; its client ends it by leaving.
    pub fn forget_response(&self, name: (&str, Option<&Tenant>), now: Timestamp) -> Option<KeptRun> {
        let (_, _, run) = self.response(name, now)?;
        if let KeptRun::Ended(_) = run {
            let mut runs = self.runs();
            runs.forget(name.0);
        }
        Some(run)
    }

    /// Cancels a run that is in flight, and gives what is known of it.
    pub fn cancel(&self, name: (&str, Option<&Tenant>), now: Timestamp) -> Option<KeptRun> {
        let run = self.get(name, now)?;
        if let Some(cancel) = self.runs().in_flight.get(name.0) {
            cancel.cancel();
        }
        Some(run)
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
                self.forget(&id);
            }
        }
    }

    /// Forgets a run that has ended.
    fn forget(&mut self, id: &str) {
        self.ended.remove(id);
        self.remembered.remove(id);
        self.owners.remove(id);
    }
}
