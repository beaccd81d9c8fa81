//! What holds of baselines on every path: however users send, pods come and go, specs are edited and words are said.

use std::collections::BTreeMap;

use proptest::prelude::*;
use slipway_crds::v1alpha1::{
    AgentDeploymentSpec, AgentDeploymentStatus,
    agent_deployment::{Baseline, RolloutBaseline, RolloutStatus},
};

use super::{
    cluster::{Cluster, lines, metadata_of, weights},
    trial::{EQUAL, ROLLOUT, Trial, Users, trial_with},
};
use crate::{
    agent_deployment::{rollout::revision::baseline_of, world::OwnedObject},
    plan::{Child, Plan},
};

/// Largest share that a baseline may have.
const MOST: i32 = 33;

/// What must hold of the baseline in every plan.
pub(super) fn check_baseline(cluster: &Cluster, plan: &Plan<AgentDeploymentStatus>) {
    let rollout = plan.status.rollout.clone().unwrap_or_default();
    check_route(plan, &rollout);
    check_leftovers(cluster, plan, &rollout);
    if let Some(baseline) = &rollout.baseline {
        check_share(cluster, &rollout, baseline);
        check_pods(plan, &rollout, baseline);
    }
}

/// The route gives all the traffic away, to each what the status says.
fn check_route(plan: &Plan<AgentDeploymentStatus>, rollout: &RolloutStatus) {
    let route = plan.children.iter().find_map(|child| match child {
        Child::HttpRoute(route) => Some(weights(route)),
        _ => None,
    });
    let Some(route) = route else { return };
    let share = |revision: &String| route.get(&format!("support-{revision}")).copied().unwrap_or(0);
    assert_eq!(route.values().sum::<i32>(), 100, "{route:?}");
    assert_eq!(rollout.canary.as_ref().map_or(0, share), rollout.weight.unwrap_or(0), "{route:?}");
    let baseline = rollout.baseline.as_ref();
    assert_eq!(
        baseline.map(|baseline| share(&baseline.revision)),
        baseline.map(|baseline| baseline.weight),
        "{route:?}"
    );
}

/// Nothing is left of a baseline that the status names neither as such nor as leaving, and it never serves.
fn check_leftovers(cluster: &Cluster, plan: &Plan<AgentDeploymentStatus>, rollout: &RolloutStatus) {
    let named = rollout.baseline.as_ref().map(|baseline| baseline.revision.as_str());
    assert!(rollout.stable.iter().all(|revision| !revision.ends_with("-base")), "{rollout:?}");
    let is_other = |name: &str| name.contains("-base") && named.is_none_or(|named| !name.ends_with(named));
    let made = plan.children.iter().map(|child| metadata_of(child).1.name.clone().unwrap_or_default());
    assert_eq!(made.filter(|name| is_other(name)).collect::<Vec<_>>(), Vec::<String>::new());
    let leaves = |revision: &String| rollout.leaving.iter().any(|leaving| leaving.revision == *revision);
    let objects = cluster.world.objects.iter().filter(|(revision, _)| is_other(revision) && !leaves(revision));
    let objects = objects.flat_map(|(_, objects)| objects);
    let stays = objects.filter(|object| plan.removals.iter().all(|removal| removal.uid != object.uid));
    assert_eq!(stays.collect::<Vec<_>>(), Vec::<&OwnedObject>::new());
}

/// It has the canary's share or none, and none of it before all pods of both are ready.
fn check_share(cluster: &Cluster, rollout: &RolloutStatus, baseline: &RolloutBaseline) {
    let world = &cluster.world;
    let canary = rollout.canary.clone().expect("a baseline has a canary");
    assert_eq!(baseline.revision, baseline_of(&canary));
    let is_equal = rollout.weight == Some(baseline.weight) && baseline.weight <= MOST;
    assert!(baseline.weight == 0 || is_equal, "{rollout:?}");
    let ready = |revision: &str| world.serving.get(revision).map_or(0, |view| view.ready);
    assert!(baseline.weight == 0 || ready(&baseline.revision) > 0, "{rollout:?}");
    let before = world.status.rollout.clone().unwrap_or_default().baseline;
    let had = before.filter(|before| before.revision == baseline.revision).map_or(0, |before| before.weight);
    if baseline.weight > had {
        let ready = ready(&baseline.revision).min(ready(&canary));
        assert!(ready >= baseline.pods, "{ready} of {} are ready: {rollout:?}", baseline.pods);
    }
}

/// It is to have as many pods as the canary.
fn check_pods(plan: &Plan<AgentDeploymentStatus>, rollout: &RolloutStatus, baseline: &RolloutBaseline) {
    let pods = |revision: &str| {
        let name = format!("support-{revision}");
        plan.children.iter().find_map(|child| match child {
            Child::Deployment(object) if object.metadata.name.as_ref() == Some(&name) => object.spec.as_ref()?.replicas,
            _ => None,
        })
    };
    let of_canary = rollout.canary.as_deref().and_then(pods);
    assert_eq!((pods(&baseline.revision), of_canary), (Some(baseline.pods), Some(baseline.pods)), "{:?}", lines(plan));
}

/// What befalls a rollout with users.
#[derive(Debug, Clone)]
enum Event {
    Serve(i64, f64),
    Baseline(Baseline),
    Prompt(u8),
    Replicas(i32),
    Pause(bool),
    Abort,
    Promote,
    /// Pods of the canary, or of its baseline, are not ready any more.
    Unready(bool),
    Ready,
    LoseRecords,
    Pass(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => ((1..20i64), prop_oneof![4 => Just(1.0), 1 => Just(2.5)]).prop_map(|(windows, slow)| Event::Serve(windows, slow)),
        2 => prop_oneof![Just(Baseline::Stable), Just(Baseline::MirrorBaseline)].prop_map(Event::Baseline),
        1 => (0..3u8).prop_map(Event::Prompt),
        1 => (1..6i32).prop_map(Event::Replicas),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => Just(Event::Abort),
        1 => Just(Event::Promote),
        3 => any::<bool>().prop_map(Event::Unready),
        4 => Just(Event::Ready),
        1 => Just(Event::LoseRecords),
        1 => (1..900i64).prop_map(Event::Pass),
    ]
}

impl Trial {
    fn befall(mut self, event: Event) -> Self {
        let canary = self.canary();
        match event {
            Event::Serve(windows, slowdown) => {
                for _ in 0..windows {
                    self.serve_unseen(10, Users { runs: 100, slowdown, ..EQUAL }, false);
                    self.checked_settle();
                }
            }
            Event::Baseline(baseline) => self.change(|spec| spec.rollout.baseline = baseline),
            Event::Prompt(text) => self.change(|spec| spec.agent.system_prompt = format!("Answer {text}.")),
            Event::Replicas(replicas) => self.change(|spec| spec.serving.replicas = replicas),
            Event::Pause(paused) => self.change(|spec| spec.rollout.paused = paused),
            Event::Abort => self.change(|spec| spec.rollout.abort = canary),
            Event::Promote => self.change(|spec| spec.rollout.promote = canary),
            Event::Unready(is_baseline) => {
                let revision = canary.map(|canary| if is_baseline { baseline_of(&canary) } else { canary });
                if let Some(view) = revision.and_then(|revision| self.cluster.world.serving.get_mut(&revision)) {
                    view.ready = 0;
                }
            }
            Event::Ready => self.cluster.ready_pods(),
            Event::LoseRecords => self.cluster.world.revisions.clear(),
            Event::Pass(seconds) => self.cluster.pass(seconds),
        }
        self.checked_settle();
        self
    }

    fn change(&mut self, edit: impl FnOnce(&mut AgentDeploymentSpec)) {
        self.cluster = self.cluster.clone().edited(edit);
    }

    /// Reconciles as often as there is something new, and holds every plan to what must hold.
    fn checked_settle(&mut self) {
        for _ in 0..20 {
            self.look();
            let plan = self.cluster.plan();
            check_baseline(&self.cluster, &plan);
            self.check_stable(&plan);
            let before = self.cluster.world.status.clone();
            self.cluster.carry_out(plan);
            if self.cluster.world.status == before {
                return;
            }
        }
        panic!("no rest: {:?}", lines(&self.cluster.plan()));
    }

    /// Who serves has all its pods, as far as its plan is known.
    fn check_stable(&self, plan: &Plan<AgentDeploymentStatus>) {
        let Some(stable) = plan.status.rollout.as_ref().and_then(|rollout| rollout.stable.clone()) else { return };
        let name = format!("support-{stable}");
        assert!(plan.removals.iter().all(|removal| removal.name != name), "{:?}", lines(plan));
        let wanted = plan.children.iter().find_map(|child| match child {
            Child::Deployment(object) if object.metadata.name.as_ref() == Some(&name) => object.spec.as_ref()?.replicas,
            _ => None,
        });
        let replicas = self.cluster.world.spec.serving.replicas;
        assert!(wanted.is_none_or(|wanted| wanted == replicas), "{wanted:?} of {replicas}: {:?}", lines(plan));
        assert!(wanted.is_some() || self.cluster.world.revision(&stable).is_none(), "{:?}", lines(plan));
    }

    /// From here on everything goes well, and a person says that it may take over.
    fn come_to_rest(mut self) -> Self {
        self.change(|spec| (spec.rollout.paused, spec.rollout.abort) = (false, None));
        for _ in 0..6 {
            self.checked_settle();
            let canary = self.canary();
            self.change(|spec| spec.rollout.promote = canary);
            self.cluster.ready_pods();
            self.cluster.pass(60);
        }
        self.checked_settle();
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_baseline_has_traffic_only_when_it_is_ready_and_goes_with_its_canary(
        events in prop::collection::vec(event(), 0..30),
    ) {
        let trial = trial_with(&format!("{ROLLOUT}baseline: MirrorBaseline"));
        let trial = events.into_iter().fold(trial, Trial::befall).come_to_rest();
        let stable = trial.stable();
        prop_assert_eq!(trial.canary(), None, "{:?}", lines(&trial.cluster.plan()));
        prop_assert_eq!(trial.cluster.world.objects.keys().collect::<Vec<_>>(), vec![&stable]);
        prop_assert_eq!(&trial.cluster.weights, &BTreeMap::from([(format!("support-{stable}"), 100)]));
    }
}
