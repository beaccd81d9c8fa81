//! Step 2: the checkpoint in the artifact store. Pure.

use slipway_crds::{
    conditions::Reason,
    identity::{IdentityError, content_hash},
};
use slipway_worker_contract::{Digest, Outcome};

use super::{Resolved, build, foreign_result};
use crate::{
    agent_deployment::{draft::Draft, job_step::JobStep, world::World},
    jobs::{attempts::AttemptStep, kind::JobKind},
    plan::{Child, Note},
    why::{Blocked, Step, Why},
};

/// AgentDeployments of one namespace with the same model share the Job: its name is the digest of the source.
pub(in crate::agent_deployment) fn decide(
    world: &World,
    resolved: &Resolved,
    draft: &mut Draft,
) -> Result<Step<()>, IdentityError> {
    if resolved.model.fetched {
        return Ok(Ok(()));
    }
    let Ok(source_digest) = resolved.model.source_digest.parse::<Digest>() else {
        let problem = format!("status.model.sourceDigest {:?} is no digest", resolved.model.source_digest);
        return Ok(Err(Blocked::Stopped(Why::SpecRefused { field: "status.model", problem })));
    };
    let input_hash = content_hash(&source_digest)?;
    let step = JobStep { kind: JobKind::Fetch, input_hash: input_hash.short(), is_single: true };
    Ok(match step.next(world, draft) {
        AttemptStep::Record(attempt) => Err(Blocked::Waiting(Why::JobStarting { job: step.job(attempt) })),
        AttemptStep::Create(attempt) => {
            let name = step.job_name(attempt);
            let (task, job) = build::fetch_job::fetch_job(world, &name, &resolved.model.pinned_uri, source_digest);
            draft.children.push(Child::ConfigMap(Box::new(task)));
            draft.children.push(Child::Job(Box::new(job)));
            Err(Blocked::Waiting(Why::JobStarting { job: step.job(attempt) }))
        }
        AttemptStep::Wait(why) => Err(Blocked::Waiting(step.explain(world, why))),
        AttemptStep::GivenUp(why) => Err(Blocked::Stopped(why)),
        AttemptStep::Succeeded { outcome, milliseconds } => match *outcome {
            Outcome::Fetch(result) => {
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
                Ok(())
            }
            Outcome::Resolve(_)
            | Outcome::Build(_)
            | Outcome::Quality(_)
            | Outcome::Materialize(_)
            | Outcome::Profile(_) => Err(Blocked::Stopped(foreign_result(&step, world))),
        },
    })
}
