//! Pods between windows: which are still warming up, which are lost, which fail, how loaded each arm's pods are. Pure.
//!
//! Units of one pod fail together: a node, a GPU or a connection of that pod is disturbed, and every unit on it ends
//! with an error. Such errors are not independent draws. So a pod's errors count up to what chance brings in a minute
//! at the rate of the other pods. They count again only after it has been quiet. A revision that fails more fails more
//! on all its pods. What the errors left out would have shown is the task of a rule: see [`PodsFailing`].

use std::collections::{BTreeMap, BTreeSet};

use slipway_vocabulary::evidence::{Metric, Unit, WINDOW_SECONDS};

use super::{
    hypergeometric::Table,
    observation::{Arm, Observation, Window},
    strata::hash,
};

/// A pod that is silent for so many windows, while others report, is lost.
pub const VANISHED_WINDOWS: u64 = 6;

/// How many pods are remembered between windows; more are judged all the same, without warm-up, loss and the bound on
/// errors.
pub const MAX_PODS: usize = 14;

/// What is kept of a pod's counts from one window to the next: they cover about a minute.
const MEMORY: f32 = 5.0 / 6.0;

/// Finished units of about a minute below which a pod's share of errors says nothing.
const LEAST_FINISHED: f32 = 2.0;

/// Units of which half an error is expected before anything is seen: of several pods, and of one, which is believed
/// later.
const UNITS_TO_BELIEVE_MANY: f32 = 50.0;
const UNITS_TO_BELIEVE_ONE: f32 = 500.0;

/// Windows for which several pods must fail together, half of their arm or more: a minute.
const FAILING_WINDOWS: u8 = 6;

/// Windows for which an arm's only pod must fail: five minutes. Whatever ends sooner may be the pod's alone.
const FAILING_WINDOWS_ALONE: u8 = 30;

/// One remembered pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pod {
    pub id: u32,
    /// The hash of the pod's name without what tells its processes apart; 0 when it was not recorded.
    pub name: u32,
    pub arm: Arm,
    pub first_seconds: u64,
    pub last_seconds: u64,
    /// Whether the cluster or the operator ends it: it finishes its units, and its end is no loss.
    pub is_leaving: bool,
    /// Units that finished in about the last minute.
    pub finished: f32,
    /// Those of them that failed.
    pub failed: f32,
    /// Errors of about the last minute that count.
    pub admitted: f32,
    /// Units that finished since it was first seen.
    pub all_finished: f32,
    /// Those of them that failed.
    pub all_failed: f32,
    /// Failures that counted.
    pub all_admitted: f32,
    /// For how many windows it has failed at least half of its units.
    pub failing_windows: u8,
}

/// The pods that matter later.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pods {
    pub known: Vec<Pod>,
}

/// What a window says of pods.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen<'a> {
    /// Pods whose windows are left out.
    pub warming: BTreeSet<&'a str>,
    /// Errors of a pod that count, where not all do.
    pub admitted: BTreeMap<&'a str, u64>,
    /// Ages up to which a unit in flight started after its pod's warm-up, windows.
    pub oldest_counted: BTreeMap<&'a str, u64>,
    /// How the pods that were lost in this window are shared out among the arms.
    pub lost: Option<Table>,
}

/// Pods of the canary that fail together, where stable's do not: at least half of them fail at least half of their
/// units. A rule, not a test: one pod of two can never show a harm at 1 %, and nobody should wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodsFailing {
    /// Pods of the canary that fail.
    pub failing: usize,
    /// Pods of the canary with traffic.
    pub pods: usize,
    /// Seconds for which they have failed.
    pub seconds: u64,
}

/// The position of a unit kind.
pub(super) const fn unit_index(unit: Unit) -> usize {
    match unit {
        Unit::Run => 0,
        Unit::Request => 1,
        Unit::Session => 2,
    }
}

const fn arm_index(arm: Arm) -> usize {
    match arm {
        Arm::Canary => 0,
        Arm::Stable => 1,
    }
}

/// What a pod counted in a window: the metric that counts most of its units, and the one that counts most of its
/// errors.
#[derive(Clone, Copy, Debug)]
struct Reported {
    arm: Arm,
    finished: u64,
    failed: u64,
}

impl Pods {
    /// Reads who reported in a window, and what they say of their errors.
    pub fn update<'a>(&mut self, window: &'a Window, warm_up_seconds: u64) -> Seen<'a> {
        let reported = reported(window);
        let now = window.end_seconds;
        let before = self.known.clone();
        let mut seen = Seen::default();
        // The canary's first: they are remembered whatever becomes of stable's.
        let canary_first = [Arm::Canary, Arm::Stable];
        let in_turn = canary_first.iter().flat_map(|arm| reported.iter().filter(move |(_, of)| of.arm == *arm));
        for (name, of) in in_turn {
            let Some(pod) = self.see(name, of.arm, now) else { continue };
            pod.last_seconds = now;
            let age = now.saturating_sub(WINDOW_SECONDS).saturating_sub(pod.first_seconds);
            if age < warm_up_seconds {
                seen.warming.insert(*name);
            }
            seen.oldest_counted.insert(*name, age.saturating_sub(warm_up_seconds) / WINDOW_SECONDS);
            let others = Others::of(pod, &before);
            let admitted = pod.admit(of.finished, of.failed, others);
            if admitted < of.failed {
                seen.admitted.insert(*name, admitted);
            }
        }
        seen.lost = self.take_lost(now, &reported, &window.ended_pods);
        // What is written down has room for so many windows.
        let oldest = now.saturating_sub(u64::from(u16::MAX) * WINDOW_SECONDS);
        for pod in &mut self.known {
            pod.first_seconds = pod.first_seconds.max(oldest);
            pod.last_seconds = pod.last_seconds.max(oldest);
        }
        seen
    }

    /// The pods that fail together, if the rule applies.
    pub fn failing(&self) -> Option<PodsFailing> {
        let fails = |pod: &&Pod| pod.failing_windows > 0;
        let of = |arm: Arm| self.known.iter().filter(move |pod| pod.arm == arm && pod.finished >= LEAST_FINISHED);
        let (pods, stable) = (of(Arm::Canary).count(), of(Arm::Stable).count());
        let needed = if pods == 1 { FAILING_WINDOWS_ALONE } else { FAILING_WINDOWS };
        let lasting: Vec<&Pod> = of(Arm::Canary).filter(|pod| pod.failing_windows >= needed).collect();
        let windows = lasting.iter().map(|pod| pod.failing_windows).min()?;
        let is_spared = stable > 0 && of(Arm::Stable).filter(fails).count() * 4 < stable;
        let (failing, seconds) = (lasting.len(), u64::from(windows) * WINDOW_SECONDS);
        let is_together = pods == 1 || (failing >= 2 && failing * 2 >= pods);
        (is_spared && is_together).then_some(PodsFailing { failing, pods, seconds })
    }

    /// The memory of a pod; none where there is no room for it. The canary's take the room of stable's.
    fn see(&mut self, name: &str, arm: Arm, now: u64) -> Option<&mut Pod> {
        let id = hash(name);
        let known = self.known.iter().position(|pod| pod.id == id);
        let position = known.or_else(|| {
            let first_seconds = now.saturating_sub(WINDOW_SECONDS);
            let pod = Pod::new(id, arm, first_seconds);
            if self.known.len() < MAX_PODS {
                self.known.push(pod);
                return Some(self.known.len() - 1);
            }
            let room = self.known.iter().rposition(|pod| pod.arm == Arm::Stable).filter(|_| arm == Arm::Canary)?;
            self.known[room] = pod;
            Some(room)
        })?;
        let pod = self.known.get_mut(position)?;
        pod.name = hash(without_process(name));
        Some(pod)
    }

    /// Removes pods that are silent. Those that nobody ended are lost: the pod is the unit, whatever it had in flight.
    /// When nobody reports, the evidence is missing, not the pods.
    fn take_lost(&mut self, now: u64, reported: &BTreeMap<&str, Reported>, ended: &BTreeSet<String>) -> Option<Table> {
        let ended: BTreeSet<u32> = ended.iter().map(|name| hash(without_process(name))).collect();
        let mut lost = [0_u64; 2];
        self.known.retain_mut(|pod| {
            pod.is_leaving |= ended.contains(&pod.name);
            let silent_seconds = now.saturating_sub(pod.last_seconds);
            let is_gone = !reported.is_empty() && silent_seconds >= VANISHED_WINDOWS * WINDOW_SECONDS;
            lost[arm_index(pod.arm)] += u64::from(is_gone && !pod.is_leaving);
            !is_gone
        });
        let [canary, stable] = [Arm::Canary, Arm::Stable].map(|arm| {
            let kept = reported.values().filter(|of| of.arm == arm).count() as u64;
            kept + lost[arm_index(arm)]
        });
        let table = Table { canary, stable, events: lost[0] + lost[1], canary_events: lost[0] };
        (table.events > 0).then_some(table)
    }
}

impl Pod {
    pub fn new(id: u32, arm: Arm, first_seconds: u64) -> Self {
        Self {
            id,
            name: 0,
            arm,
            first_seconds,
            last_seconds: first_seconds,
            is_leaving: false,
            finished: 0.0,
            failed: 0.0,
            admitted: 0.0,
            all_finished: 0.0,
            all_failed: 0.0,
            all_admitted: 0.0,
            failing_windows: 0,
        }
    }

    /// Takes a window's counts in, and returns how many of its errors count. Chance brings so many in a minute at the
    /// rate of the worse arm's other pods, or at its own so far.
    fn admit(&mut self, finished: u64, failed: u64, others: Others) -> u64 {
        let own = (self.all_admitted + 0.5) / (self.all_finished + UNITS_TO_BELIEVE_ONE);
        let rate = others.rate.max(own).min(1.0);
        self.finished = self.finished * MEMORY + finished as f32;
        self.failed = self.failed * MEMORY + failed as f32;
        self.admitted *= MEMORY;
        let is_failing = self.finished >= LEAST_FINISHED && self.failed * 2.0 >= self.finished;
        self.failing_windows = if is_failing { self.failing_windows.saturating_add(1) } else { 0 };
        let most = most_by_chance(rate * self.finished);
        let admitted = failed.min((most - self.admitted + 0.5).max(0.0) as u64);
        // As long as errors are left out the pod is not quiet, and no further one counts. A pod without others of its
        // arm has none that could fail with it: its errors go on to count, a few a minute.
        let is_noisy = admitted < failed && !others.is_none;
        self.admitted = if is_noisy { most / MEMORY } else { self.admitted + admitted as f32 };
        self.all_finished += finished as f32;
        self.all_failed += failed as f32;
        self.all_admitted += admitted as f32;
        admitted
    }
}

/// What the other pods have shown before a window.
#[derive(Clone, Copy, Debug)]
struct Others {
    /// The share of errors, of the worse arm.
    rate: f32,
    /// Whether there is no other pod of the same arm with traffic.
    is_none: bool,
}

impl Others {
    fn of(pod: &Pod, known: &[Pod]) -> Self {
        let others = |arm: Arm| known.iter().filter(move |other| other.arm == arm && other.id != pod.id);
        let rate = |arm: Arm| {
            let sum = |value: fn(&Pod) -> f32| others(arm).map(value).sum::<f32>();
            (sum(|other| other.all_failed) + 0.5) / (sum(|other| other.all_finished) + UNITS_TO_BELIEVE_MANY)
        };
        let is_none = others(pod.arm).all(|other| other.finished < 1.0);
        Self { rate: rate(Arm::Canary).max(rate(Arm::Stable)), is_none }
    }
}

/// Errors that chance exceeds in about one minute of a hundred when so many are expected (Poisson).
fn most_by_chance(expected: f32) -> f32 {
    1.0 + (expected + 2.0 * expected.sqrt()).floor()
}

/// A pod's name as the cluster knows it: what follows the `@` tells its processes apart.
fn without_process(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

fn reported(window: &Window) -> BTreeMap<&str, Reported> {
    let mut by_metric: BTreeMap<(&str, Metric), Reported> = BTreeMap::new();
    // Lines without a pod's name do not tell how many pods there are.
    for observation in window.observations.iter().filter(|observation| !observation.pod.is_empty()) {
        let Observation { arm, pod, metric, count, errors, .. } = observation;
        let nothing = Reported { arm: *arm, finished: 0, failed: 0 };
        let of = by_metric.entry((pod, *metric)).or_insert(nothing);
        // What clients say of a task afterwards is no failure of the pod that served it.
        let counts = is_served(*metric);
        of.finished = of.finished.saturating_add(if counts { *count } else { 0 });
        of.failed = of.failed.saturating_add(if counts { *errors } else { 0 });
    }
    let mut reported: BTreeMap<&str, Reported> = BTreeMap::new();
    for ((pod, _), of) in by_metric {
        let all = reported.entry(pod).or_insert(of);
        *all = Reported { arm: all.arm, finished: all.finished.max(of.finished), failed: all.failed.max(of.failed) };
    }
    reported
}

/// Whether a metric's errors are those of serving.
pub(super) const fn is_served(metric: Metric) -> bool {
    match metric {
        Metric::TaskSuccess | Metric::ApprovalWait | Metric::Cancelled | Metric::Shed => false,
        Metric::AgentRunLatency
        | Metric::ModelTime
        | Metric::ToolTime
        | Metric::RequestLatency
        | Metric::TimeToFirstToken
        | Metric::RequestTimeToFirstToken
        | Metric::InterTokenLatency
        | Metric::ModelCallsPerRun
        | Metric::OutputTokensPerRun
        | Metric::RunSuccess => true,
    }
}

/// Units started per pod and window in each arm, since the step began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Sums of units started: canary, stable.
    pub started: [f32; 2],
    /// Sums of pods that reported: canary, stable.
    pub pods: [f32; 2],
}

/// Windows over which the loads are averaged.
const LOAD_WINDOWS: f32 = 60.0;

/// Canary pods with this much more load than stable's are overloaded; with as much less, underloaded.
const LIKE_LOAD: f32 = 4.0 / 3.0;

/// How the load of a canary pod relates to that of a stable pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    /// Not known: compare within strata.
    Unknown,
    /// Lower on canary pods: for harm, a unit of the canary may be held against stable's under more load.
    Underloaded,
    /// Alike: the in-flight band is an outcome, not a cause, and is left out of the strata.
    Alike,
    /// Higher on canary pods: even within a band the canary has more in flight.
    Overloaded,
}

impl Load {
    /// Adds what started in a window.
    pub fn update(&mut self, started: [u64; 2], pods: [usize; 2]) {
        if self.pods[0] > LOAD_WINDOWS {
            self.started = self.started.map(|sum| sum / 2.0);
            self.pods = self.pods.map(|sum| sum / 2.0);
        }
        for arm in 0..2 {
            self.started[arm] += started[arm] as f32;
            self.pods[arm] += pods[arm] as f32;
        }
    }

    /// What earlier windows of the step say.
    pub fn loading(&self) -> Loading {
        if self.pods.iter().any(|pods| *pods < 3.0) || self.started.iter().any(|started| *started <= 0.0) {
            return Loading::Unknown;
        }
        let ratio = (self.started[0] / self.pods[0]) / (self.started[1] / self.pods[1]);
        if ratio > LIKE_LOAD {
            Loading::Overloaded
        } else if ratio < 1.0 / LIKE_LOAD {
            Loading::Underloaded
        } else {
            Loading::Alike
        }
    }
}

#[cfg(test)]
mod tests;
