//! As many pods as the load needs. The clock is the test's, and so is what users send.

use jiff::SignedDuration;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_crds::v1alpha1::{
    AgentDeploymentStatus,
    agent_deployment::{Autoscaling, AutoscalingStatus},
};
use slipway_vocabulary::evidence::{
    Evidence, Histogram, Load, Metric, MetricWindow, RING_WINDOWS, Unit, WINDOW_SECONDS, Window,
};

use super::cluster::{Cluster, lines, world};
use crate::{
    agent_deployment::monitoring::load::ObservedLoad,
    plan::{Child, Plan, Severity},
};

/// What users send in one window, to all pods together.
#[derive(Debug, Clone, Copy)]
struct Users {
    /// Model requests in flight.
    requests: f64,
    runs: f64,
    admitted: u64,
    refused: u64,
}

/// Runs that wait for nothing but the model, and all find a place.
fn waiting_for_the_model(requests: f64) -> Users {
    Users { requests, runs: requests, admitted: 100, refused: 0 }
}

/// An agent whose pods count what users send.
#[derive(Clone)]
struct Served {
    cluster: Cluster,
    pods: Vec<Vec<Window>>,
    /// Reconciliations that wrote the status.
    writes: u32,
}

const BOUNDS: &str = "{minReplicas: 2, maxReplicas: 10}";

/// An agent of three pods that carry eight model requests each, with a window of what `users` send behind it.
fn served(autoscaling: &str, users: Users) -> Served {
    let cluster = world().edited(|spec| {
        spec.serving.replicas = 3;
        spec.search.concurrency = vec![8];
        spec.serving.autoscaling = Some(asked(autoscaling));
    });
    let mut served = Served { cluster: cluster.serving(), pods: Vec::new(), writes: 0 };
    served.cluster.world.now = "2026-01-01T12:00:02Z".parse().expect("a time");
    served.follow();
    served.pass(30, users);
    served
}

fn asked(autoscaling: &str) -> Autoscaling {
    serde_norway::from_str(autoscaling).expect("valid bounds")
}

impl Served {
    /// Lets users send this for so many seconds; whatever pods are wanted are ready at the end of each window.
    fn pass(&mut self, seconds: i64, users: Users) {
        for _ in 0..seconds / 10 {
            self.count(users);
            self.cluster.pass(10);
            self.reconcile();
            self.follow();
        }
    }

    fn count(&mut self, users: Users) {
        let id = u64::try_from(self.cluster.world.now.as_second()).expect("after 1970") / WINDOW_SECONDS;
        let pods = self.pods.len() as u64;
        for (index, windows) in self.pods.iter_mut().enumerate() {
            let share = |total: u64| total / pods + u64::from((index as u64) < total % pods);
            let microseconds = |in_flight: f64| share((in_flight * 1e7) as u64);
            let load = Load {
                run_microseconds: microseconds(users.runs),
                model_request_microseconds: microseconds(users.requests),
            };
            let metrics = vec![
                row(Metric::AgentRunLatency, share(users.admitted), 0),
                row(Metric::Shed, 0, share(users.refused)),
            ];
            windows.push(Window { id, metrics, load: Some(load), gpus: Vec::new() });
            let surplus = windows.len().saturating_sub(RING_WINDOWS);
            windows.drain(..surplus);
        }
    }

    fn reconcile(&mut self) {
        let evidence = self.pods.iter().map(|windows| Evidence {
            version: 1,
            revision: String::new(),
            pod: String::new(),
            started_at: String::new(),
            windows: windows.clone(),
        });
        let evidence: Vec<Evidence> = evidence.collect();
        self.cluster.world.load = ObservedLoad::of(evidence.iter().map(Some));
        for _ in 0..4 {
            let before = self.cluster.world.status.clone();
            self.cluster.step();
            self.writes += u32::from(self.cluster.world.status != before);
        }
    }

    /// Pods come and go as they are wanted.
    fn follow(&mut self) {
        self.cluster.ready_pods();
        let wanted: i32 = self.cluster.world.serving.values().map(|view| view.wanted).sum();
        self.pods.resize(usize::try_from(wanted).expect("no fewer than none"), Vec::new());
    }

    fn plan(&self) -> Plan<AgentDeploymentStatus> {
        self.cluster.plan()
    }

    fn scaled(&self) -> AutoscalingStatus {
        self.cluster.world.status.autoscaling.clone().expect("it scales itself")
    }

    /// Number of pods, and why.
    fn found(&self) -> (i32, String) {
        let AutoscalingStatus { replicas, reason, message, .. } = self.scaled();
        (replicas, format!("{reason}: {message}"))
    }

    fn pods_of(&self, revision: &str) -> i32 {
        self.cluster.world.serving[revision].wanted
    }

    fn condition(&self, type_: &str) -> Option<String> {
        let conditions = &self.cluster.world.status.conditions;
        conditions.iter().find(|c| c.type_ == type_).map(|c| format!("{} {}: {}", c.status, c.reason, c.message))
    }
}

fn row(metric: Metric, started: u64, count: u64) -> MetricWindow {
    MetricWindow {
        metric,
        unit: Unit::Run,
        stratum: String::new(),
        started,
        new_sessions: 0,
        in_flight: 0,
        oldest_in_flight_microseconds: 0,
        in_flight_ages: None,
        count,
        errors: 0,
        sum_microseconds: 0,
        buckets: Histogram::default(),
    }
}

fn deployments(plan: &Plan<AgentDeploymentStatus>) -> Vec<i32> {
    let deployments = plan.children.iter().filter_map(|child| match child {
        Child::Deployment(deployment) => deployment.spec.as_ref()?.replicas,
        _ => None,
    });
    deployments.collect()
}

#[test]
fn an_agent_starts_with_its_replicas_within_the_bounds() {
    let before = |bounds: &str, replicas| {
        let cluster = world().edited(|spec| {
            spec.serving.replicas = replicas;
            spec.serving.autoscaling = Some(asked(bounds));
        });
        let cluster = cluster.serving();
        (cluster.world.serving[&cluster.stable()].wanted, cluster.world.status.ready_replicas)
    };
    assert_eq!(before(BOUNDS, 3), (3, Some("3/3".to_owned())));
    assert_eq!(before(BOUNDS, 0), (2, Some("2/2".to_owned())));
    assert_eq!(before(BOUNDS, 100), (10, Some("10/10".to_owned())));
}

#[test]
fn whoever_lets_an_agent_scale_itself_goes_on_with_the_pods_that_serve() {
    let mut cluster = world().edited(|spec| spec.serving.replicas = 6).serving();
    cluster = cluster.edited(|spec| {
        spec.serving.replicas = 3;
        spec.serving.autoscaling = Some(asked(BOUNDS));
    });
    cluster.settle();
    assert_eq!(cluster.world.serving[&cluster.stable()].wanted, 6);
}

#[test]
fn without_a_word_of_the_load_everything_stays_and_says_so() {
    let mut served = served(BOUNDS, waiting_for_the_model(20.0));
    served.pods.clear();
    served.cluster.pass(120);
    served.reconcile();
    let silent = "LoadUnknown: 3 pods stay, because the load is unknown: no pod runs yet";
    assert_eq!(served.found(), (3, silent.to_owned()));
    assert_eq!(served.condition("ScalingActive"), Some(format!("False {silent}")));
    let mute = |pods: &[Option<&Evidence>]| {
        let mut cluster = served.cluster.clone();
        cluster.world.load = ObservedLoad::of(pods.iter().copied());
        cluster.pass(120);
        cluster.settle();
        cluster.world.status.autoscaling.map(|scaled| scaled.message)
    };
    let not_counting = Evidence {
        version: 1,
        revision: String::new(),
        pod: String::new(),
        started_at: String::new(),
        windows: vec![Window { id: 1, metrics: Vec::new(), load: None, gpus: Vec::new() }],
    };
    assert_eq!(
        [mute(&[None, None]), mute(&[Some(&not_counting), None])].map(|message| message.expect("it is said")),
        [
            "3 pods stay, because the load is unknown: none of 2 pods reports its counts on port 9464: check their logs, and any NetworkPolicy between them and the operator",
            "3 pods stay, because the load is unknown: the serving revision runs an agent runtime that does not count model requests: the next change of the plan updates it",
        ]
    );
}

#[test]
fn more_load_adds_the_pods_that_it_needs_once_their_number_is_recorded() {
    let mut served = served(BOUNDS, waiting_for_the_model(20.0));
    assert_eq!(served.found(), (3, "ScaledToLoad: 20.0 model requests in flight, at most 8 a pod: 3 pods".to_owned()));
    for _ in 0..3 {
        served.count(waiting_for_the_model(40.0));
        served.cluster.pass(10);
    }
    let before = served.cluster.clone();
    served.reconcile();
    let more = "ScaledUp: 40.0 model requests in flight, at most 8 a pod: 6 pods after 3";
    assert_eq!(served.found(), (6, more.to_owned()));
    assert_eq!(served.pods_of(&served.cluster.stable()), 6);
    // In the plan that records the number, nobody has it yet.
    let mut recorded = before;
    recorded.world.load = served.cluster.world.load.clone();
    let plan = recorded.plan();
    assert_eq!(deployments(&plan), [3]);
    assert_eq!(plan.status.autoscaling.as_ref().map(|scaled| scaled.replicas), Some(6));
    assert!(lines(&plan).contains(&format!("Normal {more}")), "{:?}", lines(&plan));
}

#[test]
fn fewer_pods_must_have_been_enough_for_five_minutes() {
    let mut served = served(BOUNDS, waiting_for_the_model(40.0));
    served.pass(600, waiting_for_the_model(40.0));
    assert_eq!(served.scaled().replicas, 6);
    served.pass(310, waiting_for_the_model(18.0));
    let waits = "ScaleDownDelayed: 18.0 model requests in flight, at most 8 a pod: 3 would suffice; 6 pods stay until that has held for 5m";
    assert_eq!(served.found(), (6, waits.to_owned()));
    // What was needed when the delay began is kept; the rest follows as long after it.
    served.pass(20, waiting_for_the_model(18.0));
    assert_eq!(served.scaled().replicas, 4);
    served.pass(280, waiting_for_the_model(18.0));
    assert_eq!(served.scaled().replicas, 4);
    served.pass(20, waiting_for_the_model(18.0));
    assert_eq!(served.scaled().replicas, 3);
}

#[test]
fn a_burst_keeps_its_pods_for_five_minutes() {
    let mut served = served(BOUNDS, waiting_for_the_model(40.0));
    served.pass(600, waiting_for_the_model(40.0));
    for _ in 0..4 {
        served.pass(240, waiting_for_the_model(10.0));
        served.pass(30, waiting_for_the_model(40.0));
        assert_eq!(served.scaled().replicas, 6);
    }
}

#[test]
fn pods_that_say_nothing_are_no_reason_to_take_others_away() {
    let mut served = served(BOUNDS, waiting_for_the_model(24.0));
    served.pass(600, waiting_for_the_model(24.0));
    let pods = served.scaled().replicas;
    assert_eq!(pods, 4);
    // All but one pod are cut off: what the others carry is not known.
    served.pods.truncate(1);
    for _ in 0..60 {
        served.count(waiting_for_the_model(6.0));
        served.cluster.pass(10);
        served.reconcile();
    }
    assert_eq!(served.scaled().replicas, pods);
}

#[test]
fn more_than_is_allowed_is_said_once() {
    let mut served = served("{maxReplicas: 4}", waiting_for_the_model(20.0));
    served.pass(60, waiting_for_the_model(60.0));
    served.pass(60, waiting_for_the_model(60.0));
    let limited = "60.0 model requests in flight, at most 8 a pod: 9 are needed but 4 pods allowed: raise \
                   spec.serving.autoscaling.maxReplicas";
    assert_eq!(served.found(), (4, format!("ScalingLimited: {limited}")));
    assert_eq!(served.condition("ScalingActive"), Some(format!("True ScalingLimited: {limited}")));
    assert_eq!(served.plan().notes, vec![]);
    let mut forgotten = served.cluster.clone();
    let known = forgotten.world.status.autoscaling.as_mut().expect("it scales itself");
    (known.reason, known.at.0) = ("ScaledUp".to_owned(), known.at.0 - SignedDuration::from_mins(2));
    let told: Vec<_> = forgotten.plan().notes.into_iter().map(|note| (note.severity, note.message)).collect();
    assert_eq!(told, [(Severity::Warning, limited.to_owned())]);
}

#[test]
fn slow_tools_add_no_pods_and_take_none_away_that_admit_runs() {
    let slow_tools = Users { requests: 3.0, runs: 24.0, admitted: 100, refused: 80 };
    let mut served = served(BOUNDS, waiting_for_the_model(12.0));
    served.pass(30, Users { refused: 0, ..slow_tools });
    served.pass(900, slow_tools);
    // Three pods admit 24 runs: with fewer, more would be refused.
    assert_eq!(served.scaled().replicas, 3);
    let few_runs = Users { runs: 6.0, refused: 0, ..slow_tools };
    served.pass(900, few_runs);
    assert_eq!(served.scaled().replicas, 2);
}

#[test]
fn full_pods_that_wait_for_the_model_are_too_few_even_if_tools_take_their_part() {
    // A third of every run are tools: all places are taken before the target is reached.
    let full = Users { requests: 16.0, runs: 24.0, admitted: 100, refused: 50 };
    let mut served = served(BOUNDS, waiting_for_the_model(16.0));
    served.pass(30, full);
    let (pods, why) = served.found();
    assert_eq!((pods, why.split(": ").next()), (5, Some("ScaledUp")));
}

#[test]
fn a_target_of_ones_own_goes_before_the_level_that_was_chosen() {
    let mut served = served("{maxReplicas: 10, targetRequestsInFlight: 4}", waiting_for_the_model(20.0));
    assert_eq!(served.scaled().replicas, 6);
    served.cluster = served.cluster.clone().edited(|spec| spec.serving.autoscaling = Some(asked(BOUNDS)));
    served.pass(900, waiting_for_the_model(20.0));
    let scaled = served.scaled();
    assert_eq!((scaled.replicas, scaled.target_requests_in_flight), (4, Some(8)));
}

#[test]
fn a_steady_load_is_hardly_ever_written() {
    let mut served = served(BOUNDS, waiting_for_the_model(20.0));
    served.writes = 0;
    for window in 0..360 {
        served.pass(10, waiting_for_the_model(20.0 + f64::from(window % 7) / 10.0));
    }
    assert!(served.writes <= 13, "{} writes in an hour", served.writes);
}

const CANARY: &str = "{traffic: {type: ReplicaRatio}, steps: [{weight: 50, minSoak: 1d, maxSoak: 2d}]}";

/// The same with a canary that has half of the traffic.
fn rolling_out(users: Users) -> Served {
    let mut served = served(BOUNDS, users);
    served.cluster = served.cluster.clone().edited(|spec| {
        spec.rollout = serde_norway::from_str(CANARY).expect("a valid rollout");
        spec.agent.system_prompt = "Think, then answer.".to_owned();
    });
    served.pass(60, users);
    served
}

#[test]
fn both_arms_grow_in_a_rollout_and_neither_shrinks() {
    let mut served = rolling_out(waiting_for_the_model(20.0));
    let arms = |served: &Served| (served.pods_of(&served.cluster.stable()), served.pods_of(&served.cluster.canary()));
    assert_eq!(arms(&served), (3, 3));
    served.pass(60, waiting_for_the_model(40.0));
    assert_eq!(arms(&served), (6, 6));
    served.pass(1_200, waiting_for_the_model(10.0));
    assert_eq!(arms(&served), (6, 6));
    let kept = "ScaleDownDelayed: 10.0 model requests in flight, at most 8 a pod: 2 would suffice; 6 pods stay until the rollout ends";
    assert_eq!(served.found().1, kept);
    // What is left of it once it is over carries the load for as long as any other number.
    let hash = served.cluster.canary();
    served.cluster = served.cluster.clone().edited(|spec| spec.rollout.abort = Some(hash));
    served.pass(280, waiting_for_the_model(10.0));
    assert_eq!((served.cluster.world.serving.len(), served.scaled().replicas), (1, 6));
    served.pass(60, waiting_for_the_model(10.0));
    assert_eq!(served.scaled().replicas, 2);
}

#[test]
fn somebody_who_scales_beside_it_is_told_once_that_it_does_nothing() {
    let mut served = served(BOUNDS, waiting_for_the_model(20.0));
    assert_eq!(served.condition("ReplicasContested"), None);
    served.cluster.world.scaled_by = Some("kube-controller-manager".to_owned());
    served.cluster = served.cluster.clone().edited(|spec| spec.serving.replicas = 9);
    let told: Vec<_> =
        served.plan().notes.into_iter().map(|note| format!("{} {}", note.reason, note.message)).collect();
    let message = "kube-controller-manager set spec.serving.replicas to 9 through /scale, which has no effect while \
                   spec.serving.autoscaling is set: delete the HorizontalPodAutoscaler or ScaledObject of this agent, \
                   or remove spec.serving.autoscaling. This condition clears when spec.serving.replicas is changed in \
                   the manifest";
    assert_eq!(told, [format!("ScaledByOthers {message}")]);
    served.cluster.settle();
    assert_eq!(served.condition("ReplicasContested"), Some(format!("True ScaledByOthers: {message}")));
    assert_eq!((served.plan().notes, served.scaled().replicas), (vec![], 3));
}

/// A HorizontalPodAutoscaler sees the traffic that is left to stable.
#[test]
fn an_autoscaler_takes_no_pod_away_while_a_canary_has_traffic_and_whoever_edits_the_spec_does() {
    let cluster = world().edited(|spec| spec.serving.replicas = 4).serving();
    let mut served = Served { cluster, pods: Vec::new(), writes: 0 };
    served.cluster = served.cluster.edited(|spec| {
        spec.rollout = serde_norway::from_str(CANARY).expect("a valid rollout");
        spec.agent.system_prompt = "Think, then answer.".to_owned();
    });
    served.pass(30, waiting_for_the_model(1.0));
    let stable = served.cluster.stable();
    let mut scaled = |replicas, by: Option<&str>| {
        served.cluster.world.scaled_by = by.map(str::to_owned);
        served.cluster = served.cluster.clone().edited(|spec| spec.serving.replicas = replicas);
        served.pass(30, waiting_for_the_model(1.0));
        (served.pods_of(&stable), served.condition("ScalingActive"))
    };
    let held = "False ScaleDownDelayed: keda asks for 2 pods through /scale: 4 stay until the rollout ends";
    assert_eq!(scaled(2, Some("keda")), (4, Some(held.to_owned())));
    assert_eq!(scaled(6, Some("keda")), (6, None));
    assert_eq!(scaled(3, None), (3, None));
    served.cluster.world.scaled_by = Some("keda".to_owned());
    let hash = served.cluster.canary();
    served.cluster = served.cluster.clone().edited(|spec| spec.rollout.abort = Some(hash));
    served.pass(30, waiting_for_the_model(1.0));
    served.cluster = served.cluster.clone().edited(|spec| spec.serving.replicas = 1);
    served.pass(30, waiting_for_the_model(1.0));
    assert_eq!(served.pods_of(&stable), 1);
}

fn any_users() -> impl Strategy<Value = Users> {
    (0.0_f64..120.0, 1.0_f64..6.0, 0_u64..200, 0_u64..100).prop_map(|(requests, part, admitted, refused)| Users {
        requests,
        runs: requests * part,
        admitted,
        refused,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_fewer_or_more_pods_than_allowed(loads in prop::collection::vec((any_users(), 1_i64..40), 1..12)) {
        let mut served = served(BOUNDS, waiting_for_the_model(0.0));
        for (users, windows) in loads {
            served.pass(10 * windows, users);
            let pods = served.pods_of(&served.cluster.stable());
            prop_assert!((2..=10).contains(&pods), "{pods} pods");
            prop_assert_eq!(pods, served.scaled().replicas);
        }
    }

    #[test]
    fn a_steady_load_moves_nothing_once_it_has_its_pods(before in any_users(), steady in 0.0_f64..120.0) {
        let mut served = served(BOUNDS, before);
        // What is not needed goes in two or three steps of five minutes.
        served.pass(1_300, waiting_for_the_model(steady));
        let pods = served.scaled().replicas;
        for _ in 0..9 {
            served.pass(100, waiting_for_the_model(steady));
            prop_assert_eq!(served.scaled().replicas, pods);
        }
    }

    /// Of runs in flight the same number: were there more that wait for tools, refusals would say less.
    #[test]
    fn more_load_never_means_fewer_pods(
        load in any_users(), more in 1.0_f64..3.0, refused in 0_u64..100, windows in prop_oneof![Just(3), Just(33)],
    ) {
        let mut before = served(BOUNDS, waiting_for_the_model(30.0));
        before.pass(400, waiting_for_the_model(30.0));
        let after = |users: Users| {
            let mut served = before.clone();
            for _ in 0..windows {
                served.count(users);
                served.cluster.pass(10);
            }
            served.reconcile();
            served.scaled().replicas
        };
        let less = Users { runs: load.runs * more, ..load };
        let more = Users { requests: load.requests * more, refused: load.refused + refused, ..less };
        prop_assert!(after(less) <= after(more));
    }

    #[test]
    fn no_arm_ever_shrinks_in_a_rollout(loads in prop::collection::vec((any_users(), 1_i64..60), 1..10)) {
        let mut served = rolling_out(waiting_for_the_model(20.0));
        let mut before = (0, 0);
        for (users, windows) in loads {
            served.pass(10 * windows, users);
            let arms = (served.pods_of(&served.cluster.stable()), served.pods_of(&served.cluster.canary()));
            prop_assert!(arms.0 >= before.0 && arms.1 >= before.1, "{arms:?} after {before:?}");
            before = arms;
        }
    }
}
