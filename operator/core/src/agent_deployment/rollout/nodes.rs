//! Pods whose node is at fault. Heat, the power supply or a broken GPU explain what such a pod does, and speak neither
//! for nor against a revision: a window is judged without it. Pure.

use std::{collections::BTreeSet, fmt};

use slipway_analysis::judge::Arm;
use slipway_vocabulary::{
    evidence::Evidence,
    telemetry::{GpuFault, GpuWindow},
};

use crate::agent_deployment::world::PodEvidence;

/// Pods that are named in a message.
const MOST_NAMED: usize = 3;

/// A pod whose node is at fault in a window.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AtFault {
    pod: String,
    node: Option<String>,
    faults: Vec<GpuFault>,
}

/// The pods without which a window is judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LeftOut {
    pods: Vec<AtFault>,
    is_an_arm_empty: bool,
}

impl LeftOut {
    /// Who is left out of a window. Where the same share of both arms' pods is at fault, both revisions are hit alike,
    /// and nobody is left out.
    pub(super) fn of(id: u64, arms: &[(Arm, &[PodEvidence])]) -> Self {
        let counted = arms.iter().map(|(_, pods)| Counted::of(id, pods)).collect::<Vec<_>>();
        let shares = |a: &Counted, b: &Counted| a.at_fault.len() * b.pods == b.at_fault.len() * a.pods;
        let are_alike = match counted.as_slice() {
            [a, b] if a.pods > 0 && b.pods > 0 => shares(a, b),
            all => all.iter().all(|arm| arm.at_fault.is_empty()),
        };
        if are_alike {
            return Self::default();
        }
        let is_an_arm_empty = counted.iter().any(|arm| arm.pods > 0 && arm.at_fault.len() == arm.pods);
        Self { pods: counted.into_iter().flat_map(|arm| arm.at_fault).collect(), is_an_arm_empty }
    }

    /// The pods whose GPUs have raised an error of hardware at any time.
    pub(super) fn broken(pods: &[PodEvidence]) -> Self {
        let broken = pods.iter().filter_map(|pod| {
            let windows = pod.evidence.iter().flat_map(|evidence| &evidence.windows);
            let now = windows.flat_map(|window| &window.gpus).filter_map(GpuWindow::broken);
            let before = pod.broken.iter().map(|broken| broken.fault.clone());
            let faults: Vec<GpuFault> = before.chain(now).take(1).collect();
            let (pod, node) = (pod.pod.clone(), pod.node.clone());
            (!faults.is_empty()).then_some(AtFault { pod, node, faults })
        });
        Self { pods: broken.collect(), is_an_arm_empty: false }
    }

    /// Whether nothing is left to compare on one side.
    pub(super) const fn leaves_an_arm_empty(&self) -> bool {
        self.is_an_arm_empty
    }

    /// Whether nobody is left out.
    pub(super) fn is_nobody(&self) -> bool {
        self.pods.is_empty()
    }

    /// The names of the pods.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        self.pods.iter().map(|pod| pod.pod.as_str()).collect()
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, AtFault { pod, node, faults }) in self.pods.iter().take(MOST_NAMED).enumerate() {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let node = node.as_deref().unwrap_or("unknown");
            write!(f, "{}on node {node} of pod {pod} {}", if index == 0 { "" } else { "; " }, faults.join(" and "))?;
        }
        match self.pods.len().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// The pods of an arm that counted a window.
struct Counted {
    pods: usize,
    at_fault: Vec<AtFault>,
}

impl Counted {
    fn of(id: u64, pods: &[PodEvidence]) -> Self {
        let counted = pods.iter().filter_map(|pod| {
            let evidence = pod.evidence.as_ref()?;
            evidence.windows.binary_search_by_key(&id, |window| window.id).ok().map(|_| (pod, evidence))
        });
        let counted: Vec<_> = counted.collect();
        let at_fault = counted.iter().filter_map(|(pod, evidence)| {
            let faults = faults(id, pod, evidence);
            let (pod, node) = (pod.pod.clone(), pod.node.clone());
            (!faults.is_empty()).then_some(AtFault { pod, node, faults })
        });
        Self { pods: counted.len(), at_fault: at_fault.collect() }
    }
}

/// What the pod's GPUs say of a window, after hardware that broke before it: that stays broken.
fn faults(id: u64, pod: &PodEvidence, evidence: &Evidence) -> Vec<GpuFault> {
    let before = pod.broken.iter().filter(|broken| broken.window < id).map(|broken| broken.fault.clone());
    let until = evidence.windows.iter().take_while(|window| window.id <= id);
    let broken = until.clone().filter(|window| window.id < id).flat_map(|window| &window.gpus);
    let now = until.filter(|window| window.id == id).flat_map(|window| &window.gpus);
    let faults = before.chain(broken.filter_map(GpuWindow::broken)).chain(now.flat_map(GpuWindow::faults));
    let mut known: Vec<GpuFault> = Vec::new();
    for fault in faults {
        if !known.contains(&fault) {
            known.push(fault);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{collection::vec, prelude::*};
    use slipway_vocabulary::{evidence::Window, preflight::Slowdown};

    use super::*;
    use crate::agent_deployment::monitoring::counted::BrokenGpu;

    fn pod(name: String, is_at_fault: bool) -> PodEvidence {
        let by = if is_at_fault { Slowdown::PowerBrake } else { Slowdown::PowerCap };
        let gpus = vec![GpuWindow { samples: 10, slowed: vec![(by, 10)], ..GpuWindow::default() }];
        let evidence = Evidence {
            version: 2,
            revision: "a".to_owned(),
            pod: name.clone(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            windows: vec![Window { id: 7, metrics: Vec::new(), load: None, gpus }],
        };
        let (evidence, node) = (Some(evidence), Some("gpu-1".to_owned()));
        PodEvidence { pod: name, evidence, refused: None, was_asked: true, broken: Vec::new(), is_leaving: false, node }
    }

    fn arm(prefix: &str, at_fault: &[bool]) -> Vec<PodEvidence> {
        at_fault.iter().enumerate().map(|(pod_, is)| pod(format!("{prefix}-{pod_}"), *is)).collect()
    }

    fn left_out(canary: &[bool], stable: &[bool]) -> LeftOut {
        let (canary, stable) = (arm("canary", canary), arm("stable", stable));
        LeftOut::of(7, &[(Arm::Stable, &stable), (Arm::Canary, &canary)])
    }

    proptest! {
        #[test]
        fn those_at_fault_are_left_out_unless_both_sides_are_alike(
            canary in vec(any::<bool>(), 0..6),
            stable in vec(any::<bool>(), 0..6),
        ) {
            let counts = |arm: &[bool]| (arm.iter().filter(|is| **is).count(), arm.len());
            let ((of_canary, canaries), (of_stable, stables)) = (counts(&canary), counts(&stable));
            let both = canaries > 0 && stables > 0;
            let are_alike = if both { of_canary * stables == of_stable * canaries } else { of_canary + of_stable == 0 };
            let out = left_out(&canary, &stable);
            let expected = if are_alike { 0 } else { of_canary + of_stable };
            prop_assert_eq!(out.names().len(), expected);
            prop_assert_eq!(out.is_nobody(), expected == 0);
            let is_empty = (canaries > 0 && of_canary == canaries) || (stables > 0 && of_stable == stables);
            prop_assert_eq!(out.leaves_an_arm_empty(), !are_alike && is_empty);
        }

        #[test]
        fn who_is_left_out_does_not_depend_on_the_order_of_pods(
            canary in vec(any::<bool>(), 1..6),
            stable in vec(any::<bool>(), 1..6),
        ) {
            let (canary, stable) = (arm("canary", &canary), arm("stable", &stable));
            let backwards = |arm: &[PodEvidence]| arm.iter().rev().cloned().collect::<Vec<_>>();
            let (c, s) = (backwards(&canary), backwards(&stable));
            let one = LeftOut::of(7, &[(Arm::Stable, &stable), (Arm::Canary, &canary)]);
            let other = LeftOut::of(7, &[(Arm::Canary, &c), (Arm::Stable, &s)]);
            prop_assert_eq!(one.names(), other.names());
            prop_assert_eq!(one.leaves_an_arm_empty(), other.leaves_an_arm_empty());
        }
    }

    #[test]
    fn hardware_that_broke_in_a_window_that_is_no_longer_at_hand_is_still_broken() {
        let broken = vec![BrokenGpu { window: 1, fault: GpuFault::Broken { gpu: 0, code: 79 } }];
        let canary = PodEvidence { broken, ..pod("canary-0".to_owned(), false) };
        let stable = arm("stable", &[false]);
        let of = |id: u64| LeftOut::of(id, &[(Arm::Stable, &stable), (Arm::Canary, std::slice::from_ref(&canary))]);
        assert_eq!(of(7).names(), ["canary-0"].into());
        let silent = PodEvidence { evidence: None, ..canary.clone() };
        assert!(LeftOut::broken(&[silent]).to_string().contains("GPU 0 raised XID 79"));
        let later = BrokenGpu { window: 8, ..canary.broken[0].clone() };
        let later = PodEvidence { broken: vec![later], ..canary.clone() };
        let out = LeftOut::of(7, &[(Arm::Stable, &stable), (Arm::Canary, &[later])]);
        assert!(out.is_nobody(), "what broke later explains nothing");
    }

    #[test]
    fn pods_of_older_sidecars_and_other_windows_are_at_no_fault() {
        let silent = PodEvidence { evidence: None, ..pod("canary-0".to_owned(), true) };
        let hot = pod("canary-1".to_owned(), true);
        assert_eq!(LeftOut::of(8, &[(Arm::Canary, &[silent.clone(), hot.clone()])]), LeftOut::default());
        let out = LeftOut::of(7, &[(Arm::Canary, &[silent, hot])]);
        assert_eq!(
            out.to_string(),
            "on node gpu-1 of pod canary-1 GPU 0 is slowed down by its power supply in 10 of 10 samples"
        );
    }
}
