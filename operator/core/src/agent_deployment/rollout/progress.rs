//! How far the pods of a revision have come. Pure.

use crate::{
    agent_deployment::world::{RefusedPod, ServingView},
    why::{Blocked, RefusedGpus, Step, Why},
};

/// Done once all pods that are wanted have been ready for the Deployment's `minReadySeconds`. Before that a share of
/// the traffic could meet no pod: a busy kubelet takes readiness back, and a gateway learns of pods after the operator.
pub(super) fn settled(revision: &str, view: Option<&ServingView>, wanted: i32) -> Step<()> {
    progress(revision, view, wanted)?;
    let ready = view.map_or(0, |view| view.ready - view.settling);
    if ready >= wanted {
        return Ok(());
    }
    Err(Blocked::Waiting(Why::RevisionStarting { revision: revision.to_owned(), ready, wanted }))
}

/// Done once all pods that are wanted are ready.
pub(super) fn progress(revision: &str, view: Option<&ServingView>, wanted: i32) -> Step<()> {
    let revision = revision.to_owned();
    let Some(view) = view else { return Err(Blocked::Waiting(Why::RevisionStarting { revision, ready: 0, wanted })) };
    if view.is_observed && view.ready >= wanted && view.updated >= wanted {
        return Ok(());
    }
    if let Some(RefusedPod { pod, node, problems }) = view.refused.clone() {
        let why = Why::PreflightFailed(RefusedGpus { revision, pod, node, problems });
        return Err(if view.is_past_deadline { Blocked::Stopped(why) } else { Blocked::Waiting(why) });
    }
    Err(match &view.failure {
        Some(failure) if view.is_past_deadline => {
            Blocked::Stopped(Why::RevisionFailing { revision, failure: failure.clone() })
        }
        Some(failure) => Blocked::Waiting(Why::RevisionFailing { revision, failure: failure.clone() }),
        None if view.is_past_deadline => {
            let failure = format!("only {} of {wanted} pods are ready after the deadline", view.ready);
            Blocked::Stopped(Why::RevisionFailing { revision, failure })
        }
        None => Blocked::Waiting(Why::RevisionStarting { revision, ready: view.ready, wanted }),
    })
}
