//! The report and the table of candidates of a campaign, as files.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use std::time::Duration;

use kubectl_slipway::{
    candidates::candidates,
    measured::Measurements,
    overview::overview,
    progress::{Look, Narrator},
    report::{Material, report},
};
use pretty_assertions::{assert_eq, assert_ne};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile};

/// A campaign as a cluster held it: two engines at three levels, and a confirm run.
fn campaign() -> Value {
    serde_json::from_str(include_str!("fixtures/campaign.json")).unwrap()
}

struct Objects {
    agent: AgentDeployment,
    profile: Profile,
    engines: Vec<Engine>,
}

fn objects(campaign: &Value) -> Objects {
    Objects {
        agent: serde_json::from_value(campaign["agent"].clone()).unwrap(),
        profile: serde_json::from_value(campaign["profile"].clone()).unwrap(),
        engines: serde_json::from_value(campaign["engines"].clone()).unwrap(),
    }
}

fn reported(campaign: &Value) -> String {
    let Objects { agent, profile, engines } = objects(campaign);
    report(Material { object: &agent, profile: &profile, engines: &engines, evidence: &[] })
}

/// What the campaign would be if its first objective bound everything.
fn infeasible() -> Value {
    let mut campaign = campaign();
    campaign["profile"]["spec"]["inputs"]["objectives"][0]["max"] = json!("100ms");
    let status = &mut campaign["profile"]["status"];
    status["phase"] = json!("Infeasible");
    status.as_object_mut().unwrap().remove("choice");
    for row in status["measurements"].as_array_mut().unwrap() {
        row["verdict"] = json!("Infeasible");
        row["reason"] = json!("reply is missed");
    }
    status["infeasible"] = json!({
        "bindingObjective": "reply", "nearest": 3,
        "whatItWouldTake": "reply would be met with a max of 305ms or more (it is 100ms), by int8/instances-2 at 4 in flight",
    });
    status["notMeasured"] = json!([{"engine": "engine-x", "configuration": "instances-2", "reason": "budget used up"}]);
    campaign
}

#[test]
fn a_report_shows_the_choice_the_points_and_what_identifies_them() {
    insta::assert_snapshot!("report", reported(&campaign()));
}

#[test]
fn a_report_without_a_choice_names_what_binds_and_the_nearest_point() {
    insta::assert_snapshot!("report_infeasible", reported(&infeasible()));
}

#[test]
fn a_report_asks_what_another_price_would_choose() {
    let mut campaign = campaign();
    let inputs = &mut campaign["profile"]["spec"]["inputs"];
    inputs["price"] = json!({"gpuProduct": "NVIDIA-L4", "perHour": "0.8"});
    inputs["placement"]["nodeSelector"] = json!({"nvidia.com/gpu.product": "NVIDIA-L4"});
    inputs["placement"]["tritonResources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let html = reported(&campaign);
    let answer = |words: &str| {
        let row = html.split("<tr").find(|row| row.contains(words)).unwrap();
        row.split_once(words).unwrap().1.to_owned()
    };
    let [half, twice] = ["NVIDIA-L4 at $ 0.4 an hour", "NVIDIA-L4 at $ 1.6 an hour"].map(answer);
    assert_ne!(half, twice, "the cost follows the price");
    assert!(!reported(&self::campaign()).contains(" an hour</td>"), "without a price there is no such question");
}

#[test]
fn the_candidates_are_shown_with_what_became_of_each() {
    insta::assert_snapshot!("candidates", candidates(&objects(&campaign()).profile));
}

#[test]
fn points_that_were_measured_again_have_a_table_and_lines_of_their_own() {
    let campaign = with_a_round(json!({"perKilosecond": 4_321}));
    let html = reported(&campaign);
    assert!(html.contains("Close points, measured again in turn"), "{html}");
    let text = candidates(&objects(&campaign).profile);
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("measured again: ")).take(2).collect();
    assert!(lines[0].contains("4.32 a second"), "{lines:?}");
    assert!(lines[1].trim().starts_with("round 1"), "{lines:?}");
}

#[test]
fn a_round_that_leaves_an_objective_open_is_not_said_to_be_out() {
    let reason = "reply lies within the bounds of 180 requests; compared by 180 requests";
    let open = with_a_round(json!({"verdict": "Unbounded", "reason": reason}));
    let said = &format!("round 1; its figures count, though {reason}");
    let text = candidates(&objects(&open).profile);
    assert_eq!(text.lines().filter(|line| line.trim() == *said).count(), 1, "{text}");
    let row =
        |html: &str| html.lines().find(|line| line.contains(said.as_str())).map(|line| line.contains("class=\"out\""));
    assert_eq!(row(&reported(&open)), Some(false));
}

#[test]
fn an_open_round_of_a_point_that_misses_an_objective_is_undecided() {
    let mut open = with_a_round(json!({"verdict": "Unbounded", "reason": "reply lies within the bounds"}));
    open["profile"]["status"]["measurements"][0]["verdict"] = json!("Infeasible");
    let text = candidates(&objects(&open).profile);
    assert_eq!(text.lines().filter(|line| line.trim() == "round 1; reply lies within the bounds").count(), 1, "{text}");
}

/// The campaign, with one more measurement of its first point.
fn with_a_round(changes: Value) -> Value {
    let mut campaign = campaign();
    let rows = campaign["profile"]["status"]["measurements"].as_array_mut().unwrap();
    let mut again = rows[0].clone();
    again["purpose"] = json!("Repeat");
    again["round"] = json!(1);
    again.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    rows.push(again);
    campaign
}

#[test]
fn what_gpus_did_is_a_column_of_campaigns_whose_rows_have_it() {
    let mut campaign = campaign();
    assert!(!reported(&campaign).contains("<th scope=\"col\">GPU</th>"));
    let row = &mut campaign["profile"]["status"]["measurements"][0];
    row["gpu"] = json!({"utilizationPercent": 71, "powerWatts": 412, "memoryMebibytes": 12034});
    let html = reported(&campaign);
    assert!(html.contains("<th scope=\"col\">GPU</th>") && html.contains("71 %, 412 W, 12034 MiB"), "{html}");
    let text = candidates(&objects(&campaign).profile);
    assert!(text.contains("   GPU   ") && text.contains("   71 %, 412 W, 12034 MiB   "), "{text}");
}

#[test]
fn the_status_of_an_agent_that_nothing_suits_shows_the_nearest_point_and_what_binds() {
    let Objects { agent, profile, .. } = objects(&infeasible());
    let shown = overview(&agent, Some(&profile), &Measurements::default());
    let part =
        shown.lines().skip_while(|line| !line.starts_with("Nothing meets")).take(3).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!("infeasible", part);
}

#[test]
fn nothing_in_a_report_is_loaded_or_run() {
    let html = reported(&campaign());
    for forbidden in ["<script", "<link", "<img", "@import", "url(", "href=", "src="] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert_eq!(html.matches("http://").count() - html.matches("http://www.w3.org/2000/svg").count(), 1, "the model's");
}

#[test]
fn names_and_reasons_cannot_leave_their_place() {
    let hostile = "</title><script>alert(1)</script>\"'&";
    let mut campaign = campaign();
    campaign["agent"]["metadata"]["name"] = json!(hostile);
    campaign["agent"]["metadata"]["namespace"] = json!(hostile);
    campaign["profile"]["metadata"]["name"] = json!(hostile);
    let inputs = &mut campaign["profile"]["spec"]["inputs"];
    inputs["engines"][0]["displayName"] = json!(hostile);
    inputs["objectives"][0]["name"] = json!(hostile);
    inputs["placement"]["tritonImage"] = json!(hostile);
    let status = &mut campaign["profile"]["status"];
    status["choice"]["why"] = json!(hostile);
    status["notMeasured"] = json!([{"engine": hostile, "configuration": hostile, "reason": hostile}]);
    for row in status["measurements"].as_array_mut().unwrap() {
        row["reason"] = json!(hostile);
        row["verdict"] = json!("Infeasible");
    }
    for entry in campaign["agent"]["status"]["slo"].as_array_mut().unwrap() {
        entry["predicted"] = json!(hostile);
    }
    let html = reported(&campaign);
    assert!(!html.contains("<script"), "an element was opened");
    assert!(!html.contains("alert(1)</script>"), "an element was closed");
    let escaped = "&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;";
    assert!(html.matches(escaped).count() > 10, "the text is still there");
}

#[test]
fn measurements_are_told_as_they_finish_and_those_of_an_ended_campaign_are_no_news() {
    let Objects { agent, profile, .. } = objects(&campaign());
    let with_rows = |count: usize, is_over: bool| {
        let mut profile = profile.clone();
        let status = profile.status.as_mut().unwrap();
        status.measurements.truncate(count);
        if !is_over {
            status.choice = None;
        }
        profile
    };
    let mut narrator = Narrator::default();
    let mut told = |second, profile: &Profile| {
        let look = Look { object: &agent, events: &[], profile: Some(profile) };
        let lines = narrator.tell(Duration::from_secs(second), look);
        lines.into_iter().filter(|line| line.contains("measured  ")).count()
    };
    assert_eq!(
        [told(1, &with_rows(1, false)), told(2, &with_rows(1, false)), told(3, &with_rows(3, false))],
        [1, 0, 2]
    );

    let mut unseen = agent.clone();
    unseen.metadata.generation = Some(unseen.metadata.generation.unwrap_or(1) + 1);
    let under_way = with_rows(2, false);
    let look = Look { object: &unseen, events: &[], profile: Some(&under_way) };
    let told = Narrator::default().tell(Duration::ZERO, look);
    assert!(!told.iter().any(|line| line.contains("measured")), "the campaign of an earlier spec: {told:?}");

    let look = Look { object: &agent, events: &[], profile: Some(&profile) };
    assert_eq!(Narrator::default().tell(Duration::ZERO, look), Vec::<String>::new());
}
