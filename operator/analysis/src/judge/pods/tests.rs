use pretty_assertions::assert_eq;
use slipway_vocabulary::evidence::{Histogram, Metric, Unit};

use super::{MAX_PODS, Pods, PodsFailing, Sharing, Table};
use crate::judge::observation::{Arm, Observation, Window};

/// A window in which pods finish units, some of them with an error; the canary's names begin with c.
fn report(end_seconds: u64, pods: &[(&str, u64, u64)]) -> Window {
    let observation = |(pod, count, errors): &(&str, u64, u64)| Observation {
        arm: if pod.starts_with('c') { Arm::Canary } else { Arm::Stable },
        pod: (*pod).to_owned(),
        metric: Metric::AgentRunLatency,
        unit: Unit::Run,
        stratum: String::new(),
        started: Some(*count),
        new_sessions: 0,
        in_flight_ages: Some(Vec::new()),
        count: *count,
        errors: *errors,
        buckets: Histogram::new(),
    };
    let observations = pods.iter().map(observation).collect();
    Window { end_seconds, observations, ..Window::default() }
}

/// The share of lost pods that the windows show: of the canary, and of all.
fn lost(pods: &mut Pods, windows: &[Window]) -> Vec<(u64, u64)> {
    windows.iter().filter_map(|window| pods.update(window, 0).lost).map(|of| (of.canary_events, of.events)).collect()
}

#[test]
fn a_pod_that_falls_silent_is_lost_once_however_much_it_had_in_flight() {
    let mut pods = Pods::default();
    pods.update(&report(10, &[("c0", 4, 0), ("s0", 2, 0)]), 0);
    let found: Vec<_> = (2..12).map(|window| pods.update(&report(window * 10, &[("s0", 2, 0)]), 0).lost).collect();
    let table = Table { canary: 1, stable: 1, events: 1, canary_events: 1 };
    assert_eq!(found.iter().flatten().collect::<Vec<_>>(), [&table]);
    assert_eq!(found[5], Some(table), "after a minute");
}

#[test]
fn a_pod_that_somebody_ended_is_no_loss_also_when_it_was_said_long_before() {
    let mut pods = Pods::default();
    pods.update(&report(10, &[("c0@a", 4, 0), ("s0", 2, 0)]), 0);
    let mut told = report(20, &[("c0@a", 4, 0), ("s0", 2, 0)]);
    told.ended_pods.insert("c0".to_owned());
    let silent: Vec<Window> = (3..20).map(|window| report(window * 10, &[("s0", 2, 0)])).collect();
    assert_eq!(lost(&mut pods, &[vec![told], silent].concat()), []);
}

#[test]
fn nobody_is_lost_when_nobody_reports() {
    let mut pods = Pods::default();
    pods.update(&report(10, &[("c0", 4, 0)]), 0);
    assert_eq!(pods.update(&report(500, &[]), 0).lost, None);
}

/// Windows that begin within the warm-up are left out: three of them where it takes half a minute.
#[test]
fn new_pods_warm_up_in_either_arm_for_as_long_as_is_written() {
    let mut pods = Pods::default();
    pods.update(&report(10, &[("s0", 0, 0)]), 30);
    let everybody = [("s0", 0, 0), ("s1", 0, 0), ("c0", 0, 0)];
    let warming: Vec<Vec<&str>> = [20, 30, 40, 50]
        .into_iter()
        .map(|end| {
            let window = report(end, &everybody);
            let names: Vec<String> = pods.update(&window, 30).warming.into_iter().map(str::to_owned).collect();
            everybody.iter().map(|(name, ..)| *name).filter(|name| names.iter().any(|other| other == name)).collect()
        })
        .collect();
    let all = vec!["s0", "s1", "c0"];
    assert_eq!(warming, [all.clone(), all, vec!["s1", "c0"], vec![]]);
}

#[test]
fn pods_beyond_the_memory_do_not_warm_up_for_ever_and_canaries_are_remembered() {
    let mut pods = Pods::default();
    let names: Vec<String> = (0..100).map(|i| format!("s{i}")).chain(["c0".to_owned()]).collect();
    let reports: Vec<(&str, u64, u64)> = names.iter().map(|name| (name.as_str(), 1, 0)).collect();
    let mut warming = 0;
    for end in 1..6 {
        warming = pods.update(&report(end * 10, &reports), 30).warming.len();
    }
    assert_eq!((pods.known.len(), warming), (MAX_PODS, 0));
    assert_eq!(pods.known.iter().filter(|pod| pod.arm == Arm::Canary).count(), 1);
    // A later canary takes the room of one of stable's.
    pods.update(&report(60, &[("c1", 1, 0)]), 30);
    assert_eq!((pods.known.len(), pods.known.iter().filter(|pod| pod.arm == Arm::Canary).count()), (MAX_PODS, 2));
}

/// Errors that count, window by window, of a pod that finishes so many units with so many errors, beside others.
fn admitted(pods: &mut Pods, others: &[&str], windows: &[(u64, u64)]) -> Vec<u64> {
    let mut end = 0;
    windows
        .iter()
        .map(|(count, errors)| {
            end += 10;
            let healthy = others.iter().map(|name| (*name, *count, 0));
            let pods_of: Vec<_> = std::iter::once(("c0", *count, *errors)).chain(healthy).collect();
            let window = report(end, &pods_of);
            pods.update(&window, 0).admitted.get("c0").copied().unwrap_or(*errors)
        })
        .collect()
}

#[test]
fn errors_that_a_pod_has_together_count_as_one() {
    let mut pods = Pods::default();
    let found = admitted(&mut pods, &["c1", "s0"], &[(5, 0), (5, 5), (5, 5), (5, 5), (5, 5), (5, 0)]);
    assert_eq!(found.iter().sum::<u64>(), 1, "{found:?}");
}

#[test]
fn errors_that_come_one_by_one_all_count() {
    let mut pods = Pods::default();
    let mut quiet = [(5, 0); 6];
    quiet[0] = (5, 1);
    let windows = quiet.repeat(10);
    assert_eq!(admitted(&mut pods, &["c1", "s0"], &windows).iter().sum::<u64>(), 10);
}

#[test]
fn errors_that_all_pods_of_an_arm_have_count() {
    let mut pods = Pods::default();
    let left_out: u64 = (1..40)
        .map(|window| {
            let window = report(window * 10, &[("c0", 50, 5), ("c1", 50, 5), ("s0", 50, 0)]);
            pods.update(&window, 0).admitted.values().map(|admitted| 5 - admitted).sum::<u64>()
        })
        .sum();
    assert!(left_out < 20, "{left_out} of 390");
}

#[test]
fn the_errors_of_an_only_pod_count_the_more_the_longer_they_last() {
    let mut pods = Pods::default();
    let found = admitted(&mut pods, &["s0"], &[(50, 5); 60]);
    let minutes: Vec<u64> = found.chunks(6).map(|minute| minute.iter().sum()).collect();
    assert!(minutes.is_sorted() && minutes[0] <= 10 && minutes[9] >= 2 * minutes[0], "{minutes:?}");
}

#[test]
fn an_outage_of_minutes_on_one_of_two_pods_counts_as_little_as_a_short_one() {
    let mut pods = Pods::default();
    let counted: u64 = (1..60)
        .map(|window| {
            let errors = if window < 30 { 0 } else { 5 };
            let window = report(window * 10, &[("c0", 5, errors), ("c1", 5, 0), ("s0", 20, 0)]);
            pods.update(&window, 0).admitted.get("c0").copied().unwrap_or(errors)
        })
        .sum();
    assert!(counted <= 2, "{counted}");
}

/// How errors are shared out after an hour in which every pod fails one unit in two hundred. In a minute of ten one of
/// the pods named, in turn, fails half of its units.
fn sharing_after(pods: &[&str], outages: &[&str]) -> Sharing {
    let mut memory = Pods::default();
    let mut sharing = Sharing::default();
    for window in 1..=360_u64 {
        let out = outages.get((window / 60) as usize % outages.len().max(1)).filter(|_| window % 60 < 6);
        let of = |(at, pod): (usize, &&'static str)| -> (&'static str, u64, u64) {
            let alone = u64::from((window + 7 * at as u64).is_multiple_of(20));
            (pod, 10, if out == Some(pod) { 5 } else { alone })
        };
        let pods: Vec<&'static str> = pods.iter().map(|pod| *PODS.iter().find(|name| *name == pod).unwrap()).collect();
        let reports: Vec<(&str, u64, u64)> = pods.iter().enumerate().map(of).collect();
        sharing = memory.update(&report(window * 10, &reports), 0).sharing;
    }
    sharing
}

const PODS: [&str; 6] = ["c0", "c1", "s0", "s1", "s2", "s3"];

#[test]
fn errors_that_come_one_by_one_are_shared_out_by_units_and_outages_of_pods_by_pods() {
    let alone = sharing_after(&PODS, &[]);
    let by_units = alone.exposed(5, 95);
    assert!(alone.together < 0.05 && by_units <= 6, "{alone:?} {by_units}");
    let outages = sharing_after(&PODS, &["s0", "c0", "s1", "s2", "c1", "s3"]);
    let by_pods = outages.exposed(5, 95);
    assert!(outages.together > 0.5 && by_pods > 20, "{outages:?} {by_pods}");
    assert_eq!(outages.exposed(50, 50), 50, "no fewer units than there are");
    assert_eq!([outages.exposed(7, 0), outages.exposed(0, 0)], [7, 0]);
}

#[test]
fn what_every_pod_of_a_revision_has_is_its_own_and_does_not_come_together_on_a_pod() {
    let mut memory = Pods::default();
    let mut sharing = Sharing::default();
    for window in 1..60 {
        let all_fail = report(window * 10, &[("c0", 2, 2), ("c1", 2, 2), ("s0", 20, 0), ("s1", 20, 0)]);
        sharing = memory.update(&all_fail, 0).sharing;
    }
    assert!(sharing.together < 0.1, "{sharing:?}");
}

#[test]
fn an_outage_of_one_pod_does_not_raise_what_is_usual() {
    let mut memory = Pods::default();
    let reports = |failing: &str| PODS.map(|pod| (pod, 10, if pod == failing { 10 } else { 0 }));
    let counted = |memory: &mut Pods, window: u64, failing: &str| {
        memory.update(&report(window * 10, &reports(failing)), 0).admitted.get(failing).copied().unwrap_or(0)
    };
    let first: u64 = (1..7).map(|window| counted(&mut memory, window, "s0")).sum();
    let second: u64 = (7..13).map(|window| counted(&mut memory, window, "c0")).sum();
    assert_eq!((first.min(2), second), (first, 1));
}

/// The rule's answer after so many windows in which each pod finishes ten units and those named fail them all.
fn failing(windows: u64, pods: &[&str], fail: &[&str]) -> Option<PodsFailing> {
    let mut memory = Pods::default();
    for window in 1..=windows {
        let reports: Vec<(&str, u64, u64)> =
            pods.iter().map(|pod| (*pod, 10, if fail.contains(pod) { 10 } else { 0 })).collect();
        memory.update(&report(window * 10, &reports), 0);
    }
    memory.failing()
}

#[test]
fn pods_that_fail_together_for_a_minute_need_no_statistics() {
    let pods = ["c0", "c1", "s0", "s1", "s2", "s3"];
    assert_eq!(failing(5, &pods, &["c0", "c1"]), None);
    assert_eq!(failing(6, &pods, &["c0", "c1"]), Some(PodsFailing { failing: 2, pods: 2, seconds: 60 }));
    assert_eq!(failing(60, &pods, &["c0"]), None, "one of several may be its node's fault");
    assert_eq!(failing(60, &pods, &["c0", "c1", "s0"]), None, "what both arms have is nobody's fault");
    assert_eq!(failing(60, &["c0", "c1"], &["c0", "c1"]), None, "nobody to compare with");
    assert_eq!(failing(29, &["c0", "s0"], &["c0"]), None);
    assert_eq!(failing(30, &["c0", "s0"], &["c0"]), Some(PodsFailing { failing: 1, pods: 1, seconds: 300 }));
}
