//! Leader election by a Lease, with a deadline that writers check.
//!
//! Works as client-go does it (<https://pkg.go.dev/k8s.io/client-go/tools/leaderelection>): clocks of different
//! machines are never compared; a lease counts as expired when its record has not changed for its duration on *our*
//! clock. A leader that cannot renew within its deadline ends the process. A writer asks [`Leadership::check`] first,
//! so that a process that was stopped and continued does not write on an old claim.

pub mod fence;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use slipway_operator_core::leader::{Decision, Observation, evaluate};
use thiserror::Error;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How long a claim lasts without renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader tries to renew before it gives up.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two looks at the lease.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long one look may take, its write included: a request that hangs must leave time for another within the
/// deadline.
const ROUND_DEADLINE: Duration = Duration::from_secs(5);

/// Why a write is refused.
#[derive(Debug, Error)]
pub enum NotLeading {
    /// The claim has not been renewed in time.
    #[error("the leader's claim was last renewed {seconds} s ago, which is past the deadline of {deadline} s")]
    Expired {
        /// Seconds since the last renewal.
        seconds: u64,
        /// Seconds that a claim is good for writing.
        deadline: u64,
    },
    /// No claim was ever made.
    #[error("this process has never been the leader")]
    Never,
}

/// Why the election ended.
#[derive(Debug, Error)]
pub enum LeaderError {
    /// Another process holds the lease, or it could not be renewed in time.
    #[error("lost the lease {lease}: {holder} holds it or it could not be renewed within {deadline} s")]
    Lost {
        /// Name of the lease.
        lease: String,
        /// Who holds it now.
        holder: String,
        /// Seconds.
        deadline: u64,
    },
}

/// Whether this process may write.
#[derive(Debug, Clone, Default)]
pub struct Leadership {
    renewed_at: Arc<Mutex<Option<Instant>>>,
}

impl Leadership {
    /// Refuses when the claim is older than the renew deadline, on a clock that never goes back.
    ///
    /// # Errors
    /// [`NotLeading`], with the age of the claim.
    pub fn check(&self) -> Result<(), NotLeading> {
        let renewed_at = *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let age = renewed_at.ok_or(NotLeading::Never)?.elapsed();
        if age > RENEW_DEADLINE {
            return Err(NotLeading::Expired { seconds: age.as_secs(), deadline: RENEW_DEADLINE.as_secs() });
        }
        Ok(())
    }

    fn renew(&self, at: Instant) {
        *self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    fn age(&self) -> Option<Duration> {
        self.renewed_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }
}

/// Who stands for election, and for which lease.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub lease: String,
    /// Name of this process, unique among the candidates.
    pub identity: String,
}

/// The election of one candidate.
pub struct Election {
    api: Api<Lease>,
    candidate: Candidate,
    leadership: Leadership,
    observation: Option<Observation>,
}

impl Election {
    /// Stands for election.
    pub fn new(client: Client, candidate: Candidate, leadership: Leadership) -> Self {
        Self { api: Api::namespaced(client, &candidate.namespace), candidate, leadership, observation: None }
    }

    /// Waits until this process leads, or until `shutdown`. Says whether it leads.
    pub async fn win(&mut self, shutdown: &CancellationToken) -> bool {
        loop {
            let is_won = tokio::select! {
                () = shutdown.cancelled() => return false,
                is_won = self.timely_round() => is_won,
            };
            if is_won {
                info!(lease = self.candidate.lease, identity = self.candidate.identity, "this process leads");
                return true;
            }
            tokio::select! {
                () = shutdown.cancelled() => return false,
                () = tokio::time::sleep(RETRY_PERIOD) => {}
            }
        }
    }

    /// Renews the claim until `shutdown`, then gives it back.
    ///
    /// # Errors
    /// When the claim is lost; the process must end.
    pub async fn hold(&mut self, shutdown: &CancellationToken) -> Result<(), LeaderError> {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = tokio::time::sleep(RETRY_PERIOD) => {}
            }
            let is_renewed = self.timely_round().await;
            let is_expired = self.leadership.age().is_none_or(|age| age > RENEW_DEADLINE);
            let holder = self.observation.as_ref().map(|o| o.holder.clone()).unwrap_or_default();
            if !is_renewed && (is_expired || holder != self.candidate.identity) {
                let deadline = RENEW_DEADLINE.as_secs();
                return Err(LeaderError::Lost { lease: self.candidate.lease.clone(), holder, deadline });
            }
        }
        Ok(())
    }

    /// Gives the claim back, so that the next leader need not wait for it to expire.
    pub async fn release(&mut self) {
        if tokio::time::timeout(ROUND_DEADLINE, self.give_back()).await.is_err() {
            warn!("the lease could not be given back in time; it expires by itself");
        }
    }

    async fn give_back(&mut self) {
        let Ok(Some(mut lease)) = self.api.get_opt(&self.candidate.lease).await else { return };
        let Some(spec) = lease.spec.as_mut() else { return };
        if spec.holder_identity.as_deref() != Some(&self.candidate.identity) {
            return;
        }
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        if let Err(error) = self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await {
            warn!(%error, "the lease could not be given back; it expires by itself");
        }
    }

    /// One round, given up when the API server takes too long: its answer may still be a renewal, which the next round
    /// sees.
    async fn timely_round(&mut self) -> bool {
        let round = tokio::time::timeout(ROUND_DEADLINE, self.round()).await;
        round.unwrap_or_else(|_| {
            warn!(seconds = ROUND_DEADLINE.as_secs(), "the API server did not answer on the lease in time");
            false
        })
    }

    /// Looks at the lease once and claims it if that is due. Says whether this process leads.
    async fn round(&mut self) -> bool {
        let asked_at = Instant::now();
        let lease = match self.api.get_opt(&self.candidate.lease).await {
            Ok(lease) => lease,
            Err(error) => {
                warn!(%error, "the lease could not be read");
                return false;
            }
        };
        let decision =
            evaluate(lease.as_ref(), &self.candidate.identity, self.observation.as_ref(), asked_at.into_std());
        self.observation = decision.observation;
        match decision.decision {
            Decision::Create => self.write(None, asked_at).await,
            Decision::Claim | Decision::Renew => self.write(lease, asked_at).await,
            Decision::Wait => false,
        }
    }

    /// Writes the claim. The resource version of the lease goes along: of two candidates one wins.
    async fn write(&mut self, previous: Option<Lease>, asked_at: Instant) -> bool {
        let is_new = previous.is_none();
        let lease = claim(&self.candidate, previous, Timestamp::now());
        let result = if is_new {
            self.api.create(&PostParams::default(), &lease).await
        } else {
            self.api.replace(&self.candidate.lease, &PostParams::default(), &lease).await
        };
        match result {
            Ok(written) => {
                self.observation = Observation::of(&written, asked_at.into_std());
                // From the moment of asking: the answer may have been long on its way.
                self.leadership.renew(asked_at);
                true
            }
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => false,
            Err(error) => {
                warn!(%error, "the lease could not be written");
                false
            }
        }
    }
}

fn claim(candidate: &Candidate, previous: Option<Lease>, now: Timestamp) -> Lease {
    let mut lease = previous.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(candidate.lease.clone()),
            namespace: Some(candidate.namespace.clone()),
            ..Default::default()
        },
        spec: None,
    });
    let mut spec = lease.spec.take().unwrap_or_default();
    let is_same_holder = spec.holder_identity.as_deref() == Some(&candidate.identity);
    let seconds = i32::try_from(LEASE_DURATION.as_secs()).expect("15 fits");
    spec = LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(seconds),
        acquire_time: if is_same_holder { spec.acquire_time } else { Some(MicroTime(now)) },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(spec.lease_transitions.unwrap_or(0) + i32::from(!is_same_holder)),
        ..spec
    };
    lease.spec = Some(spec);
    lease
}

#[cfg(test)]
mod tests;
