//! What comes next for the store of a namespace: its record, a sweep, and Jobs that nothing reads any more. Pure.
//!
//! A sweep is in the record before its Job exists. Its lists are made again at each look until then, and say the same
//! as the record. While something cannot be read that may need anything, nothing is decided. Without a retention the
//! record is kept, and nothing is removed.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time};
use slipway_crds::{
    conditions::Reason,
    labels::Component,
    store::{StoreRecord, Sweep, SweepEnd, SweepFigures},
};
use slipway_worker_contract::{Outcome, SweepResult};

use super::{
    build, ledger,
    references::References,
    world::{SeenJob, StoreWorld},
};
use crate::{
    jobs::view::JobPhase,
    plan::{AT_ONCE, Child, Note, Plan, Removal, RemovalKind, UNWATCHED},
    settings::Retention,
};

/// Without any news a store is looked at again after this time.
const LOOK: Duration = Duration::from_secs(15 * 60);
/// Least time between two sweeps.
const REST: SignedDuration = SignedDuration::from_hours(1);
/// The same after one that failed.
const REST_AFTER_FAILURE: SignedDuration = SignedDuration::from_hours(6);
/// Folders that the lists of a sweep may have: a ConfigMap holds a megabyte.
const MAX_LISTED: usize = 7_000;
/// Parts of Jobs that may go while their owner stays.
const MAY_GO: [Component; 4] = [Component::Resolve, Component::Fetch, Component::Build, Component::Quality];
/// Characters of what is recorded of a failure.
const MAX_WORDS: usize = 1_024;

/// The ConfigMap with a record.
pub fn record_object(world: &StoreWorld, record: &StoreRecord) -> ConfigMap {
    build::record(world, record)
}

/// Decides what comes next.
pub fn decide(world: &StoreWorld) -> Plan<StoreRecord> {
    let Some(references) = &world.references else {
        return keeping(world.record.clone());
    };
    let record = ledger::seen(&world.record, references, world.now);
    match &world.settings.store.retention {
        None => keep_all(world, record),
        Some(retention) => keep_for(world, (references, retention), record),
    }
}

/// The platform removes nothing, or nothing any more: a sweep that has a Job is followed to its end.
fn keep_all(world: &StoreWorld, mut record: StoreRecord) -> Plan<StoreRecord> {
    let Some(sweep) = record.sweep.clone() else { return keeping(record) };
    if let Some(job) = job(world, sweep.number) {
        return follow(world, job, (record, sweep));
    }
    record.items.values_mut().for_each(|item| item.is_swept = false);
    keeping(StoreRecord { sweep: None, ..record })
}

/// What nothing needs is kept for a while.
fn keep_for(
    world: &StoreWorld,
    (references, retention): (&References, &Retention),
    record: StoreRecord,
) -> Plan<StoreRecord> {
    let unread = unread_jobs(world, references);
    let record = ledger::with_unread(record, &unread, world.now);
    let is_over = |job: &&&SeenJob| ledger::is_over(&record, job, (retention, world.now));
    let over: Vec<Removal> = unread.iter().filter(is_over).map(|job| removal(job)).collect();
    let plan = match record.sweep.clone() {
        None => idle(world, retention, record),
        Some(sweep) => match job(world, sweep.number) {
            None => begin(world, (references, retention), (record, sweep)),
            Some(job) => follow(world, job, (record, sweep)),
        },
    };
    let removals = plan.removals.into_iter().chain(over).collect();
    let wait = ledger::next_expiry(&plan.status, retention).map(|at| at.duration_since(world.now));
    let wait = wait.and_then(|wait| Duration::try_from(wait).ok()).filter(|wait| !wait.is_zero());
    Plan { removals, requeue: plan.requeue.min(wait.unwrap_or(LOOK)), ..plan }
}

/// Nothing is to be done; the store is looked at again after a while.
fn keeping(record: StoreRecord) -> Plan<StoreRecord> {
    Plan { requeue: LOOK, ..Plan::keeping(record) }
}

/// The Job of a sweep.
fn job(world: &StoreWorld, number: i32) -> Option<&SeenJob> {
    let name = build::sweep_name(number);
    sweeps(world).find(|job| job.view.name == name)
}

fn sweeps(world: &StoreWorld) -> impl Iterator<Item = &SeenJob> {
    world.jobs.iter().filter(|job| job.component == Component::Sweep.as_str())
}

fn is_ended(job: &SeenJob) -> bool {
    matches!(job.view.phase, JobPhase::Succeeded { .. } | JobPhase::Failed { .. })
}

/// No sweep is in progress: the objects of the last one go, and the next one begins once it has work.
fn idle(world: &StoreWorld, retention: &Retention, mut record: StoreRecord) -> Plan<StoreRecord> {
    if sweeps(world).any(|job| !is_ended(job)) {
        // One that a lost record knew: its result says nothing of this record.
        return Plan { requeue: UNWATCHED, ..keeping(record) };
    }
    // The last failed one stays, for people to look at.
    let last = build::sweep_name(record.sweeps);
    let has_failed = |job: &SeenJob| matches!(job.view.phase, JobPhase::Failed { .. });
    let jobs = sweeps(world).filter(|job| !(has_failed(job) && job.view.name == last)).map(removal);
    let tasks = world.tasks.iter().map(|task| Removal {
        kind: RemovalKind::ConfigMap,
        name: task.name.clone(),
        uid: task.uid.clone(),
        resource_version: task.resource_version.clone(),
    });
    let removals = jobs.chain(tasks).collect();
    let expired = ledger::expired(&record, retention, world.now);
    if expired.is_empty() || !is_rested(world, &record) {
        return Plan { removals, ..keeping(record) };
    }
    record.items.iter_mut().for_each(|(folder, item)| item.is_swept = expired.contains(folder));
    let number = record.sweeps.saturating_add(1);
    let sweep = Some(Sweep { number, at: Time(world.now), waits_for: None });
    let record = StoreRecord { sweeps: number, sweep, ..record };
    Plan { removals, requeue: AT_ONCE, ..keeping(record) }
}

fn is_rested(world: &StoreWorld, record: &StoreRecord) -> bool {
    record.last.as_ref().is_none_or(|last| {
        let rest = if last.failure.is_some() { REST_AFTER_FAILURE } else { REST };
        world.now.duration_since(last.at.0) >= rest
    })
}

/// The sweep is recorded and its Job is not there. What is needed again stays; nothing else is added.
fn begin(
    world: &StoreWorld,
    (references, retention): (&References, &Retention),
    (mut record, sweep): (StoreRecord, Sweep),
) -> Plan<StoreRecord> {
    let expired = ledger::expired(&record, retention, world.now);
    record.items.iter_mut().for_each(|(folder, item)| item.is_swept &= expired.contains(folder));
    if !record.items.values().any(|item| item.is_swept) {
        return keeping(StoreRecord { sweep: None, ..record });
    }
    let task = build::task(world, (references, retention), &record, sweep.at.0);
    if task.keep.len().saturating_add(task.remove.len()) > MAX_LISTED {
        let words = format!("its lists would have more than {MAX_LISTED} folders: delete AgentDeployments or Engines");
        let sweep = Some(Sweep { waits_for: Some(words), ..sweep });
        return keeping(StoreRecord { sweep, ..record });
    }
    let (task, job) = build::sweep(world, &build::sweep_name(sweep.number), task);
    let children = vec![Child::ConfigMap(Box::new(task)), Child::Job(Box::new(job))];
    Plan { children, requeue: UNWATCHED, ..keeping(record) }
}

/// The Job of the sweep is there.
fn follow(world: &StoreWorld, job: &SeenJob, (record, sweep): (StoreRecord, Sweep)) -> Plan<StoreRecord> {
    let waiting = |words: Option<&str>| {
        let waits_for = words.map(|words| words.chars().take(MAX_WORDS).collect());
        let record = StoreRecord { sweep: Some(Sweep { waits_for, ..sweep.clone() }), ..record.clone() };
        Plan { requeue: UNWATCHED, ..keeping(record) }
    };
    match &job.view.phase {
        JobPhase::Unscheduled { scheduler, .. } => waiting(Some(scheduler)),
        JobPhase::ImageUnavailable(words) | JobPhase::SecretUnavailable(words) | JobPhase::PodsRefused(words) => {
            waiting(Some(words))
        }
        JobPhase::Running { .. } => waiting(None),
        JobPhase::Succeeded { outcome, .. } => match outcome.as_ref() {
            Outcome::Sweep(result) => swept(world, (record, sweep.number), result),
            Outcome::Resolve(_)
            | Outcome::Fetch(_)
            | Outcome::Build(_)
            | Outcome::Quality(_)
            | Outcome::Materialize(_)
            | Outcome::Profile(_) => {
                let worker = &world.settings.images.worker;
                let words = format!("it reported the result of another task: check that {worker} is of this release");
                failed(world, (record, sweep.number), &words)
            }
        },
        JobPhase::Failed { failure, .. } => failed(world, (record, sweep.number), failure),
    }
}

/// What was swept is forgotten, unless something needs it again.
fn swept(world: &StoreWorld, (mut record, number): (StoreRecord, i32), result: &SweepResult) -> Plan<StoreRecord> {
    record.items.retain(|_, item| !item.is_swept || !item.held_by.is_empty());
    record.items.values_mut().for_each(|item| item.is_swept = false);
    let figures = figures(result);
    let line = format!(
        "{} folders with {} removed, {} with {} stay; {} of {} are free",
        figures.removed,
        gigabytes(figures.removed_bytes),
        figures.kept.saturating_add(figures.young).saturating_add(figures.busy),
        gigabytes(figures.kept_bytes),
        gigabytes(figures.free_bytes),
        gigabytes(figures.capacity_bytes),
    );
    let last = Some(SweepEnd { number, at: Time(world.now), failure: None, figures: Some(figures) });
    let notes = vec![Note::normal(Reason::StoreSwept, line)];
    Plan { notes, requeue: AT_ONCE, ..keeping(StoreRecord { sweep: None, last, ..record }) }
}

fn failed(world: &StoreWorld, (mut record, number): (StoreRecord, i32), failure: &str) -> Plan<StoreRecord> {
    record.items.values_mut().for_each(|item| item.is_swept = false);
    let failure: String = failure.chars().take(MAX_WORDS).collect();
    let line = format!("Job {} failed: {failure}", build::sweep_name(number));
    let last = Some(SweepEnd { number, at: Time(world.now), failure: Some(failure), figures: None });
    let notes = vec![Note::warning(Reason::StoreSweepFailed, line)];
    Plan { notes, ..keeping(StoreRecord { sweep: None, last, ..record }) }
}

fn figures(result: &SweepResult) -> SweepFigures {
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    SweepFigures {
        removed: i64::from(result.removed),
        removed_bytes: bytes(result.removed_bytes),
        kept: i64::from(result.kept),
        young: i64::from(result.young),
        busy: i64::from(result.busy),
        kept_bytes: bytes(result.kept_bytes),
        foreign: i64::from(result.foreign),
        free_bytes: bytes(result.free_bytes),
        capacity_bytes: bytes(result.capacity_bytes),
    }
}

fn gigabytes(bytes: i64) -> String {
    format!("{:.2} GB", bytes as f64 / 1e9)
}

/// Jobs that have ended and that no status names. What shows them, such as a log, is of no use after a while.
fn unread_jobs<'a>(world: &'a StoreWorld, references: &References) -> Vec<&'a SeenJob> {
    let may_go = |job: &&SeenJob| {
        MAY_GO.iter().any(|component| component.as_str() == job.component)
            && is_ended(job)
            && !references.jobs.contains(&job.view.name)
    };
    world.jobs.iter().filter(may_go).collect()
}

fn removal(job: &SeenJob) -> Removal {
    Removal {
        kind: RemovalKind::Job,
        name: job.view.name.clone(),
        uid: job.uid.clone(),
        resource_version: job.resource_version.clone(),
    }
}
