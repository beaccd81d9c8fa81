//! What one of several Jobs that measure at once gets of the campaign's budget. Pure.
//!
//! A Job carries what its engine may spend in all. So the next one sees what is promised to those that run, and all of
//! them together spend no more than the budget.

use slipway_crds::v1alpha1::{ProfileStatus, profile::ProfiledEngine};

use super::budget::{Budget, used};
use crate::{
    jobs::{
        attempts::job_name,
        view::{Grant, JobPhase, JobView},
    },
    profile::{
        scope::{JOB_PREFIX, JobScope},
        world::ProfileWorld,
    },
};

/// What the Jobs of all engines but one leave of the budget.
pub fn left_beside(world: &ProfileWorld, status: &ProfileStatus, own: Option<&ProfiledEngine>) -> Budget {
    let left = Budget::left(&world.spec.inputs, status);
    let others = open(world, status).filter(|(engine, _)| Some(engine.name.as_str()) != own.map(|own| &*own.name));
    others.fold(left, |left, (engine, job)| {
        let spent = used(status, |name| name == engine.name);
        // A Job without a grant was alone: it may spend all.
        let promised = job.grant.unwrap_or(Grant { measurements: u32::MAX, gpu_millis: u64::MAX });
        left.without(Grant {
            measurements: promised.measurements.saturating_sub(spent.measurements),
            gpu_millis: promised.gpu_millis.saturating_sub(spent.gpu_millis),
        })
    })
}

/// What a Job of an engine gets: an equal share of what is left, for each Job that may still join.
pub fn share(world: &ProfileWorld, status: &ProfileStatus, engine: &ProfiledEngine) -> Budget {
    let running = open(world, status).filter(|(other, _)| other.name != engine.name).count();
    let waiting = open_engines(world, status).count().saturating_sub(running);
    let may_join = world.agent.most_at_once().saturating_sub(running).min(waiting);
    left_beside(world, status, Some(engine)).shared_by(may_join)
}

/// What an engine may spend in all, where its Job gets so much.
pub fn grant(status: &ProfileStatus, engine: &ProfiledEngine, budget: &Budget) -> Grant {
    let spent = used(status, |name| name == engine.name);
    Grant {
        measurements: spent.measurements.saturating_add(budget.measurements),
        gpu_millis: spent.gpu_millis.saturating_add(budget.gpu_millis),
    }
}

/// Whether an engine has a Job that has not failed.
pub fn has_job(world: &ProfileWorld, status: &ProfileStatus, engine: &ProfiledEngine) -> bool {
    open(world, status).any(|(other, _)| other.name == engine.name)
}

/// Engines whose measurements have not ended.
fn open_engines<'a>(world: &'a ProfileWorld, status: &'a ProfileStatus) -> impl Iterator<Item = &'a ProfiledEngine> {
    let has_ended = move |engine: &&ProfiledEngine| status.engines.iter().any(|ended| ended.engine == engine.name);
    world.spec.inputs.engines.iter().filter(move |engine| !has_ended(engine))
}

/// The same with their Jobs, where they have one that may still spend something. After a failure the next attempt gets
/// a share of its own.
fn open<'a>(
    world: &'a ProfileWorld,
    status: &'a ProfileStatus,
) -> impl Iterator<Item = (&'a ProfiledEngine, &'a JobView)> {
    open_engines(world, status).filter_map(move |engine| {
        let scope = JobScope::Explore { engine };
        let (kind, hash) = (scope.kind(), scope.hash(&world.name, &world.spec.input_hash, status));
        let attempt = status.jobs.iter().find(|job| job.kind == kind && job.input_hash == hash)?.attempt;
        let job = world.jobs.get(&job_name(&format!("{JOB_PREFIX}{hash}"), attempt))?;
        let has_failed = matches!(job.phase, JobPhase::Failed { .. });
        (!has_failed).then_some((engine, job))
    })
}
