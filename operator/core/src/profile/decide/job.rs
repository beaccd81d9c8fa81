//! The Job of a scope: created, polled, retried, ended. Pure.

use std::time::Duration;

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        ProfileStatus,
        agent_deployment::JobAttempt,
        profile::{MeasurementPurpose, ProfiledEngine},
    },
};
use slipway_worker_contract::{Outcome, Phase, ProfileEnd, ProfileResult, Progress};

use crate::{
    jobs::{
        attempts::{self, AttemptStep, Attempts, job_name},
        kind::{JobKind, JobRef},
    },
    plan::{AT_ONCE, Child, SOON, UNWATCHED},
    profile::{
        build,
        parts::{Found, Parts, Planned},
        rows,
        scope::{JOB_PREFIX, JobScope},
        status::CampaignState,
        world::ProfileWorld,
    },
    why::Why,
};

/// While a Job measures: no event reports its progress.
pub(super) const POLL: Duration = Duration::from_secs(3);

/// What a look at the Job of a scope found.
pub enum JobStep {
    /// It goes on by itself.
    Working(CampaignState),
    /// It ended, and all of its rows are in the planned status.
    Ended {
        /// What ended it.
        end: ProfileEnd,
        /// The same in words.
        reason: String,
    },
    /// It failed, and a retry would not help; its rows are in the planned status.
    GivenUp(String),
}

/// Whether another Job of a scope could be paid for.
pub enum Affordable {
    /// It could.
    Yes,
    /// Other Jobs may still spend what is left.
    Later,
    /// The budget is used up, in words.
    No(String),
}

/// Looks at the Job of a scope and plans what comes next for it.
pub fn run(
    world: &ProfileWorld,
    before: &ProfileStatus,
    scope: &JobScope<'_>,
    affordable: Affordable,
) -> Planned<JobStep> {
    let hash = scope.hash(&world.name, &world.spec.input_hash, before);
    let prefix = format!("{JOB_PREFIX}{hash}");
    let recorded = recorded(before, &scope.kind(), &hash);
    let name = job_name(&prefix, recorded);
    let progress = world.progress.get(&name).filter(|progress| is_of(progress, world, scope));
    let polled = progress
        .map_or_else(Found::default, |progress| rows::found(scope.subject(), &progress.rows, &progress.not_measured));
    let status = polled.seen_from(before);
    let next = attempts::decide(Attempts {
        kind: JobKind::Profile,
        job_prefix: &prefix,
        recorded,
        max_attempts: world.settings.jobs.max_attempts,
        job: world.jobs.get(&name),
        now: world.now,
    });
    Planned::of(|parts| {
        parts.add(Parts::of_found(polled));
        parts.join(match (next, affordable) {
            (AttemptStep::Record(_) | AttemptStep::Create(_), Affordable::No(words)) => given_up(words),
            (AttemptStep::Record(_) | AttemptStep::Create(_), Affordable::Later) => later(scope),
            (AttemptStep::Record(attempt), Affordable::Yes) => record(scope, &prefix, attempt),
            (AttemptStep::Create(_), Affordable::Yes) => create(world, &status, scope, name),
            (AttemptStep::Wait(why), _) => wait(&status, scope, &why, progress),
            (AttemptStep::Succeeded { outcome, milliseconds: _ }, _) => {
                ended(world, &status, scope, Ended { outcome: *outcome, prefix: &prefix, attempt: recorded })
            }
            (AttemptStep::GivenUp(why), _) => given_up(match why {
                Why::JobFailed { job, class, failure, attempts } => job.failed(class, &failure, attempts),
                other => other.to_string(),
            }),
        })
    })
}

fn given_up(words: String) -> Planned<JobStep> {
    Parts::default().with(JobStep::GivenUp(words))
}

/// The end of another Job is reported by an event.
fn later(scope: &JobScope<'_>) -> Planned<JobStep> {
    let name = &scope.engine().display_name;
    let message = format!("{name}: waiting for what other engines leave of the budget");
    let state = CampaignState::Working { purpose: scope.purpose(), reason: Reason::Profiling, message };
    Parts::look_within(SOON).with(JobStep::Working(state))
}

fn create(world: &ProfileWorld, status: &ProfileStatus, scope: &JobScope<'_>, name: String) -> Planned<JobStep> {
    match build::profile_job(world, status, scope, &name) {
        Ok((task, job)) => {
            let step = working(scope.purpose(), &Why::JobStarting { job: JobRef { kind: JobKind::Profile, name } });
            Parts::of_children([Child::ConfigMap(Box::new(task)), Child::Job(Box::new(job))]).with(step)
        }
        Err(problem) => given_up(problem.to_string()),
    }
}

fn recorded(status: &ProfileStatus, kind: &str, hash: &str) -> i32 {
    status.jobs.iter().find(|job| job.kind == kind && job.input_hash == hash).map_or(0, |job| job.attempt)
}

/// The attempt after one whose Job is there, for an engine that was built again: the Job was of another artifact.
pub(super) fn attempt_after_failed(
    world: &ProfileWorld,
    status: &ProfileStatus,
    engine: &ProfiledEngine,
) -> Option<JobAttempt> {
    let scope = JobScope::Explore { engine };
    let (kind, input_hash) = (scope.kind(), scope.hash(&world.name, &world.spec.input_hash, status));
    let attempt = recorded(status, &kind, &input_hash);
    let has_job = world.jobs.contains_key(&job_name(&format!("{JOB_PREFIX}{input_hash}"), attempt));
    has_job.then_some(JobAttempt { kind, input_hash, attempt: attempt + 1 })
}

/// Progress of another campaign is ignored.
fn is_of(progress: &Progress, world: &ProfileWorld, scope: &JobScope<'_>) -> bool {
    progress.input_hash == world.spec.input_hash && progress.engine.identity == scope.engine().name
}

fn working(purpose: MeasurementPurpose, why: &Why) -> JobStep {
    JobStep::Working(CampaignState::Working { purpose, reason: why.reason(), message: why.to_string() })
}

fn record(scope: &JobScope<'_>, prefix: &str, attempt: i32) -> Planned<JobStep> {
    let (kind, hash) = (scope.kind(), prefix.trim_start_matches(JOB_PREFIX));
    let attempted = JobAttempt { kind, input_hash: hash.to_owned(), attempt };
    let found = Found { jobs: vec![attempted], ..Found::default() };
    let job = JobRef { kind: JobKind::Profile, name: job_name(prefix, attempt) };
    let step = working(scope.purpose(), &Why::JobStarting { job });
    Parts::of_found(found).and(Parts::look_within(AT_ONCE)).with(step)
}

fn wait(status: &ProfileStatus, scope: &JobScope<'_>, why: &Why, progress: Option<&Progress>) -> Planned<JobStep> {
    let look = match why {
        Why::JobRetrying { .. } => Parts::look_within(SOON),
        Why::JobRunning { .. } => Parts::look_within(POLL),
        Why::PodsRefused { .. } => Parts::look_within(UNWATCHED),
        _ => Parts::default(),
    };
    look.with(match progress {
        Some(progress) => {
            let message = progress_message(scope, progress, status);
            JobStep::Working(CampaignState::Working { purpose: scope.purpose(), reason: Reason::Profiling, message })
        }
        None => working(scope.purpose(), why),
    })
}

/// What the Job does, without a number that would change with every look.
fn progress_message(scope: &JobScope<'_>, progress: &Progress, status: &ProfileStatus) -> String {
    let doing = match &progress.phase {
        Phase::Loading { arm: None } => "waiting for Triton".to_owned(),
        Phase::Loading { arm: Some(arm) } => format!("loading {arm}"),
        Phase::Measuring { arm, level, count: _ } => format!("measuring {arm} at {level} in flight"),
        Phase::Finished { .. } => "finished measuring".to_owned(),
        Phase::Failed { text, .. } => format!("failed: {text}"),
    };
    let rows = status.measurements.iter().filter(|m| m.engine == scope.engine().name).count();
    format!("{}: {doing}, {rows} rows", scope.engine().display_name)
}

struct Ended<'a> {
    outcome: Outcome,
    prefix: &'a str,
    attempt: i32,
}

fn ended(world: &ProfileWorld, before: &ProfileStatus, scope: &JobScope<'_>, ended: Ended<'_>) -> Planned<JobStep> {
    let Ended { outcome, prefix, attempt } = ended;
    let Outcome::Profile(result) = outcome else {
        let worker = &world.settings.images.worker;
        return given_up(format!(
            "the Job reported the result of another task: check that {worker} is the worker of this release"
        ));
    };
    let found = rows::found(scope.subject(), &result.rows, &result.not_measured);
    let status = found.seen_from(before);
    let ProfileResult { end, reason, .. } = &result;
    let is_whole = *end != ProfileEnd::Interrupted && !lacks_rows(&result, &status, scope);
    Planned::of(|parts| {
        parts.add(Parts::of_found(found));
        // Missing rows are measured again by a Job that is given those that are known.
        if is_whole || attempt >= world.settings.jobs.max_attempts {
            return JobStep::Ended { end: *end, reason: reason.clone() };
        }
        // The next look finds that its Job does not exist, and asks whether the budget allows one.
        parts.join(record(scope, prefix, attempt + 1))
    })
}

/// Whether rows that the message leaves out were not polled either. Rows of earlier attempts count as polled, so a
/// second attempt may be believed too early. Its Job waits ten minutes for the rows to be polled, so both would have to
/// fail.
fn lacks_rows(result: &ProfileResult, status: &ProfileStatus, scope: &JobScope<'_>) -> bool {
    let held = rows::recorded(status, scope.subject()).len();
    held < result.rows.len() + usize::try_from(result.omitted_rows).unwrap_or(usize::MAX)
}
