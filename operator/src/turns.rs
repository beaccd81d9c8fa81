//! Whose turn it is to glance at an AgentDeployment, and to read and write the API server for it. What waits takes no
//! memory. Canaries have turns of their own: their judgement waits for no agent that is at rest or begins. So have
//! agents that serve: a change of their pods waits for no agents that are created by the hundred. Nor do these wait for
//! one another all along: new ones are looked at a few at a time, behind all that have begun. So those that have begun
//! are done early, and whatever happens to them is seen at once. Namespaces share turns: no team waits for everything
//! that another one has begun.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// AgentDeployments without a status that are looked at at once, in all and of a namespace. Their turns are among those
/// of agents without a revision.
const FIRST_LOOKS: [usize; 2] = [3, 2];
/// AgentDeployments without a revision that read and write at once, in all and of a namespace.
const BEGINNING: [usize; 2] = [6, 4];
/// The same of those with one.
const SERVING: [usize; 2] = [6, 4];
/// The same of those whose canary has traffic.
const CANARIES: [usize; 2] = [4, 3];
/// AgentDeployments that are glanced at at once, in all and of a namespace. Their pods have been asked before.
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
    /// What is held beside it.
    _beside: Option<Box<Turn>>,
}

impl Shared {
    /// So many in all, and so many of each namespace.
    pub fn new([all, each]: [usize; 2]) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), each, namespaces: Mutex::default() }
    }

    /// Waits for one.
    pub async fn take(&self, namespace: &str) -> Option<Turn> {
        self.take_many(namespace, 1).await
    }

    /// One if there is one now.
    pub fn take_now(&self, namespace: &str) -> Option<Turn> {
        let of_namespace = self.of(namespace).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Turn { _of_namespace: of_namespace, _of_all: of_all, _beside: None })
    }

    /// Waits for so many at once. Absent where a namespace never has so many.
    pub async fn take_many(&self, namespace: &str, count: u32) -> Option<Turn> {
        let is_possible = usize::try_from(count).is_ok_and(|count| count <= self.each);
        if !is_possible {
            return None;
        }
        // Nobody closes them.
        let of_namespace = self.of(namespace).acquire_many_owned(count).await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_many_owned(count).await.ok()?;
        Some(Turn { _of_namespace: of_namespace, _of_all: of_all, _beside: None })
    }

    /// Waits until those of the namespace have had their turn who wait now, and those who wait for one of all.
    async fn let_pass(&self, namespace: &str) {
        // Nobody closes them.
        let _ = self.of(namespace).acquire().await;
        let _ = self.all.acquire().await;
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

/// How far an AgentDeployment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was done for it yet.
    New,
    /// It has no revision yet.
    Beginning,
    /// It has one, which serves or starts.
    Serving,
    /// Its canary has traffic.
    Canary,
}

/// Turns at the API server.
#[derive(Debug)]
struct Requests {
    first_looks: Shared,
    beginning: Shared,
    serving: Shared,
    canaries: Shared,
}

impl Requests {
    async fn take(&self, namespace: &str, phase: Phase) -> Option<Turn> {
        if phase != Phase::New {
            return self.of(phase).take(namespace).await;
        }
        let first_look = self.first_looks.take(namespace).await?;
        self.serving.let_pass(namespace).await;
        let turn = self.beginning.take(namespace).await?;
        Some(Turn { _beside: Some(Box::new(first_look)), ..turn })
    }

    fn of(&self, phase: Phase) -> &Shared {
        match phase {
            Phase::New | Phase::Beginning => &self.beginning,
            Phase::Serving => &self.serving,
            Phase::Canary => &self.canaries,
        }
    }
}

/// Turns.
#[derive(Debug)]
pub struct Turns {
    requests: Requests,
    glances: Shared,
    glances_at_canaries: Shared,
}

impl Default for Turns {
    fn default() -> Self {
        let [first_looks, beginning, serving, canaries] = [FIRST_LOOKS, BEGINNING, SERVING, CANARIES].map(Shared::new);
        let requests = Requests { first_looks, beginning, serving, canaries };
        Self { requests, glances: Shared::new(GLANCES), glances_at_canaries: Shared::new(GLANCES_AT_CANARIES) }
    }
}

impl Turns {
    /// Waits for a turn at the API server, which lasts as long as what is given.
    pub async fn take(&self, namespace: &str, phase: Phase) -> Option<Turn> {
        self.requests.take(namespace, phase).await
    }

    /// A turn at the API server if one is free. Who waits for one is before others, and a new agent always waits.
    pub fn take_now(&self, namespace: &str, phase: Phase) -> Option<Turn> {
        match phase {
            Phase::New => None,
            Phase::Beginning | Phase::Serving | Phase::Canary => self.requests.of(phase).take_now(namespace),
        }
    }

    /// The same of a glance. Who has a turn at the API server takes none.
    pub async fn glance(&self, namespace: &str, phase: Phase) -> Option<Turn> {
        let glances = match phase {
            Phase::New | Phase::Beginning | Phase::Serving => &self.glances,
            Phase::Canary => &self.glances_at_canaries,
        };
        glances.take(namespace).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn agents_that_begin_keep_none_that_serves_waiting_and_nobody_a_canary() {
        let turns = Turns::default();
        let take = |namespace: &str, phase| turns.take(namespace, phase).now_or_never().flatten();
        let all = |phase| (0..).map_while(|number| take(&format!("team-{number}"), phase)).collect::<Vec<_>>();
        let mut taken = all(Phase::Beginning);
        assert_eq!(taken.len(), BEGINNING[0]);
        assert!(turns.take_now("other", Phase::Beginning).is_none(), "the next one waits");
        taken.extend(all(Phase::Serving));
        assert_eq!(taken.len(), BEGINNING[0] + SERVING[0]);
        assert!(take("team", Phase::Canary).is_some() && turns.take_now("team", Phase::Canary).is_some());
        drop(taken);
        assert!(take("team", Phase::Beginning).is_some() && turns.take_now("team", Phase::Serving).is_some());
    }

    #[tokio::test]
    async fn new_agents_wait_for_those_that_have_begun() {
        let turns = Turns::default();
        let all =
            |phase| (0..).map_while(|number| turns.take_now(&format!("team-{number}"), phase)).collect::<Vec<_>>();
        for phase in [Phase::Beginning, Phase::Serving] {
            let taken = all(phase);
            let mut waiting = Box::pin(turns.take("begun", phase));
            assert!(waiting.as_mut().now_or_never().is_none(), "all are taken");
            let mut new = Box::pin(turns.take("new", Phase::New));
            assert!(new.as_mut().now_or_never().is_none());
            drop(taken);
            assert!(waiting.now_or_never().flatten().is_some() && new.now_or_never().flatten().is_some());
        }
    }

    #[tokio::test]
    async fn a_few_new_agents_are_looked_at_at_once_and_leave_turns_to_those_that_have_begun() {
        let turns = Turns::default();
        let take = |number| turns.take(&format!("team-{number}"), Phase::New).now_or_never().flatten();
        let taken: Vec<_> = (0..).map_while(take).collect();
        assert_eq!(taken.len(), FIRST_LOOKS[0]);
        assert!(turns.take_now("begun", Phase::Beginning).is_some());
        drop(taken);
        let of_team = || turns.take("team", Phase::New).now_or_never().flatten();
        let taken: Vec<_> = std::iter::from_fn(of_team).collect();
        assert_eq!(taken.len(), FIRST_LOOKS[1]);
        assert!(take(0).is_some(), "another team's new agent does not wait for them");
    }

    #[tokio::test]
    async fn new_agents_of_a_team_wait_for_its_own_that_serve() {
        let turns = Turns::default();
        let taken: Vec<Turn> = std::iter::from_fn(|| turns.take_now("team", Phase::Serving)).collect();
        let mut waiting = Box::pin(turns.take("team", Phase::Serving));
        assert!(waiting.as_mut().now_or_never().is_none(), "the team has as many as it may");
        let mut new = Box::pin(turns.take("team", Phase::New));
        assert!(new.as_mut().now_or_never().is_none());
        assert!(turns.take("other", Phase::New).now_or_never().flatten().is_some());
        drop(taken);
        assert!(waiting.now_or_never().flatten().is_some() && new.now_or_never().flatten().is_some());
    }

    #[tokio::test]
    async fn agents_of_one_namespace_leave_turns_at_the_api_server_to_others() {
        let turns = Turns::default();
        for phase in [Phase::Beginning, Phase::Serving, Phase::Canary] {
            let taken: Vec<Turn> = std::iter::from_fn(|| turns.take_now("team", phase)).collect();
            assert!(!taken.is_empty() && turns.take_now("other", phase).is_some(), "{phase:?}");
        }
    }

    #[tokio::test]
    async fn no_namespace_takes_all_turns() {
        let shared = Shared::new([3, 2]);
        let take = |namespace| shared.take(namespace).now_or_never().flatten();
        let mut taken = vec![take("team"), take("team")];
        assert!(taken.iter().all(Option::is_some) && take("team").is_none(), "two of a namespace");
        taken.push(take("other"));
        assert!(taken.iter().all(Option::is_some) && take("third").is_none(), "three in all");
        assert!(shared.take_now("third").is_none());
        taken.clear();
        assert!(take("fourth").is_some() && shared.take_now("fourth").is_some());
        assert_eq!(shared.namespaces.lock().unwrap().len(), 1, "who has none is forgotten");
    }
}
