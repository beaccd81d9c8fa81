//! Step 2: the checkpoint in the artifact store. Pure.

use jiff::Timestamp;
use slipway_crds::{
    conditions::Reason,
    identity::IdentityError,
    v1alpha1::{agent_deployment::ResolvedModel, engine::BuildAttempt},
};
use slipway_worker_contract::{Digest, FailureClass, FetchResult, Outcome};

use super::{
    Resolved, build,
    fetch_source::{Source, Wanted},
    foreign_result,
};
use crate::{
    agent_deployment::{draft::Draft, job_step::JobStep, world::World},
    engine::lost,
    jobs::{attempts::AttemptStep, kind::JobKind},
    plan::{Child, Note},
    why::{Step, Why},
};

/// AgentDeployments of one namespace with the same model share what a Job has brought, wherever it took it from.
pub(in crate::agent_deployment) fn decide(
    world: &World,
    resolved: &Resolved,
    draft: &mut Draft,
) -> Result<Step<()>, IdentityError> {
    bring(world, &resolved.model, draft)
}

/// Brings the checkpoint of what serves again where the store lost it, though nothing else is to be done.
pub(in crate::agent_deployment) fn restore(world: &World, draft: &mut Draft) -> Result<(), IdentityError> {
    let model = world.status.model.as_ref().filter(|model| model.uri == world.spec.model.uri);
    let Some(model) = model else { return Ok(()) };
    if lost_at(world).is_some() {
        return bring(world, model, draft).map(drop);
    }
    // The build that missed it has gone on before this was recorded.
    if let Some(model) = draft.status.model.as_mut().filter(|_| !model.fetched) {
        model.fetched = lost::fetched_at(&world.jobs, &model.source_digest).is_some();
    }
    Ok(())
}

/// When a build last found that the store lacks its checkpoint, among engines under consideration and the selected one.
fn lost_at(world: &World) -> Option<Timestamp> {
    let selected = world.status.selected.iter().map(|selected| &selected.engine);
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

fn bring(world: &World, model: &ResolvedModel, draft: &mut Draft) -> Result<Step<()>, IdentityError> {
    let lost_at = lost_at(world);
    if model.fetched && (lost_at.is_none() || lost::fetched_at(&world.jobs, &model.source_digest) > lost_at) {
        return Ok(Step::Done(()));
    }
    if model.fetched {
        forget(model, draft);
    }
    let Ok(source_digest) = model.source_digest.parse::<Digest>() else {
        let problem = format!("status.model.sourceDigest {:?} is no digest", model.source_digest);
        return Ok(Step::Stopped(Why::SpecRefused { field: "status.model", problem }));
    };
    let wanted = Wanted {
        content: &source_digest,
        uri: &model.pinned_uri,
        lost_at,
        secret: world.spec.model.secret_ref.as_ref().map(|secret| secret.name.as_str()),
        agent_deployment: &world.name,
    };
    let recorded = |input_hash: &str| JobStep { kind: JobKind::Fetch, input_hash, is_single: true }.recorded(world);
    let input_hash = match wanted.source(&world.jobs, recorded)? {
        Source::Fetched { result, milliseconds } => return Ok(fetched(result, milliseconds, draft)),
        Source::Elsewhere(why) => return Ok(Step::Waiting(why)),
        Source::Own(input_hash) => input_hash,
    };
    let step = JobStep { kind: JobKind::Fetch, input_hash: input_hash.short(), is_single: true };
    let number = step.recorded(world);
    if world.jobs.get(&step.job_name(number)).is_some_and(|job| wanted.is_void(job)) {
        step.record(number + 1, draft);
        return Ok(Step::Waiting(Why::JobStarting { job: step.job(number + 1) }));
    }
    Ok(match step.next(world, draft) {
        AttemptStep::Record(attempt) => Step::Waiting(Why::JobStarting { job: step.job(attempt) }),
        AttemptStep::Create(attempt) => {
            let name = step.job_name(attempt);
            let place = wanted.place()?;
            let (task, job) =
                build::fetch_job::fetch_job(world, &name, (&model.pinned_uri, place.short()), source_digest);
            draft.children.push(Child::ConfigMap(Box::new(task)));
            draft.children.push(Child::Job(Box::new(job)));
            Step::Waiting(Why::JobStarting { job: step.job(attempt) })
        }
        AttemptStep::Wait(why) => Step::Waiting(step.explain(world, why)),
        AttemptStep::GivenUp(why) => Step::Stopped(why),
        AttemptStep::Succeeded { outcome, milliseconds } => match *outcome {
            Outcome::Fetch(result) => fetched(&result, milliseconds, draft),
            Outcome::Resolve(_)
            | Outcome::Build(_)
            | Outcome::Quality(_)
            | Outcome::Materialize(_)
            | Outcome::Profile(_) => Step::Stopped(foreign_result(&step, world)),
        },
    })
}

/// Records that the checkpoint is no longer in the store, and tells of it.
fn forget(model: &ResolvedModel, draft: &mut Draft) {
    let short: String = model.source_digest.chars().take(12).collect();
    let line = format!("the store has lost checkpoint {short}: it is fetched again");
    draft.notes.push(Note::warning(Reason::ArtifactLost, line));
    if let Some(model) = &mut draft.status.model {
        model.fetched = false;
    }
}

/// Records that the checkpoint is in the store, and tells of it.
fn fetched(result: &FetchResult, milliseconds: i64, draft: &mut Draft) -> Step<()> {
    let megabytes = result.bytes as f64 / 1e6;
    let moved = result.transferred_bytes as f64 / 1e6;
    let seconds = milliseconds as f64 / 1e3;
    draft.notes.push(Note::normal(
        Reason::ModelFetched,
        format!(
            "{} files, {megabytes:.1} MB in the store, {moved:.1} MB of them moved in {seconds:.1} s",
            result.files
        ),
    ));
    if let Some(model) = &mut draft.status.model {
        model.fetched = true;
    }
    Step::Done(())
}
