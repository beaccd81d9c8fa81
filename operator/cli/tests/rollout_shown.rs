//! A rollout as people see it over time, in a terminal and in the report.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use kubectl_slipway::{
    arms::{Arms, Band, Side, arms},
    report::{Material, report},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile, agent_deployment::TrafficType};
use slipway_vocabulary::evidence::{Evidence, Histogram, Metric, Quantile};

const STABLE: &str = "1f2e3d4c5b";
const CANARY: &str = "5b4c3d2e1f";

fn campaign() -> Value {
    serde_json::from_str(include_str!("fixtures/campaign.json")).unwrap()
}

fn rolling_out(rollout: Value) -> AgentDeployment {
    let mut object: AgentDeployment = serde_json::from_value(campaign()["agent"].clone()).unwrap();
    object.spec.slo.objectives.clear();
    object.status.as_mut().unwrap().rollout = Some(serde_json::from_value(rollout).unwrap());
    object
}

fn under_way() -> AgentDeployment {
    rolling_out(json!({
        "stable": STABLE, "canary": CANARY, "weight": 20, "verdict": "Hold", "reason": "ErrorsWithinPods",
        "message": "ErrorsWithinPods: 60 of 60 errors of the canary <came> together on a pod",
        "evidence": [
            {"guard": "AgentRunLatency/errors", "logEvidence": "2.30"},
            {"guard": "AgentRunLatency/relative", "logEvidence": "-0.41"},
        ],
    }))
}

/// A pod that answers runs from one window to another, each window so many from 0.7 to 1.4 s times a factor.
struct Served {
    revision: &'static str,
    pod: &'static str,
    windows: std::ops::Range<u64>,
    runs: u64,
    factor: u64,
    /// Windows in which all of them fail.
    failing: std::ops::Range<u64>,
}

impl Default for Served {
    fn default() -> Self {
        Self { revision: STABLE, pod: "s0", windows: 360_000..360_090, runs: 12, factor: 10, failing: 0..0 }
    }
}

fn evidence(served: &Served) -> Evidence {
    let Served { revision, pod, windows, runs, factor, failing } = served;
    let window = |id: u64| {
        let errors = if failing.contains(&id) { *runs } else { 0 };
        let mut buckets = Histogram::new();
        (errors..*runs).for_each(|run| buckets.record((70_000 + 70_000 * ((run * 15 + id) % 60) / 60) * factor));
        let metric = json!({
            "metric": "AgentRunLatency", "unit": "Run", "stratum": "", "started": runs, "newSessions": 0, "inFlight": 0,
            "oldestInFlightMicroseconds": 0, "count": runs, "errors": errors, "sumMicroseconds": 0, "buckets": buckets,
        });
        json!({"id": id, "metrics": [metric]})
    };
    let windows: Vec<Value> = windows.clone().map(window).collect();
    serde_json::from_value(json!({
        "version": 2, "revision": revision, "pod": pod, "startedAt": "2026-01-01T00:00:00Z", "windows": windows,
    }))
    .unwrap()
}

/// A canary of two pods since the second third of the time. It is 40 % slower, and one of its pods fails for a minute.
fn served() -> Vec<Evidence> {
    let canary = || Served { revision: CANARY, windows: 360_030..360_090, runs: 10, factor: 14, ..Served::default() };
    let all = [
        Served::default(),
        Served { pod: "s1", ..Served::default() },
        Served { pod: "c0", failing: 360_060..360_066, ..canary() },
        Served { pod: "c1", ..canary() },
    ];
    all.iter().map(evidence).collect()
}

#[test]
fn a_terminal_draws_both_revisions_period_by_period_and_names_the_pod_that_fails() {
    insta::assert_snapshot!("arms", arms(&under_way(), &served()));
}

#[test]
fn what_is_drawn_begins_with_the_canary_and_counts_every_unit() {
    let shown = Arms::of(&under_way(), &served()).unwrap();
    let units = |side: Side| -> Vec<(u64, u64, u64)> {
        let of = |period: &kubectl_slipway::arms::Period| {
            let counts = &period.sides[&side];
            (period.begin_seconds, counts.units, counts.failed)
        };
        shown.periods.iter().map(of).collect()
    };
    assert_eq!(shown.metric, Metric::AgentRunLatency);
    assert_eq!(units(Side::Reference), [(3_600_300, 720, 0), (3_600_600, 720, 0)]);
    assert_eq!(units(Side::Canary), [(3_600_300, 600, 0), (3_600_600, 600, 60)]);
    let by_pod: Vec<_> = shown.pods.iter().map(|of| (of.pod.as_str(), of.counts.failed)).collect();
    assert_eq!(by_pod, [("s0", 0), ("s1", 0), ("c0", 60), ("c1", 0)]);
}

#[test]
fn few_units_bound_no_high_percentile_from_above() {
    let pods = [evidence(&Served { revision: CANARY, windows: 0..2, ..Served::default() })];
    let shown = Arms::of(&under_way(), &pods).unwrap();
    let Band { lower, point, upper } = shown.pods[0].counts.band(Quantile::P95).unwrap();
    assert_eq!((lower <= point, point > 1_000_000, upper), (true, true, None));
    assert!(arms(&under_way(), &pods).contains('>'));
}

#[test]
fn a_baseline_stands_for_stable_and_without_a_canary_there_is_nothing_to_draw() {
    let mut object = under_way();
    let rollout = object.status.as_mut().unwrap().rollout.as_mut().unwrap();
    let baseline = json!({"revision": "5b4c3d2e1f-base", "weight": 20, "pods": 1, "readyPods": 1});
    rollout.baseline = Some(serde_json::from_value(baseline).unwrap());
    let mut pods = served();
    pods.push(evidence(&Served { revision: "5b4c3d2e1f-base", pod: "b0", ..Served::default() }));
    let names: Vec<String> = Arms::of(&object, &pods).unwrap().pods.into_iter().map(|of| of.pod).collect();
    assert_eq!(names, ["b0", "c0", "c1"]);
    assert_eq!(Arms::of(&rolling_out(json!({"stable": STABLE})), &served()), None);
    assert_eq!(arms(&under_way(), &served()[..2]), "", "no pod of the canary answers");
}

/// The part of a report that shows the rollout.
fn reported(object: &AgentDeployment, pods: &[Evidence]) -> String {
    let campaign = campaign();
    let profile: Profile = serde_json::from_value(campaign["profile"].clone()).unwrap();
    let engines: Vec<Engine> = serde_json::from_value(campaign["engines"].clone()).unwrap();
    let html = report(Material { object, profile: &profile, engines: &engines, evidence: pods });
    let Some((_, rest)) = html.split_once("<h2>Rollout</h2>\n") else { return String::new() };
    rest.split_once("</section>").unwrap().0.to_owned()
}

#[test]
fn a_report_draws_the_rollout_with_its_evidence_and_its_pods() {
    insta::assert_snapshot!("section", reported(&under_way(), &served()));
}

#[test]
fn a_report_of_a_rollout_whose_pods_do_not_answer_says_so_and_one_without_a_rollout_has_no_section() {
    let unread = reported(&under_way(), &[]);
    assert!(unread.contains("No pod of the canary says what it counted."), "{unread}");
    assert_eq!(reported(&rolling_out(json!({"stable": STABLE})), &[]), "");
}

#[test]
fn a_report_says_before_a_rollout_how_long_its_verdicts_would_take() {
    let mut object = rolling_out(json!({"stable": STABLE}));
    object.spec.rollout.traffic.r#type = TrafficType::ReplicaRatio;
    object.spec.rollout.judge.costs =
        serde_json::from_value(json!([{"metric": "OutputTokensPerRun", "maxIncrease": "20%"}])).unwrap();
    insta::assert_snapshot!("before", reported(&object, &served()));
}
