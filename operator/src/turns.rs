//! Whose turn it is to glance at an AgentDeployment, and to read and write the API server for it. What waits takes no
//! memory. Canaries have turns of their own: their judgement waits for no agent that is at rest or begins.

use tokio::sync::{Semaphore, SemaphorePermit};

/// AgentDeployments that read and write at once.
const OTHERS: usize = 8;
/// The same of those whose canary has traffic.
const CANARIES: usize = 4;
/// AgentDeployments that are glanced at at once; some of them wait for pods.
const GLANCES: usize = 32;
/// The same of those whose canary has traffic.
const GLANCES_AT_CANARIES: usize = 16;

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
    glances: Kind,
}

impl Default for Turns {
    fn default() -> Self {
        Self { requests: Kind::new(OTHERS, CANARIES), glances: Kind::new(GLANCES, GLANCES_AT_CANARIES) }
    }
}

impl Turns {
    /// Waits for a turn at the API server, which lasts as long as what is given.
    pub async fn take(&self, has_canary: bool) -> Option<SemaphorePermit<'_>> {
        self.requests.take(has_canary).await
    }

    /// The same of a glance. Who has a turn at the API server takes none.
    pub async fn glance(&self, has_canary: bool) -> Option<SemaphorePermit<'_>> {
        self.glances.take(has_canary).await
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
}
