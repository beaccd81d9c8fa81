//! A cluster with users: what they send is counted by the pods that have traffic, and looked at as the operator looks.
//! The clock is the test's.

use std::collections::BTreeMap;

use slipway_crds::v1alpha1::{AgentDeploymentSpec, agent_deployment::RolloutStatus};
use slipway_vocabulary::{
    evidence::{Evidence, Histogram, Implausible, Metric, MetricWindow, Unit, WINDOW_SECONDS, Window, window_id},
    telemetry::GpuWindow,
};

use super::cluster::{Cluster, lines, world};
use crate::agent_deployment::{
    monitoring::counted::{BrokenGpu, CountedHour, Keep},
    rollout::{guardrails::GuardrailView, judged_after},
    world::{Crash, PodEvidence},
};

pub(super) const ROLLOUT: &str = "
traffic: {type: GatewayAPI, gatewayAPI: {parentRefs: [{name: agents}]}}
steps: [{weight: 20, minSoak: 1m, maxSoak: 30m}, {weight: 50, minSoak: 1m, maxSoak: 60m}]
judge: {warmUp: 0s}
";

/// What users send, and how revisions take it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Users {
    /// Runs in a window, of both revisions together.
    pub(super) runs: u64,
    /// How much slower the canary is.
    pub(super) slowdown: f64,
    /// Failures among 100 runs of the canary.
    pub(super) failures: u64,
    /// Whether stable fails as often.
    pub(super) fails_alike: bool,
    /// How much slower fresh pods are than those that have long served, of whatever revision.
    pub(super) cold: f64,
    /// Among 100 clients of the canary, those who say that a run did not do what it was for; absent where no client
    /// says anything.
    pub(super) disappointed: Option<u64>,
}

pub(super) const EQUAL: Users =
    Users { runs: 400, slowdown: 1.0, failures: 0, fails_alike: false, cold: 1.0, disappointed: None };

/// A cluster with users.
#[derive(Clone)]
pub(super) struct Trial {
    pub(super) cluster: Cluster,
    pub(super) counted: BTreeMap<String, Vec<Window>>,
    /// The revision whose pods do not answer when they are asked for what they counted.
    pub(super) silent: Option<String>,
    /// Why what they say is refused, where they do answer.
    pub(super) refused: Option<Implausible>,
    /// The revision whose pods the operator has no turn to ask.
    pub(super) unasked: Option<String>,
    /// A pod whose clock is late, and by how many windows.
    pub(super) late: Option<(String, usize)>,
    /// A pod whose clock is early, and by how many windows.
    pub(super) early: Option<(String, u64)>,
    /// What the GPU of a pod does, where it is looked at.
    pub(super) gpus: BTreeMap<String, GpuWindow>,
    /// Percent of the users that come to the canary beside its share; below zero, that stay away from it.
    pub(super) astray: i64,
    /// Most runs that a pod takes in a window; it refuses the others.
    pub(super) room: u64,
    /// What Prometheus says of the canary by every guardrail.
    pub(super) said: GuardrailView,
    /// Every share that the canary had, in turn.
    pub(super) shares: Vec<i32>,
    pub(super) events: Vec<String>,
    pub(super) writes: usize,
}

fn with_rollout(spec: &mut AgentDeploymentSpec, rollout: &str) {
    spec.serving.replicas = 4;
    spec.rollout = serde_norway::from_str(rollout).expect("a valid rollout");
}

/// An agent of four pods with a changed prompt; the canary's first pods are ready.
pub(super) fn trial() -> Trial {
    trial_with(ROLLOUT)
}

pub(super) fn trial_with(rollout: &str) -> Trial {
    let mut trial = Trial::on(edited(rollout));
    trial.settle();
    trial.cluster.ready_pods();
    trial.settle();
    trial
}

/// An agent of four pods whose prompt has just been changed.
pub(super) fn edited(rollout: &str) -> Cluster {
    let cluster = world().edited(|spec| with_rollout(spec, rollout)).serving();
    cluster.edited(|spec| spec.agent.system_prompt = "Think, then answer.".to_owned())
}

/// A time in the shape of a latency: the same sequence for every pod, shifted a little from window to window.
fn microseconds(index: u64, window: u64, slowdown: f64) -> u64 {
    let spread = [0.62, 0.75, 0.86, 0.95, 1.04, 1.15, 1.3, 1.52, 1.9, 2.6];
    let jitter = 1.0 + ((index * 7 + window * 13) % 11) as f64 / 100.0;
    (200_000.0 * spread[(index % 10) as usize] * jitter * slowdown) as u64
}

impl Trial {
    pub(super) fn on(cluster: Cluster) -> Self {
        let said = GuardrailView::Values { canary: None, stable: None };
        Self {
            cluster,
            counted: BTreeMap::new(),
            silent: None,
            refused: None,
            unasked: None,
            late: None,
            early: None,
            gpus: BTreeMap::new(),
            astray: 0,
            room: u64::MAX,
            said,
            shares: Vec::new(),
            events: Vec::new(),
            writes: 0,
        }
    }

    pub(super) fn rollout(&self) -> RolloutStatus {
        self.cluster.world.status.rollout.clone().expect("something serves")
    }

    pub(super) fn share(&self) -> i32 {
        self.rollout().weight.unwrap_or(0)
    }

    pub(super) fn canary(&self) -> Option<String> {
        self.rollout().canary
    }

    pub(super) fn stable(&self) -> String {
        self.cluster.stable()
    }

    /// Reconciles as often as there is something new, and notes what was told.
    pub(super) fn settle(&mut self) {
        for _ in 0..20 {
            self.look();
            let plan = self.cluster.plan();
            self.events.extend(plan.notes.iter().map(|note| format!("{} {}", note.reason, note.message)));
            let before = self.cluster.world.status.clone();
            self.cluster.step();
            if self.cluster.world.status == before {
                return;
            }
            self.writes += 1;
            if self.shares.last() != Some(&self.share()) {
                self.shares.push(self.share());
            }
        }
        panic!("no rest: {:?}", lines(&self.cluster.plan()));
    }

    /// What the operator sees of the pods' counts.
    pub(super) fn look(&mut self) {
        let rollout = self.cluster.world.status.rollout.clone().unwrap_or_default();
        let is_compared = rollout.weight.is_some_and(|weight| weight > 0);
        let after = judged_after(&rollout, self.cluster.world.now);
        let baseline = rollout.compared_baseline().map(|baseline| baseline.revision.clone());
        let arms = [rollout.stable, rollout.canary, baseline].into_iter().flatten().filter(|_| is_compared);
        let of = |revision: String| {
            let pods = (0..2).map(|pod| {
                let name = format!("{revision}-{pod}");
                let is_heard = ![&self.silent, &self.unasked].contains(&&Some(revision.clone()));
                let counted = self.counted.get(&name).filter(|_| is_heard);
                let refused = self.refused.clone().filter(|_| self.silent.as_ref() == Some(&revision));
                let broken = self.broken(&name);
                let was_asked = self.unasked.as_ref() != Some(&revision);
                let evidence = counted.map(|windows| Evidence {
                    version: 1,
                    revision: revision.clone(),
                    pod: name.clone(),
                    started_at: "2026-01-01T00:00:00Z".to_owned(),
                    windows: {
                        let ended = &windows[..windows.len().saturating_sub(self.windows_late(&name))];
                        let of_its_clock = ended.iter().cloned().map(|mut window| {
                            window.id += self.windows_early(&name);
                            window
                        });
                        of_its_clock.filter(|window| window.id > after).collect()
                    },
                });
                let node = Some("gpu-7".to_owned());
                PodEvidence { is_leaving: false, pod: name, evidence, refused, was_asked, broken, node }
            });
            (revision.clone(), pods.collect())
        };
        self.cluster.world.evidence = arms.map(of).collect();
        self.look_at_guardrails(is_compared);
    }

    /// What the operator remembers of a pod's GPUs.
    fn broken(&self, pod: &str) -> Vec<BrokenGpu> {
        let mut hour = CountedHour::new(Keep::of(&self.cluster.world.spec));
        let windows = self.counted.get(pod).cloned().unwrap_or_default();
        let (revision, started_at) = (String::new(), "2026-01-01T00:00:00Z".to_owned());
        let _ = hour.add(&Evidence { version: 1, revision, pod: pod.to_owned(), started_at, windows }, 0);
        hour.broken().to_vec()
    }

    /// Windows that a pod's clock has not ended yet.
    fn windows_late(&self, pod: &str) -> usize {
        self.late.as_ref().filter(|(late, _)| late == pod).map_or(0, |(_, windows)| *windows)
    }

    /// Windows that a pod's clock has ended before it was time.
    fn windows_early(&self, pod: &str) -> u64 {
        self.early.as_ref().filter(|(early, _)| early == pod).map_or(0, |(_, windows)| *windows)
    }

    /// Lets users send for so many seconds, with a look of the operator's after each window.
    pub(super) fn serve(&mut self, seconds: i64, users: Users) {
        self.serve_unseen(seconds, users, true);
    }

    /// No pod of a revision is ready any more, one of them for the error that it ended with just now.
    pub(super) fn lose_pods(&mut self, revision: &str, error: Option<&str>) {
        let at = self.cluster.world.now;
        let view = self.cluster.world.serving.get_mut(revision).expect("it has a Deployment");
        (view.ready, view.crash) = (0, error.map(|text| Crash { at, text: text.to_owned() }));
    }

    pub(super) fn serve_unseen(&mut self, seconds: i64, users: Users, is_seen: bool) {
        for _ in 0..seconds / WINDOW_SECONDS as i64 {
            self.count(users);
            self.cluster.pass(WINDOW_SECONDS as i64);
            if is_seen {
                self.settle();
                self.cluster.ready_pods();
                self.settle();
            }
        }
    }

    fn count(&mut self, users: Users) {
        let id = window_id(u64::try_from(self.cluster.world.now.as_second()).expect("after 1970"));
        let rollout = self.rollout();
        let percent = |share: i32| u64::try_from(share).expect("a share is positive");
        let baseline =
            rollout.compared_baseline().map(|baseline| (baseline.revision.clone(), percent(baseline.weight)));
        let canary = rollout.canary.zip(rollout.weight.map(percent)).filter(|(_, share)| *share > 0);
        let given: u64 = canary.iter().chain(&baseline).map(|(_, share)| share).sum();
        let astray = if canary.is_some() { self.astray } else { 0 };
        let canary = canary.map(|(canary, share)| (canary, share.saturating_add_signed(astray)));
        let stable = rollout.stable.map(|stable| (stable, (100 - given).saturating_add_signed(-astray)));
        let failures = if users.fails_alike { users.failures } else { 0 };
        let as_good = Users { slowdown: 1.0, failures, disappointed: users.disappointed.map(|_| 0), ..users };
        let fresh = |users: Users| Users { slowdown: users.slowdown * users.cold, ..users };
        let arms = [(stable, as_good), (canary, fresh(users)), (baseline, fresh(as_good))];
        for ((revision, share), users) in arms.into_iter().filter_map(|(arm, users)| Some((arm?, users))) {
            for pod in 0..2 {
                let name = format!("{revision}-{pod}");
                let gpus = self.gpus.get(&name).cloned().into_iter().collect();
                let asked = users.runs * share / 200;
                let mut window = Window { gpus, ..window(id, Users { runs: asked.min(self.room), ..users }) };
                window.metrics.extend(asked.checked_sub(self.room).map(refused));
                self.counted.entry(name).or_default().push(window);
            }
        }
    }
}

fn refused(count: u64) -> MetricWindow {
    let of_none = (0, count, 0);
    row(Metric::Shed, of_none, Histogram::default())
}

fn row(metric: Metric, (started, count, errors): (u64, u64, u64), buckets: Histogram) -> MetricWindow {
    MetricWindow {
        metric,
        unit: Unit::Run,
        stratum: String::new(),
        started,
        new_sessions: started,
        in_flight: 0,
        oldest_in_flight_microseconds: 0,
        in_flight_ages: None,
        count,
        errors,
        sum_microseconds: 0,
        buckets,
    }
}

/// Of so many a share in percent: what rounding leaves out of one window comes in a later one.
fn share_of(all: u64, percent: u64, window: u64) -> u64 {
    (window % 100 + 1) * all * percent / 100 - (window % 100) * all * percent / 100
}

fn window(id: u64, users: Users) -> Window {
    let Users { runs, slowdown, failures, disappointed, .. } = users;
    let errors = share_of(runs, failures, id);
    let mut buckets = Histogram::default();
    (0..runs - errors.min(runs)).for_each(|run| buckets.record(microseconds(run, id, slowdown)));
    if runs == 0 {
        return Window { id, metrics: Vec::new(), load: None, gpus: Vec::new() };
    }
    let mut metrics = vec![row(Metric::AgentRunLatency, (runs, runs, errors), buckets)];
    // One client of four says what it thinks. Such words start nothing.
    let words = runs / 4;
    let of_failure = disappointed.map(|percent| share_of(words, percent, id));
    metrics.extend(of_failure.map(|bad| row(Metric::TaskSuccess, (0, words, bad), Histogram::default())));
    Window { id, metrics, load: None, gpus: Vec::new() }
}
