//! Which fetch an AgentDeployment relies on: a success is shared by content, a failure by the place that it was taken
//! from. Pure.
//!
//! The first AgentDeployment that needs a content fetches it under a shared name. One that takes the same content from
//! another place waits for that Job while it works. Once that Job cannot go on, the other place gets a Job of its own:
//! a mirror that has lost the model must not stop those who reach it elsewhere.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use slipway_crds::identity::{ContentHash, IdentityError, content_hash};
use slipway_worker_contract::{Digest, FetchResult, Outcome};

use crate::{
    jobs::{
        attempts::job_name,
        kind::{JobKind, JobRef},
        view::{FetchView, JobPhase, JobView},
    },
    why::Why,
};

/// What an AgentDeployment wants in the store, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted<'a> {
    /// Digest of the source.
    pub(super) content: &'a Digest,
    /// The URI with its revision pinned.
    pub(super) uri: &'a str,
    /// Name of the Secret with the credentials.
    pub(super) secret: Option<&'a str>,
    /// Name of the AgentDeployment.
    pub(super) agent_deployment: &'a str,
    /// When the store was last found to lack it: earlier fetches no longer count.
    pub(super) lost_at: Option<Timestamp>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source<'a> {
    /// Somebody's Job has brought the content.
    Fetched {
        /// What it said.
        result: &'a FetchResult,
        /// Milliseconds that it took.
        milliseconds: i64,
    },
    /// A Job of another place brings it.
    Elsewhere(Why),
    /// Its own Jobs, whose names have this hash.
    Own(ContentHash),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Place<'a> {
    uri: &'a str,
    secret: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnJob<'a> {
    content: &'a Digest,
    place: &'a str,
}

impl Wanted<'_> {
    /// Hash of the place.
    pub(super) fn place(&self) -> Result<ContentHash, IdentityError> {
        content_hash(&Place { uri: self.uri, secret: self.secret })
    }

    /// Where the content comes from, by the Jobs of the namespace. `recorded` gives the latest attempt in the status
    /// under a hash, 0 if there is none.
    ///
    /// # Errors
    /// When a name has no canonical JSON; texts leave no such case.
    pub(super) fn source<'a>(
        &self,
        jobs: &'a BTreeMap<String, JobView>,
        recorded: impl Fn(&str) -> i32,
    ) -> Result<Source<'a>, IdentityError> {
        if let Some((result, milliseconds)) = jobs.values().find_map(|job| self.brought_by(job)) {
            return Ok(Source::Fetched { result, milliseconds });
        }
        let place = self.place()?;
        let place = place.short();
        let shared = content_hash(self.content)?;
        let own = content_hash(&OwnJob { content: self.content, place })?;
        let hash = if recorded(own.short()) > 0 || self.is_failed_elsewhere(jobs, (&shared, place), &recorded) {
            own
        } else {
            shared
        };
        let name = job_name(&format!("{}-{}", JobKind::Fetch.as_str(), hash.short()), recorded(hash.short()));
        if jobs.get(&name).is_some_and(is_at_work) {
            return Ok(Source::Own(hash));
        }
        let elsewhere = jobs.values().find(|job| self.is_of_other_place(job, place) && is_at_work(job));
        Ok(elsewhere.map_or(Source::Own(hash), |job| {
            let job = JobRef { kind: JobKind::Fetch, name: job.name.clone() };
            Source::Elsewhere(Why::JobRunning { job, seconds: 0 })
        }))
    }

    fn brought_by<'a>(&self, job: &'a JobView) -> Option<(&'a FetchResult, i64)> {
        let JobPhase::Succeeded { outcome, milliseconds } = &job.phase else { return None };
        if self.is_void(job) {
            return None;
        }
        match outcome.as_ref() {
            Outcome::Fetch(result) if result.source_digest == *self.content => Some((result, *milliseconds)),
            Outcome::Fetch(_)
            | Outcome::Resolve(_)
            | Outcome::Build(_)
            | Outcome::Quality(_)
            | Outcome::Materialize(_)
            | Outcome::Sweep(_)
            | Outcome::Profile(_) => None,
        }
    }

    /// Whether the Job under the shared name takes the content from another place and cannot go on.
    fn is_failed_elsewhere(
        &self,
        jobs: &BTreeMap<String, JobView>,
        (shared, place): (&ContentHash, &str),
        recorded: impl Fn(&str) -> i32,
    ) -> bool {
        let prefix = format!("{}-{}", JobKind::Fetch.as_str(), shared.short());
        let Some(job) = jobs.get(&job_name(&prefix, recorded(shared.short()).max(1))) else { return false };
        let is_other = match &job.fetch {
            Some(fetch) => fetch.place != place,
            // A release without this label took the content from the place of the AgentDeployment that created the Job.
            None => job.agent_deployment.as_deref() != Some(self.agent_deployment),
        };
        is_other && !is_at_work(job)
    }

    /// Whether a Job ended before the store was found to lack the content.
    pub(super) fn is_void(&self, job: &JobView) -> bool {
        self.lost_at.is_some_and(|lost_at| job.ended_at.is_some_and(|ended_at| ended_at <= lost_at))
    }

    fn is_of_other_place(&self, job: &JobView, of: &str) -> bool {
        let is_other = |FetchView { content, place }: &FetchView| content == self.content.as_str() && place != of;
        job.fetch.as_ref().is_some_and(is_other)
    }
}

/// Whether a Job is on its way. What waits for a node or a Secret may wait for what only its own place needs.
fn is_at_work(job: &JobView) -> bool {
    match &job.phase {
        JobPhase::Running { .. } | JobPhase::ImageUnavailable(_) | JobPhase::PodsRefused(_) => true,
        JobPhase::Unscheduled { .. }
        | JobPhase::SecretUnavailable(_)
        | JobPhase::Succeeded { .. }
        | JobPhase::Failed { .. } => false,
    }
}

#[cfg(test)]
mod tests;
