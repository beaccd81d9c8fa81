//! The judge checks itself on stable's own pods. The clock is the test's, and so are the pods.

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::{JudgeCheck, UncheckedJudge};
use slipway_vocabulary::evidence::{Evidence, WINDOW_SECONDS, window_id};

use super::{
    cluster::{Cluster, lines, world},
    trial::ROLLOUT,
};
use crate::agent_deployment::monitoring::drift::{
    LivePod,
    simulated::{Dice, USUAL, Users},
};

/// Windows that pods have counted.
const WINDOWS: u64 = 45;

fn serving(rollout: &str) -> Cluster {
    let rollout = serde_norway::from_str(rollout).expect("a valid rollout");
    world()
        .edited(|spec| {
            spec.serving.replicas = 4;
            spec.rollout = rollout;
        })
        .serving()
}

impl Cluster {
    /// The operator reads pods of stable that serve these users, one pod each.
    fn reads(&mut self, pods: &[Users]) {
        let stable = self.stable();
        let now = window_id(u64::try_from(self.world.now.as_second()).expect("after 1970"));
        let mut dice = Dice(now);
        let pod = |(number, users): (usize, &Users)| {
            let windows = (now.saturating_sub(WINDOWS)..now).map(|id| users.window(&mut dice, id)).collect();
            let evidence = Evidence {
                version: 1,
                revision: stable.clone(),
                pod: format!("support-{number}"),
                started_at: "2026-01-01T00:00:00Z".to_owned(),
                windows,
            };
            LivePod { evidence, images: [].into() }
        };
        self.world.live = pods.iter().enumerate().map(pod).collect();
        self.settle();
    }

    /// An hour later it reads them again.
    fn reads_an_hour_later(&mut self, pods: &[Users]) {
        self.pass(3_600);
        self.reads(pods);
    }

    fn trusted(&self) -> String {
        let found = self.world.status.conditions.iter().find(|c| c.type_ == "JudgeTrusted");
        found.map_or_else(|| "absent".to_owned(), |c| format!("{} {}: {}", c.status, c.reason, c.message))
    }

    fn checks(&self) -> Vec<JudgeCheck> {
        self.world.status.self_check.as_ref().map(|of| of.checks.clone()).unwrap_or_default()
    }
}

const fn check(rolled_back: i32) -> JudgeCheck {
    JudgeCheck { shuffles: 10, rolled_back, seconds: (WINDOWS * WINDOW_SECONDS) as i32 }
}

const SLOW: Users = Users { slower: 3.0, ..USUAL };

#[test]
fn pods_that_are_alike_show_that_the_judge_can_be_trusted() {
    let mut cluster = serving(ROLLOUT);
    assert_eq!(cluster.trusted(), "absent", "nobody has read a pod yet");
    cluster.reads(&[USUAL; 4]);
    let words = "True SelfCheckPassed: 0 of 10 shuffles of stable's pods would have been rolled back (0.0%, 1% is \
                 promised), in 0.1 h of evidence";
    assert_eq!((cluster.trusted().as_str(), cluster.checks()), (words, vec![check(0)]));
}

#[test]
fn it_is_checked_once_an_hour_and_a_day_of_checks_is_kept() {
    let mut cluster = serving(ROLLOUT);
    cluster.reads(&[USUAL; 4]);
    let first = cluster.world.status.self_check.clone();
    cluster.pass(3_590);
    cluster.reads(&[USUAL; 4]);
    assert_eq!(cluster.world.status.self_check, first, "not a second time within the hour");
    for _ in 0..25 {
        cluster.reads_an_hour_later(&[USUAL; 4]);
    }
    assert_eq!(cluster.checks(), [check(0); 24]);
}

#[test]
fn a_pod_that_stays_slower_than_the_others_shows_that_it_cannot_until_a_day_after_it_was_mended() {
    let mut cluster = serving(ROLLOUT);
    let uneven = [SLOW, USUAL, USUAL, USUAL];
    cluster.reads(&uneven);
    assert!(cluster.trusted().starts_with("Unknown SelfCheckUnclear: 4 of 10 shuffles"), "{}", cluster.trusted());
    cluster.reads_an_hour_later(&uneven);
    cluster.reads_an_hour_later(&uneven);
    let words = "False SelfCheckFailed: 12 of 30 shuffles of stable's pods would have been rolled back (40.0%, 1% is \
                 promised), in 0.4 h of evidence. Pods of one plan differ by more than chance: look for slow or failing \
                 nodes, or raise spec.rollout.judge.maxRegression";
    assert_eq!(cluster.trusted(), words);
    cluster.reads_an_hour_later(&[USUAL; 4]);
    assert!(cluster.trusted().starts_with("Unknown SelfCheckUnclear"), "{}", cluster.trusted());
    for _ in 0..23 {
        cluster.reads_an_hour_later(&[USUAL; 4]);
    }
    assert!(cluster.trusted().starts_with("True SelfCheckPassed: 0 of 240"), "{}", cluster.trusted());
}

#[test]
fn too_few_pods_and_too_little_traffic_are_told_and_looked_at_again_soon() {
    let mut cluster = serving(ROLLOUT);
    cluster.reads(&[USUAL; 3]);
    let words = "Unknown TooFewPods: 3 pods of stable have counted something: the self-check needs at least 4";
    assert_eq!(cluster.trusted(), words);
    cluster.pass(600);
    cluster.reads(&[Users { runs: 3, ..USUAL }; 4]);
    let words = "Unknown TooLittleTraffic: 180 runs of stable have finished in the last hour: the self-check of its 4 pods \
                 needs 200";
    assert_eq!(cluster.trusted(), words);
    cluster.reads_an_hour_later(&[Users { runs: 0, ..USUAL }, USUAL, USUAL, USUAL]);
    let unknown = cluster.world.status.self_check.as_ref().and_then(|known| known.unknown);
    assert_eq!(unknown, Some(UncheckedJudge::TooFewPods), "a pod without a run has counted nothing");
}

#[test]
fn another_promise_and_another_revision_are_checked_anew() {
    let mut cluster = serving(ROLLOUT);
    cluster.reads(&[USUAL; 4]);
    cluster.reads_an_hour_later(&[USUAL; 4]);
    assert_eq!(cluster.checks().len(), 2);
    let mut cluster = cluster.edited(|spec| spec.rollout.judge.false_rollback = "5%".parse().expect("a percentage"));
    cluster.reads(&[USUAL; 4]);
    assert_eq!(cluster.checks(), [check(0)]);
    assert!(cluster.trusted().contains("(0.0%, 5% is promised)"), "{}", cluster.trusted());
}

#[test]
fn where_all_traffic_switches_at_once_nothing_is_judged_and_nothing_checked() {
    let mut cluster = serving("{}");
    cluster.reads(&[USUAL; 4]);
    assert_eq!((cluster.trusted().as_str(), cluster.checks()), ("absent", Vec::new()));
}

#[test]
fn a_check_starts_nothing_and_restarts_nothing() {
    let mut cluster = serving(ROLLOUT);
    let objects = |cluster: &Cluster| -> Vec<String> {
        let lines = lines(&cluster.plan());
        lines.into_iter().filter(|line| line.starts_with(['+', '-'])).collect()
    };
    let before = objects(&cluster);
    cluster.reads(&[SLOW, USUAL, USUAL, USUAL]);
    assert_eq!((objects(&cluster), cluster.checks()), (before, vec![check(4)]));
}
