//! The alerting rules of what serves. Pure.

use slipway_crds::v1alpha1::agent_deployment::ServiceLevelObjectives;

use super::{Draft, World, build};
use crate::{agent_deployment::world::OwnedObject, plan::RemovalKind};

/// Rules are made of the latency objectives that the pods of the serving revision count: an edited one is alerted on once a revision
/// that counts it has taken over. How runs end is counted by every pod, so the error rate is that of the spec. Where the record
/// of the serving revision is lost, rules stay as they are.
pub(super) fn decide(world: &World, draft: &mut Draft) {
    let is_wanted = world.spec.alerts.burn_rate;
    let rules = match world.stable().filter(|_| is_wanted) {
        None => None,
        Some(stable) => match world.revision(stable) {
            None => return,
            Some(revision) => {
                let error_rate = world.spec.slo.error_rate.clone();
                build::alerts::child(world, &ServiceLevelObjectives { error_rate, ..revision.plan.slo.clone() })
            }
        },
    };
    let kept = rules.as_ref().map(|_| RemovalKind::from(build::alerts::kind(world)));
    let others = world.rules.objects.iter().filter(|object| Some(object.kind) != kept);
    draft.removals.extend(others.map(OwnedObject::removal));
    draft.children.extend(rules);
}
