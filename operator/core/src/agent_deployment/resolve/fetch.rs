//! Step 2: the checkpoint in the artifact store. Pure.

use jiff::Timestamp;
use slipway_crds::{
    conditions::Reason,
    identity::{ContentHash, IdentityError},
    v1alpha1::{
        agent_deployment::{Checkpoint, ResolvedModel},
        engine::BuildAttempt,
    },
};
use slipway_worker_contract::{Digest, FailureClass, FetchResult, Outcome};

use super::{
    Resolved, build,
    fetch_source::{Source, Wanted},
    foreign_result,
};
use crate::{
    agent_deployment::{
        job_step::JobStep,
        parts::{Found, Halt, Parts, Planned, Planning},
        world::World,
    },
    engine::lost,
    jobs::{attempts::AttemptStep, kind::JobKind},
    plan::{Child, Note},
    why::Why,
};

/// AgentDeployments of one namespace with the same model share what a Job fetched, from whatever place.
pub(in crate::agent_deployment) fn decide(
    world: &World,
    checkpoint: Checkpoint<'_>,
    resolved: &Resolved,
) -> Planning<()> {
    bring(world, checkpoint, &resolved.model)
}

/// Fetches the checkpoint of the serving revision again if the store lost it. Serving does not wait for it.
pub(in crate::agent_deployment) fn restore(world: &World) -> Planned<Result<(), IdentityError>> {
    let Some(checkpoint) = world.spec.checkpoint() else { return Parts::default().with(Ok(())) };
    let model = world.status.model.as_ref().filter(|model| model.uri == checkpoint.uri);
    let Some(model) = model else { return Parts::default().with(Ok(())) };
    if lost_at(world).is_some() {
        let Planned { value, parts } = bring(world, checkpoint, model);
        return parts.with(match value {
            Ok(()) | Err(Halt::Blocked(_)) => Ok(()),
            Err(Halt::NoIdentity(error)) => Err(error),
        });
    }
    // The build that missed it has gone on before this was recorded.
    let is_back = !model.fetched && lost::fetched_at(&world.jobs, &model.source_digest).is_some();
    let parts = if is_back { in_store(model, true) } else { Parts::default() };
    parts.with(Ok(()))
}

/// When a build last found that the store lacks its checkpoint, among engines under consideration and the selected one.
fn lost_at(world: &World) -> Option<Timestamp> {
    let selected = world.status.selected.iter().filter_map(|selected| selected.engine());
    let names = world.status.engines.iter().map(|engine| &engine.name).chain(selected);
    let at = |name: &String| {
        let latest = world.engines.get(name)?.attempts.last()?;
        let job = world.jobs.get(&latest.job).filter(|_| is_missing(latest))?;
        job.ended_at
    };
    names.filter_map(at).max()
}

fn is_missing(attempt: &BuildAttempt) -> bool {
    attempt.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::MissingArtifact)
}

fn bring(world: &World, checkpoint: Checkpoint<'_>, model: &ResolvedModel) -> Planning<()> {
    Planned::of(|parts| {
        let lost_at = lost_at(world);
        if model.fetched && (lost_at.is_none() || lost::fetched_at(&world.jobs, &model.source_digest) > lost_at) {
            return Ok(());
        }
        if model.fetched {
            parts.add(forgotten(model));
        }
        let Ok(source_digest) = model.source_digest.parse::<Digest>() else {
            let problem = format!("status.model.sourceDigest {:?} is not a digest", model.source_digest);
            return Err(Halt::stopped(Why::SpecRefused { field: "status.model", problem }));
        };
        let wanted = Wanted {
            content: &source_digest,
            uri: &model.pinned_uri,
            lost_at,
            secret: checkpoint.secret_ref.map(|secret| secret.name.as_str()),
            agent_deployment: &world.name,
        };
        let recorded = |input_hash: &str| JobStep { kind: JobKind::Fetch, input_hash, is_single: true }.recorded(world);
        match wanted.source(&world.jobs, recorded)? {
            Source::Fetched { result, milliseconds } => {
                parts.add(fetched(model, result, milliseconds));
                Ok(())
            }
            Source::Elsewhere(why) => Err(Halt::waiting(why)),
            Source::Own(input_hash) => parts.join(by_own_job(world, (checkpoint, model), &wanted, &input_hash)),
        }
    })
}

/// The Job under the hash of an input fetches the content.
fn by_own_job(
    world: &World,
    (checkpoint, model): (Checkpoint<'_>, &ResolvedModel),
    wanted: &Wanted<'_>,
    input_hash: &ContentHash,
) -> Planning<()> {
    Planned::of(|parts| {
        let step = JobStep { kind: JobKind::Fetch, input_hash: input_hash.short(), is_single: true };
        let number = step.recorded(world);
        if world.jobs.get(&step.job_name(number)).is_some_and(|job| wanted.is_void(job)) {
            parts.add(step.record(number + 1));
            return Err(Halt::waiting(Why::JobStarting { job: step.job(number + 1) }));
        }
        match parts.join(step.next(world)) {
            AttemptStep::Record(attempt) => Err(Halt::waiting(Why::JobStarting { job: step.job(attempt) })),
            AttemptStep::Create(attempt) => {
                let name = step.job_name(attempt);
                let place = wanted.place()?;
                let from = (checkpoint, model.pinned_uri.as_str(), place.short());
                let (task, job) = build::fetch_job::fetch_job(world, &name, from, wanted.content.clone());
                parts.add(Parts::of_children([Child::ConfigMap(Box::new(task)), Child::Job(Box::new(job))]));
                Err(Halt::waiting(Why::JobStarting { job: step.job(attempt) }))
            }
            AttemptStep::Wait(why) => Err(Halt::waiting(step.explain(world, why))),
            AttemptStep::GivenUp(why) => Err(Halt::stopped(why)),
            AttemptStep::Succeeded { outcome, milliseconds } => match *outcome {
                Outcome::Fetch(result) => {
                    parts.add(fetched(model, &result, milliseconds));
                    Ok(())
                }
                Outcome::Resolve(_)
                | Outcome::Build(_)
                | Outcome::Quality(_)
                | Outcome::Materialize(_)
                | Outcome::Sweep(_)
                | Outcome::Profile(_) => Err(Halt::stopped(foreign_result(&step, world))),
            },
        }
    })
}

/// Records whether the checkpoint is in the store.
fn in_store(model: &ResolvedModel, fetched: bool) -> Parts {
    Parts::of_found(Found { model: Some(ResolvedModel { fetched, ..model.clone() }), ..Found::default() })
}

/// Records that the checkpoint is no longer in the store, and reports it.
fn forgotten(model: &ResolvedModel) -> Parts {
    let short: String = model.source_digest.chars().take(12).collect();
    let line = format!("the store has lost checkpoint {short}: it is fetched again");
    Parts::of_notes([Note::warning(Reason::ArtifactLost, line)]).and(in_store(model, false))
}

/// Records that the checkpoint is in the store, and reports it.
fn fetched(model: &ResolvedModel, result: &FetchResult, milliseconds: i64) -> Parts {
    let megabytes = result.bytes as f64 / 1e6;
    let moved = result.transferred_bytes as f64 / 1e6;
    let seconds = milliseconds as f64 / 1e3;
    let line = format!(
        "{} files, {megabytes:.1} MB in the store, {moved:.1} MB of them moved in {seconds:.1} s",
        result.files
    );
    Parts::of_notes([Note::normal(Reason::ModelFetched, line)]).and(in_store(model, true))
}
