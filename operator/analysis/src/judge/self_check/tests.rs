use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use slipway_vocabulary::evidence::{Metric, Unit};

use super::{Arm, Checked, Config, MAX_PODS, MAX_SHUFFLES, Promise, Unfit, Window, promise, self_check};
use crate::judge::Observation;

/// An agent's pods over half an hour, some of which are slower than the others, or fail.
#[derive(Clone, Debug)]
struct History {
    pods: usize,
    runs_of_a_pod: u64,
    windows: u64,
    /// How much slower the first pod is.
    slower: f64,
    /// Failures of the first pod among 1,000 runs; the others have five.
    failures: u64,
}

const ALIKE: History = History { pods: 4, runs_of_a_pod: 20, windows: 180, slower: 1.0, failures: 5 };

impl History {
    fn windows(&self, seed: u64) -> Vec<Window> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let window = |n: u64| {
            let observations = (0..self.pods).flat_map(|pod| self.observations(&mut rng, pod)).collect();
            Window { end_seconds: 1_789_000_000 + n * 10, observations, ..Window::default() }
        };
        (1..=self.windows).map(window).collect()
    }

    fn observations(&self, rng: &mut Pcg64Mcg, pod: usize) -> Vec<Observation> {
        let (slower, failures) = if pod == 0 { (self.slower, self.failures) } else { (1.0, 5) };
        let runs = self.runs_of_a_pod;
        let errors = (0..runs).filter(|_| rng.random_range(0..1_000) < failures).count() as u64;
        let mut draw = || (0..4).map(|_| rng.random::<f64>()).sum::<f64>() - 2.0;
        let mut observation = |metric| Observation {
            arm: Arm::Stable,
            pod: format!("support-{pod}@2026-01-01T00:00:00Z"),
            metric,
            unit: Unit::Run,
            stratum: "miss/p9/f1".to_owned(),
            started: Some(runs),
            new_sessions: runs,
            in_flight_ages: Some(Vec::new()),
            count: runs,
            errors,
            buckets: (errors..runs).map(|_| (2e5 * slower * (0.9 * draw()).exp()) as u64).collect(),
        };
        [Metric::AgentRunLatency, Metric::ModelTime, Metric::RequestLatency].map(&mut observation).to_vec()
    }

    fn checked(&self, seed: u64) -> Result<Checked, Unfit> {
        self_check(&Config::default(), &self.windows(seed), seed)
    }
}

#[test]
fn pods_that_are_alike_break_no_promise() {
    let checks: Vec<Checked> = (1..=5).map(|seed| ALIKE.checked(seed).unwrap()).collect();
    let alike = |checked: &Checked| (checked.pods, checked.shuffles, checked.seconds) == (4, 10, 1_800);
    assert!(checks.iter().all(alike), "{checks:?}");
    // One of fifty: chance calls harm in one of a hundred.
    let counts: Vec<(u32, u32)> = checks.iter().map(|checked| (checked.shuffles, checked.harms)).collect();
    assert_eq!(counts.iter().map(|(_, harms)| harms).sum::<u32>(), 1);
    assert_eq!(promise(0.01, &counts), Some(Promise::Unclear));
}

#[test]
fn a_pod_on_a_slower_node_is_called_harm_whenever_it_is_the_canary() {
    let checked = History { slower: 2.0, ..ALIKE }.checked(7).unwrap();
    // Alone, and beside each of the three others. Where it is one of stable's, nothing is worse.
    assert_eq!((checked.shuffles, checked.harms), (10, 4));
}

#[test]
fn a_pod_that_fails_most_of_its_runs_is_called_harm() {
    let checked = History { failures: 700, ..ALIKE }.checked(7).unwrap();
    assert!(checked.harms >= 1, "{checked:?}");
}

#[test]
fn too_few_pods_and_too_little_traffic_are_told_with_their_numbers() {
    assert_eq!(History { pods: 3, ..ALIKE }.checked(1), Err(Unfit::TooFewPods { pods: 3 }));
    assert_eq!(self_check(&Config::default(), &[], 1), Err(Unfit::TooFewPods { pods: 0 }));
    let quiet = History { runs_of_a_pod: 1, windows: 30, ..ALIKE };
    assert_eq!(quiet.checked(1), Err(Unfit::TooFewUnits { pods: 4, finished: 120, needed: 200 }));
}

#[test]
fn a_restarted_container_is_the_same_pod() {
    let mut windows = History { pods: 3, ..ALIKE }.windows(1);
    for observation in windows.iter_mut().take(90).flat_map(|window| &mut window.observations) {
        observation.pod = observation.pod.replace("2026", "2025");
    }
    assert_eq!(self_check(&Config::default(), &windows, 1), Err(Unfit::TooFewPods { pods: 3 }));
}

#[test]
fn a_check_of_many_pods_is_bounded() {
    let checked = History { pods: 40, windows: 12, ..ALIKE }.checked(1).unwrap();
    assert_eq!((checked.pods, checked.shuffles as usize), (MAX_PODS, MAX_SHUFFLES));
}

#[test]
fn a_check_of_too_many_observations_reads_the_latest_windows() {
    let checked = History { pods: 16, runs_of_a_pod: 2, windows: 1_440, ..ALIKE }.checked(1).unwrap();
    // Three metrics of sixteen pods, in 1,302 windows.
    assert_eq!((checked.shuffles, checked.seconds), (4, 13_020));
}

#[test]
fn a_promise_is_broken_only_by_more_than_chance_explains() {
    let hours = |n: usize, check: (u32, u32)| vec![check; n];
    let of = |checks: &[(u32, u32)]| promise(0.01, checks);
    assert_eq!(of(&[]), None);
    assert_eq!(of(&hours(24, (10, 0))), Some(Promise::Kept));
    assert_eq!(of(&[hours(12, (10, 0)), vec![(10, 1)]].concat()), Some(Promise::Kept), "one of 130 is less than 1 %");
    assert_eq!(
        [1, 2, 3].map(|n| of(&hours(n, (10, 4)))),
        [Some(Promise::Unclear), Some(Promise::Unclear), Some(Promise::Broken)]
    );
    // A good day before does not hide a node that has become slow.
    let slow_now = [hours(20, (10, 0)), hours(4, (10, 4))].concat();
    assert_eq!(of(&slow_now), Some(Promise::Broken));
    assert_eq!(of(&[slow_now, hours(2, (10, 0))].concat()), Some(Promise::Unclear));
    // A promise of 10 % is not broken by one of ten.
    assert_eq!(promise(0.1, &hours(24, (10, 1))), Some(Promise::Kept));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_check_follows_from_its_evidence_and_its_seed_alone(
        pods in 1_usize..8,
        runs_of_a_pod in 0_u64..12,
        windows in 0_u64..40,
        slower in 0.2_f64..5.0,
        failures in 0_u64..1_000,
        seed in any::<u64>(),
    ) {
        let windows = History { pods, runs_of_a_pod, windows, slower, failures }.windows(seed);
        let checked = self_check(&Config::default(), &windows, seed);
        let mut turned = windows.clone();
        turned.iter_mut().for_each(|window| window.observations.reverse());
        prop_assert_eq!(checked, self_check(&Config::default(), &turned, seed), "the order of pods does not matter");
        if let Ok(Checked { pods: dealt, shuffles, harms, seconds }) = checked {
            prop_assert!(harms <= shuffles && (1..=MAX_SHUFFLES).contains(&(shuffles as usize)));
            prop_assert_eq!((dealt, seconds), (pods, windows.len() as u64 * 10));
        }
    }

    #[test]
    fn more_harm_never_makes_a_promise_look_better(checks in proptest::collection::vec((1_u32..20, 0_u32..20), 1..24)) {
        let rank = |checks: &[(u32, u32)]| match promise(0.01, checks) {
            None | Some(Promise::Kept) => 0,
            Some(Promise::Unclear) => 1,
            Some(Promise::Broken) => 2,
        };
        let checks: Vec<(u32, u32)> = checks.into_iter().map(|(shuffles, harms)| (shuffles, harms.min(shuffles))).collect();
        let mut worse = checks.clone();
        for (shuffles, harms) in &mut worse {
            *harms = (*harms + 1).min(*shuffles);
        }
        prop_assert!(rank(&worse) >= rank(&checks));
    }
}
