//! Admission of runs: readiness, the limit on runs in flight, and the drain.

use std::sync::Arc;

use tokio::sync::watch;

/// Whether the pod serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It does not, for this reason.
    NotReady {
        /// What is waited for.
        why: String,
    },
    /// It does.
    Ready,
    /// It finishes its runs and admits no new ones. Final.
    Draining,
}

/// Why a run was not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many runs as allowed are in flight.
    Full {
        /// The limit.
        limit: usize,
    },
    /// The pod is not ready.
    NotReady {
        /// What is waited for.
        why: String,
    },
    /// The pod is shutting down.
    Draining,
}

/// Admits runs to the pod.
#[derive(Debug)]
pub struct Admission {
    limit: usize,
    gate: watch::Sender<Gate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gate {
    readiness: Readiness,
    in_flight: usize,
}

/// A place among the runs in flight; dropping it frees the place.
#[derive(Debug)]
pub struct Permit {
    admission: Arc<Admission>,
    /// Runs in flight at the admission, this one included.
    pub in_flight: usize,
}

impl Admission {
    /// Starts closed. Once open, it admits `limit` runs at a time.
    pub fn new(limit: usize) -> Arc<Self> {
        let readiness = Readiness::NotReady { why: "the engine has not been checked yet".into() };
        Arc::new(Self { limit, gate: watch::Sender::new(Gate { readiness, in_flight: 0 }) })
    }

    /// Admits a run, or says why not.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn admit(self: &Arc<Self>) -> Result<Permit, Refusal> {
        let mut verdict = Err(Refusal::Full { limit: self.limit });
        self.gate.send_if_modified(|gate| {
            verdict = match &gate.readiness {
                Readiness::Draining => Err(Refusal::Draining),
                Readiness::NotReady { why } => Err(Refusal::NotReady { why: why.clone() }),
                Readiness::Ready if gate.in_flight >= self.limit => Err(Refusal::Full { limit: self.limit }),
                Readiness::Ready => {
                    gate.in_flight += 1;
                    Ok(gate.in_flight)
                }
            };
            verdict.is_ok()
        });
        verdict.map(|in_flight| Permit { admission: Arc::clone(self), in_flight })
    }

    /// Notes what was found out about the engine. A drain stays a drain.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.gate.send_if_modified(|gate| {
            let is_change = gate.readiness != Readiness::Draining && gate.readiness != readiness;
            if is_change {
                gate.readiness = readiness;
            }
            is_change
        });
    }

    /// Whether the pod serves.
    pub fn readiness(&self) -> Readiness {
        self.gate.borrow().readiness.clone()
    }

    /// Runs in flight.
    pub fn in_flight(&self) -> usize {
        self.gate.borrow().in_flight
    }

    /// Returns once the readiness is such.
    pub async fn until(&self, mut is_so: impl FnMut(&Readiness) -> bool) {
        // The sender is `self`, so the channel cannot close meanwhile.
        let _ = self.gate.subscribe().wait_for(|gate| is_so(&gate.readiness)).await;
    }

    /// Returns once no run is in flight.
    pub async fn idle(&self) {
        // The sender is `self`, so the channel cannot close meanwhile.
        let _ = self.gate.subscribe().wait_for(|gate| gate.in_flight == 0).await;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.gate.send_modify(|gate| gate.in_flight -= 1);
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn ready(limit: usize) -> Arc<Admission> {
        let admission = Admission::new(limit);
        admission.set_readiness(Readiness::Ready);
        admission
    }

    #[test]
    fn places_are_limited_and_freed() {
        let admission = ready(2);
        let first = admission.admit().unwrap();
        let second = admission.admit().unwrap();
        assert_eq!((first.in_flight, second.in_flight), (1, 2));
        assert_eq!(admission.admit().unwrap_err(), Refusal::Full { limit: 2 });
        drop(first);
        assert_eq!(admission.admit().unwrap().in_flight, 2);
    }

    #[test]
    fn a_drain_is_final() {
        let admission = ready(1);
        admission.set_readiness(Readiness::Draining);
        admission.set_readiness(Readiness::Ready);
        assert_eq!(admission.admit().unwrap_err(), Refusal::Draining);
    }

    #[test]
    fn nobody_comes_in_before_the_engine_is_ready() {
        let admission = Admission::new(1);
        let why = "the engine has not been checked yet".into();
        assert_eq!(admission.admit().unwrap_err(), Refusal::NotReady { why });
    }
}
