//! The operator's own reconciliations against a strict API server in memory, with a fault at every write.
//!
//! A story is played once undisturbed. Then each of its acts is played again for every write and every fault, and for
//! every list that shows the past. It must come to the same end, create and delete the same objects as often, and never
//! let users down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod api;
mod bugs;
mod cluster;
mod conformance;
mod end;
mod operator;
mod plans;
mod server;
mod story;
mod users;
mod world;

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use api::kinds::JOBS;
use bugs::Bug;
use story::{Act, Played, Scene, tell, tell_with};

fn prompt(words: &str) -> Act {
    Act::Edit(json!({"agent": {"systemPrompt": words}}))
}

/// All at once: each edit takes over once its pods are ready, or never does.
fn blue_green() -> Vec<Act> {
    let broken = prompt(cluster::BROKEN);
    vec![Act::Create, prompt("Think."), broken, prompt("Think twice."), Act::Delete, Act::Wait(8 * 24 * 3_600)]
}

/// Step by step, judged by what users meet: one canary takes over, a slower one is rolled back.
fn canary() -> Vec<Act> {
    let rollout = json!({
        "traffic": {"type": "GatewayAPI", "gatewayAPI": {"parentRefs": [{"name": "agents"}]}},
        "steps": [{"weight": 50, "minSoak": "1m", "maxSoak": "30m"}], "judge": {"warmUp": "0s"},
    });
    let routed = Act::Edit(json!({"rollout": rollout, "serving": {"replicas": 2}}));
    vec![Act::Create, routed, prompt("Think."), prompt(users::SLOW), Act::Delete]
}

/// Stages and violations after each act.
fn seen(told: &[Played]) -> (Vec<String>, Vec<String>) {
    let stages = told.iter().map(|played| story::stages(&played.end).join(" ")).collect();
    (stages, told.iter().flat_map(|played| played.violations.clone()).collect())
}

#[tokio::test]
async fn an_agent_is_edited_refused_and_deleted_without_a_trace() {
    let told = tell(&blue_green()).await;
    let (stages, violations) = seen(&told);
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(stages, ["Serving", "Serving", "Stalled", "Serving", "", ""]);
    let left = told.last().unwrap().end.objects.keys();
    let left: Vec<String> = left.map(|key| format!("{} {}", key.kind.kind, key.name)).collect();
    let store = ["ConfigMap slipway-store", "PersistentVolumeClaim slipway-store"];
    assert_eq!(left, store, "the store is the namespace's");
    let record = story::store_record(&told.last().unwrap().after.store);
    assert_eq!((record.items.len(), record.sweeps), (2, 0), "an engine and a checkpoint stay without a retention");
}

/// Another model, and so many edits that no kept revision needs the first.
fn retention() -> Vec<Act> {
    let other =
        Act::Edit(json!({"model": {"uri": "http://models.example/other"}, "rollout": {"revisionHistoryLimit": 1}}));
    let (retention, week) = (Act::Retain(7 * 24 * 3_600), Act::Wait(8 * 24 * 3_600));
    vec![retention, Act::Create, other, prompt("Think."), prompt("Think twice."), week.clone(), week]
}

/// The act of [`retention`] in which something is swept.
const SWEPT: usize = 5;

#[tokio::test]
async fn what_an_agent_needed_once_is_swept_while_it_serves() {
    let told = tell(&retention()).await;
    let (stages, violations) = seen(&told);
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!((stages[0].as_str(), &stages[1..]), ("", ["Serving"; 6].map(str::to_owned).as_slice()));
    let records: Vec<_> = told.iter().map(|played| story::store_record(&played.after.store)).collect();
    let counts: Vec<(usize, i32)> = records.iter().map(|record| (record.items.len(), record.sweeps)).collect();
    let of_both = [(4, 0), (4, 0), (4, 0), (2, 1), (2, 1)];
    assert_eq!(counts[2..], of_both, "an engine and a checkpoint of each model");
    let folders: Vec<usize> = told.iter().map(|played| played.end.volume.len()).collect();
    assert_eq!(folders, [0, 2, 4, 4, 4, 2, 2]);
    let last = records.last().unwrap();
    assert!(last.items.values().all(|item| !item.held_by.is_empty()), "{last:#?}");
    let jobs = told.last().unwrap().end.objects.keys().filter(|key| key.kind == JOBS);
    assert_eq!(jobs.count(), 3, "resolve, fetch and build of the model that is served");
}

/// With the last agent everything that it needed becomes unneeded.
#[tokio::test]
async fn what_a_deleted_agent_leaves_goes_with_the_retention() {
    let told = tell(&[Act::Retain(3_600), Act::Create, Act::Delete, Act::Wait(8 * 24 * 3_600)]).await;
    assert_eq!(seen(&told).1, Vec::<String>::new());
    let record = story::store_record(&told[3].after.store);
    assert_eq!((record.items.len(), record.sweep, &told[3].end.volume), (0, None, &Vec::new()));
    let kinds: Vec<&str> = told[3].end.objects.keys().map(|key| key.kind.kind).collect();
    assert_eq!(kinds, ["ConfigMap", "PersistentVolumeClaim"]);
}

#[tokio::test]
async fn an_agent_that_asks_again_for_what_is_swept_at_any_moment_serves_it() {
    let acts = retention();
    let told = tell(&acts[..=SWEPT]).await;
    let back = Act::Edit(json!({"model": {"uri": "http://models.example/react"}}));
    assert!(told[SWEPT].rounds.len() > 5, "{} looks", told[SWEPT].rounds.len());
    for moment in told[SWEPT].rounds.iter().map(|round| &round.scene) {
        let played = moment.play(&back).await;
        assert_eq!(
            (story::stages(&played.end), played.violations),
            (vec!["Serving".to_owned()], vec![]),
            "{}",
            moment.now
        );
        assert!(played.end.volume.len() >= 4, "asked at {}: {:?}", moment.now, played.end.volume);
    }
}

#[tokio::test]
async fn a_canary_takes_over_and_a_slower_one_is_rolled_back() {
    let told = tell(&canary()).await;
    let (stages, violations) = seen(&told);
    assert_eq!(violations, Vec::<String>::new());
    assert_eq!(stages, ["Serving", "Serving", "Serving", "RolledBack", ""]);
}

/// Plays every fault of the acts from one on.
async fn assert_unharmed(acts: &[Act], from: usize, least_plans: usize) {
    let findings = plans::try_all(acts, from).await;
    println!("{} plans", findings.plans);
    assert!(findings.wrong.is_empty(), "{} of {} plans:\n{}", findings.wrong.len(), findings.plans, findings.lines());
    assert!(findings.plans >= least_plans, "only {} plans", findings.plans);
}

#[tokio::test]
#[ignore = "takes minutes: make test-faults"]
async fn no_fault_on_the_way_from_creation_to_deletion_changes_what_becomes_of_an_agent() {
    assert_unharmed(&blue_green(), 0, 1_500).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-faults"]
async fn no_fault_removes_what_is_needed_or_leaves_what_is_not() {
    assert_unharmed(&retention(), SWEPT, 100).await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-faults"]
async fn no_fault_of_a_canary_changes_what_becomes_of_it() {
    assert_unharmed(&canary(), 1, 1_000).await;
}

/// Before every look on the way from nothing to the second revision.
async fn moments() -> Vec<Scene> {
    let told = tell(&[Act::Create, prompt("Think.")]).await;
    told.into_iter().flat_map(|played| played.rounds).map(|round| round.scene).collect()
}

#[tokio::test]
async fn an_agent_is_deleted_at_any_moment_without_a_trace() {
    for moment in moments().await {
        let deleted = moment.play(&Act::Delete).await;
        let later = deleted.after.play(&Act::Wait(8 * 24 * 3_600)).await;
        let left: Vec<&str> = later.end.objects.keys().map(|key| key.kind.kind).collect();
        let is_clean = left.iter().all(|kind| ["ConfigMap", "PersistentVolumeClaim"].contains(kind)) && left.len() <= 2;
        assert!(is_clean, "deleted at {}: {left:?}", moment.now);
        assert_eq!(cluster::live_jobs(&deleted.after.store), Vec::<String>::new(), "deleted at {}", moment.now);
        assert_eq!([deleted.violations, later.violations].concat(), Vec::<String>::new(), "deleted at {}", moment.now);
    }
}

#[tokio::test]
async fn an_agent_that_is_edited_at_any_moment_serves_what_it_was_edited_to() {
    let edits = [Act::Create, prompt("Think."), prompt("Think twice.")];
    let expected = tell(&edits).await.remove(2).end;
    for moment in moments().await {
        let played = moment.play(&edits[2]).await;
        assert_eq!(played.violations, Vec::<String>::new(), "edited at {}", moment.now);
        assert_eq!((story::stages(&played.end), &played.end.pods), (story::stages(&expected), &expected.pods));
    }
}

/// What an undisturbed story shows of a defect, and what shows only with a fault.
#[rstest]
#[case(Bug::DeletesByName, "deletes without a precondition")]
#[case(Bug::NamesJobsAtRandom, "Jobs for one task at once")]
#[case(Bug::ForgetsOwners, "left over")]
#[case(Bug::ForgetsWhatItApplied, "writes what is there already")]
#[case(Bug::MakesRoomFirst, "no pod serves")]
#[case(Bug::FillsItsStatus, "asks for the impossible")]
#[tokio::test]
async fn a_planted_defect_is_found_without_any_fault(#[case] bug: Bug, #[case] words: &str) {
    let acts = [Act::Create, prompt("Think."), Act::Delete];
    let (good, bad) = (tell(&acts).await, tell_with(&acts, Some(bug)).await);
    let mut found: Vec<String> = bad.iter().flat_map(|played| played.violations.clone()).collect();
    found.extend(good.iter().zip(&bad).flat_map(|(good, bad)| end::differences(&good.end, &bad.end)));
    assert!(found.iter().any(|line| line.contains(words)), "{found:#?}");
}

#[tokio::test]
async fn a_planted_defect_that_needs_a_crash_is_found_by_one() {
    let acts = [Act::Create];
    let good = tell_with(&acts, Some(Bug::TakesTheTaskForTheJob)).await;
    assert_eq!(seen(&good), (vec!["Serving".to_owned()], vec![]), "nothing shows without a fault");
    let findings = plans::try_all_with(&acts, 0, Some(Bug::TakesTheTaskForTheJob)).await;
    let after_a_task = findings.wrong.keys().filter(|plan| plan.contains("CrashAfter") && plan.contains("configmaps"));
    assert_eq!(after_a_task.count(), 3, "resolve, fetch and build:\n{}", findings.lines());
}
