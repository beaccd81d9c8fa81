//! A canary with traffic: what its pods count decides. The clock is the test's, and so is what users send.

mod baseline;
mod guardrails;
mod held;
mod killed;
mod matrix;
mod nodes;
mod passed;
mod pools;
mod readiness;
mod replicas;
mod routes;
mod split;
mod verdicts;

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use slipway_crds::v1alpha1::agent_deployment::{RolloutVerdict, Stage};

use super::{
    cluster::{Cluster, world},
    trial::{EQUAL, ROLLOUT, Trial, Users, trial, trial_with},
};
use crate::{
    agent_deployment::world::RouteView,
    notifications::events::{Happening, Severity},
    plan::{Child, RemovalKind},
};

#[test]
fn traffic_comes_after_ready_pods_and_grows_step_by_step_until_the_canary_takes_over() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    assert_eq!((trial.shares.clone(), trial.cluster.world.serving[&canary].wanted), (vec![0, 20], 1));
    let shares = BTreeMap::from([(format!("support-{stable}"), 80), (format!("support-{canary}"), 20)]);
    assert_eq!(trial.cluster.weights, shares);
    trial.serve(40 * 60, EQUAL);
    assert_eq!((trial.stable(), trial.canary()), (canary.clone(), None));
    assert_eq!(trial.shares, [0, 20, 50, 0]);
    assert_eq!(trial.cluster.weights, BTreeMap::from([(format!("support-{canary}"), 100)]));
    assert_eq!(trial.cluster.routed_to, Some(canary.clone()));
    let reasons: Vec<&str> = trial.events.iter().filter_map(|event| event.split(' ').next()).collect();
    assert_eq!(
        reasons[reasons.len() - 6..],
        [
            "RevisionStarting",
            "RolloutProgressing",
            "RolloutAdvanced",
            "RolloutProgressing",
            "RolloutAdvanced",
            "RevisionPromoted"
        ]
    );
}

#[test]
fn stable_keeps_its_pods_for_a_while_after_another_took_over() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    for _ in 0..400 {
        trial.serve(10, EQUAL);
        if trial.stable() == canary {
            break;
        }
    }
    assert_eq!(leaving(&trial), vec![stable.clone()]);
    assert!(trial.cluster.world.serving.contains_key(&stable), "its pods are still there");
    trial.cluster.pass(31);
    trial.settle();
    assert_eq!(trial.cluster.world.serving.keys().collect::<Vec<_>>(), [&canary]);
}

#[test]
fn a_slower_canary_loses_its_traffic_and_is_not_tried_again() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    let rejected = trial.rollout().rejected;
    assert_eq!(rejected.iter().map(|rejected| &rejected.plan).collect::<Vec<_>>(), [&canary]);
    assert!(
        rejected[0].reason.starts_with("at 20 % of the traffic: RelativeHarm: AgentRunLatency/relative; log evidence")
    );
    assert_eq!((trial.stable(), trial.canary()), (stable.clone(), None));
    assert_eq!(trial.cluster.weights, BTreeMap::from([(format!("support-{stable}"), 100)]));
    assert_eq!(trial.cluster.world.serving.keys().collect::<Vec<_>>(), [&stable]);
    assert_eq!(trial.cluster.world.status.stage, Some(Stage::RolledBack));
    let stalled = trial.cluster.world.status.conditions.iter().find(|c| c.type_ == "Stalled").expect("it has one");
    let retry = format!("run `kubectl slipway retry support -n team`, or set spec.rollout.retry to {canary}");
    assert!(stalled.message.ends_with(&format!("Change the spec, {retry}")), "{}", stalled.message);
    trial.cluster.pass(3_600);
    trial.settle();
    assert_eq!(trial.canary(), None, "an unchanged spec starts nothing");
}

/// Whom the operator could not ask for want of a turn has not fallen silent: nothing is read until it can.
#[test]
fn what_the_operator_had_no_turn_to_ask_for_is_read_later_and_nobody_is_lost() {
    let mut trial = trial();
    trial.serve(60, EQUAL);
    let before = trial.rollout().judge_state;
    trial.unasked = Some(trial.cluster.canary());
    trial.serve(100, EQUAL);
    let rollout = trial.rollout();
    assert_eq!((trial.share(), rollout.rejected, rollout.judge_state), (20, Vec::new(), before));
    let canary = trial.unasked.take().expect("a canary");
    trial.serve(60 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
}

#[test]
fn a_canary_that_nobody_can_read_is_held_for_that_and_goes_on_afterwards() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.silent = Some(canary.clone());
    trial.serve(5 * 60, EQUAL);
    let rollout = trial.rollout();
    let verdict = (rollout.weight, rollout.verdict, rollout.reason.as_deref());
    assert_eq!(verdict, (Some(20), Some(RolloutVerdict::Hold), Some("EvidenceUnreachable")), "no gateway is to blame");
    trial.silent = None;
    trial.serve(60 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
}

/// Half a minute either way: neither what the canary counted is missed, nor sessions of stable.
#[test]
fn a_pod_whose_clock_is_late_or_early_loses_no_window() {
    for (is_of_canary, is_late) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut trial = trial();
        let canary = trial.cluster.canary();
        let revision = if is_of_canary { canary.clone() } else { trial.stable() };
        let pod = format!("{revision}-0");
        (trial.late, trial.early) = if is_late { (Some((pod, 3)), None) } else { (None, Some((pod, 3))) };
        trial.serve(5 * 60, EQUAL);
        let reason = trial.rollout().reason;
        assert!(!matches!(reason.as_deref(), Some("EvidenceUnreachable" | "TrafficSplitMismatch")), "{reason:?}");
        trial.serve(60 * 60, EQUAL);
        assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
    }
}

#[test]
fn a_memory_of_another_version_is_told_once_and_the_judge_starts_anew() {
    let mut trial = trial();
    trial.serve(2 * 60, EQUAL);
    let rollout = trial.cluster.world.status.rollout.as_mut().expect("a rollout");
    rollout.judge_state = Some("1:00000".to_owned());
    trial.serve(10, EQUAL);
    let words =
        "; the judge begins again: stored state has version \"1\", this program reads version \"2\", \"3\" or \"4\"";
    let message = trial.rollout().message.expect("a message");
    assert!(message.ends_with(words), "{message}");
    trial.serve(2 * 60, EQUAL);
    assert!(!trial.rollout().message.unwrap_or_default().contains("begins again"), "said once");
}

/// The pods are asked for the latest windows alone while there is a memory of those before.
#[test]
fn a_judge_whose_memory_is_lost_reads_all_windows_of_its_share_again() {
    let mut kept = trial();
    kept.cluster = kept.cluster.clone().edited(|spec| spec.rollout.paused = true);
    kept.settle();
    kept.serve(20 * 60, EQUAL);
    let mut lost = kept.clone();
    lost.cluster.world.status.rollout.as_mut().expect("a rollout").judge_state = Some("1:00000".to_owned());
    lost.settle();
    assert!(lost.rollout().message.expect("a message").starts_with("the judge begins again"));
    for trial in [&mut kept, &mut lost] {
        trial.serve(2 * 60, EQUAL);
        trial.cluster.pass(60);
        trial.settle();
    }
    assert_eq!((lost.share(), lost.rollout().evidence), (20, kept.rollout().evidence));
}

#[test]
fn a_claim_that_is_there_is_nobody_s_to_create() {
    let mut cluster = world();
    let has_claim = |cluster: &Cluster| {
        cluster.plan().children.iter().any(|child| matches!(child, Child::PersistentVolumeClaim(_)))
    };
    assert!(has_claim(&cluster));
    cluster.world.store_bound = Some(false);
    assert!(!has_claim(&cluster), "whoever made it");
}

#[test]
fn a_rollback_is_told_once_with_its_numbers_and_a_rejected_plan_that_comes_back_is_told_too() {
    let mut trial = trial();
    let (prompt, canary) = (trial.cluster.world.spec.agent.system_prompt.clone(), trial.cluster.canary());
    trial.cluster = trial.cluster.clone().alerting();
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    let heard = trial.cluster.heard.clone();
    let told: Vec<_> = heard.iter().map(|h| (h.happening, h.severity, h.plan.as_deref())).collect();
    assert_eq!(told, [(Happening::RolledBack, Severity::Warning, Some(canary.as_str()))]);
    let words = format!(
        "revision {canary} was rolled back at 20 % of the traffic: RelativeHarm: AgentRunLatency/relative; log"
    );
    assert!(heard[0].message.starts_with(&words), "{}", heard[0].message);
    trial.cluster.pass(3_600);
    trial.settle();
    trial.cluster.heard.clear();
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    trial.settle();
    assert_eq!(trial.cluster.news(), ["RolloutOpened info", "Recovered info"]);
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.system_prompt = prompt);
    trial.settle();
    assert_eq!(trial.cluster.news(), ["PlanRejected warning"]);
}

#[test]
fn a_rollout_without_verdict_is_told_once_for_a_person_must_decide() {
    let mut trial = trial_with(&ROLLOUT.replace("maxSoak: 30m", "maxSoak: 2m"));
    trial.cluster = trial.cluster.clone().alerting();
    trial.serve(200, Users { runs: 10, ..EQUAL });
    let suspended = trial
        .cluster
        .world
        .status
        .conditions
        .iter()
        .find(|c| c.type_ == "Suspended")
        .unwrap_or_else(|| panic!("{:?}", trial.rollout()));
    assert_eq!(suspended.reason, "VerdictUnreachable");
    assert_eq!(trial.cluster.news(), ["VerdictUnreachable warning"]);
}

#[test]
fn failing_runs_are_harm_too() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.serve(20 * 60, Users { failures: 10, ..EQUAL });
    let rejected = trial.rollout().rejected;
    assert_eq!(rejected.iter().map(|rejected| &rejected.plan).collect::<Vec<_>>(), [&canary]);
    assert!(rejected[0].reason.contains("ErrorHarm"), "{}", rejected[0].reason);
}

#[test]
fn a_rejected_plan_is_tried_once_for_each_word_that_asks_for_it() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    let slow = Users { slowdown: 2.0, ..EQUAL };
    trial.serve(20 * 60, slow);
    let ask = |trial: &mut Trial, word: String| {
        trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.retry = Some(word));
        trial.settle();
        trial.cluster.ready_pods();
        trial.settle();
    };
    ask(&mut trial, "another-plan".to_owned());
    assert_eq!(trial.canary(), None, "the word is for another plan");
    ask(&mut trial, canary.clone());
    assert_eq!((trial.canary(), trial.share()), (Some(canary.clone()), 20));
    trial.serve(20 * 60, slow);
    assert_eq!((trial.canary(), trial.rollout().rejected.len()), (None, 1), "the same word does not count twice");
    ask(&mut trial, format!("{canary}/2"));
    assert_eq!(trial.canary(), Some(canary));
}

#[test]
fn without_traffic_nothing_is_decided_and_the_condition_says_so() {
    let mut trial = trial();
    trial.serve(10 * 60, Users { runs: 0, ..EQUAL });
    assert_eq!((trial.share(), trial.rollout().reason.as_deref()), (20, Some("NoTraffic")));
    let reconciling =
        trial.cluster.world.status.conditions.iter().find(|c| c.type_ == "Reconciling").expect("it has one");
    assert_eq!(reconciling.reason, "NoTraffic");
}

#[test]
fn evidence_that_was_not_looked_at_for_a_while_is_the_same_evidence() {
    let mut seen = trial();
    let mut unseen = trial();
    seen.serve_unseen(50, EQUAL, true);
    unseen.serve_unseen(50, EQUAL, false);
    for trial in [&mut seen, &mut unseen] {
        trial.cluster.pass(60);
        trial.settle();
    }
    assert_eq!(seen.rollout().judge_state, unseen.rollout().judge_state);
    assert_eq!(seen.rollout().evidence, unseen.rollout().evidence);
    assert!(!seen.rollout().evidence.is_empty());
}

#[test]
fn a_step_takes_few_writes() {
    let mut trial = trial();
    let before = trial.writes;
    trial.serve_unseen(59 * 60, Users { runs: 20, ..EQUAL }, true);
    let minutes = 59;
    let steps = 2;
    let writes = trial.writes - before;
    assert!(writes <= minutes + 6 * steps, "{writes} writes");
}

#[test]
fn a_pod_that_crashes_under_traffic_needs_no_statistics() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    trial.lose_pods(&canary, Some("triton exited with code 137 (OOMKilled)"));
    trial.settle();
    let reason =
        "at 20 % of the traffic: one of its pods failed under traffic: triton exited with code 137 (OOMKilled)";
    assert_eq!(trial.rollout().rejected.iter().map(|r| r.reason.as_str()).collect::<Vec<_>>(), [reason]);
}

#[test]
fn a_paused_rollout_stays_where_it_is_but_for_harm() {
    let mut trial = trial();
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.paused = true);
    trial.serve(20 * 60, EQUAL);
    assert_eq!((trial.share(), trial.cluster.world.status.stage), (20, Some(Stage::Paused)));
    let conditions = &trial.cluster.world.status.conditions;
    let state =
        |type_: &str| conditions.iter().find(|c| c.type_ == type_).map(|c| (c.status.as_str(), c.reason.as_str()));
    let states = ["Ready", "Reconciling", "Stalled", "Suspended"].map(|type_| state(type_).expect("it has one"));
    let at_rest = ("False", "UpToDate");
    assert_eq!(states, [("True", "Serving"), at_rest, at_rest, ("True", "RolloutPaused")]);
    trial.serve(20 * 60, Users { slowdown: 2.0, ..EQUAL });
    assert_eq!(trial.rollout().rejected.len(), 1);
}

#[test]
fn harm_counts_as_long_as_a_canary_is_held_that_could_have_taken_over() {
    let mut trial = trial();
    while trial.share() < 50 {
        trial.serve(10, EQUAL);
    }
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.paused = true);
    trial.serve(30 * 60, EQUAL);
    assert_eq!((trial.share(), trial.rollout().verdict), (50, Some(RolloutVerdict::Promote)));
    trial.serve(20 * 60, Users { slowdown: 3.0, ..EQUAL });
    assert_eq!(trial.rollout().rejected.len(), 1, "{:?}", trial.rollout().message);
}

#[test]
fn a_canary_that_was_held_at_its_end_takes_over_once_it_is_let_go() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    while trial.share() < 50 {
        trial.serve(10, EQUAL);
    }
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.paused = true);
    trial.serve(30 * 60, EQUAL);
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.paused = false);
    trial.serve(60, EQUAL);
    assert_eq!(trial.stable(), canary);
}

#[test]
fn words_of_a_person_count_for_the_plan_that_they_name() {
    let abort = |name: &str| {
        let mut trial = trial();
        let word = if name == "it" { trial.cluster.canary() } else { name.to_owned() };
        trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.abort = Some(word));
        trial.settle();
        trial.rollout().rejected.iter().map(|rejected| rejected.reason.clone()).collect::<Vec<_>>()
    };
    assert_eq!(abort("another"), Vec::<String>::new());
    assert_eq!(abort("it"), ["at 20 % of the traffic: spec.rollout.abort names it"]);
    let mut promoted = trial();
    let canary = promoted.cluster.canary();
    promoted.cluster = promoted.cluster.clone().edited(|spec| spec.rollout.promote = Some(canary.clone()));
    promoted.settle();
    assert_ne!(promoted.stable(), canary, "it has one of four pods");
    promoted.cluster.ready_pods();
    promoted.settle();
    assert_eq!(promoted.stable(), canary);
}

#[test]
fn an_edit_takes_the_traffic_back_before_the_pods_go() {
    let mut trial = trial();
    let (stable, superseded) = (trial.stable(), trial.cluster.canary());
    trial.serve(60, EQUAL);
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    let plan = trial.cluster.plan();
    let route = plan.children.iter().find_map(|child| match child {
        Child::HttpRoute(route) => Some(super::cluster::weights(route)),
        _ => None,
    });
    assert_eq!(route, Some(BTreeMap::from([(format!("support-{stable}"), 100)])));
    assert_eq!(plan.removals, [], "gateways may still send clients to its pods");
    trial.settle();
    assert_eq!((trial.share(), trial.rollout().judge_state), (0, None), "the new canary starts from nothing");
    assert_eq!(leaving(&trial), vec![superseded.clone()]);
    trial.cluster.pass(31);
    trial.settle();
    assert!(!trial.cluster.world.serving.contains_key(&superseded));
}

#[test]
fn pods_that_were_rolled_back_stay_until_gateways_send_nobody_to_them() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    while trial.canary().is_some() {
        trial.serve(10, Users { slowdown: 1.5, ..EQUAL });
    }
    assert_eq!((leaving(&trial), trial.cluster.world.serving.contains_key(&canary)), (vec![canary.clone()], true));
    assert_eq!(trial.cluster.weights.values().copied().collect::<Vec<_>>(), [100], "they have no share");
    trial.cluster.pass(31);
    trial.settle();
    assert_eq!((leaving(&trial), trial.cluster.world.serving.contains_key(&canary)), (vec![], false));
}

#[test]
fn without_a_gateway_rejected_pods_go_at_once_for_the_next_canary_shares_their_service() {
    let mut trial = trial_with(&ROLLOUT.replace(
        "traffic: {type: GatewayAPI, gatewayAPI: {parentRefs: [{name: agents}]}}",
        "traffic: {type: ReplicaRatio}",
    ));
    let canary = trial.cluster.canary();
    while trial.canary().is_some() {
        trial.serve(10, Users { slowdown: 2.0, ..EQUAL });
    }
    assert_eq!((leaving(&trial), trial.cluster.world.serving.contains_key(&canary)), (vec![], false));
}

fn leaving(trial: &Trial) -> Vec<String> {
    trial.rollout().leaving.into_iter().map(|leaving| leaving.revision).collect()
}

#[test]
fn a_route_that_no_gateway_serves_gets_no_canary_traffic() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    let RouteView::Present { object, .. } = trial.cluster.world.route.clone() else { panic!("there is a route") };
    let problem = Some("no Gateway has accepted HTTPRoute support".to_owned());
    trial.cluster.world.route = RouteView::Present { object, problem, rival: None };
    trial.cluster = trial.cluster.clone().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    trial.settle();
    trial.cluster.ready_pods();
    trial.settle();
    assert_ne!(trial.canary(), Some(canary));
    assert_eq!(trial.share(), 0);
    let reconciling =
        trial.cluster.world.status.conditions.iter().find(|c| c.type_ == "Reconciling").expect("it has one");
    assert_eq!(
        (reconciling.reason.as_str(), reconciling.message.as_str()),
        ("RouteUnavailable", "spec.rollout.traffic.gatewayAPI: no Gateway has accepted HTTPRoute support")
    );
}

#[test]
fn without_a_gateway_the_numbers_of_pods_split_the_traffic() {
    let mut trial = trial_with("{traffic: {type: ReplicaRatio}, steps: [{weight: 20, minSoak: 1m, maxSoak: 2h}]}");
    let canary = trial.cluster.canary();
    assert_eq!((trial.share(), trial.cluster.routed_to.clone()), (20, None), "the Service takes both revisions");
    trial.serve(60 * 60, EQUAL);
    assert_eq!((trial.stable(), trial.cluster.routed_to.clone()), (canary.clone(), Some(canary)));
    assert_eq!(trial.cluster.world.route, RouteView::Absent);
}

#[test]
fn a_share_of_whole_pods_is_told_as_it_is() {
    let trial = trial_with("{traffic: {type: ReplicaRatio}, steps: [{weight: 10, minSoak: 1m, maxSoak: 2h}]}");
    assert_eq!((trial.share(), trial.rollout().canary_share.as_deref()), (10, Some("20%")), "one pod beside four");
}

#[test]
fn a_route_that_is_not_asked_for_any_more_goes() {
    let mut trial = trial();
    trial.cluster = trial.cluster.clone().edited(|spec| {
        spec.rollout.traffic = serde_norway::from_str("{type: ReplicaRatio}").expect("a valid block");
    });
    let removed: Vec<_> = trial.cluster.plan().removals.iter().map(|removal| removal.kind).collect();
    assert!(removed.contains(&RemovalKind::HttpRoute), "{removed:?}");
}
