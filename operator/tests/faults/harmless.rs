//! No fault of a story changes its outcome: every plan, and of stories that take long, every kind of plan once.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use rstest::rstest;

use crate::{
    api::{
        kinds::{AGENT_DEPLOYMENTS, CONTROLLER_REVISIONS},
        store::Key,
    },
    end, moments, moments_of,
    plans::{self, Depth, Findings, Undisturbed},
    stories::{self, Story, prompt},
    story::{self, AGENT, Act, NAMESPACE, Scene},
};

fn assert_harmless(findings: &Findings, least_plans: usize) {
    assert!(findings.wrong.is_empty(), "{} of {} plans:\n{}", findings.wrong.len(), findings.plans, findings.lines());
    assert!(findings.plans >= least_plans, "only {} plans", findings.plans);
    assert_eq!(findings.pairs, findings.all_pairs, "every fault strikes every kind of write");
}

/// Plays the faults of a story.
async fn assert_unharmed(story: Story, depth: Depth, least_plans: usize) {
    let findings = plans::try_all(&story, depth).await;
    let (pairs, others) = (findings.pairs.len(), findings.others.len());
    println!("{}: {} plans, {pairs} pairs of a write and a fault, {others} other ends", story.name, findings.plans);
    assert_harmless(&findings, least_plans);
}

#[rstest]
#[case::from_creation_to_deletion(stories::blue_green(), 1_500)]
#[case::of_a_canary(stories::canary(), 1_000)]
#[case::of_a_sweep(stories::retention(), 100)]
#[case::of_the_last_sweep(stories::leftovers(), 100)]
#[case::beside_a_quota(stories::quota(), 500)]
#[case::of_two_agents_that_share(stories::shared(), 500)]
#[case::of_another_release(stories::releases(), 500)]
#[case::beside_a_later_version(stories::tomorrow(), 500)]
#[case::of_a_move_elsewhere(stories::elsewhere(), 700)]
#[case::of_a_campaign_that_asks(stories::asking(), 1_000)]
#[case::of_all_that_an_agent_may_have(stories::equipped(), 1_000)]
#[case::of_a_campaign_that_is_left(stories::abandoned(), 500)]
#[case::of_what_a_person_removes(stories::cleaned(), 500)]
#[case::of_a_canary_beside_a_baseline(stories::mirrored(), 500)]
#[case::of_a_node_without_room(stories::in_place(), 500)]
#[case::of_a_store_that_is_lost(stories::lost(), 300)]
#[case::of_an_operator_that_watches(stories::blue_green().watched(), 500)]
#[case::of_a_canary_that_is_glanced_at(stories::canary().watched(), 500)]
#[tokio::test]
#[ignore = "takes minutes: make test-faults"]
async fn no_fault_changes_what_becomes_of_an_agent(#[case] story: Story, #[case] least_plans: usize) {
    assert_unharmed(story, Depth::All, least_plans).await;
}

/// Of the stories that `make test-faults` leaves out: every fault at each of their kinds of writes.
#[rstest]
#[case::canaries(stories::canary(), 150)]
#[case::quotas(stories::quota(), 200)]
#[case::two_agents(stories::shared(), 200)]
#[case::a_server_elsewhere(stories::elsewhere(), 100)]
#[case::a_campaign(stories::asking(), 200)]
#[case::all_that_there_is(stories::equipped(), 250)]
#[case::a_campaign_that_is_left(stories::abandoned(), 150)]
#[case::a_node_without_room(stories::in_place(), 100)]
#[case::a_store_that_is_lost(stories::lost(), 100)]
#[case::what_a_person_removes(stories::cleaned(), 150)]
#[case::a_baseline(stories::mirrored(), 150)]
#[case::glances(stories::blue_green().watched(), 200)]
#[case::glances_at_canaries(stories::canary().watched(), 150)]
#[tokio::test]
#[ignore = "takes a minute: make test-faults"]
async fn no_kind_of_fault_changes_the_end_with(#[case] story: Story, #[case] least_plans: usize) {
    assert_unharmed(story, Depth::EachKind, least_plans).await;
}

/// The first moment of each stage.
fn first_of_each_stage(moments: Vec<Scene>) -> Vec<(String, Scene)> {
    let mut known = BTreeSet::new();
    let staged = moments.into_iter().map(|scene| {
        let (end, agent) = (end::of(&scene.store), Key::new(AGENT_DEPLOYMENTS, NAMESPACE, AGENT));
        let revisions = scene.store.of_kind(CONTROLLER_REVISIONS).count();
        let weight = scene.store.get(&agent).map(|agent| agent["status"]["rollout"]["weight"].to_string());
        let (stage, weight) = (story::stages(&end).join(""), weight.unwrap_or_default());
        (format!("{stage} with {revisions} revisions and weight {weight}"), scene)
    });
    staged.filter(|(stage, _)| known.insert(stage.clone())).collect()
}

/// Plays the faults of an act at each stage, of which there are so many at least. Each kind is played once in all, or
/// at each of the stages that are named by their beginnings.
async fn assert_unharmed_at_any_stage(
    moments: Vec<Scene>,
    (act, end): (Act, &'static str),
    (depth, each_of): (Depth, &[&str]),
    (least_stages, least_plans): (usize, usize),
) {
    let story = Story::new("at a stage", vec![act.clone()], &[end]);
    let mut findings = Findings::at(depth);
    let mut of_stages = BTreeMap::new();
    let is_asked = |stage: &str| each_of.is_empty() || each_of.iter().any(|one| stage.starts_with(one));
    for (stage, scene) in first_of_each_stage(moments).iter().filter(|(stage, _)| is_asked(stage)) {
        if !each_of.is_empty() {
            findings.begin_again();
        }
        let (reference, before) = (scene.play(&act).await, findings.plans);
        let found = (story::stages(&reference.end).join(""), &reference.violations);
        assert_eq!(found, (end.to_owned(), &vec![]), "{stage}");
        findings.add_all(stage, &Undisturbed::alone(&story, &reference)).await;
        of_stages.insert(stage.clone(), findings.plans - before);
    }
    println!("{act:?}: {} plans, {} pairs, {of_stages:?}", findings.plans, findings.pairs.len());
    assert_harmless(&findings, least_plans);
    assert!(of_stages.len() >= least_stages, "at {:?}", of_stages.keys());
}

#[rstest]
#[case::edited(prompt("Think twice."), "Serving")]
#[case::deleted(Act::Delete, "")]
#[tokio::test]
#[ignore = "takes minutes: make test-faults"]
async fn no_fault_changes_what_becomes_of_an_agent_that_at_any_stage_is(#[case] act: Act, #[case] end: &'static str) {
    assert_unharmed_at_any_stage(moments().await, (act, end), (Depth::All, &[]), (5, 500)).await;
}

#[tokio::test]
#[ignore = "takes seconds: make test-faults"]
async fn no_kind_of_fault_changes_the_end_with_an_edit_at_any_stage() {
    let edit = (prompt("Think twice."), "Serving");
    assert_unharmed_at_any_stage(moments().await, edit, (Depth::EachKind, &[]), (5, 200)).await;
}

/// The same while a canary is judged and rolled back, and while a campaign builds and measures.
#[rstest]
#[case::a_canary_edited(stories::canary(), 2, prompt("Think twice."), "Serving", 2)]
#[case::a_canary_deleted(stories::canary(), 2, Act::Delete, "", 2)]
#[case::a_campaign_edited(stories::asking(), 1, prompt("Think twice."), "Serving", 2)]
#[case::a_campaign_deleted(stories::asking(), 1, Act::Delete, "", 2)]
#[tokio::test]
#[ignore = "takes a minute: make test-faults"]
async fn no_kind_of_fault_changes_the_end_in_the_middle_of(
    #[case] mut story: Story,
    #[case] from: usize,
    #[case] act: Act,
    #[case] end: &'static str,
    #[case] least_stages: usize,
) {
    story.acts.retain(|act| !matches!(act, Act::Delete));
    let moments = moments_of(&story.acts, from).await;
    let under_way = ["RollingOut", "Profiling", "Building"].as_slice();
    assert_unharmed_at_any_stage(moments, (act, end), (Depth::EachKind, under_way), (least_stages, 20)).await;
}
