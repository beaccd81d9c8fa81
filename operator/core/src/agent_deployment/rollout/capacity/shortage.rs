//! What is said of a canary that is short of room. Pure.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    labels::GPU_RESOURCE,
    v1alpha1::agent_deployment::{Capacity, CapacityPhase},
};

use super::{
    super::canary::{Canary, LOOK},
    shortened,
};
use crate::{
    agent_deployment::{parts::Parts, world::Unscheduled},
    engine::tensorrt_llm::gpus,
    why::{Blocked, Retry, Why},
};

impl Canary<'_> {
    /// Why the canary is short of room, if it is.
    pub(in super::super) fn shortage(&self) -> Option<Blocked> {
        let wanted = self.wanted();
        let view = self.view().filter(|view| view.wanted == wanted);
        let is_ready = view.as_ref().is_some_and(|view| view.ready >= wanted);
        let has_passed = self.planned().is_none();
        match self.phase() {
            Some(CapacityPhase::Waiting) if !self.has_nodes() => Some(Blocked::Stopped(self.insufficient())),
            Some(CapacityPhase::Limited) if has_passed && !(self.is_asking() && self.has_nodes()) => {
                Some(Blocked::Stopped(self.insufficient()))
            }
            Some(CapacityPhase::InPlace) if !is_ready || (has_passed && self.paused_by().is_none()) => {
                Some(Blocked::Waiting(self.updating_in_place()))
            }
            Some(CapacityPhase::Restoring) => Some(Blocked::Waiting(self.restoring())),
            None | Some(CapacityPhase::Waiting | CapacityPhase::Limited | CapacityPhase::InPlace) => {
                // What a pod with a node says of its failure is worth more than that another has none.
                let unscheduled = view.filter(|view| view.crash.is_none())?.unscheduled?;
                Some(Blocked::Waiting(self.unscheduled(&unscheduled)))
            }
        }
    }

    fn unscheduled(&self, unscheduled: &Unscheduled) -> Why {
        let deadline = &self.world.spec.rollout.capacity_deadline;
        let then = match self.world.spec.rollout.capacity {
            Capacity::InPlace if !self.was_in_vain() && !self.has_other_nodes() => "a serving pod is drained",
            Capacity::SurgeIfPossible if !self.schedule.is_empty() => {
                "it continues with the scheduled pods, or pauses and tries again later if there are none"
            }
            Capacity::SurgeIfPossible | Capacity::InPlace | Capacity::RequireSurge => "it pauses and tries again later",
        };
        let of_baseline = self.baseline().filter(|baseline| {
            let view = self.world.serving.get(baseline);
            view.is_some_and(|view| view.unscheduled.as_ref() == Some(unscheduled))
        });
        Why::RevisionUnscheduled {
            revision: of_baseline.unwrap_or_else(|| self.target.hash.clone()),
            scheduler: self.with_gpus(shortened(&unscheduled.message)),
            then: format!("After {deadline} (spec.rollout.capacityDeadline) {then}"),
        }
    }

    /// The scheduler names a resource that is short, and not how much a pod asks for.
    fn with_gpus(&self, scheduler: String) -> String {
        let asked = self.target.plan.served.artifact().and_then(|artifact| gpus(&artifact.triton_resources));
        match asked.filter(|_| scheduler.contains(GPU_RESOURCE)) {
            Some(asked) => format!("{scheduler}, and each pod asks for {asked}"),
            None => scheduler,
        }
    }

    fn insufficient(&self) -> Why {
        let room = self.room();
        let each = if self.baseline().is_some() { 2 } else { 1 };
        let (pods, wanted) = room.map_or((0, 0), |room| (each * room.pods, each * room.wanted));
        let scheduler = self.with_gpus(room.map(|room| room.message.clone()).unwrap_or_default());
        Why::InsufficientCapacity { revision: self.target.hash.clone(), pods, wanted, scheduler, remedy: self.remedy() }
    }

    fn remedy(&self) -> String {
        let number = match self.world.spec.serving.autoscaling {
            None => "spec.serving.replicas",
            Some(_) => "spec.serving.autoscaling.maxReplicas",
        };
        let make_room = format!("Free capacity, add a node or lower {number}");
        let is_in_vain = self.was_in_vain();
        match self.world.spec.rollout.capacity {
            Capacity::InPlace if is_in_vain => format!(
                "Draining a pod made no room for it: check that it fits on a node (spec.hardware, \
                 spec.serving.tritonResources). To drain one again, {}",
                self.retry()
            ),
            Capacity::InPlace if self.has_other_nodes() => format!(
                "{make_room}. Serving pods are not drained: they are on other nodes than spec.hardware or \
                 spec.search.gpuProducts asks for now"
            ),
            Capacity::InPlace => make_room,
            Capacity::SurgeIfPossible | Capacity::RequireSurge if self.baseline().is_some() => {
                format!(
                    "{make_room}, or set spec.rollout.baseline to Stable, because a mirrored baseline needs as many \
                     pods"
                )
            }
            Capacity::SurgeIfPossible | Capacity::RequireSurge if self.has_other_nodes() => make_room,
            Capacity::SurgeIfPossible | Capacity::RequireSurge => {
                format!("{make_room}, or set spec.rollout.capacity to InPlace, which drains serving pods")
            }
        }
    }

    fn retry(&self) -> Retry {
        Retry { named: self.world.named(), token: self.next_word() }
    }

    /// An unused token for `spec.rollout.retry`.
    fn next_word(&self) -> String {
        let (hash, commands) = (&self.target.hash, self.world.commands());
        let used = [commands.retry_of_spec(hash), commands.retry_of_annotation(hash)];
        let counts = used.into_iter().flatten().map(|word| word.rsplit_once('/').map_or("1", |(_, count)| count));
        let next = counts.map(|count| count.parse::<u32>().unwrap_or(1).saturating_add(1)).max();
        next.map_or_else(|| hash.clone(), |next| format!("{hash}/{next}"))
    }

    fn updating_in_place(&self) -> Why {
        let view = self.view();
        Why::UpdatingInPlace {
            revision: self.target.hash.clone(),
            stable: self.stable.to_owned(),
            drained: self.room().map_or(0, |room| room.drained),
            left: self.stable_pods(),
            ready: view.as_ref().map_or(0, |view| view.ready.min(self.wanted())),
            failure: view.and_then(|view| view.failure),
        }
    }

    pub(super) fn restoring(&self) -> Why {
        let reason = self.room().and_then(|room| room.reason.clone());
        let no_room = || self.room().filter(|room| room.drained_in_vain.is_some()).map(|room| room.message.clone());
        Why::RestoringStable {
            stable: self.stable.to_owned(),
            ready: self.stable_ready(),
            wanted: self.replicas(),
            reason: reason.or_else(no_room).unwrap_or_else(|| "the spec asks for another plan".to_owned()),
        }
    }

    /// Deadlines and back-offs are not events of the API server's.
    pub(in super::super) fn look_again_in_time(&self) -> Parts {
        let is_waited_for = self.view().is_some_and(|view| view.unscheduled.is_some());
        let is_urgent =
            is_waited_for || matches!(self.phase(), Some(CapacityPhase::InPlace | CapacityPhase::Restoring));
        let retry_at = self.room().and_then(|room| room.retry_at.as_ref()).filter(|at| at.0 > self.world.now);
        let until_retry = retry_at.map(|Time(at)| {
            let wait = at.duration_since(self.world.now).unsigned_abs();
            wait.max(Duration::from_secs(1))
        });
        let requeue = is_urgent.then_some(LOOK).into_iter().chain(until_retry).min();
        Parts { requeue, ..Parts::default() }
    }
}
