//! What programs read of commands: documents, whole.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use kubectl_slipway::{
    conversation::Run,
    measured::Measurements,
    output::{Format, document},
    view::{rollout::RolloutView, status::StatusView},
};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Profile};
use slipway_vocabulary::evidence::{Evidence, Histogram};

const STABLE: &str = "1f2e3d4c5b";
const CANARY: &str = "5b4c3d2e1f";

fn campaign() -> Value {
    serde_json::from_str(include_str!("fixtures/campaign.json")).unwrap()
}

fn agent() -> AgentDeployment {
    serde_json::from_value(campaign()["agent"].clone()).unwrap()
}

/// An agent whose canary has a fifth of the traffic.
fn rolling_out() -> AgentDeployment {
    let mut object = agent();
    object.spec.slo.objectives.clear();
    object.spec.rollout = serde_json::from_value(json!({
        "traffic": {"type": "ReplicaRatio"}, "steps": [{"weight": 20}, {"weight": 50}], "judge": {"falseRollback": "1%"},
    }))
    .unwrap();
    let rollout = json!({
        "stable": STABLE, "canary": CANARY, "step": 1, "weight": 20, "weightSince": "2026-01-01T12:00:00Z",
        "verdict": "Hold", "reason": "NotYetShown", "message": "no harm is shown, and no equality either",
        "judgedAt": "2026-01-01T12:01:30Z", "expectedVerdictSeconds": 240,
        "evidence": [
            {"guard": "RequestLatency/relative", "logEvidence": "2.30"},
            {"guard": "RequestLatency/errors", "logEvidence": "-0.41"},
        ],
        "guardrails": [{"name": "refusals", "value": "0.2", "valueMillionths": 200_000, "limit": "1", "exceeded": 0,
            "at": "2026-01-01T12:01:00Z"}],
        "rejected": [{"plan": "0a0b0c0d0e", "at": "2026-01-01T11:00:00Z", "reason": "5 of 100 runs failed"}],
    });
    object.status.as_mut().unwrap().rollout = Some(serde_json::from_value(rollout).unwrap());
    object
}

/// Ten minutes of a pod; so many runs of 0.7 to 1.4 s, by a factor in tenths, end in each window.
fn counted(revision: &str, pod: &str, (runs, factor): (u64, u64)) -> Evidence {
    let window = |id: u64| {
        let mut buckets = Histogram::new();
        (0..runs).for_each(|run| buckets.record((70_000 + 70_000 * ((run * 15 + id) % 60) / 60) * factor));
        let metric = |name: &str| {
            json!({
                "metric": name, "unit": "Run", "stratum": "", "started": runs, "newSessions": 0, "inFlight": 0,
                "oldestInFlightMicroseconds": 0, "count": runs, "errors": 0, "sumMicroseconds": 0, "buckets": buckets,
            })
        };
        let metrics = ["AgentRunLatency", "ModelTime", "RequestLatency"].map(metric);
        json!({"id": id, "metrics": metrics})
    };
    let windows: Vec<Value> = (360_000..360_060).map(window).collect();
    serde_json::from_value(json!({
        "version": 2, "revision": revision, "pod": pod, "startedAt": "2026-01-01T00:00:00Z", "windows": windows,
    }))
    .unwrap()
}

#[test]
fn a_status_has_engines_candidates_the_choice_and_objectives_with_what_pods_count() {
    let profile: Profile = serde_json::from_value(campaign()["profile"].clone()).unwrap();
    let measurements = Measurements::of(&[counted("901cd78cd2", "a", (4, 10))]);
    let view = StatusView::of(&agent(), Some(&profile), Ok(&measurements));
    insta::assert_snapshot!("status", document(Format::Json, &view).unwrap());
}

#[test]
fn a_status_that_the_operator_has_not_written_yet_says_so() {
    let mut object = agent();
    object.status = None;
    let view = StatusView::of(&object, None, Err("no pod answers".to_owned()));
    insta::assert_snapshot!("status_before", document(Format::Yaml, &view).unwrap());
}

#[test]
fn a_rollout_has_shares_verdict_evidence_counts_and_outlook() {
    let pods = [counted(STABLE, "s0", (4, 10)), counted(STABLE, "s1", (4, 10)), counted(CANARY, "c0", (3, 14))];
    let view = RolloutView::of(&rolling_out(), Ok(&pods));
    insta::assert_snapshot!("rollout", document(Format::Yaml, &view).unwrap());
}

#[test]
fn a_rollout_whose_pods_do_not_answer_says_why() {
    let view = RolloutView::of(&rolling_out(), Err("failed to list pods: HTTP 403".to_owned()));
    let written: Value = serde_json::from_str(&document(Format::Json, &view).unwrap()).unwrap();
    assert_eq!(written["unread"], "failed to list pods: HTTP 403");
    assert_eq!((written["counted"].is_null(), written["outlook"].is_null()), (true, true));
}

#[test]
fn a_run_has_its_steps_and_its_answer() {
    let run: Run = serde_json::from_value(json!({
        "status": "succeeded", "answer": "5526", "steps": [
            {"step": 1, "modelMicroseconds": 210_000, "toolCalls": [
                {"name": "lookup", "input": "Belaro.population", "status": "ok", "observation": "4711", "microseconds": 900},
            ]},
        ],
        "timings": {"totalMicroseconds": 260_000, "modelMicroseconds": 210_000, "toolMicroseconds": 900},
    }))
    .unwrap();
    insta::assert_snapshot!("run", document(Format::Yaml, &run).unwrap());
}
