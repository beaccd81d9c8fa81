//! Step 4: the revision of the plan takes over once its pods are ready. Pure.
//!
//! Stable keeps its full capacity until then; promotion retargets the Service and restarts nothing.

use slipway_crds::{conditions::Reason, v1alpha1::agent_deployment::RolloutStatus};

use super::{Draft, Target, World, build};
use crate::{
    agent_deployment::{revision::Revision, status::Outcome, world::ServingView},
    plan::{Child, Note, Removal, RemovalKind},
    why::{Step, Why},
};

pub(super) fn decide(world: &World, target: Step<Target>, draft: &mut Draft) -> Outcome {
    let stable = world.stable();
    let (target, why) = match target {
        Step::Done(target) => (Some(target), None),
        Step::Waiting(why) => (None, Some(Step::Waiting(why))),
        Step::Stopped(why) => (None, Some(Step::Stopped(why))),
    };
    let Some(target) = target else {
        draft.status.rollout = stable.map(|stable| RolloutStatus { stable: Some(stable.to_owned()), canary: None });
        keep(world, stable, draft);
        remove_others(world, stable.into_iter().collect(), draft);
        return Outcome { serving: stable.map(str::to_owned), next: why };
    };
    record_revision(world, &target, draft);
    let next = bring_up(world, stable, &target, draft);
    let stable_hash = draft.status.rollout.as_ref().and_then(|rollout| rollout.stable.clone());
    Outcome { serving: stable_hash, next }
}

/// Brings the target up and lets it take over; says what is still to be done.
fn bring_up(world: &World, stable: Option<&str>, target: &Target, draft: &mut Draft) -> Option<Step<()>> {
    let is_stable = stable == Some(target.hash.as_str());
    let view = world.serving.get(&target.hash);
    let progress = progress(world, target, view);
    let is_ready = matches!(progress, Step::Done(()));
    if is_stable || is_ready {
        promote(world, stable, target, draft);
        return (!is_ready).then_some(progress);
    }
    if draft.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref()) != Some(&target.hash) {
        let line = format!(
            "plan {}: {} pods of {}",
            target.hash, world.spec.serving.replicas, target.plan.engine.display_name
        );
        draft.notes.push(Note::normal(Reason::RevisionStarting, line));
    }
    draft.status.rollout = Some(RolloutStatus { stable: stable.map(str::to_owned), canary: Some(target.hash.clone()) });
    keep(world, stable, draft);
    draft.children.extend(build::serving::revision_children(world, &target.hash, &target.plan));
    let kept = stable.into_iter().chain([target.hash.as_str()]).collect();
    remove_others(world, kept, draft);
    Some(progress)
}

fn promote(world: &World, stable: Option<&str>, target: &Target, draft: &mut Draft) {
    if stable != Some(target.hash.as_str()) {
        let from = stable.map(|stable| format!(" from {stable}")).unwrap_or_default();
        let line = format!("plan {} serves{from}: {} ready", target.hash, world.spec.serving.replicas);
        draft.notes.push(Note::normal(Reason::RevisionPromoted, line));
    }
    draft.status.rollout = Some(RolloutStatus { stable: Some(target.hash.clone()), canary: None });
    draft.children.extend(build::serving::revision_children(world, &target.hash, &target.plan));
    draft.children.push(Child::Service(Box::new(build::serving::stable_service(world, Some(&target.hash)))));
    remove_others(world, vec![&target.hash], draft);
    forget_old_revisions(world, &target.hash, draft);
}

/// What stable needs to go on as it is. Without a stable revision the Service exists and reaches nobody; without its record,
/// stable is left as it is.
fn keep(world: &World, stable: Option<&str>, draft: &mut Draft) {
    if let Some(revision) = stable.and_then(|stable| world.revision(stable)) {
        draft.children.extend(build::serving::revision_children(world, &revision.hash, &revision.plan));
    }
    draft.children.push(Child::Service(Box::new(build::serving::stable_service(world, stable))));
}

fn progress(world: &World, target: &Target, view: Option<&ServingView>) -> Step<()> {
    let revision = target.hash.clone();
    let wanted = world.spec.serving.replicas;
    let Some(view) = view else { return Step::Waiting(Why::RevisionStarting { revision, ready: 0, wanted }) };
    if view.is_observed && view.ready >= wanted && view.updated >= wanted {
        return Step::Done(());
    }
    match &view.failure {
        Some(failure) if view.is_past_deadline => {
            Step::Stopped(Why::RevisionFailing { revision, failure: failure.clone() })
        }
        Some(failure) => Step::Waiting(Why::RevisionFailing { revision, failure: failure.clone() }),
        None if view.is_past_deadline => {
            let failure = format!("{} of {wanted} pods are ready past the deadline", view.ready);
            Step::Stopped(Why::RevisionFailing { revision, failure })
        }
        None => Step::Waiting(Why::RevisionStarting { revision, ready: view.ready, wanted }),
    }
}

/// The record of the plan, with the inputs that lead to it.
fn record_revision(world: &World, target: &Target, draft: &mut Draft) {
    let known = world.revision(&target.hash);
    if known.is_some_and(|known| known.input_hash == target.input_hash) {
        return;
    }
    let number =
        known.map_or_else(|| world.revisions.iter().map(|r| r.number).max().unwrap_or(0) + 1, |known| known.number);
    let record = build::revision::controller_revision(world, &target.hash, &target.input_hash, (number, &target.plan));
    draft.children.push(Child::ControllerRevision(Box::new(record)));
}

fn remove_others(world: &World, kept: Vec<&str>, draft: &mut Draft) {
    let others = world.objects.iter().filter(|(revision, _)| !kept.contains(&revision.as_str()));
    draft.removals.extend(others.flat_map(|(_, objects)| objects).map(|object| Removal {
        kind: object.kind,
        name: object.name.clone(),
        uid: object.uid.clone(),
        resource_version: object.resource_version.clone(),
    }));
}

fn forget_old_revisions(world: &World, stable: &str, draft: &mut Draft) {
    let mut superseded: Vec<&Revision> = world.revisions.iter().filter(|revision| revision.hash != stable).collect();
    superseded.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    let limit = usize::try_from(world.spec.rollout.revision_history_limit).unwrap_or(0);
    draft.removals.extend(superseded.into_iter().skip(limit).map(|revision| Removal {
        kind: RemovalKind::ControllerRevision,
        name: revision.name.clone(),
        uid: revision.uid.clone(),
        resource_version: revision.resource_version.clone(),
    }));
}
