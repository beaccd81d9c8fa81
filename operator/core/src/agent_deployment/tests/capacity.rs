//! Rollouts in a cluster that is full: who waits, who goes on with fewer pods, and what people read.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::{
    Baseline, Capacity, CapacityPhase, RolloutCapacity, RolloutStatus, Stage,
};

use super::cluster::{Cluster, lines, world};
use crate::agent_deployment::{
    rollout::revision::baseline_of,
    world::{Crash, Unscheduled},
};

const NO_GPU: &str = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.";
pub(super) const GATEWAY: &str = "traffic: {type: GatewayAPI, gatewayAPI: {parentRefs: [{name: agents}]}}";

/// A cluster whose nodes have places for so many pods of the agent.
#[derive(Debug, Clone)]
pub(super) struct Full {
    pub(super) cluster: Cluster,
    pub(super) places: i32,
    /// What was told, in turn.
    pub(super) events: Vec<String>,
}

/// An agent of so many pods in a cluster of as many places, which has just been given another prompt.
pub(super) fn full(replicas: i32, rollout: &str) -> Full {
    let mut full = Full::serving(replicas, rollout);
    full.cluster = full.cluster.edited(|spec| spec.agent.system_prompt = "Think, then answer.".to_owned());
    full.settle();
    full
}

impl Full {
    pub(super) fn serving(replicas: i32, rollout: &str) -> Self {
        let cluster = world().edited(|spec| {
            spec.serving.replicas = replicas;
            spec.rollout = serde_norway::from_str(rollout).expect("a valid rollout");
        });
        Self { cluster: cluster.serving(), places: replicas, events: Vec::new() }
    }

    pub(super) fn rollout(&self) -> RolloutStatus {
        self.cluster.world.status.rollout.clone().expect("something serves")
    }

    pub(super) fn room(&self) -> Option<RolloutCapacity> {
        self.rollout().capacity
    }

    pub(super) fn phase(&self) -> Option<CapacityPhase> {
        self.room().map(|room| room.phase)
    }

    /// Pods that are wanted and ready, of a revision.
    pub(super) fn pods(&self, revision: &str) -> (i32, i32) {
        self.cluster.world.serving.get(revision).map_or((0, 0), |view| (view.wanted, view.ready))
    }

    pub(super) fn condition(&self, type_: &str) -> String {
        let conditions = &self.cluster.world.status.conditions;
        let found = conditions.iter().find(|condition| condition.type_ == type_).expect("it has one");
        format!("{} {}: {}", found.status, found.reason, found.message)
    }

    pub(super) fn step(&mut self) {
        let plan = self.cluster.plan();
        self.events.extend(plan.notes.iter().map(|note| format!("{:?} {}", note.severity, note.message)));
        self.cluster.step();
        self.schedule();
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..30 {
            let before = (self.cluster.world.status.clone(), self.cluster.world.serving.clone());
            self.step();
            if before == (self.cluster.world.status.clone(), self.cluster.world.serving.clone()) {
                return;
            }
        }
        panic!("no rest: {:?}", lines(&self.cluster.plan()));
    }

    /// What the scheduler makes of the Deployments: pods keep the places that they have, others take what is free.
    fn schedule(&mut self) {
        let now = self.cluster.world.now;
        let serving = &mut self.cluster.world.serving;
        for view in serving.values_mut() {
            view.scheduled = view.scheduled.min(view.wanted);
            view.ready = view.ready.min(view.scheduled);
        }
        let mut free = (self.places - serving.values().map(|view| view.scheduled).sum::<i32>()).max(0);
        for view in serving.values_mut() {
            let found = (view.wanted - view.scheduled).clamp(0, free);
            view.scheduled += found;
            free -= found;
            let waits = view.scheduled < view.wanted;
            let since = view.unscheduled.as_ref().map_or(now, |unscheduled| unscheduled.since);
            view.unscheduled = waits.then(|| Unscheduled { since, message: NO_GPU.to_owned() });
            view.failure = waits.then(|| NO_GPU.to_owned());
        }
    }

    /// Every pod with a node becomes ready.
    pub(super) fn ready(&mut self) {
        for view in self.cluster.world.serving.values_mut() {
            (view.ready, view.updated, view.crash) = (view.scheduled, view.wanted, None);
        }
        self.settle();
    }

    pub(super) fn crash(&mut self, revision: &str) {
        if let Some(view) = self.cluster.world.serving.get_mut(revision).filter(|view| view.scheduled > 0) {
            view.ready = (view.ready - 1).max(0);
            let text = "triton exited with code 1".to_owned();
            view.crash = Some(Crash { at: self.cluster.world.now, text });
        }
    }

    pub(super) fn pass(&mut self, minutes: i64) {
        self.cluster.pass(60 * minutes);
        self.settle();
    }

    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut slipway_crds::v1alpha1::AgentDeploymentSpec)) {
        self.cluster = self.cluster.clone().edited(edit);
        self.settle();
    }

    /// Both revisions: the one that serves, and the one on its way.
    pub(super) fn revisions(&self) -> (String, String) {
        (self.cluster.stable(), self.cluster.canary())
    }
}

/// What a team with one GPU sees that did not read the documentation.
#[test]
fn without_room_stable_goes_on_alone_and_the_condition_has_the_schedulers_words_and_the_remedy() {
    let mut full = full(1, "{}");
    let (stable, canary) = full.revisions();
    let waiting = format!(
        "True WaitingForCapacity: revision {canary} waits for a node: 0/1 nodes are available: 1 Insufficient \
         nvidia.com/gpu. After 10m (spec.rollout.capacityDeadline) it pauses and tries again later"
    );
    assert_eq!(full.condition("Reconciling"), waiting);
    full.pass(9);
    assert_eq!(full.condition("Reconciling"), waiting);
    full.pass(1);
    let stalled = format!(
        "True InsufficientCapacity: the cluster lacks capacity for 1 pod of revision {canary} beside the serving pods: \
         0/1 nodes are available: 1 Insufficient nvidia.com/gpu. These continue to serve. The operator probes for \
         capacity regularly, and at once when the spec changes. Free capacity, add a node or lower \
         spec.serving.replicas, or set spec.rollout.capacity to InPlace, which drains serving pods"
    );
    assert_eq!(full.condition("Stalled"), stalled);
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((1, 1), (0, 0)));
    assert_eq!(full.condition("Ready"), format!("True Serving: revision {stable} serves with 1 of 1 pods"));
    assert_eq!(full.cluster.world.status.stage, Some(Stage::Paused));
}

#[test]
fn who_waits_asks_again_less_and_less_often_and_tells_it_once() {
    let mut full = full(1, "{}");
    full.cluster = full.cluster.clone().alerting();
    full.settle();
    full.cluster.heard.clear();
    full.events.clear();
    let canary = full.cluster.canary();
    let mut pods = Vec::new();
    for _ in 0..26 {
        full.pass(5);
        pods.push(full.pods(&canary).0);
    }
    // Asked for ten minutes, then nothing for five, ten, twenty, forty.
    assert_eq!(pods, [1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
    assert_eq!(full.cluster.news(), ["Stalled error"]);
    assert_eq!(full.events.len(), 1, "{:?}", full.events);
}

#[test]
fn capacity_that_becomes_free_is_used() {
    let mut full = full(1, "{}");
    let (stable, canary) = full.revisions();
    full.pass(10);
    full.places = 2;
    full.pass(4);
    assert_eq!(full.cluster.stable(), stable, "its time has not come");
    full.pass(1);
    full.ready();
    assert_eq!((full.cluster.stable(), full.room()), (canary, None));
}

#[test]
fn an_edit_asks_at_once() {
    let mut full = full(1, "{}");
    let canary = full.cluster.canary();
    full.pass(10);
    assert_eq!(full.pods(&canary).0, 0);
    full.edit(|spec| spec.rollout.capacity_deadline = "1m".parse().expect("a duration"));
    assert_eq!(full.pods(&canary).0, 1);
    full.pass(1);
    assert_eq!((full.pods(&canary).0, full.room().map(|room| room.attempts)), (0, Some(1)));
}

#[test]
fn with_room_for_some_the_share_is_what_these_can_carry_and_stable_keeps_all_its_pods() {
    let mut full = full(4, &format!("{{{GATEWAY}, steps: [{{weight: 50}}]}}"));
    let (stable, canary) = full.revisions();
    full.places = 5;
    full.settle();
    full.ready();
    assert_eq!((full.rollout().weight, full.pods(&canary)), (Some(0), (4, 1)), "half the traffic is for four pods");
    full.pass(10);
    full.ready();
    assert_eq!((full.phase(), full.rollout().weight), (Some(CapacityPhase::Limited), Some(20)));
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((4, 4), (1, 1)));
    let told = format!(
        "Warning plan {canary} continues with 1 of 4 pods, and with no more traffic than these carry: 0/1 nodes are \
         available: 1 Insufficient nvidia.com/gpu"
    );
    assert!(full.events.contains(&told), "{:?}", full.events);
}

#[test]
fn a_canary_that_may_take_over_and_has_no_room_keeps_its_share_until_there_is_some() {
    let mut full = full(4, &format!("{{{GATEWAY}, steps: [{{weight: 20}}]}}"));
    let (stable, canary) = full.revisions();
    full.places = 5;
    full.settle();
    full.ready();
    let word = canary.clone();
    full.edit(|spec| spec.rollout.promote = Some(word));
    full.pass(10);
    assert_eq!((full.phase(), full.rollout().weight), (Some(CapacityPhase::Limited), Some(20)));
    let stalled = full.condition("Stalled");
    let words = format!(
        "True InsufficientCapacity: revision {canary} cannot take over: it has 1 pod, and the cluster lacks capacity for 4 beside the serving pods: "
    );
    assert!(stalled.starts_with(&words), "{stalled}");
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((4, 4), (1, 1)));
    full.places = 8;
    full.pass(5);
    full.ready();
    assert_eq!(full.cluster.stable(), canary);
}

#[test]
fn a_canary_that_must_have_all_its_pods_gets_none_of_the_traffic_without_them() {
    let rollout = format!("{{{GATEWAY}, steps: [{{weight: 50}}], capacity: RequireSurge}}");
    let mut full = full(4, &rollout);
    let (stable, canary) = full.revisions();
    full.places = 7;
    full.settle();
    full.pass(10);
    full.ready();
    assert_eq!((full.phase(), full.rollout().weight), (Some(CapacityPhase::Waiting), Some(0)));
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((4, 4), (0, 0)));
    full.places = 8;
    full.pass(5);
    full.ready();
    assert_eq!((full.room(), full.rollout().weight), (None, Some(50)));
}

#[test]
fn pods_of_stable_that_lack_room_come_before_those_of_a_canary() {
    let mut full = full(2, &format!("{{{GATEWAY}, steps: [{{weight: 20}}]}}"));
    let (stable, canary) = full.revisions();
    full.places = 3;
    full.settle();
    full.ready();
    assert_eq!((full.rollout().weight, full.pods(&canary)), (Some(20), (1, 1)));
    full.edit(|spec| spec.serving.replicas = 3);
    full.pass(9);
    assert_eq!((full.rollout().weight, full.pods(&stable)), (Some(20), (3, 2)));
    full.pass(1);
    full.ready();
    assert_eq!((full.rollout().weight, full.pods(&stable), full.pods(&canary)), (Some(0), (3, 3), (0, 0)));
    assert!(full.condition("Stalled").starts_with("True InsufficientCapacity: "));
}

fn mirrored(replicas: i32, places: i32) -> Full {
    let mut full = full(replicas, &format!("{{{GATEWAY}, baseline: MirrorBaseline, steps: [{{weight: 20}}]}}"));
    full.places = places;
    full.settle();
    full.ready();
    full
}

#[test]
fn a_canary_whose_baseline_finds_no_room_gives_its_own_back_and_waits() {
    let mut full = mirrored(1, 2);
    let (stable, canary) = full.revisions();
    let baseline = baseline_of(&canary);
    assert_eq!((full.pods(&canary), full.pods(&baseline), full.rollout().weight), ((1, 1), (1, 0), Some(0)));
    let waiting = format!(
        "True WaitingForCapacity: revision {baseline} waits for a node: 0/1 nodes are available: 1 Insufficient \
         nvidia.com/gpu. After 10m (spec.rollout.capacityDeadline) it continues with the scheduled pods, or pauses and \
         tries again later if there are none"
    );
    assert_eq!(full.condition("Reconciling"), waiting);
    full.pass(10);
    assert_eq!((full.pods(&stable), full.pods(&canary), full.pods(&baseline)), ((1, 1), (0, 0), (0, 0)));
    let stalled = format!(
        "True InsufficientCapacity: the cluster lacks capacity for 2 pods of revision {canary} beside the serving \
         pods: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu. These continue to serve. The operator probes \
         for capacity regularly, and at once when the spec changes. Free capacity, add a node or lower \
         spec.serving.replicas, or set spec.rollout.baseline to Stable, because a mirrored baseline needs as many \
         pods"
    );
    assert_eq!(full.condition("Stalled"), stalled);
    full.edit(|spec| spec.rollout.baseline = Baseline::Stable);
    full.ready();
    assert_eq!((full.pods(&canary), full.rollout().weight, full.rollout().capacity), ((1, 1), Some(20), None));
}

#[test]
fn a_canary_and_its_baseline_share_what_room_there_is() {
    let mut full = mirrored(8, 11);
    let (stable, canary) = full.revisions();
    full.pass(10);
    full.ready();
    let baseline = baseline_of(&canary);
    assert_eq!((full.phase(), full.room().map(|room| room.pods)), (Some(CapacityPhase::Limited), Some(1)));
    assert_eq!((full.pods(&stable), full.pods(&canary), full.pods(&baseline)), ((8, 8), (1, 1), (1, 1)));
    assert_eq!((full.rollout().weight, full.cluster.weights[&format!("support-{stable}")]), (Some(11), 78));
    let told = format!(
        "Warning plan {canary} continues with 1 of 2 pods and as many of its baseline, and with no more traffic than \
         these carry: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
    );
    assert!(full.events.contains(&told), "{:?}", full.events);
}

/// `capacityDeadline: 0s` is for clusters of fixed size; what leaves gives its room back soon.
#[test]
fn without_a_deadline_a_canary_that_has_passed_still_waits_for_the_room_of_its_baseline() {
    let mut full = mirrored(4, 8);
    let (_, canary) = full.revisions();
    full.edit(|spec| {
        spec.rollout.capacity_deadline = "0s".parse().expect("a duration");
        spec.rollout.promote = Some(canary.clone());
    });
    assert_eq!((full.phase(), full.pods(&canary)), (None, (4, 1)));
    full.pass(1);
    full.ready();
    assert_eq!(full.cluster.stable(), canary);
}

/// The pods with which the canary takes over need no more room than they do without a baseline.
#[test]
fn a_canary_that_has_passed_takes_the_room_of_its_baseline() {
    let mut full = mirrored(4, 8);
    let (stable, canary) = full.revisions();
    assert_eq!(
        (full.pods(&canary), full.pods(&baseline_of(&canary)), full.rollout().weight),
        ((1, 1), (1, 1), Some(20))
    );
    full.edit(|spec| spec.rollout.promote = Some(canary.clone()));
    assert_eq!((full.pods(&stable), full.pods(&canary)), ((4, 4), (4, 1)));
    // Until then gateways may send clients to the baseline.
    full.pass(1);
    full.ready();
    assert_eq!(full.cluster.stable(), canary);
}

/// Its baseline is gone when it lacks room to take over, and is back when it starts again.
#[test]
fn a_canary_that_found_no_room_to_take_over_asks_for_no_more_of_it_beside_a_baseline() {
    let mut full = mirrored(4, 8);
    let (_, canary) = full.revisions();
    full.edit(|spec| spec.rollout.capacity = Capacity::RequireSurge);
    full.places = 6;
    full.cluster.world.status.rollout.as_mut().expect("a rollout").step = Some(2);
    full.settle();
    full.pass(1);
    full.ready();
    assert_eq!((full.pods(&canary), full.phase()), ((4, 2), None), "alone, and two places short");
    full.pass(10);
    let room = full.room().expect("it waits");
    assert_eq!((room.phase, room.wanted, full.pods(&canary)), (CapacityPhase::Waiting, 2, (0, 0)));
    full.pass(5);
    let baseline = baseline_of(&canary);
    assert_eq!((full.pods(&canary).0, full.pods(&baseline).0), (2, 2), "four in all, as it lacked");
}
