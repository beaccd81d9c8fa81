//! Step 5: the revision of the plan takes over. Pure.
//!
//! Stable keeps its full capacity until then, unless the user lets it make room ([`capacity`]); promotion retargets Service and route
//! and restarts nothing. With BlueGreen the new revision takes over once its pods are ready; else it is given traffic step by step and
//! judged ([`canary`]), by the pods of stable or by fresh ones of the same plan ([`baseline`]).

pub mod approval;
mod baseline;
pub mod build;
mod canary;
mod capacity;
pub mod guardrails;
mod held;
mod judge;
pub(super) mod prediction;
mod readiness;
pub mod revision;
mod route_contest;
mod route_patience;
mod steps;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{Capacity, LeavingRevision, RolloutStatus, TrafficType},
};

use self::{build::traffic::Split, revision::Revision};
use super::{
    draft::{Draft, Target},
    world::World,
};
use crate::{
    agent_deployment::{
        status::Outcome,
        world::{OwnedObject, RouteView, ServingView},
    },
    plan::{Child, Note, Removal, RemovalKind, SOON},
    why::{Step, Why, counted_pods},
};

/// How long the pods of a revision stay once it has no traffic any more.
const KEEP_LEAVING: SignedDuration = SignedDuration::from_secs(30);

pub(super) fn decide(world: &World, target: Step<Target>, draft: &mut Draft) -> Outcome {
    let stable = world.stable();
    draft.status.rollout = world.status.rollout.clone().map(|rollout| without_expired(world, rollout, draft));
    let (target, why) = match target {
        Step::Done(target) => (Some(target), None),
        Step::Waiting(why) => (None, Some(Step::Waiting(why))),
        Step::Stopped(why) => (None, Some(Step::Stopped(why))),
    };
    if let Some(step) = stable.and_then(|stable| canary::bring_back_first(world, stable, target.as_ref(), draft)) {
        return Outcome { serving: stable.map(str::to_owned), next: Some(step), background: None };
    }
    let Some(target) = target else {
        settle(stable, draft);
        keep(world, stable, draft);
        remove_others(world, stable.into_iter().collect(), draft);
        return Outcome { serving: stable.map(str::to_owned), next: why, background: None };
    };
    record_revision(world, &target, draft);
    let next = bring_up(world, stable, &target, draft);
    let stable_hash = draft.status.rollout.as_ref().and_then(|rollout| rollout.stable.clone());
    let next = next.or_else(|| route_problem(world).map(Step::Waiting));
    route_patience::record(world, next.as_ref(), draft);
    remove_route(world, draft);
    remove_pools(world, draft);
    route_contest::record(world, draft);
    Outcome { serving: stable_hash, next, background: None }
}

/// Brings the target up and lets it take over; says what is still to be done.
fn bring_up(world: &World, stable: Option<&str>, target: &Target, draft: &mut Draft) -> Option<Step<()>> {
    let is_stable = stable == Some(target.hash.as_str());
    if let Some(stable) = stable.filter(|_| !is_stable) {
        if world.replicas() > 0 {
            return canary::advance(world, stable, target, draft);
        }
        if let Some(step) = canary::without_pods(world, stable, target, draft) {
            return Some(step);
        }
    }
    let view = world.serving.get(&target.hash);
    let progress = progress(&target.hash, view, world.replicas());
    let is_ready = matches!(progress, Step::Done(()));
    if is_stable || is_ready {
        promote(world, stable, target, draft);
        return (!is_ready).then_some(progress);
    }
    tell_of_start(world, target, world.replicas(), draft);
    let kept = draft.status.rollout.take().unwrap_or_default();
    draft.status.rollout = Some(RolloutStatus {
        stable: stable.map(str::to_owned),
        canary: Some(target.hash.clone()),
        leaving: kept.leaving,
        rejected: kept.rejected,
        ..RolloutStatus::default()
    });
    keep(world, stable, draft);
    draft.children.extend(build::serving::revision_children(world, &target.hash, &target.plan, world.replicas()));
    let kept = stable.into_iter().chain([target.hash.as_str()]).collect();
    remove_others(world, kept, draft);
    Some(progress)
}

fn tell_of_start(world: &World, target: &Target, pods: i32, draft: &mut Draft) {
    if world.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref()) != Some(&target.hash) {
        let line = format!("plan {}: {} of {}", target.hash, counted_pods(pods), target.plan.engine.display_name);
        draft.notes.push(Note::normal(Reason::RevisionStarting, line).of_plan(&target.hash));
    }
}

/// What is left of a rollout once nothing rolls out any more.
fn settle(stable: Option<&str>, draft: &mut Draft) {
    draft.status.rollout = draft.status.rollout.take().and_then(|rollout| {
        let RolloutStatus { leaving, rejected, .. } = rollout;
        let stable = stable.map(str::to_owned)?;
        Some(RolloutStatus { stable: Some(stable), leaving, rejected, ..RolloutStatus::default() })
    });
}

fn promote(world: &World, stable: Option<&str>, target: &Target, draft: &mut Draft) {
    if stable != Some(target.hash.as_str()) {
        let from = stable.map(|stable| format!(" from {stable}")).unwrap_or_default();
        let line = format!("plan {} serves{from}: {} ready", target.hash, world.replicas());
        draft.notes.push(Note::normal(Reason::RevisionPromoted, line).of_plan(&target.hash));
    }
    draft.status.rollout.get_or_insert_default();
    settle(Some(&target.hash), draft);
    let replicas = world.replicas();
    draft.children.extend(build::serving::revision_children(world, &target.hash, &target.plan, replicas));
    draft.children.extend(build::traffic::traffic(world, Split { stable: Some(&target.hash), ..Split::default() }));
    remove_others(world, vec![&target.hash], draft);
    forget_old_revisions(world, &target.hash, draft);
}

/// What stable needs to go on as it is. Without a stable revision the Service exists and reaches nobody; without its record,
/// stable is left as it is.
fn keep(world: &World, stable: Option<&str>, draft: &mut Draft) {
    keep_split(world, Split { stable, ..Split::default() }, world.replicas(), draft);
}

/// The same with so many pods of stable, while a canary has a share of the traffic.
fn keep_split(world: &World, split: Split<'_>, pods: i32, draft: &mut Draft) {
    if let Some(revision) = split.stable.and_then(|stable| world.revision(stable)) {
        draft.children.extend(build::serving::revision_children(world, &revision.hash, &revision.plan, pods));
    }
    draft.children.extend(build::traffic::traffic(world, split));
}

fn progress(revision: &str, view: Option<&ServingView>, wanted: i32) -> Step<()> {
    let revision = revision.to_owned();
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

/// Why the route does not carry traffic as it is to, where there is to be one.
fn route_problem(world: &World) -> Option<Why> {
    world.spec.rollout.traffic.gateway_api.as_ref()?;
    if let Some(problem) = build::pool::problem(world) {
        return Some(Why::RouteUnavailable { problem: problem.to_owned() });
    }
    let problem = match &world.route {
        RouteView::UnknownKind => {
            "the cluster knows no HTTPRoute: install the CRDs of the Gateway API and a gateway, or \
                                   set spec.rollout.traffic.type to ReplicaRatio"
                .to_owned()
        }
        RouteView::Absent => return None,
        RouteView::Present { problem, .. } => match problem {
            Some(problem) => problem.clone(),
            None => return route_contest::why(world),
        },
    };
    Some(Why::RouteUnavailable { problem })
}

/// A route that nothing asks for any more goes: the Service carries everything.
fn remove_route(world: &World, draft: &mut Draft) {
    if world.spec.rollout.traffic.gateway_api.is_none()
        && let RouteView::Present { object, .. } = &world.route
    {
        draft.removals.push(object.removal());
    }
}

/// Pools that nothing asks for any more go: the route has left them.
fn remove_pools(world: &World, draft: &mut Draft) {
    let is_left = |object: &&OwnedObject| {
        let known = draft.removals.iter().any(|removal| removal.uid == object.uid);
        object.kind == RemovalKind::InferencePool && !known
    };
    if !build::pool::is_asked_for(world) {
        let left: Vec<_> = world.objects.values().flatten().filter(is_left).map(OwnedObject::removal).collect();
        draft.removals.extend(left);
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
    let record = build::controller_revision::controller_revision(
        world,
        &target.hash,
        &target.input_hash,
        (number, &target.plan),
    );
    draft.children.push(Child::ControllerRevision(Box::new(record)));
}

/// Forgets revisions whose pods have had their time.
fn without_expired(world: &World, mut rollout: RolloutStatus, draft: &mut Draft) -> RolloutStatus {
    rollout.leaving.retain(|leaving| leaving.until.0 > world.now);
    if !rollout.leaving.is_empty() {
        draft.requeue = draft.requeue.min(SOON);
    }
    rollout
}

/// Removes what is not kept, but for pods that clients may still be on their way to.
fn remove_others(world: &World, kept: Vec<&str>, draft: &mut Draft) {
    let known = draft.status.rollout.as_ref().map(|rollout| rollout.leaving.clone()).unwrap_or_default();
    let leaving = leaving(world, &kept, known);
    let stays = |revision: &String| {
        kept.contains(&revision.as_str()) || leaving.iter().any(|leaving| leaving.revision == *revision)
    };
    let others = world.objects.iter().filter(|(revision, _)| !stays(revision));
    draft.removals.extend(others.flat_map(|(_, objects)| objects).map(OwnedObject::removal));
    if let Some(rollout) = &mut draft.status.rollout {
        rollout.leaving = leaving;
    }
}

/// Revisions that have lost their traffic a little before, and those that lose it now.
fn leaving(world: &World, kept: &[&str], mut leaving: Vec<LeavingRevision>) -> Vec<LeavingRevision> {
    let until = world.now.checked_add(KEEP_LEAVING).unwrap_or(world.now);
    for revision in with_traffic(world) {
        if world.objects.contains_key(&revision) && leaving.iter().all(|known| known.revision != revision) {
            leaving.push(LeavingRevision { revision, until: Time(until) });
        }
    }
    leaving.retain(|leaving| !kept.contains(&leaving.revision.as_str()));
    leaving
}

/// Revisions that clients reach as the status has it. None where the Service goes over at once: nobody is on the way to the pods before.
/// What is on trial counts only behind a gateway, for without one the next canary's Service would reach it too, and not where pods of
/// stable make room, for they are to come back.
fn with_traffic(world: &World) -> Vec<String> {
    let spec = &world.spec.rollout;
    let Some(rollout) = world.status.rollout.as_ref().filter(|_| spec.traffic.r#type != TrafficType::BlueGreen) else {
        return Vec::new();
    };
    let is_behind_gateway = spec.traffic.r#type == TrafficType::GatewayAPI && spec.capacity != Capacity::InPlace;
    let has_share = is_behind_gateway && rollout.weight.is_some_and(|weight| weight > 0);
    let canary = rollout.canary.as_ref().filter(|_| has_share);
    let baseline = rollout.compared_baseline().filter(|_| is_behind_gateway).map(|baseline| &baseline.revision);
    rollout.stable.iter().chain(canary).chain(baseline).cloned().collect()
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
