//! Step 2: the checkpoint in the artifact store. Pure.

use slipway_crds::{conditions::Reason, identity::content_hash, v1alpha1::agent_deployment::ResolvedModel};
use slipway_worker_contract::{Digest, FetchResult, Outcome};

use super::{Resolved, build, foreign_result};
use crate::{
    agent_deployment::{
        job_step::JobStep,
        parts::{Found, Halt, Parts, Planned, Planning},
        world::World,
    },
    jobs::{attempts::AttemptStep, kind::JobKind},
    plan::{Child, Note},
    why::Why,
};

/// AgentDeployments of one namespace with the same model share the Job: its name is the digest of the source.
pub(in crate::agent_deployment) fn decide(world: &World, resolved: &Resolved) -> Planning<()> {
    Planned::of(|parts| {
        if resolved.model.fetched {
            return Ok(());
        }
        let Ok(source_digest) = resolved.model.source_digest.parse::<Digest>() else {
            let problem = format!("status.model.sourceDigest {:?} is not a digest", resolved.model.source_digest);
            return Err(Halt::stopped(Why::SpecRefused { field: "status.model", problem }));
        };
        let input_hash = content_hash(&source_digest)?;
        let step = JobStep { kind: JobKind::Fetch, input_hash: input_hash.short(), is_single: true };
        match parts.join(step.next(world)) {
            AttemptStep::Record(attempt) => Err(Halt::waiting(Why::JobStarting { job: step.job(attempt) })),
            AttemptStep::Create(attempt) => {
                let name = step.job_name(attempt);
                let (task, job) = build::fetch_job::fetch_job(world, &name, &resolved.model.pinned_uri, source_digest);
                parts.add(Parts::of_children([Child::ConfigMap(Box::new(task)), Child::Job(Box::new(job))]));
                Err(Halt::waiting(Why::JobStarting { job: step.job(attempt) }))
            }
            AttemptStep::Wait(why) => Err(Halt::waiting(step.explain(world, why))),
            AttemptStep::GivenUp(why) => Err(Halt::stopped(why)),
            AttemptStep::Succeeded { outcome, milliseconds } => match *outcome {
                Outcome::Fetch(result) => {
                    parts.add(fetched(&resolved.model, &result, milliseconds));
                    Ok(())
                }
                Outcome::Resolve(_)
                | Outcome::Build(_)
                | Outcome::Quality(_)
                | Outcome::Materialize(_)
                | Outcome::Profile(_) => Err(Halt::stopped(foreign_result(&step, world))),
            },
        }
    })
}

fn fetched(model: &ResolvedModel, result: &FetchResult, milliseconds: i64) -> Parts {
    let megabytes = result.bytes as f64 / 1e6;
    let moved = result.transferred_bytes as f64 / 1e6;
    let seconds = milliseconds as f64 / 1e3;
    let line = format!(
        "{} files, {megabytes:.1} MB in the store, {moved:.1} MB of them moved in {seconds:.1} s",
        result.files
    );
    let model = ResolvedModel { fetched: true, ..model.clone() };
    let found = Found { model: Some(model), ..Found::default() };
    Parts::of_notes([Note::normal(Reason::ModelFetched, line)]).and(Parts::of_found(found))
}
