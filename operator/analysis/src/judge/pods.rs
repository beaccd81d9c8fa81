//! Pods between windows: which are still warming up, which have vanished, how loaded each arm's pods are. Pure.

use std::collections::{BTreeMap, BTreeSet};

use slipway_vocabulary::evidence::{Unit, WINDOW_SECONDS};

use super::{
    observation::{Arm, Window},
    strata::hash,
};

/// A pod that is silent for so many windows, while others report, has vanished.
pub const VANISHED_WINDOWS: u64 = 6;

/// How many pods are remembered between windows; more are judged all the same, without warm-up and loss.
pub const MAX_PODS: usize = 24;

/// One remembered pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub id: u32,
    pub arm: Arm,
    pub first_seconds: u64,
    pub last_seconds: u64,
    /// Units in flight when last seen: runs, requests, sessions.
    pub in_flight: [u16; 3],
}

/// Units that were lost with their pods, per unit kind: canary and stable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub canary: [u64; 3],
    pub stable: [u64; 3],
}

/// The pods that matter later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pods {
    pub known: Vec<Pod>,
}

/// The position of a unit kind.
pub(super) const fn unit_index(unit: Unit) -> usize {
    match unit {
        Unit::Run => 0,
        Unit::Request => 1,
        Unit::Session => 2,
    }
}

impl Pods {
    /// Reads who reported in a window. Returns what was lost with vanished pods, and the names of pods still warming
    /// up.
    pub fn update<'a>(&mut self, window: &'a Window, warm_up_seconds: u64) -> (Lost, BTreeSet<&'a str>) {
        let mut reported: BTreeMap<&str, (Arm, [u64; 3])> = BTreeMap::new();
        for observation in &window.observations {
            let (_, in_flight) = reported.entry(&observation.pod).or_insert((observation.arm, [0; 3]));
            let of_unit = &mut in_flight[unit_index(observation.unit)];
            *of_unit = (*of_unit).max(observation.in_flight.unwrap_or(0));
        }
        let now = window.end_seconds;
        let mut warming = BTreeSet::new();
        for (name, (arm, in_flight)) in &reported {
            let pod = self.see(hash(name), *arm, now);
            pod.last_seconds = now;
            pod.in_flight = in_flight.map(|units| u16::try_from(units).unwrap_or(u16::MAX));
            if now - pod.first_seconds < warm_up_seconds {
                warming.insert(*name);
            }
        }
        let lost = self.take_vanished(now, reported.is_empty(), &window.ended_pods);
        self.bound();
        (lost, warming)
    }

    fn see(&mut self, id: u32, arm: Arm, now: u64) -> &mut Pod {
        let position = self.known.iter().position(|pod| pod.id == id).unwrap_or_else(|| {
            let first_seconds = now.saturating_sub(WINDOW_SECONDS);
            self.known.push(Pod { id, arm, first_seconds, last_seconds: now, in_flight: [0; 3] });
            self.known.len() - 1
        });
        &mut self.known[position]
    }

    /// Removes vanished pods. When nobody reports, the evidence is missing, not the pods.
    fn take_vanished(&mut self, now: u64, is_silent: bool, ended: &BTreeSet<String>) -> Lost {
        let ended: BTreeSet<u32> = ended.iter().map(|name| hash(name)).collect();
        let mut lost = Lost::default();
        self.known.retain(|pod| {
            let is_gone = !is_silent && now - pod.last_seconds >= VANISHED_WINDOWS * WINDOW_SECONDS;
            if is_gone || ended.contains(&pod.id) {
                let sums = match pod.arm {
                    Arm::Canary => &mut lost.canary,
                    Arm::Stable => &mut lost.stable,
                };
                for (sum, units) in sums.iter_mut().zip(pod.in_flight) {
                    *sum += u64::from(units);
                }
                return false;
            }
            true
        });
        lost
    }

    /// Forgets the oldest of stable's pods first when there are too many. Ages are kept as whole windows in 16 bits.
    fn bound(&mut self) {
        self.known.sort_by_key(|pod| (pod.arm == Arm::Stable, std::cmp::Reverse(pod.first_seconds), pod.id));
        self.known.truncate(MAX_PODS);
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
    /// Not known, or lower on canary pods: compare within strata.
    Unlike,
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
            return Loading::Unlike;
        }
        let ratio = (self.started[0] / self.pods[0]) / (self.started[1] / self.pods[1]);
        if ratio > LIKE_LOAD {
            Loading::Overloaded
        } else if ratio < 1.0 / LIKE_LOAD {
            Loading::Unlike
        } else {
            Loading::Alike
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::evidence::{Histogram, Metric, Unit};

    use super::{Load, Loading, Lost, MAX_PODS, Pods};
    use crate::judge::observation::{Arm, Observation, Window};

    fn report(end_seconds: u64, pods: &[(&str, u64)]) -> Window {
        let observation = |(pod, in_flight): &(&str, u64)| Observation {
            arm: if pod.starts_with('c') { Arm::Canary } else { Arm::Stable },
            pod: (*pod).to_owned(),
            metric: Metric::RequestLatency,
            unit: Unit::Request,
            stratum: String::new(),
            started: Some(1),
            new_sessions: 0,
            in_flight: Some(*in_flight),
            oldest_in_flight_microseconds: None,
            count: 1,
            errors: 0,
            buckets: Histogram::new(),
        };
        let observations = pods.iter().map(observation).collect();
        Window { end_seconds, observations, ..Window::default() }
    }

    #[test]
    fn what_a_vanished_pod_had_in_flight_is_lost_once() {
        let mut pods = Pods::default();
        pods.update(&report(10, &[("c0", 4), ("s0", 2)]), 0);
        let lost: Vec<u64> =
            (2..12).map(|window| pods.update(&report(window * 10, &[("s0", 2)]), 0).0.canary[1]).collect();
        assert_eq!(lost, [0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    }

    #[test]
    fn a_pod_that_is_known_to_have_ended_is_lost_at_once() {
        let mut pods = Pods::default();
        pods.update(&report(10, &[("c0", 4), ("s0", 2)]), 0);
        let mut window = report(20, &[("s0", 2)]);
        window.ended_pods.insert("c0".to_owned());
        assert_eq!(pods.update(&window, 0).0, Lost { canary: [0, 4, 0], stable: [0; 3] });
    }

    #[test]
    fn nobody_has_vanished_when_nobody_reports() {
        let mut pods = Pods::default();
        pods.update(&report(10, &[("c0", 4)]), 0);
        assert_eq!(pods.update(&report(500, &[]), 0).0, Lost::default());
    }

    #[test]
    fn new_pods_warm_up_in_either_arm() {
        let mut pods = Pods::default();
        pods.update(&report(10, &[("s0", 0)]), 30);
        let window = report(40, &[("s0", 0), ("s1", 0), ("c0", 0)]);
        let (_, warming) = pods.update(&window, 30);
        assert_eq!(warming.into_iter().collect::<Vec<_>>(), ["c0", "s1"]);
    }

    #[test]
    fn the_number_of_pods_is_bounded_and_canaries_stay() {
        let mut pods = Pods::default();
        let names: Vec<String> = (0..100).map(|i| format!("s{i}")).chain(["c0".to_owned()]).collect();
        let reports: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        pods.update(&report(10, &reports), 0);
        assert_eq!(pods.known.len(), MAX_PODS);
        assert_eq!(pods.known[0].arm, Arm::Canary);
    }

    #[test]
    fn loads_are_alike_when_pods_start_alike() {
        let loading = |started: [u64; 2], pods: [usize; 2]| {
            let mut load = Load::default();
            for _ in 0..5 {
                load.update(started, pods);
            }
            load.loading()
        };
        assert_eq!(loading([10, 190], [1, 4]), Loading::Unlike);
        assert_eq!(loading([40, 160], [1, 4]), Loading::Alike);
        assert_eq!(loading([100, 100], [1, 4]), Loading::Overloaded);
        assert_eq!(loading([0, 100], [1, 4]), Loading::Unlike);
        assert_eq!(Load::default().loading(), Loading::Unlike);
    }
}
