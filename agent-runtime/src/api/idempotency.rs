//! Requests with an `Idempotency-Key`: one run for each key, and its outcome again for a repeated request.
//!
//! Outcomes stay in this pod's memory for a while. They answer a client that lost its connection, or a gateway that
//! timed out. This is not a store of results.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_stream::stream;
use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::Response,
};
use futures::StreamExt;
use tokio::sync::watch;

use crate::{
    access::Tenant,
    agent::{Failure, Outcome, RunEvent, SideEffects, State},
    clock::Timestamp,
};

use super::{
    error::ApiError,
    in_flight::{Events, Lost},
};

/// The header of a request that may be sent twice and is to be done once.
const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of an answer that was given before.
const REPLAYED_HEADER: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Keys are names, not texts.
const MAX_KEY_BYTES: usize = 255;
/// How long an outcome is kept: far longer than clients and gateways retry.
const KEPT_FOR: Duration = Duration::from_secs(15 * 60);
/// The most outcomes that are kept, and the most memory of them all; the oldest go first.
const MAX_KEPT: usize = 1024;
const MAX_KEPT_BYTES: usize = 32 << 20;
/// What an outcome takes beside its texts, about.
const BYTES_PER_STEP: usize = 512;

/// A key, and the request that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    name: Name,
    /// Stands for the request: a repeated one has the same.
    request: u64,
}

/// A key as a client names it. It is nobody else's: each tenant has keys of its own.
type Name = (Option<Tenant>, String);

/// The outcomes that are kept.
#[derive(Default)]
pub struct Outcomes {
    hasher: RandomState,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    runs: HashMap<Name, Run>,
    /// Keys of finished runs, in the order of their ends, each with its end and its bytes.
    finished: VecDeque<(Name, Timestamp, usize)>,
    bytes: usize,
}

struct Run {
    request: u64,
    id: String,
    at: Timestamp,
    outcome: watch::Receiver<Option<Arc<State>>>,
}

/// What a key stands for when a request comes with it.
pub(super) enum Claim {
    /// Nothing yet: the request is new.
    First(Ticket),
    /// The same request, finished or in progress.
    Again {
        /// The run's name.
        id: String,
        /// When it was admitted.
        at: Timestamp,
        /// Its outcome.
        events: Events,
    },
}

/// The obligation to report the outcome of a request. Dropped without an outcome, it frees the key.
pub(super) struct Ticket {
    outcomes: Arc<Outcomes>,
    key: Name,
    outcome: watch::Sender<Option<Arc<State>>>,
    is_settled: bool,
}

impl Outcomes {
    /// The key of a request, if it has one. Requests are the same where their values hash alike.
    ///
    /// # Errors
    /// 400 for a key that is not a short text.
    pub(super) fn key(
        &self,
        headers: &HeaderMap,
        tenant: Option<&Tenant>,
        request: impl Hash,
    ) -> Result<Option<Key>, ApiError> {
        let Some(name) = headers.get(KEY_HEADER) else { return Ok(None) };
        let name = name.to_str().ok().filter(|name| !name.is_empty() && name.len() <= MAX_KEY_BYTES);
        let Some(name) = name else {
            let problem = format!("is not a key; send 1 to {MAX_KEY_BYTES} characters of ASCII");
            return Err(ApiError::invalid("Idempotency-Key", problem));
        };
        Ok(Some(Key { name: (tenant.cloned(), name.to_owned()), request: self.hasher.hash_one(request) }))
    }

    /// Finds out what a key stands for. A new one stands for the run of this name from now on.
    ///
    /// # Errors
    /// 422 for a key that came with another request.
    pub(super) fn claim(self: &Arc<Self>, key: Key, id: &str, now: Timestamp) -> Result<Claim, ApiError> {
        let mut kept = self.kept();
        kept.tidy(now);
        let Key { name, request } = key;
        match kept.runs.get(&name) {
            Some(run) if run.request != request => Err(used_otherwise()),
            Some(run) => Ok(Claim::Again { id: run.id.clone(), at: run.at, events: replayed(run.outcome.clone()) }),
            None => {
                let (outcome, receiver) = watch::channel(None);
                let run = Run { request, id: id.to_owned(), at: now, outcome: receiver };
                kept.runs.insert(name.clone(), run);
                Ok(Claim::First(Ticket { outcomes: Arc::clone(self), key: name, outcome, is_settled: false }))
            }
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // No code panics while it holds the lock.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets what is too old, and the oldest of what is too much.
    fn tidy(&mut self, now: Timestamp) {
        while let Some((_, at, _)) = self.finished.front() {
            if at.plus(KEPT_FOR) > now && self.finished.len() <= MAX_KEPT && self.bytes <= MAX_KEPT_BYTES {
                return;
            }
            if let Some((key, _, bytes)) = self.finished.pop_front() {
                self.bytes -= bytes;
                self.runs.remove(&key);
            }
        }
    }
}

impl Ticket {
    /// Reports the outcome of the request, also to waiting requests. It keeps what another attempt would not improve or
    /// must not repeat: an answer, and every end of a run whose tools have changed something.
    pub(super) fn settle(&mut self, state: &State, now: Timestamp) {
        let state = Arc::new(state.clone());
        let is_kept = match state.finished() {
            Some((
                Outcome::Answered { .. } | Outcome::Called { .. } | Outcome::Failed(Failure::TokenBudget { .. }),
                _,
            )) => true,
            Some((Outcome::Failed(_), _)) => state.side_effects() == SideEffects::Possible,
            None => false,
        };
        let mut kept = self.outcomes.kept();
        if is_kept {
            let bytes = bytes(&state);
            kept.bytes += bytes;
            kept.finished.push_back((self.key.clone(), now, bytes));
            kept.tidy(now);
        } else {
            kept.runs.remove(&self.key);
        }
        drop(kept);
        self.is_settled = true;
        self.outcome.send_replace(Some(state));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_settled {
            self.outcomes.kept().runs.remove(&self.key);
        }
    }
}

/// Marks an answer that was given before.
pub(super) fn mark_replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
    response
}

/// A run that others have made: its answer in one part, and its end.
fn replayed(mut outcome: watch::Receiver<Option<Arc<State>>>) -> Events {
    stream! {
        let found = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
        let Some(state) = found else {
            yield Err(Lost);
            return;
        };
        let thoughts = state.thoughts();
        if !thoughts.is_empty() {
            yield Ok(RunEvent::ThoughtsDelta(thoughts));
        }
        if let Some((Outcome::Answered { text, .. } | Outcome::Called { text, .. }, _)) = state.finished()
            && !text.is_empty()
        {
            yield Ok(RunEvent::AnswerDelta(text.clone()));
        }
        yield Ok(RunEvent::Finished(Box::new(State::clone(&state))));
    }
    .boxed()
}

/// About what an outcome takes.
fn bytes(state: &State) -> usize {
    state.bytes() + BYTES_PER_STEP * state.steps().len()
}

fn used_otherwise() -> ApiError {
    let message = "Idempotency-Key: it was already sent with another request; use a new key for each request".into();
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", message)
}
