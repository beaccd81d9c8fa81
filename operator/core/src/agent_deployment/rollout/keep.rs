//! What of a rollout stays, and what goes. Pure.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::v1alpha1::agent_deployment::{Capacity, LeavingRevision, RolloutStatus, TrafficType};

use super::build::{self, traffic::Split};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::{OwnedObject, World},
    },
    plan::{Child, SOON},
};

/// How long the pods of a revision stay once it has no traffic any more.
const KEEP_LEAVING: SignedDuration = SignedDuration::from_secs(30);

/// What is left of a rollout once nothing rolls out any more.
pub(super) fn settled(stable: &str, rollout: RolloutStatus) -> RolloutStatus {
    let RolloutStatus { leaving, rejected, .. } = rollout;
    RolloutStatus { stable: Some(stable.to_owned()), leaving, rejected, ..RolloutStatus::default() }
}

/// What stable needs to go on as it is. Without a stable revision the Service exists and reaches nobody; without its
/// record, stable is left as it is.
pub(super) fn keep(world: &World, stable: Option<&str>) -> Parts {
    keep_split(world, Split { stable, ..Split::default() }, world.replicas())
}

/// The same with so many pods of stable, while a canary has a share of the traffic. Traffic goes nowhere before what it
/// needs is there. Where stable makes room, its pods go only once nobody is sent to them.
pub(super) fn keep_split(world: &World, split: Split<'_>, pods: i32) -> Parts {
    let stable = split.stable.and_then(|stable| world.revision(stable));
    let children =
        stable.map(|revision| build::serving::revision_children(world, &revision.hash, &revision.plan, pods));
    let (pods_of_stable, others): (Vec<Child>, Vec<Child>) =
        children.into_iter().flatten().partition(|child| matches!(child, Child::Deployment(_)));
    let traffic = build::traffic::traffic(world, split);
    let makes_room = pods < world.replicas();
    let [second, third] = if makes_room { [traffic, pods_of_stable] } else { [pods_of_stable, traffic] };
    Parts::of_children(others).and(Parts::of_children(second)).and(Parts::of_children(third))
}

/// Forgets revisions whose pods have had their time.
pub(super) fn without_expired(world: &World, mut rollout: RolloutStatus) -> Planned<RolloutStatus> {
    rollout.leaving.retain(|leaving| leaving.until.0 > world.now);
    let look = if rollout.leaving.is_empty() { Parts::default() } else { Parts::look_within(SOON) };
    look.with(rollout)
}

/// Removes what is not kept, except pods that clients may still be sent to: those of revisions that left before, and of
/// those that leave now. Returns both.
pub(super) fn remove_others(
    world: &World,
    kept: &[&str],
    before: Vec<LeavingRevision>,
) -> Planned<Vec<LeavingRevision>> {
    let leaving = leaving(world, kept, before);
    let stays = |revision: &String| {
        kept.contains(&revision.as_str()) || leaving.iter().any(|leaving| leaving.revision == *revision)
    };
    let others = world.objects.iter().filter(|(revision, _)| !stays(revision));
    let removals = Parts::of_removals(others.flat_map(|(_, objects)| objects).map(OwnedObject::removal));
    removals.with(leaving)
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

/// Revisions that clients reach according to the status. None where the Service switches at once, because nobody is on
/// the way to the earlier pods. A canary counts only behind a gateway: without one the next canary's Service would
/// reach it too. Nor does it count where pods of stable make room, because they are to come back.
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
