//! Who has had no answer lately, so that nobody waits for one. Pure.
//!
//! A query that is too slow is that of one namespace, and keeps no other from asking. Without a connection nobody has
//! an answer.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// How long a Prometheus that did not answer is left alone: otherwise every reconciliation would wait for it.
pub const LEFT_ALONE: Duration = Duration::from_secs(60);

/// Whose questions have no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// Those of the namespace that asked.
    OfOne,
    /// Everybody's.
    OfAll,
}

/// What went wrong, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Failure {
    at: Instant,
    problem: String,
}

/// Failures of the last minute.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    of_all: Option<Failure>,
    of_namespaces: HashMap<String, Failure>,
}

impl Breaker {
    /// Why a namespace is not to ask now; absent if it may.
    pub fn problem(&self, namespace: &str, now: Instant) -> Option<String> {
        let failures = self.of_all.iter().chain(self.of_namespaces.get(namespace));
        failures.filter(|failure| failure.is_recent(now)).map(|failure| failure.problem.clone()).next()
    }

    /// Takes note of a question without an answer.
    pub fn fail(&mut self, silence: Silence, namespace: &str, now: Instant, problem: String) {
        let failure = Failure { at: now, problem };
        self.of_namespaces.retain(|_, failure| failure.is_recent(now));
        match silence {
            Silence::OfAll => self.of_all = Some(failure),
            Silence::OfOne => {
                self.of_namespaces.insert(namespace.to_owned(), failure);
            }
        }
    }

    /// Takes note of an answer.
    pub fn succeed(&mut self, namespace: &str) {
        self.of_all = None;
        self.of_namespaces.remove(namespace);
    }
}

impl Failure {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < LEFT_ALONE
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn later(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn a_slow_query_of_one_namespace_keeps_no_other_from_asking() {
        let (begin, mut breaker) = (Instant::now(), Breaker::default());
        breaker.fail(Silence::OfOne, "slow", begin, "too slow".to_owned());
        assert_eq!(breaker.problem("slow", later(begin, 59)), Some("too slow".to_owned()));
        assert_eq!(breaker.problem("other", begin), None);
        breaker.succeed("other");
        assert_eq!(breaker.problem("slow", later(begin, 59)), Some("too slow".to_owned()));
        assert_eq!(breaker.problem("slow", later(begin, 60)), None);
    }

    #[test]
    fn without_a_connection_nobody_asks_until_a_minute_is_over() {
        let (begin, mut breaker) = (Instant::now(), Breaker::default());
        breaker.fail(Silence::OfAll, "team", begin, "refused".to_owned());
        assert_eq!(breaker.problem("other", later(begin, 59)), Some("refused".to_owned()));
        assert_eq!(breaker.problem("other", later(begin, 60)), None);
        breaker.succeed("other");
        assert_eq!(breaker, Breaker::default());
    }

    #[test]
    fn the_memory_of_a_minute_is_all_that_is_kept() {
        let (begin, mut breaker) = (Instant::now(), Breaker::default());
        for second in 0..600 {
            breaker.fail(Silence::OfOne, &format!("team-{second}"), later(begin, second), "slow".to_owned());
        }
        assert_eq!(breaker.of_namespaces.len(), 60);
    }
}
