//! Whose turn it is to read and write the API server for an AgentDeployment. Canaries have turns of their own: their
//! judgement waits for no agent that is at rest or begins.

use tokio::sync::{Semaphore, SemaphorePermit};

/// AgentDeployments that read and write at once.
const OTHERS: usize = 8;
/// The same of those whose canary has traffic.
const CANARIES: usize = 4;

/// Turns.
#[derive(Debug)]
pub struct Turns {
    others: Semaphore,
    canaries: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self { others: Semaphore::new(OTHERS), canaries: Semaphore::new(CANARIES) }
    }
}

impl Turns {
    /// Waits for a turn, which lasts as long as what is given.
    pub async fn take(&self, has_canary: bool) -> Option<SemaphorePermit<'_>> {
        let turns = if has_canary { &self.canaries } else { &self.others };
        // Nobody closes them.
        turns.acquire().await.ok()
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
