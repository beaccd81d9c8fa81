//! Why a configuration serves, and why another does not, in words that name no type of a program.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use kubectl_slipway::{
    explain::{UnknownCandidate, explain, text},
    output::{Format, document},
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Profile};

/// A campaign as a cluster held it: two engines at three levels, and a confirm run.
fn campaign() -> Value {
    serde_json::from_str(include_str!("fixtures/campaign.json")).unwrap()
}

fn explained(campaign: &Value, candidate: Option<&str>) -> Result<String, UnknownCandidate> {
    let agent: AgentDeployment = serde_json::from_value(campaign["agent"].clone()).unwrap();
    let profile: Option<Profile> = serde_json::from_value(campaign["profile"].clone()).unwrap();
    explain(&agent, profile.as_ref(), candidate).map(|explained| text(&explained))
}

/// One point of each kind that can lose.
fn of_every_kind() -> Value {
    let mut campaign = campaign();
    let agent = &mut campaign["agent"];
    agent["spec"]["slo"]["quality"] = json!({"maxDrop": "2%", "dataset": {"configMap": {"name": "quality", "key": "lines"}}, "evaluator": "ExactMatch"});
    agent["status"]["engines"].as_array_mut().unwrap().push(json!({
        "name": "engine-4", "displayName": "int4", "precision": "INT4WeightOnly", "state": "refused",
        "quality": {"manifestDigest": "m", "datasetDigest": "d", "samples": 400, "scorePartsPerMillion": 930_000,
            "dropPartsPerMillion": 21_000, "dropUpperBoundPartsPerMillion": 31_000, "accepted": false},
    }));
    agent["status"]["rollout"]["rejected"] =
        json!([{"plan": "0a0b0c0d0e", "at": "2026-01-01T11:00:00Z", "reason": "5 of 100 runs failed"}]);
    campaign["profile"]["spec"]["inputs"]["objectives"][0]["max"] = json!("1s");
    let status = &mut campaign["profile"]["status"];
    status["notMeasured"] = json!([
        {"engine": "engine-7d5e0b59c4", "configuration": "instances-2", "fromLevel": 32, "toLevel": 64,
         "reason": "16 in flight is slower already"},
    ]);
    let rows = &mut status["measurements"];
    (rows[1]["verdict"], rows[1]["reason"]) = (json!("Failed"), json!("the server ran out of memory"));
    (rows[2]["verdict"], rows[2]["reason"]) = (json!("Infeasible"), json!("reply is missed"));
    (rows[5]["verdict"], rows[5]["reason"]) = (json!("Unbounded"), json!("reply lies within the bounds"));
    campaign
}

#[test]
fn the_choice_and_every_candidate_that_lost_are_explained_with_figures() {
    insta::assert_snapshot!("explain", explained(&of_every_kind(), None).unwrap());
}

#[test]
fn a_point_that_most_of_its_rounds_refuted_is_not_said_to_meet_the_objectives() {
    let mut campaign = campaign();
    let rows = campaign["profile"]["status"]["measurements"].as_array_mut().unwrap();
    for round in [1, 2] {
        let mut again = rows[3].clone();
        again["purpose"] = json!("Repeat");
        (again["round"], again["verdict"]) = (json!(round), json!("Infeasible"));
        rows.push(again);
    }
    let said = explained(&campaign, Some("int8/instances-2 at 4 in flight")).unwrap();
    let expected = "int8/instances-2 at 4 in flight: met the objectives once, and missed one in most of its rounds";
    assert_eq!(said.lines().nth(1).map(str::trim), Some(expected));
}

#[test]
fn one_candidate_is_explained_alone() {
    let expected = "\
Why no other:
  fp32/instances-2 at 4 in flight: int8/instances-2 at 4 in flight is no slower and serves no less: 29.02 against 14.80 requests/s, \
RequestLatency p90 250ms against 501ms
";
    let mut campaign = campaign();
    campaign["profile"]["status"]["measurements"].as_array_mut().unwrap().remove(2);
    campaign["profile"]["status"]["measurements"].as_array_mut().unwrap().remove(1);
    campaign["profile"]["status"]["front"] = json!([1, 2]);
    campaign["profile"]["status"]["choice"]["predictedBy"] = json!(4);
    assert_eq!(explained(&campaign, Some("fp32")).unwrap(), expected);
    assert_eq!(explained(&campaign, Some("fp32/instances-2")).unwrap(), expected);
}

#[test]
fn a_candidate_that_nobody_considered_is_answered_with_those_that_were() {
    let message = explained(&of_every_kind(), Some("fp8")).unwrap_err().to_string();
    assert!(message.starts_with("there is no candidate fp8: name an engine, or ENGINE/CONFIGURATION, of int4, fp32"));
}

#[test]
fn an_agent_without_measurements_says_why_there_are_none() {
    let mut campaign = campaign();
    campaign["profile"] = Value::Null;
    campaign["agent"]["spec"].as_object_mut().unwrap().remove("profiling");
    let text = explained(&campaign, None).unwrap();
    assert!(text.contains("nothing was measured, because the spec has no profiling"), "{text}");
    campaign["agent"].as_object_mut().unwrap().remove("status");
    assert!(explained(&campaign, None).unwrap().ends_with("the operator has not processed it yet\n"));
}

#[test]
fn an_agent_whose_model_another_server_has_says_what_is_known_of_it() {
    let mut campaign = campaign();
    campaign["profile"] = Value::Null;
    let spec = campaign["agent"]["spec"].as_object_mut().unwrap();
    ["profiling", "engine", "search"].iter().for_each(|field| drop(spec.remove(*field)));
    spec["model"] = json!({"upstream": {"url": "https://llm.example", "model": "qwen3"}});
    let status = campaign["agent"]["status"].as_object_mut().unwrap();
    ["engines", "profile"].iter().for_each(|field| drop(status.remove(*field)));
    status.insert(
        "selected".to_owned(),
        json!({"displayName": "qwen3 at llm.example", "maxInFlight": 64, "why": "spec.model.upstream names it"}),
    );
    let text = explained(&campaign, None).unwrap();
    assert!(text.starts_with("facts-agent: qwen3 at llm.example, at most 64 runs in flight on a replica\n"), "{text}");
    assert!(text.contains("nothing is measured of a model that another server has"), "{text}");
}

#[test]
fn the_choice_is_explained_alone_too() {
    let alone = explained(&campaign(), Some("int8/instances-2 at 8")).unwrap();
    assert!(alone.starts_with("facts-agent: int8, at most 8 runs in flight on a replica\n"), "{alone}");
    assert!(!alone.contains("Why no other"), "{alone}");
}

#[test]
fn where_the_choice_stands_is_said_before_why() {
    let standing = |rollout: Value, stage: &str| {
        let mut campaign = campaign();
        campaign["agent"]["status"]["rollout"] = rollout;
        campaign["agent"]["status"]["stage"] = json!(stage);
        explained(&campaign, None).unwrap().lines().nth(1).unwrap().trim().to_owned()
    };
    let proposed = json!({"planHash": "p1", "since": "2026-01-01T00:00:00Z", "why": "faster", "changes": []});
    let all = [
        standing(json!({}), "RollingOut"),
        standing(json!({"stable": "s1"}), "Serving"),
        standing(json!({"stable": "s1", "canary": "c1", "weight": 20}), "RollingOut"),
        standing(json!({"stable": "s1", "proposed": proposed}), "AwaitingApproval"),
        standing(json!({"stable": "s1"}), "RolledBack"),
    ];
    let expected = [
        "it does not serve yet: its first revision is about to start",
        "it serves: revision s1 has all traffic",
        "it is on trial: canary c1 has 20 % of the traffic",
        "it waits for approval as p1: see `kubectl slipway rollout`",
        "it was rolled back: revision s1 serves what was chosen before",
    ];
    assert_eq!(all, expected);
}

#[test]
fn an_explanation_is_a_document_with_a_word_for_each_reason() {
    let campaign = of_every_kind();
    let agent: AgentDeployment = serde_json::from_value(campaign["agent"].clone()).unwrap();
    let profile: Option<Profile> = serde_json::from_value(campaign["profile"].clone()).unwrap();
    let explained = explain(&agent, profile.as_ref(), None).unwrap();
    insta::assert_snapshot!("document", document(Format::Yaml, &explained).unwrap());
}
