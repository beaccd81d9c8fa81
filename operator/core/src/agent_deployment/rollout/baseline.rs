//! Fresh pods of stable's plan beside a canary, which is compared with them where `spec.rollout.baseline` is
//! MirrorBaseline. Pure.
//!
//! Pods of equal age, number and share are compared. The baseline starts with the canary, has as many pods, and gets
//! the same share at the same time, once all pods of both are ready. It ends when the canary has passed its last step,
//! because the canary's further pods may need its room. From then on, as whenever the baseline has no traffic, the
//! canary is compared with stable.

use slipway_crds::v1alpha1::agent_deployment::{Baseline, Capacity, TrafficType};

use crate::agent_deployment::world::{ServingView, World};

/// Largest share of a canary beside a baseline, in percent. Beyond it stable would have less traffic than either, and
/// the baseline would serve most users who are not on the canary.
const LARGEST_SHARE: i32 = 33;

/// Whether canaries are compared with a baseline. There is none of a stable revision whose record is lost, for nobody
/// knows its plan.
pub(super) fn is_asked_for(world: &World) -> bool {
    let rollout = &world.spec.rollout;
    // Of other specs the API server accepts no baseline.
    let is_possible = rollout.traffic.r#type == TrafficType::GatewayAPI && rollout.capacity != Capacity::InPlace;
    let is_known = || world.stable().and_then(|stable| world.revision(stable)).is_some();
    rollout.baseline == Baseline::MirrorBaseline && is_possible && is_known()
}

/// Largest share that a canary may have, in percent.
pub(super) fn largest_share(world: &World) -> i32 {
    if is_asked_for(world) { LARGEST_SHARE } else { 100 }
}

/// Canary and baseline as one, because they need room alike: a pod of each makes a pair. Absent while the number of
/// pods of either is unset.
pub(super) fn pairs(canary: &ServingView, baseline: &ServingView) -> Option<ServingView> {
    let wanted = canary.wanted;
    let scheduled = |view: &ServingView| view.scheduled.min(wanted);
    let unscheduled = [&canary.unscheduled, &baseline.unscheduled].into_iter().flatten();
    (baseline.wanted == wanted).then(|| ServingView {
        wanted,
        updated: canary.updated.min(baseline.updated),
        // Of places that one of them has beyond the other, half are for the other.
        scheduled: (scheduled(canary) + scheduled(baseline)) / 2,
        ready: canary.ready.min(baseline.ready),
        settling: canary.settling.max(baseline.settling),
        is_observed: canary.is_observed && baseline.is_observed,
        is_past_deadline: canary.is_past_deadline || baseline.is_past_deadline,
        failure: canary.failure.clone().or_else(|| baseline.failure.clone()),
        crash: canary.crash.clone().or_else(|| baseline.crash.clone()),
        refused: canary.refused.clone().or_else(|| baseline.refused.clone()),
        unscheduled: unscheduled.min_by_key(|unscheduled| unscheduled.since).cloned(),
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::agent_deployment::world::Unscheduled;

    fn pods(wanted: i32, scheduled: i32, ready: i32) -> ServingView {
        let second = i64::from(scheduled);
        let since = Timestamp::from_second(second).expect("a second of 1970");
        let unscheduled = Unscheduled { since, message: format!("{scheduled} found room") };
        let unscheduled = (scheduled < wanted).then_some(unscheduled);
        ServingView {
            wanted,
            updated: wanted,
            scheduled,
            ready,
            is_observed: true,
            unscheduled,
            ..ServingView::default()
        }
    }

    #[test]
    fn room_is_counted_in_pairs_wherever_the_scheduler_put_the_pods() {
        let found = |canary, baseline| {
            let pairs = pairs(&pods(3, canary, canary), &pods(3, baseline, baseline)).expect("both know their number");
            (pairs.scheduled, pairs.ready, pairs.unscheduled.map(|unscheduled| unscheduled.message))
        };
        let words = |scheduled: i32| Some(format!("{scheduled} found room"));
        assert_eq!(found(3, 3), (3, 3, None));
        assert_eq!(found(3, 2), (2, 2, words(2)));
        assert_eq!(found(3, 1), (2, 1, words(1)));
        assert_eq!(found(0, 3), (1, 0, words(0)));
        assert_eq!(found(1, 0), (0, 0, words(0)));
        assert_eq!(pairs(&pods(3, 3, 3), &pods(2, 2, 2)), None);
    }
}
