//! What holds in a full cluster on every path: however places come and go, pods fail, specs are edited and operators
//! are replaced.

use proptest::prelude::*;
use slipway_crds::v1alpha1::{
    AgentDeploymentStatus,
    agent_deployment::{Baseline, Capacity, CapacityPhase, Stage, TrafficType},
};

use super::{baseline_histories::check_baseline, capacity::Full, cluster::lines, properties::check_repetition};
use crate::{
    agent_deployment::rollout::revision::baseline_of,
    plan::{Child, Plan},
};

/// What befalls a rollout.
#[derive(Debug, Clone)]
enum Event {
    Reconcile,
    Prompt(u8),
    Capacity(Capacity),
    Baseline(Baseline),
    Replicas(i32),
    Promote,
    Abort,
    Pause(bool),
    Places(i32),
    Ready,
    Crash,
    CrashOfBaseline,
    Pass(i64),
}

fn capacity() -> impl Strategy<Value = Capacity> {
    prop_oneof![
        1 => Just(Capacity::SurgeIfPossible),
        3 => Just(Capacity::InPlace),
        1 => Just(Capacity::RequireSurge),
    ]
}

fn baseline() -> impl Strategy<Value = Baseline> {
    prop_oneof![Just(Baseline::Stable), Just(Baseline::MirrorBaseline)]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Reconcile),
        2 => (0..3u8).prop_map(Event::Prompt),
        1 => capacity().prop_map(Event::Capacity),
        1 => baseline().prop_map(Event::Baseline),
        1 => (1..5i32).prop_map(Event::Replicas),
        2 => Just(Event::Promote),
        1 => Just(Event::Abort),
        1 => any::<bool>().prop_map(Event::Pause),
        2 => (0..9i32).prop_map(Event::Places),
        6 => Just(Event::Ready),
        1 => Just(Event::Crash),
        1 => Just(Event::CrashOfBaseline),
        4 => (1..900i64).prop_map(Event::Pass),
    ]
}

fn traffic() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("traffic: {type: BlueGreen}"),
        Just("traffic: {type: ReplicaRatio}"),
        Just("traffic: {type: GatewayAPI, gatewayAPI: {parentRefs: [{name: agents}]}}"),
    ]
}

impl Full {
    fn edited(&mut self, edit: impl FnOnce(&mut slipway_crds::v1alpha1::AgentDeploymentSpec)) {
        self.cluster = self.cluster.clone().edited(edit);
    }

    fn befall(mut self, event: Event) -> Self {
        let canary = self.cluster.world.status.rollout.as_ref().and_then(|rollout| rollout.canary.clone());
        match event {
            Event::Reconcile => self.checked_step(),
            Event::Prompt(text) => self.edited(|spec| spec.agent.system_prompt = format!("Answer {text}.")),
            Event::Capacity(capacity) => self.edited(|spec| spec.rollout.capacity = capacity),
            Event::Baseline(baseline) => self.edited(|spec| spec.rollout.baseline = baseline),
            Event::Replicas(replicas) => self.edited(|spec| spec.serving.replicas = replicas),
            Event::Promote if canary.is_some() => self.edited(|spec| spec.rollout.promote = canary),
            Event::Promote => {}
            Event::Abort => self.edited(|spec| spec.rollout.abort = canary),
            Event::Pause(paused) => self.edited(|spec| spec.rollout.paused = paused),
            Event::Places(places) => self.places = places,
            Event::Ready => self.pods_with_a_node_get_ready(),
            Event::Crash => {
                if let Some(canary) = canary {
                    self.crash(&canary);
                }
            }
            Event::CrashOfBaseline => {
                if let Some(canary) = canary {
                    self.crash(&baseline_of(&canary));
                }
            }
            Event::Pass(seconds) => self.cluster.pass(seconds),
        }
        self
    }

    fn pods_with_a_node_get_ready(&mut self) {
        for view in self.cluster.world.serving.values_mut() {
            (view.ready, view.updated, view.crash) = (view.scheduled, view.wanted, None);
        }
    }

    /// One reconciliation whose plan is held to what must hold for every plan.
    fn checked_step(&mut self) {
        let plan = self.cluster.plan();
        assert_eq!(plan, self.cluster.plan(), "the same world gives the same plan");
        check_repetition(&self.cluster, &plan);
        check_baseline(&self.cluster, &plan);
        self.check_places(&plan);
        self.check_shares(&plan);
        self.step();
    }

    /// Stable has all its pods but those that the status names. These make room one at a time, with the user's token,
    /// and only if both revisions together lack at most one pod.
    fn check_places(&self, plan: &Plan<AgentDeploymentStatus>) {
        let world = &self.cluster.world;
        let spec = &world.spec;
        let (before, after) = (world.status.rollout.clone(), plan.status.rollout.clone());
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        let Some(stable) = after.stable.filter(|stable| before.stable.as_ref() == Some(stable)) else { return };
        let room = after.capacity.as_ref();
        let (had, has) = (before.capacity.map_or(0, |room| room.drained), room.map_or(0, |room| room.drained));
        let name = format!("support-{stable}");
        let wanted = plan.children.iter().find_map(|child| match child {
            Child::Deployment(object) if object.metadata.name.as_ref() == Some(&name) => object.spec.as_ref()?.replicas,
            _ => None,
        });
        assert_eq!(wanted, Some((spec.serving.replicas - has).max(0)), "{:?}", lines(plan));
        assert!(plan.removals.iter().all(|removal| removal.name != name), "{:?}", lines(plan));
        let phase = room.filter(|_| has > 0).map(|room| room.phase);
        let is_allowed = match phase {
            None | Some(CapacityPhase::Restoring) => true,
            Some(CapacityPhase::InPlace) => spec.rollout.capacity == Capacity::InPlace,
            Some(CapacityPhase::Waiting | CapacityPhase::Limited) => false,
        };
        assert!(is_allowed, "{:?}", lines(plan));
        if has > had {
            let canary = after.canary.and_then(|canary| world.serving.get(&canary).map(|view| view.ready)).unwrap_or(0);
            assert!(has == had + 1 && !spec.rollout.paused, "{:?}", lines(plan));
            assert!(spec.serving.replicas - has + canary >= spec.serving.replicas - 1, "{:?}", lines(plan));
        }
        let is_judged = spec.rollout.promote.is_none() && spec.rollout.traffic.r#type != TrafficType::BlueGreen;
        assert!(has <= had || has == 1 || !is_judged, "without a verdict one pod makes room: {:?}", lines(plan));
    }

    /// Traffic is given to pods that are ready.
    fn check_shares(&self, plan: &Plan<AgentDeploymentStatus>) {
        let world = &self.cluster.world;
        let weight =
            |status: &AgentDeploymentStatus| status.rollout.as_ref().and_then(|rollout| rollout.weight).unwrap_or(0);
        let ready =
            |revision: Option<&String>| revision.and_then(|r| world.serving.get(r)).map_or(0, |view| view.ready);
        let rollout = plan.status.rollout.clone().unwrap_or_default();
        if weight(&plan.status) > weight(&world.status) {
            assert!(ready(rollout.canary.as_ref()) > 0, "{:?}", lines(plan));
        }
    }

    /// From here on everything goes well, in a cluster that has room for as many pods as are to serve, and perhaps for
    /// more.
    fn come_to_rest(mut self) -> Self {
        self.places = self.places.max(self.cluster.world.spec.serving.replicas);
        self.edited(|spec| (spec.rollout.paused, spec.rollout.abort) = (false, None));
        for _ in 0..24 {
            for _ in 0..6 {
                self.step();
                self.pods_with_a_node_get_ready();
                self.cluster.pass(30);
            }
            self.checked_step();
            let canary = self.cluster.world.status.rollout.as_ref().and_then(|rollout| rollout.canary.clone());
            if canary.is_some() && canary != self.cluster.world.spec.rollout.promote {
                self.edited(|spec| spec.rollout.promote = canary);
            }
            self.cluster.pass(600);
        }
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_rollout_takes_over_or_leaves_stable_with_all_its_pods_and_says_why(
        traffic in traffic(),
        capacity in capacity(),
        baseline in baseline(),
        replicas in 1..5i32,
        events in prop::collection::vec(event(), 0..80),
    ) {
        let full = Full::serving(replicas, &format!("{{{traffic}, capacityDeadline: 5m}}"));
        let full = full.befall(Event::Capacity(capacity)).befall(Event::Baseline(baseline)).befall(Event::Prompt(9));
        let full = events.into_iter().fold(full, Full::befall).come_to_rest();
        let world = &full.cluster.world;
        let rollout = world.status.rollout.clone().unwrap_or_default();
        let stable = full.cluster.stable();
        let view = &world.serving[&stable];
        let replicas = world.spec.serving.replicas;
        prop_assert_eq!((view.wanted, view.ready), (replicas, replicas), "{:?}", rollout);
        let stalled = world.status.conditions.iter().find(|c| c.type_ == "Stalled" && c.status == "True");
        let reason = stalled.map(|stalled| stalled.reason.as_str());
        match world.status.stage {
            Some(Stage::Serving) => prop_assert_eq!((reason, rollout.canary), (None, None)),
            Some(Stage::RolledBack) => prop_assert_eq!((reason, rollout.canary), (Some("RolledBack"), None)),
            Some(Stage::Paused) => {
                prop_assert_eq!(reason, Some("InsufficientCapacity"));
                let had_room = full.places >= 2 * replicas;
                prop_assert!(!had_room, "there is room for both: {:?}", rollout);
                let was_in_vain = rollout.capacity.is_some_and(|room| room.drained_in_vain.is_some());
                prop_assert!(world.spec.rollout.capacity != Capacity::InPlace || was_in_vain, "{:?}", lines(&full.cluster.plan()));
            }
            _ => prop_assert!(false, "neither serving nor stopped: {:?}", lines(&full.cluster.plan())),
        }
    }
}
