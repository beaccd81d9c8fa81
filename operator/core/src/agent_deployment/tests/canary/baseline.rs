//! A canary beside fresh pods of the plan that serves, which it is compared with.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::{Baseline, RolloutBaseline, Stage};

use super::{EQUAL, ROLLOUT, Trial, Users, trial_with};
use crate::agent_deployment::{
    rollout::{guardrails::GuardrailView, revision::baseline_of},
    world::ServingView,
};

/// Pods that have just started are slower than those that have long been warm, and both revisions are the same.
const COLD: Users = Users { cold: 1.6, ..EQUAL };

fn mirrored() -> Trial {
    trial_with(&format!("{ROLLOUT}baseline: MirrorBaseline"))
}

impl Trial {
    fn baseline(&self) -> Option<RolloutBaseline> {
        self.rollout().baseline
    }

    /// Shares of the route, of those that have some: stable, canary, baseline.
    fn weights(&self) -> [i32; 3] {
        let canary = self.canary().unwrap_or_default();
        let names = [self.stable(), canary.clone(), baseline_of(&canary)];
        let weights = names.map(|name| self.cluster.weights.get(&format!("support-{name}")).copied().unwrap_or(0));
        assert_eq!(
            weights.iter().sum::<i32>(),
            self.cluster.weights.values().sum::<i32>(),
            "{:?}",
            self.cluster.weights
        );
        weights
    }

    fn edit(&mut self, edit: impl FnOnce(&mut slipway_crds::v1alpha1::AgentDeploymentSpec)) {
        self.cluster = self.cluster.clone().edited(edit);
        self.settle();
    }

    fn told(&self, reason: &str) -> Vec<&str> {
        self.events.iter().filter_map(|event| event.strip_prefix(reason)).map(str::trim_start).collect()
    }

    pub(super) fn condition(&self, type_: &str) -> (String, String) {
        let conditions = &self.cluster.world.status.conditions;
        let found = conditions.iter().find(|condition| condition.type_ == type_).expect("it has one");
        (found.reason.clone(), found.message.clone())
    }

    fn baseline_pods(&mut self) -> &mut ServingView {
        let name = baseline_of(&self.cluster.canary());
        self.cluster.world.serving.get_mut(&name).expect("the baseline has a Deployment")
    }

    fn wait_for_share(&mut self, share: i32) {
        for _ in 0..400 {
            if self.share() == share {
                return;
            }
            self.serve(10, EQUAL);
        }
        panic!("no share of {share} %: {:?}", self.rollout());
    }
}

#[test]
fn canary_and_baseline_have_equal_pods_and_shares_until_the_canary_has_passed() {
    let mut trial = mirrored();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    let name = baseline_of(&canary);
    let of = |weight, pods| Some(RolloutBaseline { revision: name.clone(), weight, pods, ready_pods: pods });
    assert_eq!((trial.weights(), trial.baseline()), ([60, 20, 20], of(20, 1)));
    let told = format!("baseline {name} starts with 1 pod of the serving plan; plan {canary} is compared with it");
    assert_eq!(trial.told("BaselineStarting"), [told]);
    trial.wait_for_share(33);
    assert_eq!((trial.weights(), trial.baseline()), ([34, 33, 33], of(33, 2)));
    let views = trial.cluster.world.serving.iter().map(|(revision, view)| (revision.as_str(), view.wanted));
    let pods = BTreeMap::from([(stable.as_str(), 4), (canary.as_str(), 2), (name.as_str(), 2)]);
    assert_eq!(views.collect::<BTreeMap<_, _>>(), pods, "stable keeps all its pods");
    trial.serve(60 * 60, EQUAL);
    assert_eq!((trial.stable(), trial.shares.clone()), (canary.clone(), vec![0, 20, 33, 0]));
    assert_eq!(trial.cluster.weights, BTreeMap::from([(format!("support-{canary}"), 100)]));
    assert_eq!(trial.cluster.world.objects.keys().collect::<Vec<_>>(), [&canary]);
    assert_eq!(trial.told("BaselineStarting").len(), 1);
}

#[test]
fn a_canary_that_has_passed_gets_the_room_of_the_baseline_and_is_held_against_stable() {
    let mut trial = mirrored();
    trial.wait_for_share(33);
    let canary = trial.cluster.canary();
    // The pods with which it takes over do not come up.
    for _ in 0..400 {
        trial.serve_unseen(10, EQUAL, false);
        trial.settle();
        if trial.rollout().step == Some(3) {
            break;
        }
    }
    let step = trial.rollout().step;
    assert_eq!((step, trial.weights(), trial.baseline()), (Some(3), [67, 33, 0], None), "{:?}", trial.rollout());
    assert_eq!(trial.cluster.world.serving[&canary].wanted, 4);
    trial.cluster.pass(31);
    trial.settle();
    let names: Vec<_> = trial.cluster.world.objects.keys().filter(|name| name.ends_with("-base")).collect();
    assert_eq!(names, Vec::<&String>::new());
    trial.serve_unseen(20 * 60, Users { slowdown: 3.0, ..EQUAL }, false);
    trial.settle();
    assert_eq!(trial.rollout().rejected.len(), 1, "{:?}", trial.rollout().message);
}

#[test]
fn pods_that_have_just_started_are_not_held_against_warm_ones() {
    let mut beside_stable = trial_with(ROLLOUT);
    beside_stable.serve(60 * 60, COLD);
    assert_eq!(beside_stable.rollout().rejected.len(), 1, "without a baseline it is taken for slower");
    let mut trial = mirrored();
    let canary = trial.cluster.canary();
    trial.serve(60 * 60, COLD);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
}

#[test]
fn a_canary_that_is_slower_than_the_baseline_is_rolled_back_and_takes_it_along() {
    let mut trial = mirrored();
    let stable = trial.stable();
    trial.serve(20 * 60, Users { slowdown: 2.0, ..COLD });
    let reasons: Vec<_> = trial.rollout().rejected.into_iter().map(|rejected| rejected.reason).collect();
    let words = "at 20 % of the traffic: RelativeHarm: AgentRunLatency/relative; log evidence";
    assert!(matches!(reasons.as_slice(), [reason] if reason.starts_with(words)), "{reasons:?}");
    assert_eq!((trial.weights(), trial.baseline()), ([100, 0, 0], None));
    assert_eq!(trial.cluster.world.objects.keys().collect::<Vec<_>>(), [&stable]);
}

#[test]
fn nobody_is_sent_to_a_baseline_that_is_not_ready() {
    let mut trial = trial_with(&format!("{ROLLOUT}paused: true\nbaseline: MirrorBaseline"));
    assert_eq!(trial.weights(), [100, 0, 0], "paused before its first share");
    trial.edit(|spec| spec.rollout.paused = false);
    assert_eq!(trial.weights(), [60, 20, 20]);
    trial.baseline_pods().ready = 0;
    trial.settle();
    assert_eq!(
        (trial.weights(), trial.share()),
        ([80, 20, 0], 20),
        "its share is stable's, and the canary keeps its own"
    );
    let starting = format!("revision {} has 0 of 1 pods ready", baseline_of(&trial.cluster.canary()));
    assert_eq!(trial.condition("Reconciling"), ("RevisionStarting".to_owned(), starting));
    trial.serve_unseen(10 * 60, EQUAL, false);
    trial.settle();
    assert_eq!(trial.rollout().step, Some(1), "without its baseline it is not given more");
    trial.cluster.ready_pods();
    trial.settle();
    assert_eq!(trial.weights(), [60, 20, 20]);
}

#[test]
fn a_baseline_that_does_not_start_says_that_it_is_no_fault_of_the_canarys() {
    let cluster = super::super::cluster::world().edited(|spec| {
        spec.serving.replicas = 4;
        spec.rollout = serde_norway::from_str(&format!("{ROLLOUT}baseline: MirrorBaseline")).expect("a valid rollout");
    });
    let cluster = cluster.serving().edited(|spec| spec.agent.system_prompt = "Think, then answer.".to_owned());
    let mut trial = Trial::on(cluster);
    trial.settle();
    trial.cluster.ready_pods();
    let name = baseline_of(&trial.cluster.canary());
    trial.cluster.fail_pods(&name, "image registry.example/triton:1 is gone.");
    trial.settle();
    let words = format!(
        "revision {name} does not start: image registry.example/triton:1 is gone. It runs the serving plan: check what has changed around it, or set spec.rollout.baseline to Stable"
    );
    assert_eq!(trial.condition("Stalled"), ("RevisionFailing".to_owned(), words));
    assert_eq!((trial.weights(), trial.cluster.world.status.stage), ([100, 0, 0], Some(Stage::Stalled)));
    trial.edit(|spec| spec.rollout.baseline = Baseline::Stable);
    assert_eq!((trial.weights(), trial.baseline()), ([80, 20, 0], None));
    assert!(!trial.cluster.world.objects.contains_key(&name));
}

#[test]
fn a_word_of_a_person_or_another_edit_ends_a_baseline_with_its_canary() {
    let ended = |edit: fn(&mut slipway_crds::v1alpha1::AgentDeploymentSpec, String)| {
        let mut trial = mirrored();
        let canary = trial.cluster.canary();
        trial.edit(|spec| edit(spec, canary));
        trial
    };
    let mut aborted = ended(|spec, canary| spec.rollout.abort = Some(canary));
    assert_eq!((aborted.weights(), aborted.cluster.world.objects.len()), ([100, 0, 0], 3));
    aborted.cluster.pass(31);
    aborted.settle();
    assert_eq!((aborted.weights(), aborted.cluster.world.objects.len()), ([100, 0, 0], 1));
    let promoted = ended(|spec, canary| spec.rollout.promote = Some(canary));
    assert_eq!(
        (promoted.weights(), promoted.baseline()),
        ([80, 20, 0], None),
        "it takes over without further judgement"
    );
    let mut superseded = ended(|spec, _| spec.agent.system_prompt = "Be brief.".to_owned());
    assert_eq!(superseded.weights(), [100, 0, 0]);
    let fresh =
        RolloutBaseline { revision: baseline_of(&superseded.cluster.canary()), weight: 0, pods: 1, ready_pods: 0 };
    assert_eq!(superseded.baseline(), Some(fresh), "the next canary has one of its own age");
    superseded.cluster.pass(31);
    superseded.settle();
    assert_eq!(superseded.cluster.world.serving.len(), 3);
    let in_place = ended(|spec, _| {
        spec.rollout.baseline = Baseline::Stable;
        spec.rollout.capacity = slipway_crds::v1alpha1::agent_deployment::Capacity::InPlace;
    });
    assert_eq!((in_place.weights(), in_place.baseline()), ([80, 20, 0], None));
}

#[test]
fn without_a_record_of_the_plan_that_serves_stable_is_the_yardstick() {
    let mut trial = mirrored();
    let stable = trial.stable();
    trial.cluster.world.revisions.retain(|revision| revision.hash != stable);
    trial.settle();
    assert_eq!((trial.weights(), trial.baseline()), ([80, 20, 0], None));
    assert!(trial.cluster.world.serving.contains_key(&stable), "who serves goes on");
}

#[test]
fn evidence_of_a_baseline_that_was_not_looked_at_for_a_while_is_the_same_evidence() {
    let (mut seen, mut unseen) = (mirrored(), mirrored());
    seen.serve_unseen(50, COLD, true);
    unseen.serve_unseen(50, COLD, false);
    for trial in [&mut seen, &mut unseen] {
        trial.cluster.pass(60);
        trial.settle();
    }
    assert_eq!(seen.rollout().judge_state, unseen.rollout().judge_state);
    assert!(seen.rollout().judge_state.is_some_and(|state| state.len() <= 8_192));
    assert!(!seen.rollout().evidence.is_empty());
}

#[test]
fn a_gateway_that_splits_as_declared_is_believed_beside_a_baseline() {
    let mut trial = mirrored();
    trial.serve(5 * 60, EQUAL);
    assert_ne!(trial.rollout().reason.as_deref(), Some("TrafficSplitMismatch"));
}

#[test]
fn a_ratio_of_the_users_own_is_asked_for_anew_when_the_baseline_comes_and_goes() {
    let guardrail = "guardrails: [{name: heat, query: 'max(heat{pod=~\"$pods\"})', maxRatioToStable: '1.5'}]";
    let mut trial = trial_with(&format!("{ROLLOUT}baseline: MirrorBaseline\n{guardrail}"));
    trial.said = GuardrailView::Values { canary: Some(1.0), stable: Some(1.0) };
    trial.serve(30, EQUAL);
    assert_eq!(trial.rollout().guardrails.len(), 1);
    trial.baseline_pods().ready = 0;
    let plan = trial.cluster.plan();
    assert_eq!(plan.status.rollout.map(|rollout| rollout.guardrails), Some(Vec::new()));
}

#[test]
fn what_serves_is_the_same_whether_a_baseline_is_asked_for_or_not() {
    let (with, without) = (mirrored(), trial_with(ROLLOUT));
    assert_eq!((with.stable(), with.canary()), (without.stable(), without.canary()));
    let of = |trial: &Trial| {
        trial.cluster.world.revisions.iter().map(|r| (r.hash.clone(), r.input_hash.clone())).collect::<Vec<_>>()
    };
    assert_eq!(of(&with), of(&without));
}
