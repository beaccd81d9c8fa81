//! The start of a revision, and its taking over. Pure.

use slipway_crds::{conditions::Reason, v1alpha1::agent_deployment::RolloutStatus};

use super::{
    build::{self, traffic::Split},
    keep::{remove_others, settled},
    revision::{Revision, Target},
};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::World,
    },
    plan::{Note, Removal, RemovalKind},
    why::counted_pods,
};

/// Reports a revision that was not starting before.
pub(super) fn started(world: &World, target: &Target, pods: i32) -> Parts {
    let known = world.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref());
    let line = || format!("plan {}: {} of {}", target.hash, counted_pods(pods), target.plan.served.display_name());
    let is_new = known != Some(&target.hash);
    Parts::of_notes(is_new.then(|| Note::normal(Reason::RevisionStarting, line()).of_plan(&target.hash)))
}

/// The target has all the traffic from now on. Returns what is left of the rollout.
pub(super) fn promote(
    world: &World,
    stable: Option<&str>,
    target: &Target,
    rollout: RolloutStatus,
) -> Planned<RolloutStatus> {
    Planned::of(|parts| {
        if stable != Some(target.hash.as_str()) {
            let from = stable.map(|stable| format!(" from {stable}")).unwrap_or_default();
            let line = format!("plan {} serves{from}: {} ready", target.hash, world.replicas());
            parts.add(Parts::of_notes([Note::normal(Reason::RevisionPromoted, line).of_plan(&target.hash)]));
        }
        let rollout = settled(&target.hash, rollout);
        let replicas = world.replicas();
        let pods = build::serving::revision_children(world, &target.hash, &target.plan, replicas);
        let split = Split { stable: Some(&target.hash), ..Split::default() };
        parts.add(Parts::of_children(pods).and(Parts::of_children(build::traffic::traffic(world, split))));
        let leaving = parts.join(remove_others(world, &[&target.hash], rollout.leaving));
        parts.add(forget_old_revisions(world, &target.hash));
        RolloutStatus { leaving, ..rollout }
    })
}

fn forget_old_revisions(world: &World, stable: &str) -> Parts {
    let mut superseded: Vec<&Revision> = world.revisions.iter().filter(|revision| revision.hash != stable).collect();
    superseded.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    let limit = usize::try_from(world.spec.rollout.revision_history_limit).unwrap_or(0);
    Parts::of_removals(superseded.into_iter().skip(limit).map(|revision| Removal {
        kind: RemovalKind::ControllerRevision,
        name: revision.name.clone(),
        uid: revision.uid.clone(),
        resource_version: revision.resource_version.clone(),
    }))
}
