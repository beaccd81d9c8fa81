//! An AgentDeployment as a tree, as terminals of two widths show it.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use k8s_openapi::{
    api::core::v1::{Event, Pod},
    jiff::Timestamp,
};
use kubectl_slipway::{
    output::{Format, document},
    tree::{
        Seen, Tree,
        lines::Ink,
        text::{Focus, Moments, Screen, text},
    },
};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::AgentDeployment;

const STABLE: &str = "1f2e3d4c5b";
const CANARY: &str = "5b4c3d2e1f";

fn agent(status: Value) -> AgentDeployment {
    let campaign: Value = serde_json::from_str(include_str!("fixtures/campaign.json")).unwrap();
    let mut agent = campaign["agent"].clone();
    agent["spec"]["rollout"] = json!({
        "traffic": {"type": "ReplicaRatio"}, "steps": [{"weight": 20}, {"weight": 50}], "judge": {"falseRollback": "1%"},
    });
    status.as_object().unwrap().iter().for_each(|(name, value)| agent["status"][name] = value.clone());
    serde_json::from_value(agent).unwrap()
}

/// An agent whose canary has a fifth of the traffic beside a baseline.
fn rolling_out() -> AgentDeployment {
    let reconciling = json!({
        "type": "Reconciling", "status": "True", "reason": "CanaryOnTrial", "lastTransitionTime": "2026-01-01T12:00:00Z",
        "message": "canary 5b4c3d2e1f has 20 % of the traffic, and the judge holds it there until it has seen enough",
    });
    agent(json!({
        "stage": "RollingOut", "readyPods": 2, "wantedPods": 2, "conditions": [reconciling],
        "rollout": {
            "stable": STABLE, "canary": CANARY, "step": 1, "weight": 20, "weightSince": "2026-01-01T12:00:00Z",
            "baseline": {"revision": "5b4c3d2e1f-base", "weight": 20, "pods": 1, "readyPods": 1},
            "verdict": "Hold", "reason": "NotYetShown", "message": "no harm is shown, and no equality either",
            "judgedAt": "2026-01-01T12:01:30Z",
            "evidence": [
                {"guard": "AgentRunLatency/relative", "logEvidence": "2.30"},
                {"guard": "AgentRunLatency/errors", "logEvidence": "-0.41"},
            ],
            "guardrails": [{"name": "refusals", "value": "0.2", "limit": "1", "exceeded": 0, "at": "2026-01-01T12:01:00Z"}],
            "leaving": [{"revision": "0a0b0c0d0e", "until": "2026-01-01T12:06:00Z"}],
            "rejected": [{"plan": "9a9b9c9d9e", "at": "2026-01-01T11:00:00Z",
                "reason": "AgentRunLatency is worse: 5 of 100 runs failed on the canary, and 1 of 400 on stable"}],
        },
    }))
}

/// A pod of a revision as the operator makes it, ready or still starting.
fn pod(name: &str, labels: &[(&str, &str)], is_ready: bool) -> Pod {
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(name, value)| (format!("slipway.dev/{name}"), json!(value))).collect();
    let container = |name: &str| json!({"name": name, "ready": is_ready, "restartCount": 0, "image": "i", "imageID": "i", "state": {"running": {}}});
    let phase = if is_ready { "Running" } else { "Pending" };
    let materialize = if is_ready { json!({"terminated": {"exitCode": 0}}) } else { json!({"running": {}}) };
    let init = json!([
        {"name": "materialize", "ready": is_ready, "restartCount": 0, "image": "i", "imageID": "i", "state": materialize},
        container("triton"),
    ]);
    let ready = if is_ready { "True" } else { "False" };
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T11:55:00Z"},
        "spec": {
            "initContainers": [{"name": "materialize"}, {"name": "triton", "restartPolicy": "Always"}],
            "containers": [{"name": "agent"}],
        },
        "status": {
            "phase": phase, "conditions": [{"type": "Ready", "status": ready}],
            "initContainerStatuses": init, "containerStatuses": [container("agent")],
        },
    }))
    .unwrap()
}

fn pods() -> Vec<Pod> {
    let of = |revision: &str, end: &str, is_ready: bool| {
        let name = format!("facts-agent-{revision}-6c9d7b8f5c-{end}");
        pod(&name, &[("revision", revision)], is_ready)
    };
    vec![
        of(STABLE, "x2k9p", true),
        of(STABLE, "7hq4z", true),
        of(CANARY, "m4t8w", false),
        of("5b4c3d2e1f-base", "p9d2c", true),
    ]
}

fn event(at: &str, reason: &str, message: &str) -> Event {
    let kind = if reason == "RolledBack" { "Warning" } else { "Normal" };
    serde_json::from_value(json!({
        "metadata": {"name": reason}, "involvedObject": {}, "type": kind, "reason": reason, "message": message,
        "eventTime": format!("2026-01-01T{at}.000000Z"),
    }))
    .unwrap()
}

fn events() -> Vec<Event> {
    vec![
        event("11:00:00", "RolledBack", "9a9b9c9d9e was rolled back: 5 of 100 runs failed on the canary"),
        event("12:00:00", "CanaryWeight", "canary 5b4c3d2e1f has 20 % of the traffic"),
        event("11:55:00", "RevisionCreated", "revision 5b4c3d2e1f starts with int8 at most 8 in flight\non 1 pod"),
    ]
}

fn tree() -> Tree {
    Tree::of(Seen { object: &rolling_out(), pods: &pods(), events: &events() })
}

fn screen(width: usize, focus: Focus) -> Screen {
    let now: Timestamp = "2026-01-01T12:05:00Z".parse().unwrap();
    Screen { width, ink: Ink::None, moments: Moments::Ages(now), focus }
}

#[rstest]
#[case::of_an_agent_at_80(80, Focus::Agent, "agent_80")]
#[case::of_an_agent_at_120(120, Focus::Agent, "agent_120")]
#[case::of_a_rollout_at_80(80, Focus::Rollout, "rollout_80")]
#[case::of_a_rollout_at_120(120, Focus::Rollout, "rollout_120")]
fn a_tree_fits_its_terminal(#[case] width: usize, #[case] focus: Focus, #[case] name: &str) {
    let shown = text(&tree(), &screen(width, focus));
    assert_eq!(shown.lines().filter(|line| line.chars().count() > width).collect::<Vec<_>>(), Vec::<&str>::new());
    insta::assert_snapshot!(name.to_owned(), shown);
}

#[test]
fn without_a_canary_a_tree_shows_who_serves_and_with_which_objectives() {
    let object = agent(json!({"readyPods": 1, "wantedPods": 1}));
    let serving = pod("facts-agent-901cd78cd2-6c9d7b8f5c-x2k9p", &[("revision", "901cd78cd2")], true);
    let tree = Tree::of(Seen { object: &object, pods: &[serving], events: &[] });
    insta::assert_snapshot!("serving_80", text(&tree, &screen(80, Focus::Agent)));
}

#[test]
fn before_there_is_a_revision_a_tree_shows_engines_and_the_pods_of_jobs() {
    let mut object = agent(json!({"stage": "Building", "rollout": {}, "slo": [], "engines": [
        {"name": "engine-1", "displayName": "fp32", "precision": "FP32", "state": "built: 39.1 MB"},
        {"name": "engine-2", "displayName": "int8", "precision": "INT8", "state": "building: attempt 1"},
    ]}));
    object.status.as_mut().unwrap().selected = None;
    let jobs = [pod("quality-0123456789-1-8xk2p", &[("job", "quality-0123456789-1")], false)];
    let tree = Tree::of(Seen { object: &object, pods: &jobs, events: &[] });
    insta::assert_snapshot!("building_80", text(&tree, &screen(80, Focus::Agent)));
}

#[test]
fn without_colours_a_tree_has_the_same_words() {
    let coloured = text(&tree(), &Screen { ink: Ink::Colours, ..screen(80, Focus::Agent) });
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    let trimmed: String = plain.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    assert_eq!(trimmed, text(&tree(), &screen(80, Focus::Agent)));
    assert!(coloured.contains("\u{1b}[32m") && coloured.contains("\u{1b}[33m"), "ready is green, waiting is yellow");
}

#[test]
fn a_tree_that_is_appended_changes_with_what_it_shows_and_not_with_the_time() {
    let screen = Screen { moments: Moments::Times, ..screen(120, Focus::Agent) };
    insta::assert_snapshot!("appended", text(&tree(), &screen));
}

#[test]
fn a_tree_is_a_document() {
    insta::assert_snapshot!("document", document(Format::Yaml, &tree()).unwrap());
}
