//! A new choice waits for a person, where the spec says so.

use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_crds::v1alpha1::{
    agent_deployment::{Approval, LatencyMetric, ProposedPlan, Stage},
    profile::{MeasuredLatency, ProfilePhase},
};

use super::{
    cluster::Cluster,
    profiling::{end, ended, message, profiled},
};
use crate::agent_deployment::world::ServingView;

/// An agent of int8 whose team wants to be asked.
pub(super) fn asking() -> Cluster {
    let asking = profiled().alerting().edited(|spec| {
        spec.profiling.as_mut().expect("it is profiled").approval = Approval::Manual;
    });
    let mut cluster = ended(asking, ProfilePhase::Chosen).with_pods_ready();
    predict(&mut cluster, 400_000);
    cluster.heard.clear();
    cluster
}

/// What the latest campaign says of the objective.
fn predict(cluster: &mut Cluster, microseconds: i64) {
    let name = cluster.world.status.profile.clone().expect("a campaign has ended");
    let row = &mut cluster.world.profiles.get_mut(&name).expect("the Profile exists").measurements[0];
    row.latencies = vec![MeasuredLatency {
        metric: LatencyMetric::RequestLatency,
        percentile: slipway_crds::values::Percentile::P95,
        microseconds,
        lower: microseconds,
        upper: Some(microseconds),
    }];
}

/// An edited objective, after which the campaign chooses the other engine.
pub(super) fn chosen_otherwise(cluster: Cluster) -> Cluster {
    let mut cluster = cluster.edited(|spec| spec.slo.objectives[0].max = "600ms".parse().expect("a duration"));
    cluster.settle();
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[0].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    predict(&mut cluster, 550_000);
    cluster.settle();
    cluster
}

pub(super) fn proposed(cluster: &Cluster) -> ProposedPlan {
    let rollout = cluster.world.status.rollout.clone().expect("something serves");
    rollout.proposed.expect("a plan waits for approval")
}

fn condition(cluster: &Cluster, type_: &str) -> String {
    let found = cluster.world.status.conditions.iter().find(|c| c.type_ == type_);
    found.map_or_else(|| "absent".to_owned(), |c| format!("{} {}", c.status, c.reason))
}

#[test]
fn the_first_choice_is_served_without_asking() {
    let cluster = asking();
    assert_eq!(
        (cluster.world.status.stage, condition(&cluster, "Suspended").as_str()),
        (Some(Stage::Serving), "absent")
    );
}

#[test]
fn a_new_choice_waits_and_says_what_it_would_change() {
    let cluster = chosen_otherwise(asking());
    let stable = cluster.stable();
    let plan = cluster.world.revision(&stable).expect("the plan is kept").plan.clone();
    let proposal = proposed(&cluster);
    let serving = &plan.served.artifact().expect("an engine serves").engine;
    let engine = cluster.world.status.engines[0].name.clone();
    let digest = |line: usize| proposal.changes[line].rsplit(' ').next().unwrap_or_default().to_owned();
    assert_eq!(
        proposal.changes,
        [
            "engine.displayName: int8 -> fp32".to_owned(),
            format!("engine.manifestDigest: {} -> {}", serving.manifest_digest, digest(1)),
            format!("engine.name: {} -> {engine}", serving.name),
            "predicted reply (RequestLatency p95, at most 600ms): 400ms -> 550ms".to_owned(),
            "predicted throughput of a replica, a second: 0.00 -> 0.00".to_owned(),
        ]
    );
    assert_eq!((proposal.why.as_str(), cluster.world.serving.len()), ("18.5 requests/s", 1));
    assert_eq!(cluster.world.status.stage, Some(Stage::AwaitingApproval));
    let selected = cluster.world.status.selected.clone().expect("something is selected");
    assert_eq!(selected.display_name, "int8", "what serves is selected, not what is proposed");
}

#[test]
fn who_waits_for_approval_is_suspended_and_neither_under_way_nor_stalled() {
    let cluster = chosen_otherwise(asking());
    let states = ["Ready", "Reconciling", "Stalled", "Suspended"].map(|type_| condition(&cluster, type_));
    assert_eq!(states, ["True Serving", "False UpToDate", "False UpToDate", "True AwaitingApproval"]);
    let proposal = proposed(&cluster);
    let (plan, stable) = (&proposal.plan_hash, cluster.stable());
    let expected = format!(
        "plan {plan} waits for approval while {stable} serves: {}. status.rollout.proposed lists every change. To \
         approve it, run `kubectl slipway approve support -n team`, or set spec.rollout.approve to {plan}. To decline \
         it, revert the edit",
        proposal.changes[..3].join("; ")
    );
    assert_eq!(message(&cluster, "Suspended"), expected);
}

#[test]
fn a_proposal_is_told_once() {
    let mut cluster = chosen_otherwise(asking());
    let told: Vec<_> = cluster.heard.iter().map(|heard| heard.topic.to_string()).collect();
    assert_eq!(told, [format!("rollout/{}", proposed(&cluster).plan_hash)]);
    assert_eq!(cluster.news(), ["ApprovalRequested info"]);
    let since = proposed(&cluster).since;
    cluster.pass(3_600);
    assert_eq!(cluster.plan().notes, vec![]);
    cluster.settle();
    assert_eq!((proposed(&cluster).since, cluster.news()), (since, vec![]));
}

#[test]
fn a_word_with_the_plans_hash_lets_it_go_on_and_need_not_stay() {
    let waiting = chosen_otherwise(asking());
    let hash = proposed(&waiting).plan_hash;
    let mut approved = waiting.edited(|spec| spec.rollout.approve = Some(hash.clone()));
    approved.settle();
    assert_eq!((approved.canary(), condition(&approved, "Suspended").as_str()), (hash.clone(), "absent"));
    let serving = approved.edited(|spec| spec.rollout.approve = None).with_pods_ready();
    assert_eq!((serving.stable(), serving.world.status.stage), (hash, Some(Stage::Serving)));
    let rollout = serving.world.status.rollout.clone().expect("something serves");
    assert_eq!(rollout.proposed, None);
}

#[test]
fn a_word_for_another_plan_does_nothing() {
    let waiting = chosen_otherwise(asking());
    let proposal = proposed(&waiting);
    let mut other = waiting.edited(|spec| spec.rollout.approve = Some("0123456789".to_owned()));
    other.settle();
    assert_eq!((proposed(&other), other.world.serving.len()), (proposal, 1));
}

#[test]
fn who_is_not_asked_any_more_goes_on() {
    let waiting = chosen_otherwise(asking());
    let hash = proposed(&waiting).plan_hash;
    let mut automatic =
        waiting.edited(|spec| spec.profiling.as_mut().expect("it is profiled").approval = Approval::Automatic);
    automatic.settle();
    assert_eq!(automatic.canary(), hash);
}

#[test]
fn going_back_needs_no_approval_and_takes_the_proposal_away() {
    let first = asking();
    let stable = first.stable();
    let waiting = chosen_otherwise(first);
    let mut back = waiting.edited(|spec| spec.slo.objectives[0].max = "500ms".parse().expect("a duration"));
    back.settle();
    assert_eq!((back.stable(), condition(&back, "Suspended").as_str()), (stable, "absent"));
    assert_eq!(back.world.status.stage, Some(Stage::Serving));
}

#[test]
fn a_kept_choice_is_gone_back_to_without_asking() {
    let first = asking();
    let old = first.stable();
    let waiting = chosen_otherwise(first);
    let hash = proposed(&waiting).plan_hash;
    let second = waiting.edited(|spec| spec.rollout.approve = Some(hash)).with_pods_ready();
    let mut back = second.edited(|spec| spec.slo.objectives[0].max = "500ms".parse().expect("a duration"));
    back.settle();
    assert_eq!(back.canary(), old);
}

#[test]
fn an_edited_prompt_with_the_choice_that_serves_is_no_new_choice() {
    let cluster = asking().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    let cluster = ended(cluster, ProfilePhase::Chosen);
    assert_eq!((cluster.canary().is_empty(), condition(&cluster, "Suspended").as_str()), (false, "absent"));
}

#[test]
fn an_edited_prompt_with_another_choice_shows_both() {
    let edited = asking().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    let cluster = chosen_otherwise(edited);
    let last = proposed(&cluster).changes.last().cloned();
    assert_eq!(last.as_deref(), Some("agent.systemPrompt: Answer. -> Be brief."));
}

#[test]
fn a_lost_record_of_what_serves_is_no_approval() {
    let mut cluster = asking();
    let stable = cluster.stable();
    cluster.world.revisions.clear();
    let cluster = chosen_otherwise(cluster);
    assert_eq!((cluster.stable(), cluster.routed_to.clone()), (stable.clone(), Some(stable)));
    assert_eq!(proposed(&cluster).changes[0], "engine.displayName: not set -> fp32");
}

#[test]
fn who_is_asked_changes_no_plan() {
    let automatic = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let (stable, jobs) = (automatic.stable(), automatic.world.jobs.len());
    let mut asked =
        automatic.edited(|spec| spec.profiling.as_mut().expect("it is profiled").approval = Approval::Manual);
    // Nothing but the record leads to the plan any more.
    asked.world.status.model = None;
    asked.settle();
    assert_eq!(
        (asked.stable(), asked.world.jobs.len(), asked.world.status.stage),
        (stable, jobs, Some(Stage::Serving))
    );
}

#[test]
fn a_canary_is_not_stopped_by_a_word_that_comes_after_it() {
    let automatic = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    let mut rolling = chosen_otherwise(automatic);
    let canary = rolling.canary();
    rolling.world.serving.insert(canary.clone(), ServingView { wanted: 1, ..ServingView::default() });
    let mut asked = rolling.edited(|spec| spec.profiling.as_mut().expect("it is profiled").approval = Approval::Manual);
    asked.settle();
    assert_eq!((asked.canary(), condition(&asked, "Suspended").as_str()), (canary, "absent"));
}

#[test]
fn long_values_and_many_changes_are_cut() {
    let mut cluster = asking();
    let long = "word ".repeat(400);
    cluster = cluster.edited(|spec| {
        spec.agent.system_prompt = long;
        spec.hardware.node_selector = (0..16).map(|at| (format!("key-{at}"), "value".to_owned())).collect();
        spec.hardware.tolerations =
            (0..16).map(|at| serde_json::from_value(json!({"key": format!("key-{at}")})).expect("one")).collect();
    });
    let proposal = proposed(&chosen_otherwise(cluster));
    assert_eq!(proposal.changes.len(), 24);
    assert!(proposal.changes.last().is_some_and(|line| line.ends_with(" more")), "{:?}", proposal.changes);
    assert!(proposal.changes.iter().all(|line| line.chars().count() <= 256), "{:?}", proposal.changes);
}
