//! Pods between windows: which are still warming up, which are lost, which fail. Pure.
//!
//! Units of one pod fail together: a node, a GPU or a connection of that pod is disturbed, and every unit on it ends
//! with an error. Such errors are not independent draws. So a pod's errors count up to what chance brings in a minute
//! at the rate that most pods of an arm have. They count again only after it has been quiet for a minute. A revision
//! that fails more fails more on all its pods. What the errors left out would have shown is the task of a rule: see
//! [`PodsFailing`]. And what fails together hits a pod, not a unit. The errors left out say how much of that there is,
//! and so how many errors an equal canary has: see [`Sharing`].

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

/// Errors of which none is left out before anything is seen.
const ERRORS_TO_BELIEVE: f32 = 2.0;

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
    /// Whether the cluster or the operator ends it: it finishes its units, and its end is not a loss.
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
    /// Failures that counted, or that all pods of its arm had at the same time.
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
    /// How errors are shared out among the arms.
    pub sharing: Sharing,
}

/// How many of the errors an equal canary has. Errors that come one by one hit units: its share of units has them. What
/// fails together hits a pod, however few units it serves: the share of its pods has it. Where two pods of six are the
/// canary's, it has a third of all outages with a weight of 5 %, too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sharing {
    /// The share of errors so far that came together with others of their pod.
    pub together: f64,
    /// The canary's share of the pods that report.
    pub canary_pods: f64,
}

impl Sharing {
    /// As many units of the canary as have its share of errors beside stable's: at least those that it really has. More
    /// units make an error of the canary weaker evidence, so a test of them stays valid whichever way errors come.
    pub fn exposed(self, canary: u64, stable: u64) -> u64 {
        let of_units = canary as f64 / canary.saturating_add(stable).max(1) as f64;
        let share = (self.together * self.canary_pods + (1.0 - self.together) * of_units).max(of_units).min(0.99);
        canary.max((stable as f64 * share / (1.0 - share)).round() as u64)
    }
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
        let mut seen = Seen { sharing: sharing(&before, &reported), ..Seen::default() };
        let together = seen.sharing.together as f32;
        // The canary's first: they are remembered whatever becomes of stable's.
        let canary_first = [Arm::Canary, Arm::Stable];
        let mut left_out = Vec::new();
        let in_turn = canary_first.iter().flat_map(|arm| reported.iter().filter(move |(_, of)| of.arm == *arm));
        for (name, of) in in_turn {
            let Some(pod) = self.see(name, of.arm, now) else { continue };
            pod.last_seconds = now;
            let age = now.saturating_sub(WINDOW_SECONDS).saturating_sub(pod.first_seconds);
            if age < warm_up_seconds {
                seen.warming.insert(*name);
            }
            seen.oldest_counted.insert(*name, age.saturating_sub(warm_up_seconds) / WINDOW_SECONDS);
            let others = Others::of(pod, &before, together);
            let admitted = pod.admit(of.finished, of.failed, others);
            if admitted < of.failed {
                seen.admitted.insert(*name, admitted);
                left_out.push((pod.id, (of.failed - admitted) as f32));
            }
        }
        self.explain(&left_out);
        seen.lost = self.take_lost(now, &reported, &window.ended_pods);
        // What is written down has room for so many windows.
        let oldest = now.saturating_sub(u64::from(u16::MAX) * WINDOW_SECONDS);
        for pod in &mut self.known {
            pod.first_seconds = pod.first_seconds.max(oldest);
            pod.last_seconds = pod.last_seconds.max(oldest);
        }
        seen
    }

    /// What all pods of an arm have at the same time, the revision has: it does not come together on one of them. Of
    /// the errors left out in a window, that is the part that the pod has which fails least.
    fn explain(&mut self, left_out: &[(u32, f32)]) {
        let share = |pod: &Pod| pod.failed / pod.finished;
        for arm in [Arm::Canary, Arm::Stable] {
            let shares: Vec<f32> =
                self.known.iter().filter(|pod| pod.arm == arm && pod.finished >= 1.0).map(share).collect();
            let least = shares.iter().copied().fold(f32::INFINITY, f32::min);
            for pod in self.known.iter_mut().filter(|pod| pod.arm == arm && pod.failed > 0.0 && shares.len() > 1) {
                let left_out = left_out.iter().find(|(id, _)| *id == pod.id).map_or(0.0, |(_, errors)| *errors);
                pod.all_admitted += left_out * (least / share(pod)).min(1.0);
            }
        }
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

    /// Errors of the canary's pods, and those of them that came together with others of their pod.
    pub fn errors_of_canary(&self) -> (u64, u64) {
        let canary = || self.known.iter().filter(|pod| pod.arm == Arm::Canary);
        let failed = canary().map(|pod| pod.all_failed).sum::<f32>();
        let left_out = canary().map(Pod::left_out).sum::<f32>();
        (failed as u64, left_out as u64)
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

    /// Errors that came together with others.
    fn left_out(&self) -> f32 {
        (self.all_failed - self.all_admitted).max(0.0)
    }

    /// The share of its units that failed, before much is seen half an error more.
    fn error_rate(&self) -> f32 {
        (self.all_failed + 0.5) / (self.all_finished + UNITS_TO_BELIEVE_MANY)
    }

    /// Takes a window's counts in, and returns how many of its errors count. Chance brings so many in a minute at the
    /// rate of the worse arm, or at its own so far.
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

/// What the pods have shown before a window.
#[derive(Clone, Copy, Debug)]
struct Others {
    /// The share of errors that come one by one, of the worse arm.
    rate: f32,
    /// Whether there is no other pod of the same arm that has had traffic.
    is_none: bool,
}

impl Others {
    fn of(pod: &Pod, known: &[Pod], together: f32) -> Self {
        let rate = usual_rate(pod, known, Arm::Canary).max(usual_rate(pod, known, Arm::Stable));
        let is_other = |other: &&Pod| other.arm == pod.arm && other.id != pod.id;
        let is_none = known.iter().filter(is_other).all(|other| other.all_finished < 1.0);
        Self { rate: rate * (1.0 - together), is_none }
    }
}

/// The share of errors that at least half of an arm's pods have: the outage of one pod does not raise it. An arm's only
/// pod says nothing of what is usual for itself.
fn usual_rate(pod: &Pod, known: &[Pod], arm: Arm) -> f32 {
    let of_arm: Vec<&Pod> = known.iter().filter(|other| other.arm == arm).collect();
    let is_alone = of_arm.iter().all(|other| other.id == pod.id);
    let mut rates: Vec<f32> = of_arm.iter().map(|other| other.error_rate()).collect();
    rates.sort_by(f32::total_cmp);
    let usual = rates.get(rates.len().saturating_sub(1) / 2).filter(|_| !is_alone);
    usual.copied().unwrap_or(0.5 / UNITS_TO_BELIEVE_MANY)
}

/// What earlier windows say of errors that come together, and how many of the pods are the canary's.
fn sharing(before: &[Pod], reported: &BTreeMap<&str, Reported>) -> Sharing {
    let failed: f32 = before.iter().map(|pod| pod.all_failed).sum();
    let left_out: f32 = before.iter().map(Pod::left_out).sum();
    let together = left_out / (failed + ERRORS_TO_BELIEVE);
    let canary = reported.values().filter(|of| of.arm == Arm::Canary).count();
    let canary_pods = canary as f64 / reported.len().max(1) as f64;
    Sharing { together: f64::from(together.clamp(0.0, 1.0)), canary_pods }
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
        // What clients say of a task afterwards is not a failure of the pod that served it.
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

#[cfg(test)]
mod tests;
