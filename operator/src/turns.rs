//! Whose turn it is to glance at an AgentDeployment, and to read and write the API server for it. What waits takes no
//! memory. Canaries have turns of their own: their judgement waits for no agent that is at rest or begins.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// AgentDeployments that read and write at once.
const OTHERS: usize = 8;
/// The same of those whose canary has traffic.
const CANARIES: usize = 4;
/// AgentDeployments that are glanced at at once, in all and of a namespace; some of them wait for pods.
const GLANCES: [usize; 2] = [32, 16];
/// The same of those whose canary has traffic.
const GLANCES_AT_CANARIES: [usize; 2] = [16, 8];

/// Turns that namespaces share: no namespace takes all of them.
#[derive(Debug)]
pub struct Shared {
    all: Arc<Semaphore>,
    each: usize,
    namespaces: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// One of them, for as long as it is kept.
#[derive(Debug)]
pub struct Turn {
    _of_namespace: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Shared {
    /// So many in all, and so many of each namespace.
    pub fn new([all, each]: [usize; 2]) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), each, namespaces: Mutex::default() }
    }

    /// Waits for one.
    pub async fn take(&self, namespace: &str) -> Option<Turn> {
        // Nobody closes them.
        let of_namespace = self.of(namespace).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Turn { _of_namespace: of_namespace, _of_all: of_all })
    }

    fn of(&self, namespace: &str) -> Arc<Semaphore> {
        // No code panics while it holds the lock.
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if !namespaces.contains_key(namespace) {
            // Those that have none and want none.
            namespaces.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = namespaces.entry(namespace.to_owned());
        Arc::clone(turns.or_insert_with(|| Arc::new(Semaphore::new(self.each))))
    }
}

/// Turns of one kind.
#[derive(Debug)]
struct Kind {
    others: Semaphore,
    canaries: Semaphore,
}

impl Kind {
    const fn new(others: usize, canaries: usize) -> Self {
        Self { others: Semaphore::const_new(others), canaries: Semaphore::const_new(canaries) }
    }

    async fn take(&self, has_canary: bool) -> Option<SemaphorePermit<'_>> {
        let turns = if has_canary { &self.canaries } else { &self.others };
        // Nobody closes them.
        turns.acquire().await.ok()
    }
}

/// Turns.
#[derive(Debug)]
pub struct Turns {
    requests: Kind,
    glances: Shared,
    glances_at_canaries: Shared,
}

impl Default for Turns {
    fn default() -> Self {
        let requests = Kind::new(OTHERS, CANARIES);
        Self { requests, glances: Shared::new(GLANCES), glances_at_canaries: Shared::new(GLANCES_AT_CANARIES) }
    }
}

impl Turns {
    /// Waits for a turn at the API server, which lasts as long as what is given.
    pub async fn take(&self, has_canary: bool) -> Option<SemaphorePermit<'_>> {
        self.requests.take(has_canary).await
    }

    /// The same of a glance. Who has a turn at the API server takes none.
    pub async fn glance(&self, namespace: &str, has_canary: bool) -> Option<Turn> {
        let glances = if has_canary { &self.glances_at_canaries } else { &self.glances };
        glances.take(namespace).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_canary_waits_for_no_other_agent() {
        let turns = Turns::default();
        let taken: Vec<_> = (0..OTHERS).map(|_| turns.take(false).now_or_never().flatten()).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(turns.take(false).now_or_never().is_none(), "the next one waits");
        assert!(turns.take(true).now_or_never().flatten().is_some());
        drop(taken);
        assert!(turns.take(false).now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn no_namespace_takes_all_turns() {
        let shared = Shared::new([3, 2]);
        let take = |namespace| shared.take(namespace).now_or_never().flatten();
        let mut taken = vec![take("team"), take("team")];
        assert!(taken.iter().all(Option::is_some) && take("team").is_none(), "two of a namespace");
        taken.push(take("other"));
        assert!(taken.iter().all(Option::is_some) && take("third").is_none(), "three in all");
        taken.clear();
        assert!(take("fourth").is_some());
        assert_eq!(shared.namespaces.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
