//! When a Job is created, waited for, tried again or given up. Pure.
//!
//! The number of an attempt is written to the status before its Job is created, so that a crash between the two leaves
//! no Job that nobody knows. A failure is remembered by the failed Job itself: deleting it asks for the attempt once
//! more.

use jiff::{SignedDuration, Timestamp};
use slipway_crds::v1alpha1::agent_deployment::JobAttempt;
use slipway_worker_contract::{FailureClass, Outcome};

use super::{
    kind::{JobKind, JobRef},
    view::{JobPhase, JobView},
};
use crate::why::Why;

/// Waiting time before the second attempt; each further one doubles it.
const FIRST_BACK_OFF: SignedDuration = SignedDuration::from_secs(10);

/// What is known of a task when its next step is decided.
#[derive(Debug, Clone, Copy)]
pub struct Attempts<'a> {
    /// What the Job is for.
    pub kind: JobKind,
    /// First part of the Job's name: `resolve-1f2e3d4c5b`.
    pub job_prefix: &'a str,
    /// The latest attempt in the status, from 1; 0 if there is none.
    pub recorded: i32,
    /// Attempts of a Job that fails for reasons of the cluster's.
    pub max_attempts: i32,
    /// The Job of the latest attempt, if it exists.
    pub job: Option<&'a JobView>,
    /// The current time.
    pub now: Timestamp,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum AttemptStep {
    /// Write the number of the attempt to the status, and nothing else.
    Record(i32),
    /// Create the Job of the recorded attempt.
    Create(i32),
    /// Wait.
    Wait(Why),
    /// The Job ended well.
    Succeeded {
        /// What the worker reported.
        outcome: Box<Outcome>,
        /// Milliseconds that the Job took.
        milliseconds: i64,
    },
    /// The Job failed, and a retry would not help.
    GivenUp(Why),
}

/// Name of the Job of an attempt.
pub fn job_name(prefix: &str, attempt: i32) -> String {
    format!("{prefix}-{attempt}")
}

/// Name of the Job of the attempt that a status has.
pub fn job_of(attempt: &JobAttempt) -> String {
    let JobAttempt { kind, input_hash, attempt } = attempt;
    job_name(&format!("{kind}-{input_hash}"), *attempt)
}

/// Decides what comes next.
pub fn decide(attempts: Attempts<'_>) -> AttemptStep {
    let Attempts { kind, job_prefix, recorded, max_attempts, job, now } = attempts;
    if recorded == 0 {
        return AttemptStep::Record(1);
    }
    let Some(view) = job else { return AttemptStep::Create(recorded) };
    let job = JobRef { kind, name: job_name(job_prefix, recorded) };
    match &view.phase {
        JobPhase::Unscheduled { scheduler, .. } => {
            AttemptStep::Wait(Why::JobUnscheduled { job, scheduler: scheduler.clone() })
        }
        JobPhase::ImageUnavailable(message) => {
            AttemptStep::Wait(Why::ImageUnavailable { job, message: message.clone() })
        }
        JobPhase::SecretUnavailable(message) => {
            AttemptStep::Wait(Why::SecretUnavailable { job, message: message.clone() })
        }
        JobPhase::PodsRefused(message) => AttemptStep::Wait(Why::PodsRefused { job, message: message.clone() }),
        JobPhase::Running { started_at } => {
            let seconds = started_at.map_or(0, |start| now.duration_since(start).as_secs());
            AttemptStep::Wait(Why::JobRunning { job, seconds })
        }
        JobPhase::Succeeded { outcome, milliseconds } => {
            AttemptStep::Succeeded { outcome: outcome.clone(), milliseconds: *milliseconds }
        }
        JobPhase::Failed { class, failure, finished_at } => {
            // An engine that the store lost is built again meanwhile.
            let comes_back = *class == FailureClass::MissingArtifact;
            let is_tried_again = class.retries() || comes_back;
            if !is_tried_again || recorded >= max_attempts {
                let attempts = (is_tried_again && recorded > 1).then_some(recorded);
                let (class, failure) = (class.as_str(), failure.clone());
                return AttemptStep::GivenUp(Why::JobFailed { job, class, failure, attempts });
            }
            let waited = finished_at.map_or(SignedDuration::MAX, |end| now.duration_since(end));
            if waited >= back_off(recorded) {
                return AttemptStep::Record(recorded + 1);
            }
            AttemptStep::Wait(Why::JobRetrying {
                job,
                next_attempt: recorded + 1,
                max_attempts,
                failure: failure.clone(),
            })
        }
    }
}

/// Time between the end of one attempt and the next.
fn back_off(attempt: i32) -> SignedDuration {
    let doublings = u32::try_from(attempt - 1).unwrap_or(0).min(6);
    FIRST_BACK_OFF * 2i32.pow(doublings)
}

#[cfg(test)]
mod tests;
