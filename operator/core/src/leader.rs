//! Who leads, from what is seen of the lease. Pure.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;

/// What was seen of a lease, and since when on our clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Who holds the lease; empty if nobody.
    pub holder: String,
    /// Changes with every renewal.
    pub resource_version: String,
    /// How long the holder's claim lasts.
    pub duration: Duration,
    /// When this state was seen first.
    pub since: Instant,
}

/// What to do about the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// There is no lease.
    Create,
    /// Nobody holds it, or its holder has let it expire.
    Claim,
    /// We hold it.
    Renew,
    /// Someone else holds it.
    Wait,
}

/// The decision, and what to remember for the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// What to do.
    pub decision: Decision,
    /// What was seen.
    pub observation: Option<Observation>,
}

impl Observation {
    /// Reads a lease.
    pub fn of(lease: &Lease, now: Instant) -> Option<Self> {
        let spec = lease.spec.as_ref()?;
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
        Some(Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
            duration: Duration::from_secs(seconds),
            since: now,
        })
    }
}

/// Decides. An unchanged lease keeps the time at which it was seen first, and expires when that is its duration ago.
pub fn evaluate(lease: Option<&Lease>, me: &str, previous: Option<&Observation>, now: Instant) -> Evaluation {
    let Some(lease) = lease else { return Evaluation { decision: Decision::Create, observation: None } };
    let Some(mut observation) = Observation::of(lease, now) else {
        return Evaluation { decision: Decision::Claim, observation: None };
    };
    if let Some(previous) = previous.filter(|previous| previous.resource_version == observation.resource_version) {
        observation.since = previous.since;
    }
    let is_expired = now.duration_since(observation.since) > observation.duration;
    let decision = if observation.holder == me {
        Decision::Renew
    } else if observation.holder.is_empty() || is_expired {
        Decision::Claim
    } else {
        Decision::Wait
    };
    Evaluation { decision, observation: Some(observation) }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    use pretty_assertions::assert_eq;

    use super::*;

    fn lease(holder: &str, resource_version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta { resource_version: Some(resource_version.to_owned()), ..Default::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder.to_owned()),
                lease_duration_seconds: Some(15),
                ..Default::default()
            }),
        }
    }

    #[test]
    fn without_a_lease_one_is_created() {
        assert_eq!(evaluate(None, "a", None, Instant::now()).decision, Decision::Create);
    }

    #[test]
    fn a_lease_that_was_given_back_is_claimed_at_once() {
        assert_eq!(evaluate(Some(&lease("", "1")), "a", None, Instant::now()).decision, Decision::Claim);
    }

    #[test]
    fn our_own_lease_is_renewed() {
        assert_eq!(evaluate(Some(&lease("a", "1")), "a", None, Instant::now()).decision, Decision::Renew);
    }

    #[test]
    fn a_lease_that_does_not_change_expires_on_our_own_clock() {
        let start = Instant::now();
        let first = evaluate(Some(&lease("b", "1")), "a", None, start);
        assert_eq!(first.decision, Decision::Wait);
        let at_the_end = start + Duration::from_secs(15);
        assert_eq!(
            evaluate(Some(&lease("b", "1")), "a", first.observation.as_ref(), at_the_end).decision,
            Decision::Wait
        );
        let after = start + Duration::from_secs(16);
        assert_eq!(evaluate(Some(&lease("b", "1")), "a", first.observation.as_ref(), after).decision, Decision::Claim);
    }

    #[test]
    fn a_renewal_by_another_starts_the_wait_anew() {
        let start = Instant::now();
        let first = evaluate(Some(&lease("b", "1")), "a", None, start);
        let later = start + Duration::from_secs(16);
        assert_eq!(evaluate(Some(&lease("b", "2")), "a", first.observation.as_ref(), later).decision, Decision::Wait);
    }
}
